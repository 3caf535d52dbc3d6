"""What runs beside the data: a site, the closed list of questions it can be asked, and its owner's policy."""

from fedspca.site.errors import InvalidData, InvalidQuery, SiteError, SiteRefusal
from fedspca.site.policy import Policy
from fedspca.site.queries import QUERIES
from fedspca.site.question import Query, Terms
from fedspca.site.site import Site

__all__ = ["QUERIES", "InvalidData", "InvalidQuery", "Policy", "Query", "Site", "SiteError", "SiteRefusal", "Terms"]
