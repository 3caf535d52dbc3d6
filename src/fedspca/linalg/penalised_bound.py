"""How good the l1 problem's best point can be at most: lower bounds on min −tr(wᵀSw) + λ‖w‖₁ over St(d, r).

Two bounds hold for every w, and the better of them is returned.

*Thresholds.* Let t_j = ‖w_j‖₁, which lies in [1, √d], and q = Σ t_j². For any ρ ≥ 0 let S_ρ be S with its entries off
the diagonal drawn towards zero by ρ. Then tr(wᵀSw) ≤ (sum of the r largest eigenvalues of S_ρ) + ρ(q − r), because
|Σ_{i≠k} U_ik x_i x_k| ≤ ρ(‖x‖₁² − 1) for a unit x and |U| ≤ ρ. The penalty is at least λ p(q), with p(q) the least
Σ t_j for that q. So q is cut into short intervals, and each takes the ρ that is best for it. With ρ = 0 this is what
dense PCA explains, less λ r.

*Rows*, for one column. At the optimum x let |x_i| = m be the largest entry. Row i of 2Sx − λ sign(x) = 2μx gives μ, and
the objective is λ‖x‖₁/2 − μ ≥ λ/(2m) + λm/2 − S_ii − Σ_{k≠i} |x_k| (|S_ik|/m − λ/2), where |x_k| ≤ m and
Σ_{k≠i} x_k² = 1 − m². So m is cut into short intervals. No column of a w with several is below this bound either.
"""

from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedspca.linalg.small import largest_eigenpairs

Array = NDArray[np.float64]

_THRESHOLDS = 24  # values of rho, each an eigenproblem
_LARGE = 300  # features beyond which there are fewer of them
_CELLS = 2000  # intervals of q
_PEAKS = 60  # intervals of the largest entry m
_ROUNDING = 1e-12  # relative to the trace and to the penalty: what sums may lose


def penalised_bound(S: Array, r: int, lam: ArrayLike, *, best: float | None = None) -> float:
    """A number that ``-tr(w' S w) + sum_j lam_j ||w_j||_1`` is never below, over all w in St(d, r).

    Parameters
    ----------
    S : ndarray of shape (d, d)
        Symmetric and positive semidefinite.
    lam : float or array-like of shape (r,)
        Not negative.
    best : float, optional
        The objective at some feasible point: the lower, the fewer norms have to be looked at.
    """
    weights = np.broadcast_to(np.asarray(lam, dtype=float), (r,))
    least = float(weights.min())
    # columns of a larger lam pay the difference at least once, as every norm is at least one
    extra = float((weights - least).sum())
    heaviest = float(np.sort(S.diagonal())[::-1][:r].sum())
    reached = heaviest - r * least if best is None else max(heaviest - r * least, extra - best)
    above = _by_thresholds(S, r, least, reached)
    if least > 0.0:
        above = min(above, r * _by_rows(S, least))
    slack = _ROUNDING * (abs(float(np.trace(S))) + float(weights.sum()) * np.sqrt(len(S)))
    return float(extra - max(above, reached) - slack)


def _by_thresholds(S: Array, r: int, lam: float, reached: float) -> float:
    """What ``tr(w' S w) - lam ||w||_1`` is at most, given a value that some w reaches."""
    thresholds, explained = _explained(S, r)
    if lam == 0.0:
        return float(explained[0])
    # a w that beats what is reached has no larger a norm than this, nor has any of its columns
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
    """The least Σ t_j over 1 ≤ t_j ≤ longest with Σ t_j² = q: as many at the ends as there can be."""
    span = longest * longest - 1.0
    if span <= 0.0:
        return np.full(len(q), float(r))
    full = np.minimum(np.floor((q - r) / span), r - 1.0)
    between = np.clip(q - r - full * span, 0.0, span) + 1.0
    return np.asarray(full * longest + np.sqrt(between) + (r - 1.0 - full))


def _by_rows(S: Array, lam: float) -> float:
    """What ``x' S x - lam ||x||_1`` is at most over unit x."""
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
