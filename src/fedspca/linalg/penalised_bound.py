"""Lower bounds on the minimum of the l1 problem, min −tr(wᵀSw) + λ‖w‖₁ over St(d, r).

Two bounds hold for every w, and the better of them is returned.

*Thresholds.* Let t_j = ‖w_j‖₁, which lies in [1, √d], and q = Σ t_j². For any ρ ≥ 0 let S_ρ be S with its off-diagonal
entries soft-thresholded by ρ. Then tr(wᵀSw) ≤ (sum of the r largest eigenvalues of S_ρ) + ρ(q − r), because
|Σ_{i≠k} U_ik x_i x_k| ≤ ρ(‖x‖₁² − 1) for a unit x and |U| ≤ ρ. The penalty is at least λ p(q), where p(q) is the
smallest Σ t_j for that q. So the range of q is divided into short intervals, and each interval uses its best ρ. With
ρ = 0 the bound on tr(wᵀSw) − λ‖w‖₁ is the variance of dense PCA minus λ r.

*Rows*, for one column. At the optimum x let |x_i| = m be the largest entry. Row i of 2Sx − λ sign(x) = 2μx gives μ, and
the objective is λ‖x‖₁/2 − μ ≥ λ/(2m) + λm/2 − S_ii − Σ_{k≠i} |x_k| (|S_ik|/m − λ/2), where |x_k| ≤ m and
Σ_{k≠i} x_k² = 1 − m². So the range of m is divided into short intervals. If w has several columns, the bound holds for
each of them.
"""

from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedspca.linalg.small import largest_eigenpairs

Array = NDArray[np.float64]

_THRESHOLDS = 24  # number of values of rho; each costs an eigenproblem
_LARGE = 300  # with more features than this, fewer values are used
_CELLS = 2000  # intervals of q
_PEAKS = 60  # intervals of the largest entry m
_ROUNDING = 1e-12  # rounding error of the sums, relative to the trace and to the penalty


def penalised_bound(S: Array, r: int, lam: ArrayLike, *, best: float | None = None) -> float:
    """A lower bound on ``-tr(w' S w) + sum_j lam_j ||w_j||_1`` over all w in St(d, r).

    Parameters
    ----------
    S : ndarray of shape (d, d)
        Symmetric and positive semidefinite.
    lam : float or array-like of shape (r,)
        Not negative.
    best : float, optional
        The objective at some feasible point. The lower it is, the fewer norms have to be considered.
    """
    weights = np.broadcast_to(np.asarray(lam, dtype=float), (r,))
    least = float(weights.min())
    # a column with a larger lam adds at least the difference, as every norm is at least one
    extra = float((weights - least).sum())
    heaviest = float(np.sort(S.diagonal())[::-1][:r].sum())
    reached = heaviest - r * least if best is None else max(heaviest - r * least, extra - best)
    above = _by_thresholds(S, r, least, reached)
    if least > 0.0:
        above = min(above, r * _by_rows(S, least))
    slack = _ROUNDING * (abs(float(np.trace(S))) + float(weights.sum()) * np.sqrt(len(S)))
    return float(extra - max(above, reached) - slack)


def _by_thresholds(S: Array, r: int, lam: float, reached: float) -> float:
    """An upper bound on ``tr(w' S w) - lam ||w||_1``, given a value that some w reaches."""
    thresholds, explained = _explained(S, r)
    if lam == 0.0:
        return float(explained[0])
    # a w that is better than the value reached has at most this norm, and so has each of its columns
    total = max(min((float(explained[0]) - reached) / lam, r * np.sqrt(len(S))), float(r))
    longest = min(np.sqrt(len(S)), total - (r - 1))
    edges = r + (r * (longest * longest - 1.0)) * np.linspace(0.0, 1.0, _CELLS + 1) ** 2
    penalty = lam * _least_norms(edges[:-1], r, longest)
    captured = (explained + thresholds * (edges[1:, None] - r)).min(axis=1)
    possible = penalty <= lam * total * (1.0 + 1e-12)
    return float((captured - penalty)[possible].max(initial=reached))


def _explained(S: Array, r: int) -> tuple[Array, Array]:
    """Thresholds, 0 first, and for each the sum of the r largest eigenvalues of the thresholded S."""
    off = S - np.diag(S.diagonal())
    largest = float(np.abs(off).max(initial=0.0))
    count = _THRESHOLDS if len(S) <= _LARGE else _THRESHOLDS // 3
    thresholds = largest * np.linspace(0.0, 1.0, count) ** 1.5
    sums = [float(largest_eigenpairs(S - np.minimum(np.maximum(off, -rho), rho), r)[0].sum()) for rho in thresholds]
    return thresholds, np.array(sums)


def _least_norms(q: Array, r: int, longest: float) -> Array:
    """The least Σ t_j over 1 ≤ t_j ≤ longest with Σ t_j² = q. At the minimum, all t_j but one are 1 or longest."""
    span = longest * longest - 1.0
    if span <= 0.0:
        return np.full(len(q), float(r))
    full = np.minimum(np.floor((q - r) / span), r - 1.0)
    between = np.clip(q - r - full * span, 0.0, span) + 1.0
    return np.asarray(full * longest + np.sqrt(between) + (r - 1.0 - full))


def _by_rows(S: Array, lam: float) -> float:
    """An upper bound on ``x' S x - lam ||x||_1`` over unit x."""
    d = len(S)
    sizes = np.abs(S - np.diag(S.diagonal()))
    edges = np.geomspace(1.0 / np.sqrt(d), 1.0, _PEAKS + 1)
    above = np.full(d, -np.inf)
    for low, high in pairwise(edges):
        useful = np.maximum(sizes - 0.5 * lam * low, 0.0)
        others = np.minimum(
            useful.sum(axis=1),
            np.sqrt(max(1.0 - low * low, 0.0)) / low * np.sqrt(np.einsum("ij,ij->i", useful, useful)),
        )
        above = np.maximum(above, S.diagonal() - 0.5 * lam / high - 0.5 * lam * low + others)
    return float(above.max())
