"""A lower bound on the minimum of the l1 problem, min −tr(wᵀSw) + Σ λ_j ‖w_j‖₁ over St(d, r).

Let t_j = ‖w_j‖₁, which lies in [1, √d]. The sizes of the entries off the diagonal of w_j w_jᵀ add up to t_j² − 1, the
column's mass. So the bounds of :mod:`fedspca.linalg.cardinality.bounds` hold: for any symmetric U with a zero diagonal
and |U| ≤ ρ, any n of the columns capture at most

    Σ_{i ≤ n} λ_i(S + U) + ρ Σ_j (t_j² − 1).

Many U give many such lines; the least of them bounds what n columns of given masses capture. If the columns are divided
into groups, the sum of these bounds holds, too. No objective is then below

    −max over t of (the least such sum − Σ_j λ_j t_j),

a problem in r numbers, which is solved by dividing boxes. Where the maximum is attained, a better U is then computed
for the masses of the groups there. This is repeated until the time is up or no U is better.
"""

import time
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import reduce
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedspca.linalg.cardinality.bounds import ROUNDING, Dual, clipped, line_search, tightened
from fedspca.linalg.small import largest_eigenpairs

Array = NDArray[np.float64]
Line = tuple[float, float]  # slope and top

_THRESHOLDS = 24  # values of rho that are tried first; each costs an eigenproblem
_LARGE = 300  # with more features than this, fewer values are tried
_SEVERAL = 5  # with more columns there would be too many boxes
_BATCH = 500  # boxes that are divided at once
_ROUNDS = 100  # batches at most: then the bound is that of the boxes that are left
_CELLS = 2000  # intervals of the mass of all columns, where there are many
_ROUGH = 0.01  # share of the gap: the maximum is not found more accurately
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


class Bounds:
    """What the variance of orthonormal columns cannot exceed: lines for one column, two, and so on; or only for all."""

    def __init__(self, lines: dict[int, Lines]) -> None:
        self.lines = lines

    def at(self, masses: Array) -> Array:
        """An upper bound on the variance of columns with these masses (last axis)."""
        return self._heads(masses)[-1]

    def of(self, first: int, after: int, masses: Array) -> float:
        """The same where the columns ``first`` to ``after`` (exclusive) are one group."""
        apart = self._heads(masses[:first])[-1] + self._heads(masses[after:])[-1]
        return float(apart + self.lines[after - first].at(masses[first:after].sum()))

    def _heads(self, masses: Array) -> list[Array]:
        """Bounds on the first 0, 1, … columns: the best last group of them, beside the bound on those before it."""
        totals = np.cumsum(np.insert(masses, 0, 0.0, axis=-1), axis=-1)
        heads = [np.zeros(masses.shape[:-1])]
        for after in range(1, masses.shape[-1] + 1):
            groups = (
                heads[after - n] + lines.at(totals[..., after] - totals[..., after - n])
                for n, lines in self.lines.items()
                if n <= after
            )
            heads.append(reduce(np.minimum, groups, np.full(masses.shape[:-1], np.inf)))
        return heads

    def better(self, n: int, lines: Iterable[Line]) -> "Bounds":
        """These bounds with further lines for n columns."""
        return Bounds({**self.lines, n: self.lines[n].and_more(lines)})


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
    order = np.lexsort((-np.abs(w).sum(axis=0), weights))  # of columns with the same penalty the first is the longest
    if weights.any():
        apart = _each_alone(S, weights, 0.25 * seconds) if r > _SEVERAL else np.inf
        above = min(apart, _improved(S, _first(S, r), weights[order], reached, w[:, order], deadline))
    else:
        above = float(largest_eigenpairs(S, r)[0].sum())  # dense PCA
    slack = ROUNDING * (abs(float(np.trace(S))) + float(weights.sum()) * np.sqrt(len(S)))
    return float(-max(above, reached) - slack)


def _value(S: Array, w: Array, lam: Array) -> float:
    """Variance minus penalty."""
    return float(np.vdot(w, S @ w) - lam @ np.abs(w).sum(axis=0))


def _each_alone(S: Array, lam: Array, seconds: float) -> float:
    """An upper bound on variance minus penalty where every column may be the best single one."""
    values, counts = np.unique(lam, return_counts=True)
    least = [penalised_bound(S, 1, value, seconds=seconds / len(values)) for value in values]
    return -float(counts @ np.array(least))


def _first(S: Array, r: int) -> Bounds:
    """Lines from S with its entries off the diagonal soft-thresholded, 0 the first threshold."""
    largest = float(np.abs(S - np.diag(S.diagonal())).max(initial=0.0))
    count = _THRESHOLDS if len(S) <= _LARGE else _THRESHOLDS // 3
    thresholds = largest * np.linspace(0.0, 1.0, count) ** 1.5
    tops = np.array([largest_eigenpairs(S + clipped(S, rho), r)[0] for rho in thresholds]).cumsum(axis=1)
    sizes = range(1, r + 1) if r <= _SEVERAL else (r,)
    return Bounds({n: Lines(zip(thresholds, tops[:, n - 1], strict=True)) for n in sizes})


