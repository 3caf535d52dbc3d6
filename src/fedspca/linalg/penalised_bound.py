"""A lower bound on the minimum of the l1 problem, min −tr(wᵀSw) + Σ λ_j ‖w_j‖₁ over St(d, r).

Let t_j = ‖w_j‖₁, which lies in [1, √d]. The sizes of the entries off the diagonal of w_j w_jᵀ add up to t_j² − 1, the
column's mass. So the bounds of :mod:`fedspca.linalg.cardinality.bounds` hold: for any symmetric U with a zero diagonal
and |U| ≤ ρ,

    tr(wᵀSw) ≤ Σ_{i ≤ r} λ_i(S + U) + ρ Σ_j (t_j² − 1)    and    w_jᵀSw_j ≤ λ_1(S + U) + ρ (t_j² − 1).

Many U give many such lines. Let J(m) be the least of those for all columns together at the mass m, and g(m) the least
of those for one column. No objective is then below

    −max over t of min(J(Σ_j (t_j² − 1)), Σ_j g(t_j² − 1)) − Σ_j λ_j t_j,

a problem in r numbers, which is solved by dividing boxes. Where the maximum is attained, a better U is then computed
for the masses there. This is repeated until the time is up or no U is better.
"""

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedspca.linalg.cardinality.bounds import ROUNDING, Dual, clipped, line_search, tightened
from fedspca.linalg.small import largest_eigenpairs

Array = NDArray[np.float64]
Line = tuple[float, float]  # slope and top

_THRESHOLDS = 24  # values of rho that are tried first; each costs an eigenproblem
_LARGE = 300  # with more features than this, fewer values are tried
_BOXES = 20_000  # at most so many boxes are divided at once; with more columns than _SEVERAL there would be more
_SEVERAL = 5
_DIVISIONS = 40  # of the range of each norm: a double has hardly more digits
_CELLS = 2000  # intervals of the mass of all columns, where there are many
_DIGITS = 1e-7  # relative accuracy of the maximum
_ENOUGH = 5.0  # times that accuracy: a gap that ends the work
_WORTH = 1e-3  # share of the gap: a U that lowers the bound by less is the last
_SETTLED = 1e-10  # relative: steps on U that gain less end


class Lines:
    """An upper bound on a variance, concave in the mass: the least of many lines ``top + slope * mass``."""

    def __init__(self, lines: Iterable[Line]) -> None:
        """Keep the lines that are the least at some mass, the steepest first, with the mass where each begins to be."""
        kept: list[tuple[float, float, float]] = []
        for slope, top in sorted(lines, key=lambda line: (-line[0], line[1])):
            begin = _crossing(kept, slope, top)
            while kept and begin <= kept[-1][0]:
                kept.pop()
                begin = _crossing(kept, slope, top)
            if begin < np.inf:
                kept.append((begin, slope, top))
        self._begins, self._slopes, self._tops = np.array(kept).T

    def at(self, mass: ArrayLike) -> Array:
        """The least of the lines at each mass."""
        line = np.searchsorted(self._begins[1:], mass)
        return np.asarray(self._tops[line] + self._slopes[line] * mass)

    def and_more(self, lines: Iterable[Line]) -> "Lines":
        """These lines and further ones."""
        return Lines([*zip(self._slopes, self._tops, strict=True), *lines])


def _crossing(kept: list[tuple[float, float, float]], slope: float, top: float) -> float:
    """The mass from which a flatter line is below the last one that is kept; infinite for a parallel one."""
    if not kept:
        return 0.0
    _, steeper, below = kept[-1]
    return (top - below) / (steeper - slope) if steeper > slope else np.inf


@dataclass(frozen=True)
class Bounds:
    """What the variance of r columns cannot exceed: all of them together, and any one."""

    together: Lines
    single: Lines

    def at(self, masses: Array) -> Array:
        """An upper bound on the variance of columns with these masses (last axis)."""
        return np.asarray(np.minimum(self.together.at(masses.sum(axis=-1)), self.single.at(masses).sum(axis=-1)))


