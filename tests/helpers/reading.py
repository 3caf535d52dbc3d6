"""Tables read as sites."""

import numpy as np
import scipy.sparse as sp

from fedspca.data import Columns, choose, open_table, read_sites


def read(source, columns=None, **settings):
    columns = columns or Columns()
    table = open_table(source)
    features = choose(table.where, table.columns, columns)
    return read_sites(source, features, columns, name="north", **settings)


def dense(rows):
    return rows.toarray() if sp.issparse(rows) else np.asarray(rows)
