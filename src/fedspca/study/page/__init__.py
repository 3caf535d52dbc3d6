"""A page in the browser for owners and for the coordinator, served on this machine alone."""

from fedspca.study.page.coordinator import CoordinatorPage
from fedspca.study.page.owner import OwnerPage
from fedspca.study.page.server import Page, make_app, open_page

__all__ = ["CoordinatorPage", "OwnerPage", "Page", "make_app", "open_page"]