class Highest(NamedTuple):
    """The maximum of variance less penalty under the bounds; norms where it is attained, None where loadings do."""

    value: float
    norms: Array | None


def penalised_bound(S: Array, r: int, lam: ArrayLike, *, near: Array | None = None, seconds: float = 0.0) -> float:
    """A lower bound on ``-tr(w' S w) + sum_j lam_j ||w_j||_1`` over all w in St(d, r).

    Parameters
    ----------
    S : ndarray of shape (d, d)
        Symmetric and positive semidefinite.
    lam : float or array-like of shape (r,)
        Not negative.
    near : ndarray of shape (d, r), optional
        The best loadings known.
    seconds : float
        How long the bound may be improved, beyond a first one that costs a few eigenproblems.
    """
    deadline = time.monotonic() + seconds
    weights = np.broadcast_to(np.asarray(lam, dtype=float), (r,))
    single = np.eye(len(S))[:, np.argsort(-S.diagonal())[:r]]  # single features are loadings, too
    w = single if near is None else near
    reached = max(_value(S, single, weights), _value(S, w, weights))
    if weights.any():
        above = _improved(S, _first(S, r), weights, reached, w, deadline)
    else:
        above = float(largest_eigenpairs(S, r)[0].sum())  # dense PCA
    slack = ROUNDING * (abs(float(np.trace(S))) + float(weights.sum()) * np.sqrt(len(S)))
    return float(-max(above, reached) - slack)


def _value(S: Array, w: Array, lam: Array) -> float:
    """Variance minus penalty."""
    return float(np.vdot(w, S @ w) - lam @ np.abs(w).sum(axis=0))


def _first(S: Array, r: int) -> Bounds:
    """Lines from S with its entries off the diagonal soft-thresholded, 0 the first threshold."""
    largest = float(np.abs(S - np.diag(S.diagonal())).max(initial=0.0))
    count = _THRESHOLDS if len(S) <= _LARGE else _THRESHOLDS // 3
    thresholds = largest * np.linspace(0.0, 1.0, count) ** 1.5
    values = np.array([largest_eigenpairs(S + clipped(S, rho), r)[0] for rho in thresholds])
    together, single = values.sum(axis=1), values[:, 0]
    return Bounds(Lines(zip(thresholds, together, strict=True)), Lines(zip(thresholds, single, strict=True)))


def _improved(S: Array, bounds: Bounds, lam: Array, reached: float, near: Array, deadline: float) -> float:
    """The maximum, with better lines where it is attained, until the deadline."""
    r, longest = len(lam), float(np.sqrt(len(S)))
    latest: dict[int, Dual] = {}  # the last U for all columns, and for one
    while True:
        value, norms = _highest(bounds, lam, longest, reached)
        if norms is None or value - reached <= _ENOUGH * _tolerance(reached, lam) or time.monotonic() > deadline:
            return value
        masses = norms * norms - 1.0
        before = float(bounds.at(masses))
        # a U that proves more than is needed for these norms serves for others near them
        needed = reached + float(lam @ norms) - (value - reached)
        if r > 1:
            latest[r] = _better(S, r, float(masses.sum()), latest.get(r), near, needed, deadline)
            bounds = replace(bounds, together=bounds.together.and_more(latest[r].tried))
        for mass in np.unique(masses):
            if time.monotonic() > deadline or float(bounds.at(masses)) <= needed:
                break
            column = near[:, [np.abs(np.abs(near).sum(axis=0) ** 2 - 1.0 - mass).argmin()]]
            too_much = max(float(bounds.single.at(masses).sum()) - needed, 0.0)
            latest[1] = _better(
                S, 1, float(mass), latest.get(1), column, float(bounds.single.at(mass)) - too_much, deadline
            )
            bounds = replace(bounds, single=bounds.single.and_more(latest[1].tried))
        if before - float(bounds.at(masses)) <= _WORTH * (value - reached):
            return _highest(bounds, lam, longest, reached).value


