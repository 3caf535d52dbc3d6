"""Questions about missing values: what a Gaussian expects of them, and how many sites lack a feature."""

import numpy as np

from fedspca.linalg.feature_sums import missing_counts
from fedspca.linalg.gaps import GapModel
from fedspca.linalg.row_blocks import RemoteRows
from fedspca.linalg.symmetric import pack
from fedspca.site.disclosure import told_together
from fedspca.site.errors import InvalidQuery
from fedspca.site.question import Query, SiteData, State, Terms


def gap_moments(data: SiteData, state: State, query: Query) -> tuple[State, Terms]:
    """ΣE[a] and ΣE[aaᵀ] of standardised rows, missing values as a Gaussian expects them: one step of EM."""
    arrays = query.arrays
    model = GapModel(arrays["mean"], arrays["scale"], arrays["loadings"], arrays["noise"])
    sums, gram = model.moments(data.rows)
    return state, {"sums": sums, "gram": np.asarray(pack(gram), dtype=np.float64)}


def gap_sites(data: SiteData, state: State, _query: Query) -> tuple[State, Terms]:
    """1 for each feature that enough rows of this site lack to be told of together, else 0: the sum counts sites."""
    _, least = data.few
    lacking = missing_counts(data.rows) if data.missing else np.zeros(data.rows.shape[1])
    return state, {"sites": ((lacking >= least) | (least <= 1)).astype(np.float64)}


def filled_once(data: SiteData, state: State, query: Query) -> tuple[State, Terms]:
    """Σa and Σaaᵀ of standardised rows, missing values of some features as a Gaussian expects them.

    Missing values count as the mean where sums with them would be mostly about one row.
    """
    if isinstance(data.rows, RemoteRows) and not data.rows.in_order:
        raise InvalidQuery(data.site, query.name, "rows on a Dask cluster are not filled in.")
    arrays, (min_rows, least) = query.arrays, data.few
    model = GapModel(arrays["mean"], arrays["scale"], arrays["loadings"], arrays["noise"])
    asked = arrays["features"] > 0
    rows, features = told_together(model.fills(data.rows, asked), min_rows=min_rows, least=least)
    sums, gram = model.moments(data.rows, (rows, features & asked))
    return state, {"sums": sums, "filled": np.asarray(pack(gram), dtype=np.float64)}
