"""Loadings with many non-zeros on a known S: few starts, each improved by power steps of single columns.

Such loadings have few local optima, and exact trials of supports, each an eigenproblem of order k, take long: with 275
non-zeros in each of two loadings of 830 features a search from every feature takes many times as long, and captures up
to a thousandth more.
"""

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from fedspca.linalg.cardinality.polish import Fit
from fedspca.linalg.quadratic import DenseQuadratic
from fedspca.solvers.exact import columns
from fedspca.solvers.exact.tuning import CardinalityTuning

Array = NDArray[np.float64]

MANY = 128  # non-zeros of a loading
STARTS = 4  # rotations of the leading eigenvectors, beside the plain ones and truncated power steps
_FINISHED = 3  # starts that are improved until nothing gains, the best after one sweep


def loadings(s: Array, k: tuple[int, ...], orthogonal: bool, dense: Sequence[Array], tuning: CardinalityTuning) -> Fit:
    """Argmax of the variance of span(w) over unit columns with ``||w_j||_0 <= k_j``, orthonormal if asked, roughly.

    Parameters
    ----------
    s : ndarray of shape (d, d)
        Symmetric, positive semidefinite.
    k : tuple of int
        The most non-zeros of each column.
    orthogonal : bool
        Whether ``w' w = I``.
    dense : sequence of ndarray of shape (d, r)
        Rotations of the leading eigenvectors, these themselves first.
    tuning : CardinalityTuning
        Effort of the updates.
    """
    q = DenseQuadratic(s)
    starts = [columns.truncate(w, k) for w in dense]
    starts += [columns.truncated_power(q, dense[0], k, tuning, hotelling=each) for each in (False, True)]
    if orthogonal:
        starts = [columns.orthogonalise(q, w, tuning) for w in starts]
    ranked = _best_first(_refined(q, w, k, orthogonal, tuning.ranking(1)) for w in _distinct(starts))
    ends = _distinct([fit.w for fit in ranked])[:_FINISHED]
    best = _best_first(_refined(q, w, k, orthogonal, tuning) for w in ends)[0]
    return Fit(best.w, best.variance)


def _distinct(loadings: list[Array]) -> list[Array]:
    """The first of each set of supports: the others are refitted to the same point."""
    return list({frozenset(column.tobytes() for column in (w != 0.0).T): w for w in reversed(loadings)}.values())[::-1]


def _refined(
    q: DenseQuadratic, w: Array, k: tuple[int, ...], orthogonal: bool, tuning: CardinalityTuning
) -> columns.Fit:
    return columns.refine(q, columns.Fit(w, columns.explained(q, w)), k, orthogonal, tuning)


def _best_first(fits: Iterable[columns.Fit]) -> list[columns.Fit]:
    return sorted(fits, key=lambda fit: -fit.variance)
