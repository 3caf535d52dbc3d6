"""The paper's data, built from what is embedded in scikit-learn and from seeds."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_breast_cancer


class Table(NamedTuple):
    """Rows with named features."""

    rows: NDArray[np.float64]
    feature_names: tuple[str, ...]


def wdbc_star(seed: int = 1, n_random: int = 800) -> Table:
    """WDBC*: the 30 features of the Wisconsin breast cancer data and uniform noise to their right, 569 × 830, unscaled.

    The noise columns have nothing to say, so good sparse loadings leave them out.
    """
    data = load_breast_cancer()
    noise = np.random.default_rng(seed).random((len(data.data), n_random))
    names = [str(name) for name in data.feature_names] + [f"random {j:03d}" for j in range(n_random)]
    return Table(np.hstack([data.data, noise]), tuple(names))


def sites_in_order(n_rows: int, n_sites: int) -> NDArray[np.str_]:
    """Owner of each row when rows are dealt out in order, as evenly as they go."""
    if not 1 <= n_sites <= n_rows:
        raise ValueError(f"{n_rows} rows cannot be dealt out to {n_sites} sites.")
    width = len(str(n_sites))
    sizes = [len(part) for part in np.array_split(np.arange(n_rows), n_sites)]
    return np.repeat([f"site {k + 1:0{width}d}" for k in range(n_sites)], sizes)
