"""The paper's data, built from the data sets of scikit-learn and from random numbers with fixed seeds."""

from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_breast_cancer


class Table(NamedTuple):
    """Rows with named features."""

    rows: NDArray[np.float64]
    feature_names: tuple[str, ...]


def wdbc_star(seed: int = 1, n_random: int = 800) -> Table:
    """WDBC*: the 30 features of the Wisconsin breast cancer data and uniform noise to their right, 569 × 830, unscaled.

    The noise columns carry no information, so good sparse loadings give them no weight.
    """
    data = load_breast_cancer()
    noise = np.random.default_rng(seed).random((len(data.data), n_random))
    names = [str(name) for name in data.feature_names] + [f"random {j:03d}" for j in range(n_random)]
    return Table(np.hstack([data.data, noise]), tuple(names))


class SplitTable(NamedTuple):
    """Rows and the site that owns each."""

    rows: NDArray[np.float64]
    owners: NDArray[np.str_]


def standardised(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """Rows with each column centred and divided by its standard deviation (ddof = 1)."""
    return np.asarray((rows - rows.mean(axis=0)) / rows.std(axis=0, ddof=1))


def allotted_columns(n_sites: int, n_random: int = 800) -> list[NDArray[np.intp]]:
    """The random columns, counted from 0, that belong to each site of the non-IID WDBC*; no two sites share one."""
    return np.array_split(np.arange(n_random), n_sites)


def non_iid_wdbc_star(
    n_sites: int = 10, seed: int = 1, n_random: int = 800, *, variances: Literal["column", "site"] = "column"
) -> SplitTable:
    """WDBC* whose random columns differ from site to site; 569 × 830, the 30 measured columns standardised.

    Each random column belongs to one site. At that site it is normal with mean 0 and a variance from U[0, 1). The
    variance is drawn for each column or, with ``variances="site"``, once for all columns of a site. At the other sites
    the column is 0 with probability 0.8 and uniform on [0, 1) otherwise.
    """
    rng = np.random.default_rng(seed)
    measured = standardised(load_breast_cancer().data)
    owners = sites_in_order(len(measured), n_sites)
    shape = (len(measured), n_random)
    noise = np.where(rng.random(shape) < 0.8, 0.0, rng.random(shape))
    spread = np.sqrt(rng.random(n_random))
    for site, columns in zip(np.unique(owners), allotted_columns(n_sites, n_random), strict=True):
        mine = np.ix_(owners == site, columns)
        noise[mine] = rng.standard_normal(noise[mine].shape) * spread[columns if variances == "column" else columns[:1]]
    return SplitTable(np.hstack([measured, noise]), owners)


def sites_in_order(n_rows: int, n_sites: int) -> NDArray[np.str_]:
    """The owner of each row if rows are distributed in order, as evenly as possible."""
    if not 1 <= n_sites <= n_rows:
        raise ValueError(f"{n_rows} rows cannot be dealt out to {n_sites} sites.")
    width = len(str(n_sites))
    sizes = [len(part) for part in np.array_split(np.arange(n_rows), n_sites)]
    return np.repeat([f"site {k + 1:0{width}d}" for k in range(n_sites)], sizes)
