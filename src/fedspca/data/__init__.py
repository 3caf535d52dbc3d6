"""From files to sites: tables in row blocks, the columns that are features, and the schema that sites share."""

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
