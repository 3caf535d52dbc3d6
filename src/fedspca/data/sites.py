"""From one table to sites that answer questions."""

from functools import partial
from typing import Any

from fedspca.data.cells import told_of_cells
from fedspca.data.columns import Columns, choose
from fedspca.data.formats import TextOptions, open_table
from fedspca.data.prepare import read_sites
from fedspca.site import Policy, Site


def sites_from(
    source: Any,
    columns: Columns | None = None,
    *,
    name: str = "all",
    policy: Policy | None = None,
    allow_missing: bool = False,
    options: TextOptions | None = None,
) -> list[Site]:
    """Make sites of a file or a DataFrame: one, or one for each value of the site column.

    Parameters
    ----------
    source : path or DataFrame
        The table.
    columns : Columns, optional
        What its columns are for; by default all are features.
    name : str, default="all"
        The site's name, where no column names the sites.
    policy : Policy, optional
        What the owners allow.
    allow_missing : bool, default=False
        Whether values may be missing.
    options : TextOptions, optional
        How a text table is written.

    Returns
    -------
    sites : list of Site
        Sites for a :class:`~fedspca.LocalFederation`.

    Examples
    --------
    >>> import pandas as pd
    >>> from fedspca.data import Columns, sites_from
    >>> table = pd.DataFrame({"age": [30.0, 40.0, 50.0], "bmi": [21.0, 24.0, 30.0], "ward": ["a", "b", "b"]})
    >>> sites_from(table, Columns(site="ward"))
    [Site('a', 1 rows, 2 features), Site('b', 2 rows, 2 features)]
    """
    columns = columns or Columns()
    table = open_table(source, options)
    features = choose(table.where, table.columns, columns, partial(told_of_cells, table))
    names = [feature.name for feature in features]
    found = read_sites(source, features, columns, name=name, options=options)
    return [
        Site(site.site, site.rows, policy=policy, feature_names=names, allow_missing=allow_missing) for site in found
    ]
