"""Upper bounds on the variance that sparse loadings can capture, valid at every step of the computation.

For orthonormal loadings the projection X = w w' has trace r, eigenvalues in [0, 1], and entries off the diagonal whose
sizes add up to at most ``sum_j k_j - r``, because ``||w_j||_1^2 <= k_j``. So for any symmetric U with a zero diagonal
and ``|U_ij| <= rho``::

    tr(w' S w) <= sum_{i <= r} lambda_i(S + U) + rho (sum_j k_j - r).

Loadings that need not be orthogonal fall into two cases. If their supports are disjoint, they are orthogonal, and the
bound above holds. If two of them share a feature, the projection on their span involves at most ``m = sum_j k_j - 1``
features. The sizes of its entries off the diagonal add up to at most ``sqrt(r (m - 1) (m - r))``, by the Cauchy-Schwarz
inequality. The bound holds with this number in place of ``sum_j k_j - r``.
"""

import math
import time
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedspca.linalg.cardinality.column import largest_row_bound
from fedspca.linalg.cardinality.tuning import ProofTuning
from fedspca.linalg.small import eigenpairs

Array = NDArray[np.float64]
Counts = tuple[int, ...]

ROUNDING = 1e-12  # relative: computed eigenvalues may be too small by this much
_GOLDEN = 0.5 * (math.sqrt(5.0) - 1.0)
_CUBIC = 4e-10  # the eigenvalues of a matrix of order d take about this times d^3 seconds, plus a constant


@dataclass(frozen=True)
class Dual:
    """A matrix U with a zero diagonal and ``|U_ij| <= rho``, and the bound that it proves.

    ``tried`` holds rho and ``sum_{i <= r} lambda_i(S + U)`` of every U that was tried. They also give bounds for other
    values of the mass.
    """

    u: Array
    rho: float
    bound: float
    tried: tuple[tuple[float, float], ...]

    def for_mass(self, mass: float) -> float:
        """The best bound from all matrices tried, for loadings with this off-diagonal mass."""
        return min(top + rho * mass for rho, top in self.tried) * (1.0 + ROUNDING)


def orthogonal_mass(k: Counts) -> float:
    """The most that the sizes of entries off the diagonal of ``w w'`` add up to, w orthonormal with k_j non-zeros."""
    return float(sum(k) - len(k))


def projection_mass(m: int, r: int) -> float:
    """The largest sum of the sizes of off-diagonal entries, over all projections of rank r on m features."""
    return math.sqrt(max(r * (m - 1) * (m - r), 0))


def seconds_for(d: int) -> float:
    """Approximate time, in seconds, to compute the eigenvalues of a matrix of order d."""
    return 3e-5 + _CUBIC * d**3


def top_sum(a: Array, r: int) -> float:
    """The sum of the r largest eigenvalues."""
    return float(np.linalg.eigvalsh(a)[-r:].sum())


def cheap_bound(s: Array, k: Counts, *, orthogonal: bool) -> float:
    """A cheap bound, by a partial sort only: from the largest row bounds and the largest variances of features."""
    heavy = np.sort(s.diagonal())[::-1]
    within = float(heavy[: min(sum(k), len(s))].sum())  # the trace of S on all the supports
    lengths = [min(n, len(s)) for n in _lengths(k, orthogonal=orthogonal)]
    of_length: dict[int, float] = {}
    rows = 0.0
    for at, n in enumerate(lengths):
        if n not in of_length:
            of_length[n] = largest_row_bound(s, n)
        rows += of_length[n]
        if rows + (len(lengths) - at - 1) * of_length[n] >= within:  # the later ones are no smaller
            return within * (1.0 + ROUNDING)
    return rows * (1.0 + ROUNDING)


def _lengths(k: Counts, *, orthogonal: bool) -> list[int]:
    """Numbers of non-zeros of orthonormal columns with the same span, after Gram-Schmidt if they are not orthogonal."""
    return sorted(k) if orthogonal else [int(n) for n in np.cumsum(sorted(k))]