def _improved(S: Array, bounds: Bounds, lam: Array, reached: float, near: Array, deadline: float) -> float:
    """The maximum, with better lines where it is attained, until the deadline."""
    r, longest = len(lam), float(np.sqrt(len(S)))
    latest: dict[int, Dual] = {}  # the last U for each number of columns
    while True:
        value, norms = _highest(bounds, lam, longest, reached)
        if norms is None or value - reached <= _ENOUGH * _tolerance(reached, lam) or time.monotonic() > deadline:
            return value
        masses = norms * norms - 1.0
        before = float(bounds.at(masses))
        # a U that proves more than is needed for these norms serves for others near them
        needed = reached + float(lam @ norms) - (value - reached)
        for n, first in _groups(bounds, r):
            if time.monotonic() > deadline or float(bounds.at(masses)) <= needed:
                break
            mass = float(masses[first : first + n].sum())
            own = float(bounds.lines[n].at(mass))
            until = own - max(bounds.of(first, first + n, masses) - needed, 0.0)
            latest[n] = _better(S, n, mass, latest.get(n), near[:, first : first + n], until, deadline)
            bounds = bounds.better(n, latest[n].tried)
        if before - float(bounds.at(masses)) <= _WORTH * (value - reached):
            return _highest(bounds, lam, longest, reached).value


def _groups(bounds: Bounds, r: int) -> Iterator[tuple[int, int]]:
    """The groups of neighbouring columns, large ones first: their number, and the first of them."""
    for n in sorted(bounds.lines, reverse=True):
        for first in range(r - n + 1):
            yield n, first


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
    """The boxes of the highest bounds are divided, until none can hold more than the best of all corners."""
    r = len(lam)
    low, high, above = np.ones((1, r)), np.full((1, r), longest), np.array([np.inf])
    alike = np.flatnonzero(np.diff(lam) == 0.0)  # the next column has the same penalty: it is not the longer one
    best, norms = reached, None
    for _ in range(_ROUNDS):
        order = np.argpartition(-above, _BATCH) if len(above) > _BATCH else np.arange(len(above))
        low, high, kept = low[order], high[order], above[order[_BATCH:]]
        begin, end = _in_order(*_halved(low[:_BATCH], high[:_BATCH]), alike)
        variance = bounds.at(end * end - 1.0)
        at_corner = variance - end @ lam
        if at_corner.max(initial=-np.inf) > best:
            best, norms = float(at_corner.max()), end[at_corner.argmax()]
        low, high = np.vstack([low[_BATCH:], begin]), np.vstack([high[_BATCH:], end])
        above = np.append(kept, variance - begin @ lam)
        enough = best + max(_tolerance(best, lam), _ROUGH * (best - reached))
        left = above > enough
        low, high, above = low[left], high[left], above[left]
        if not len(above):
            break
    return Highest(max(enough, float(above.max(initial=-np.inf))), norms)


def _halved(low: Array, high: Array) -> tuple[Array, Array]:
    """Both halves of each box, divided where it is longest."""
    box, side = np.arange(len(low)), (high - low).argmax(axis=1)
    begin, end = low.copy(), high.copy()
    begin[box, side] = end[box, side] = 0.5 * (low[box, side] + high[box, side])
    return np.vstack([low, begin]), np.vstack([end, high])


def _in_order(low: Array, high: Array, alike: NDArray[np.intp]) -> tuple[Array, Array]:
    """What is left of each box if no column is longer than the one before it; ``alike`` are those that have a next."""
    for at in alike:
        high[:, at + 1] = np.minimum(high[:, at + 1], high[:, at])
    for at in alike[::-1]:
        low[:, at] = np.maximum(low[:, at], low[:, at + 1])
    left = (low <= high).all(axis=1)
    return low[left], high[left]


def _tolerance(value: float, lam: Array) -> float:
    """How far the maximum may be overestimated. The value may be zero; the penalty is then as large as the variance."""
    return _DIGITS * max(abs(value), 1e-2 * float(lam.sum()))


def _by_total(bounds: Bounds, lam: Array, longest: float, reached: float) -> Highest:
    """The same for many columns, of which only the mass of all together counts."""
    r, least = len(lam), float(lam.min())
    masses = r * (longest * longest - 1.0) * np.linspace(0.0, 1.0, _CELLS + 1) ** 2
    norms = _shortest(masses[:-1], r, longest)
    # every norm is at least one: where the penalties differ, the larger ones add at least the difference
    values = bounds.lines[r].at(masses[1:]) - least * norms.sum(axis=1) - float((lam - least).sum())
    value = float(values.max())
    return Highest(value, norms[values.argmax()]) if value > reached else Highest(reached, None)


def _shortest(masses: Array, r: int, longest: float) -> Array:
    """The norms 1 ≤ t_j ≤ longest of the least sum with Σ (t_j² − 1) equal to each mass: all but one are extreme."""
    span = max(longest * longest - 1.0, 1e-300)
    left = masses[:, None] - span * np.arange(r)
    return np.asarray(np.sqrt(1.0 + np.clip(left, 0.0, span)))
