"""From files to sites: tables in row blocks, the columns that are features, and the schema that sites share."""

from typing import TYPE_CHECKING

from fedspca._lazy import lazy_exports

if TYPE_CHECKING:
    from fedspca.data.columns import Column, Columns, Feature, choose
    from fedspca.data.formats import TextOptions, open_table
    from fedspca.data.prepare import SiteRows, read_sites
    from fedspca.data.schema import Schema, agree, differences
    from fedspca.data.sites import sites_from

__all__ = [
    "Column",
    "Columns",
    "Feature",
    "Schema",
    "SiteRows",
    "TextOptions",
    "agree",
    "choose",
    "differences",
    "open_table",
    "read_sites",
    "sites_from",
]

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "fedspca.data.columns": ("Column", "Columns", "Feature", "choose"),
        "fedspca.data.formats": ("TextOptions", "open_table"),
        "fedspca.data.prepare": ("SiteRows", "read_sites"),
        "fedspca.data.schema": ("Schema", "agree", "differences"),
        "fedspca.data.sites": ("sites_from",),
    },
)
