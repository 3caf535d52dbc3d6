"""Bounds for several columns: every support that can be part of a better solution is listed, then they are combined.

Write ``f(A)`` for what the best column on support A captures. Orthonormal loadings with supports ``A_1 ... A_r``
capture at most ``sum_j f(A_j)``. Let B_q be a bound for q columns and let all supports with ``f(A) > t`` be listed.
Either all r supports are on the list, or one of them captures at most t, and the other columns at most ``B_{r-1}``::

    B_r = max(best r supports on the list, t + B_{r-1}).

Loadings that need not be orthogonal fall into groups that share features, directly or by way of others. Different
groups have different features, so their variances add up. A group of q columns uses at most ``m = q k - (q - 1)``
features and captures at most the q leading eigenvalues of S on them. A group is therefore treated as one column that
has m non-zeros and q directions.
"""

import math
import time
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from fedspca.linalg.cardinality.chains import ROUNDING, Sets, leading_sums, none_listed, sets_above

Array = NDArray[np.float64]
Index = NDArray[np.intp]
PairBound = Callable[[Array, Sets, float, float], Array]

_STEPS = 12  # lists, each longer than the one before; more are not needed to come within 1e-3 of the last
_LONGEST = 2000  # supports on a list; all pairs of them are compared
_PAIR = 4e-6  # seconds that the eigenvalues of a pair take
_CLOSE = 0.02  # relative: a threshold this close to the one that is needed is taken to be it
_LADDER = (0.16, 0.08, 0.04, 0.02, 0.01, 0.005, 1e-9)  # how much better than the loadings known, from easy to hard
_HALVINGS = 3  # of the step from the last level that was listed to one that takes too long


def columns_bound(
    s: Array, k: int, r: int, known: float, single: float, deadline: float, *, orthogonal: bool
) -> tuple[float, Sets]:
    """A bound for r columns of k non-zeros that are orthogonal, or have disjoint supports; and the list it comes from.

    ``known`` is what some loadings capture: a bound below it is not looked for. ``single`` bounds one column.
    """
    pair_bound = orthogonal_pairs if orthogonal else disjoint_pairs
    listed, best = none_listed(k, single), r * single
    for _ in range(_STEPS):
        fewer = _combined(s, listed, single, r - 1, pair_bound, deadline)
        needed = known - fewer
        if listed.rest <= needed * (1.0 + ROUNDING):
            break
        half = 0.5 * (listed.rest + needed)
        longer = sets_above(s, 1, k, needed if half - needed < _CLOSE * abs(needed) else half, deadline)
        if longer is None or len(longer.values) > _LONGEST:
            break
        listed = longer
        best = min(best, _combined(s, listed, single, r, pair_bound, deadline))
    return best, listed


def shared_bound(s: Array, k: int, r: int, known: float, single: float, listed: Sets, deadline: float) -> float:
    """A bound for 2 or 3 columns of k non-zeros of which at least two share a feature."""
    if r == 2:
        return _group(s, 2, 2 * k - 1, known, known, deadline).bound
    soon = _within(deadline, 0.5)
    bound = _group(s, 3, 3 * k - 2, known, known, soon).bound
    group = _group(s, 2, 2 * k - 1, known, known - single, deadline)
    beside = max(group.rest + single, listed.rest + group.bound, _best_disjoint(group, listed, len(s)))
    return max(bound, beside * (1.0 + ROUNDING))


def orthogonal_pairs(s: Array, listed: Sets, above: float, deadline: float) -> Array:
    """What two orthonormal columns on each two listed supports capture at most; ``f(A) + f(B)`` below a level.

    Columns that share one feature only have a product of weights there that is zero: one of them does without it.
    Columns that share more capture at most the two leading eigenvalues of S on all their features.
    """
    shared = _shared(listed, len(s))
    pairs = np.add.outer(listed.values, listed.values)
    first, second = np.nonzero(np.triu((pairs > above) & (shared > 0)))
    common = shared[first, second]
    if time.monotonic() + _PAIR * len(common) > deadline:
        return pairs
    for n in np.unique(common):
        one, two = first[common == n], second[common == n]
        if n == 1:
            value = _without_the_shared(s, listed, one, two)
        else:
            value = leading_sums(s, _unions(listed.members[one], listed.members[two], int(n), len(s)), 2)
        pairs[one, two] = pairs[two, one] = np.minimum(pairs[one, two], value)
    return pairs


def disjoint_pairs(s: Array, listed: Sets, above: float, _deadline: float) -> Array:
    """What two columns on each two listed supports capture; minus infinity if the supports share a feature."""
    pairs = np.add.outer(listed.values, listed.values)
    return np.asarray(np.where((_shared(listed, len(s)) > 0) | (pairs <= above), -math.inf, pairs))