def line_search(s: Array, r: int, mass: float, trials: int = ProofTuning.line_search) -> Dual:
    """Min over rho of ``sum_{i <= r} lambda_i(soft(S, rho)) + rho mass``, S soft-thresholded off its diagonal."""
    tops: dict[float, float] = {}

    def at(rho: float) -> float:
        tops[rho] = top_sum(s + clipped(s, rho), r)
        return tops[rho] + rho * mass

    # a rho beyond the largest entry gains nothing: there only the diagonal is left
    low, high = 0.0, float(np.abs(s - np.diag(s.diagonal())).max(initial=0.0))
    at(low), at(high)
    one, two = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
    at_one, at_two = at(one), at(two)
    for _ in range(trials - 4):
        if at_one < at_two:
            high, two, at_two = two, one, at_one
            one = high - _GOLDEN * (high - low)
            at_one = at(one)
        else:
            low, one, at_one = one, two, at_two
            two = low + _GOLDEN * (high - low)
            at_two = at(two)
    rho = min(tops, key=lambda rho: tops[rho] + rho * mass)
    return Dual(clipped(s, rho), rho, (tops[rho] + rho * mass) * (1.0 + ROUNDING), tuple(tops.items()))


def several_bound(s: Array, r: int, mass: float) -> float:
    """An upper bound on the variance of r orthonormal loadings with this off-diagonal mass, by a line search."""
    return line_search(s, r, mass).bound


def clipped(s: Array, rho: float) -> Array:
    """``-clip(S, -rho, rho)`` off the diagonal."""
    u = -np.clip(s, -rho, rho)
    np.fill_diagonal(u, 0.0)
    return u


def tightened(
    s: Array,
    r: int,
    mass: float,
    dual: Dual,
    near: Array,
    until: float,
    deadline: float,
    *,
    every: int = 5,
    worth: float = 1e-7,
) -> Dual:
    """Min over U of the bound, by the alternating direction method (ADMM) on the primal semidefinite problem.

    The primal problem is the maximum of ``<S, X>`` over X with eigenvalues in [0, 1], trace r and at most the given
    off-diagonal mass. The iteration starts at the projection ``near`` of the loadings found, and at the U of a line
    search. Every U on the way gives a valid bound; the best one is kept. The iteration ends when the bound is below
    ``until``, at the deadline, or when it has converged.
    """
    scale = float(np.abs(s).max()) or 1.0
    step = _step(s, r)
    z, y = near.copy(), -dual.u / step
    best, last = dual, math.inf
    for number in range(1, 100_000):
        x = _fantope(z - y + s / step, r)
        z_new = _within_mass(x + y, mass)
        y += x - z_new
        np.fill_diagonal(y, 0.0)
        primal, change = float(np.linalg.norm(x - z_new)), float(np.linalg.norm(z_new - z))
        z = z_new
        if number % every == 0:
            u = -step * y
            rho = float(np.abs(u).max(initial=0.0))
            top = top_sum(s + u, r)
            bound = (top + rho * mass) * (1.0 + ROUNDING)
            if bound < best.bound:
                best = Dual(u, rho, bound, (*dual.tried, (rho, top)))
            if best.bound <= until or max(primal, change) < worth or time.monotonic() > deadline:
                break
            if number % (20 * every) == 0:
                if best.bound > last - worth * scale:
                    break
                last = best.bound
        if number % 10 == 0:  # keep the two residuals of similar size
            factor = 2.0 if primal > 5.0 * change else 0.5 if change > 5.0 * primal else 1.0
            step, y = step * factor, y / factor
    return best


def _step(s: Array, r: int) -> float:
    """A step size in the units of S: about the size of its entries."""
    return float(np.linalg.norm(s) / math.sqrt(max(r, 1))) / 2.0 or 1.0


def _fantope(a: Array, r: int) -> Array:
    """Argmin ``||X - A||`` over X with eigenvalues in [0, 1] and trace r."""
    values, vectors = eigenpairs(a)
    low, high = float(values[0]) - 1.0, float(values[-1])
    for _ in range(60):
        theta = 0.5 * (low + high)
        if float(np.clip(values - theta, 0.0, 1.0).sum()) > r:
            low = theta
        else:
            high = theta
    sizes = np.clip(values - 0.5 * (low + high), 0.0, 1.0)
    keep = sizes > 0.0
    return np.asarray((vectors[:, keep] * sizes[keep]) @ vectors[:, keep].T)


def _within_mass(a: Array, mass: float) -> Array:
    """Argmin ``||Z - A||`` over Z whose entries off the diagonal have sizes that add up to at most the mass."""
    own = a.diagonal().copy()
    sizes = np.abs(a)
    np.fill_diagonal(sizes, 0.0)
    total = float(sizes.sum())
    if total <= mass:
        return a.copy()
    low, high = 0.0, float(sizes.max())
    for _ in range(50):
        cut = 0.5 * (low + high)
        if float(np.maximum(sizes - cut, 0.0).sum()) > mass:
            low = cut
        else:
            high = cut
    z = np.sign(a) * np.maximum(sizes - high, 0.0)
    np.fill_diagonal(z, own)
    return np.asarray(z)