def _better(S: Array, r: int, mass: float, last: Dual | None, near: Array, until: float, deadline: float) -> Dual:
    """A better U for this mass, from the last one; it takes at most half of the time that is left."""
    dual = line_search(S, r, mass) if last is None else replace(last, bound=last.for_mass(mass))
    if dual.bound <= until:
        return dual
    now = time.monotonic()
    return tightened(S, r, mass, dual, near @ near.T, until, now + 0.5 * (deadline - now), worth=_SETTLED)


def _highest(bounds: Bounds, lam: Array, longest: float, reached: float) -> Highest:
    """The maximum over the norms of the bound on the variance less the penalty, given a value that some w reaches."""
    if len(lam) <= _SEVERAL:
        return _by_boxes(bounds, lam, longest, reached)
    return _by_total(bounds, lam, longest, reached)


def _by_boxes(bounds: Bounds, lam: Array, longest: float, reached: float) -> Highest:
    """Boxes of norms are divided until none can hold more than the best of their corners."""
    r = len(lam)
    low, high = np.ones((1, r)), np.full((1, r), longest)
    alike = np.flatnonzero(np.diff(lam) == 0.0)  # columns with the same penalty: the first is the longest
    best, norms = reached, None
    for _ in range(_DIVISIONS * r):
        variance = bounds.at(high * high - 1.0)
        at_corner, above = variance - high @ lam, variance - low @ lam
        if at_corner.max() > best:
            best, norms = float(at_corner.max()), high[at_corner.argmax()]
        left = above > best + _tolerance(best, lam)
        low, high, above = low[left], high[left], above[left]
        if not 0 < len(low) <= _BOXES:
            break
        low, high = _halved(low, high)
        ordered = (high[:, alike] >= low[:, alike + 1]).all(axis=1)
        low, high = low[ordered], high[ordered]
    return Highest(max(best + _tolerance(best, lam), float(above.max(initial=-np.inf))), norms)


def _halved(low: Array, high: Array) -> tuple[Array, Array]:
    """Both halves of each box, divided where it is longest."""
    box, side = np.arange(len(low)), (high - low).argmax(axis=1)
    begin, end = low.copy(), high.copy()
    begin[box, side] = end[box, side] = 0.5 * (low[box, side] + high[box, side])
    return np.vstack([low, begin]), np.vstack([end, high])


def _tolerance(value: float, lam: Array) -> float:
    """How far the maximum may be overestimated. The value may be zero; the penalty is then as large as the variance."""
    return _DIGITS * max(abs(value), 1e-2 * float(lam.sum()))


def _by_total(bounds: Bounds, lam: Array, longest: float, reached: float) -> Highest:
    """The same for many columns, from two bounds: one on all columns together, by their mass, and one on each alone."""
    r, least = len(lam), float(lam.min())
    masses = r * (longest * longest - 1.0) * np.linspace(0.0, 1.0, _CELLS + 1) ** 2
    norms = _shortest(masses[:-1], r, longest)
    # every norm is at least one: where the penalties differ, the larger ones add at least the difference
    together = bounds.together.at(masses[1:]) - least * norms.sum(axis=1) - float((lam - least).sum())
    each = Bounds(bounds.single, bounds.single)
    apart = sum(n * _by_boxes(each, own, longest, -np.inf).value for own, n in _different(lam))
    value = min(float(together.max()), apart)
    return Highest(value, norms[together.argmax()]) if value > reached else Highest(reached, None)


def _different(lam: Array) -> Iterator[tuple[Array, int]]:
    """The different penalties, and how many columns have each."""
    for value, n in zip(*np.unique(lam, return_counts=True), strict=True):
        yield np.array([value]), int(n)


def _shortest(masses: Array, r: int, longest: float) -> Array:
    """The norms 1 ≤ t_j ≤ longest of the least sum with Σ (t_j² − 1) equal to each mass: all but one are extreme."""
    span = max(longest * longest - 1.0, 1e-300)
    left = masses[:, None] - span * np.arange(r)
    return np.asarray(np.sqrt(1.0 + np.clip(left, 0.0, span)))