def _combined(s: Array, listed: Sets, single: float, r: int, pair_bound: PairBound, deadline: float) -> float:
    """B_r: the best r supports on the list, or B_{r-1} and one that is not on it."""
    if r <= 1 or not len(listed.values):
        return r * single
    low = single + listed.rest
    bounds = [0.0, single, max(low, float(pair_bound(s, listed, low, deadline).max()) * (1.0 + ROUNDING))]
    if r > 2:
        low = bounds[2] + listed.rest
        pairs = pair_bound(s, listed, low - float(listed.values[0]), deadline)
        bounds.append(max(low, _best_three(pairs, listed.values, low, deadline) * (1.0 + ROUNDING)))
    while len(bounds) <= r:  # more columns than three: the sum of the bounds of two parts
        bounds.append(min(bounds[q] + bounds[len(bounds) - q] for q in range(1, len(bounds))))
    return bounds[r]


def _best_three(pairs: Array, values: Array, above: float, deadline: float) -> float:
    """A bound for three columns on listed supports, from the bounds of their pairs; ``above`` if it is less."""
    best = above
    first, second = np.nonzero(np.triu(pairs + values[0] > above))
    order = np.argsort(-pairs[first, second], kind="stable")
    for i, j in zip(first[order], second[order], strict=True):
        most = float(pairs[i, j] + values[0])  # of all columns whose pairs have not been looked at
        if most <= best or time.monotonic() > deadline:
            return max(best, most)
        three = np.minimum(np.minimum(pairs[i, j] + values, pairs[i] + values[j]), pairs[j] + values[i])
        best = max(best, float(np.minimum(three, 0.5 * (pairs[i, j] + pairs[i] + pairs[j])).max()))
    return best


def _group(s: Array, q: int, m: int, known: float, needed: float, deadline: float) -> Sets:
    """The sets of m features on which q directions capture ``needed``, or more than that if there are too many."""
    m = min(m, len(s))
    heaviest = float(np.sort(s.diagonal())[-m:].sum())
    group = none_listed(m, min(heaviest, float(np.linalg.eigvalsh(s)[-q:].sum())) * (1.0 + ROUNDING))
    too_low = needed  # a level whose sets take too long to list
    for more in _LADDER:
        level = needed + more * known
        if level >= group.rest:
            continue
        longer = sets_above(s, q, m, level, deadline)
        if longer is None:
            too_low = level
            break
        group = longer
    for _ in range(_HALVINGS if too_low > needed else 0):
        level = 0.5 * (group.rest + too_low)
        longer = sets_above(s, q, m, level, deadline)
        if longer is None:
            too_low = level
        else:
            group = longer
    return group


def _best_disjoint(one: Sets, other: Sets, d: int) -> float:
    """The largest sum of values of two sets, one of each list, that have no feature in common."""
    best, inside = -math.inf, _inside(other, d)
    for members, value in zip(one.members, one.values, strict=True):
        if not len(other.values) or value + other.values[0] <= best:
            break
        apart = ~inside[:, members].any(axis=1)
        if apart.any():
            best = max(best, float(value + other.values[int(np.argmax(apart))]))
    return best


def _without_the_shared(s: Array, listed: Sets, one: Index, two: Index) -> Array:
    """For pairs of supports with one feature in common: the better of leaving it out of the one or of the other."""
    a, b = listed.members[one], listed.members[two]
    if a.shape[1] == 1:
        return np.asarray(np.maximum(listed.values[one], listed.values[two]))
    again = (a[:, :, None] == b[:, None, :]).any(axis=2)
    less_a = a[~again].reshape(len(a), -1)
    again = (b[:, :, None] == a[:, None, :]).any(axis=2)
    less_b = b[~again].reshape(len(b), -1)
    return np.asarray(
        np.maximum(leading_sums(s, less_a, 1) + listed.values[two], listed.values[one] + leading_sums(s, less_b, 1))
    )


def _unions(a: Index, b: Index, shared: int, d: int) -> Index:
    """The union of each two supports that have a given number of features in common."""
    named = np.zeros((len(a), d), dtype=bool)
    np.put_along_axis(named, a, values=True, axis=1)
    np.put_along_axis(named, b, values=True, axis=1)
    return np.asarray(np.nonzero(named)[1].reshape(len(a), a.shape[1] + b.shape[1] - shared))


def _inside(listed: Sets, d: int) -> NDArray[np.bool_]:
    named = np.zeros((len(listed.members), d), dtype=bool)
    np.put_along_axis(named, listed.members, values=True, axis=1)
    return named


def _shared(listed: Sets, d: int) -> Index:
    """How many features each two listed supports have in common."""
    named = _inside(listed, d).astype(np.float32)
    return np.asarray((named @ named.T).astype(np.intp))


def _within(deadline: float, share: float) -> float:
    now = time.monotonic()
    return now + share * max(deadline - now, 0.0)
