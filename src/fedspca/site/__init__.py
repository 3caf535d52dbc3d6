"""What runs where the data are: a site, the closed list of questions it can be asked, and its owner's policy."""

from typing import TYPE_CHECKING

from fedspca._lazy import lazy_exports

if TYPE_CHECKING:
    from fedspca.site.errors import InvalidData, InvalidQuery, SiteError, SiteRefusal
    from fedspca.site.policy import Policy
    from fedspca.site.queries import QUERIES
    from fedspca.site.question import Query, Terms
    from fedspca.site.site import Site

__all__ = ["QUERIES", "InvalidData", "InvalidQuery", "Policy", "Query", "Site", "SiteError", "SiteRefusal", "Terms"]

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "fedspca.site.errors": ("InvalidData", "InvalidQuery", "SiteError", "SiteRefusal"),
        "fedspca.site.policy": ("Policy",),
        "fedspca.site.queries": ("QUERIES",),
        "fedspca.site.question": ("Query", "Terms"),
        "fedspca.site.site": ("Site",),
    },
)
