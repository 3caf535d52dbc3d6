"""Loadings searched again from random supports: what single columns and eigenvectors do not show, chance may find.

Where clusters of features overlap, or few features make many pairs, the best loadings need not contain the best single
column. No start of the search before leads there then.
"""

import numpy as np
from numpy.typing import NDArray

from fedspca.linalg.cardinality.joint import each_improved, improved
from fedspca.linalg.cardinality.points import GAIN, fitted
from fedspca.linalg.cardinality.polish import Fit
from fedspca.linalg.cardinality.tuning import Tuning

Array = NDArray[np.float64]
Counts = tuple[int, ...]

_MOST = 200  # starts: more hardly ever lead anywhere new
_LEAST = 10  # with fewer, random supports hardly ever lead anywhere
_EFFORT = 7e4  # of all starts together, in units of an entry that an update looks at
_CUBES = 12.0  # with more non-zeros than this, eigenproblems take most of the time of an update
_FINISHED = 4  # so many of the best are searched to the end


def restarted(s: Array, best: Fit, k: Counts, *, orthogonal: bool, tuning: Tuning) -> Fit:
    """The same loadings, or better ones that were found from random supports, the same ones each time.

    Parameters
    ----------
    s : ndarray of shape (d, d)
        Symmetric, positive semidefinite.
    best : Fit
        Loadings to beat.
    k : tuple of int
        The most non-zeros of each column.
    orthogonal : bool
        Whether loadings must be orthogonal.
    tuning : Tuning
        Effort of the searches.
    """
    n = starts_for(len(s), k)
    if n < _LEAST or tuning.late:
        return best
    begun = fitted(s, _random(n, len(s), k), k, orthogonal).best(n)
    if not len(begun.variances):  # no random supports admit orthogonal loadings
        return best
    for fit in each_improved(s, begun, k, orthogonal, tuning.quick()).best(_FINISHED).fits():
        after = improved(s, fit, k, orthogonal, tuning, moves=True)
        if after.variance > best.variance * (1.0 + GAIN):
            best = after
    return best


def starts_for(d: int, k: Counts) -> int:
    """How many random starts take about a tenth of a second together, in compiled code; numpy takes ten times that."""
    widest = max(k)
    one = len(k) * widest * (widest + d) * (1.0 + (widest / _CUBES) ** 2)
    return min(_MOST, int(_EFFORT / one))


def _random(n: int, d: int, k: Counts) -> Array:
    """Random columns on random supports, (n, d, r)."""
    rng = np.random.default_rng(0)
    ranks = rng.permuted(np.broadcast_to(np.arange(d), (n, len(k), d)), axis=2)
    chosen = ranks < np.array(k)[:, None]
    return np.where(chosen, rng.standard_normal(ranks.shape), 0.0).transpose(0, 2, 1)
