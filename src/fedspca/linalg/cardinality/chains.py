"""All sets of m features whose r leading eigenvalues reach a level, found one feature at a time.

Let ``v(M)`` be the sum of the r largest eigenvalues of S on the features M: what r directions on M capture. With
``S = B' B`` and Q the projection that attains it, ``v(M) = sum_j |Q b_j|^2`` over the m features. Without feature j
the same Q still captures the rest, so some feature can be left out with ``v(M - j) >= (1 - 1/m) v(M)``. Hence every M
with ``v(M) >= level`` ends a chain of sets of 1, 2, ..., m features in which the set of size l reaches ``l/m level``.
The sets of each size are found from those of the size before. None is missed.
"""

import math
import time
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Index = NDArray[np.intp]

ROUNDING = 1e-11  # relative: computed sums of eigenvalues may be off by this much
_CHUNK = 40_000  # eigenproblems solved at a time; it only limits memory
_ENTRIES = 2_000_000  # of a matrix of sets and features; it only limits memory
_LARGEST = 3_000_000  # sets of one size that are looked at; more would take too much memory
_PRODUCT = 1e-10  # seconds for an entry of a matrix product and each of its terms
_SECONDS = 1e-6  # a set takes about this long, plus a tenth of it for each of its features


class Sets(NamedTuple):
    """Sets of features (n, m), ascending in each row, by decreasing value.

    Attributes
    ----------
    members : ndarray of shape (n, m)
        The sets.
    values : ndarray of shape (n,)
        What r directions on each set capture.
    rest : float
        No set that is not listed captures more.
    """

    members: Index
    values: Array
    rest: float

    @property
    def bound(self) -> float:
        """What no set exceeds, listed or not."""
        return max(self.rest, float(self.values[0]) * (1.0 + ROUNDING)) if len(self.values) else self.rest


def none_listed(m: int, rest: float) -> Sets:
    """No sets, only a bound on all of them."""
    return Sets(np.zeros((0, m), dtype=np.intp), np.zeros(0), rest)


def sets_above(s: Array, r: int, m: int, level: float, deadline: float = math.inf) -> Sets | None:
    """Every set of m features on which r directions capture at least ``level``; None if that would take too long."""
    d = len(s)
    if math.comb(d, min(m, d // 2)) >= 2**62:  # sets are told apart by their number among all sets
        return None
    low, squares = level * (1.0 - ROUNDING), np.square(s)
    members, values = np.arange(d)[:, None], s.diagonal()
    for size in range(1, m + 1):
        if size > 1:
            if time.monotonic() + len(members) * d * (_SECONDS / 40.0 + _PRODUCT * d) > deadline:
                return None
            parent, feature = _promising(s, squares, members, r, low * size / m)
            n = len(parent)
            if n > _LARGEST or time.monotonic() + n * _SECONDS * (1.0 + 0.1 * size) > deadline:
                return None
            members = _one_more(members[parent], feature, d)
            values = leading_sums(s, members, r)
        kept = values >= low * size / m
        members, values = members[kept], values[kept]
        if not len(members):
            return none_listed(m, level)
    order = np.argsort(-values, kind="stable")
    return Sets(members[order], values[order], level)


def _promising(s: Array, squares: Array, members: Index, r: int, low: float) -> tuple[Index, Index]:
    """Sets and features that may reach a level together, by the trace t and the sum q of squares of the larger set.

    If n numbers add up to t and their squares to q, the sum of the r largest is at most
    ``r t / n + sqrt(r (n - r) (q - t^2 / n) / n)``.
    """
    n, d = members.shape[1] + 1, len(s)
    own = s.diagonal()
    sets, features = [], []
    chunk = max(1, _ENTRIES // d)
    for at in range(0, len(members), chunk):
        part = members[at : at + chunk]
        inside = np.zeros((len(part), d))
        np.put_along_axis(inside, part, values=1.0, axis=1)
        couples = inside @ squares
        trace = (inside @ own)[:, None] + own
        q = np.einsum("ij,ij->i", couples, inside)[:, None] + 2.0 * couples + squares.diagonal()
        rest = np.sqrt(np.maximum(r * (n - r) / n * (q - trace * trace / n), 0.0))
        most = np.where(n <= r, trace, r / n * trace + rest)
        parent, feature = np.nonzero((inside == 0.0) & (most >= low))
        sets.append(parent + at)
        features.append(feature)
    return np.concatenate(sets), np.concatenate(features)


def leading_sums(s: Array, members: Index, r: int) -> Array:
    """The sum of the r largest eigenvalues of S on each of n sets of features."""
    parts = [members[at : at + _CHUNK] for at in range(0, len(members), _CHUNK)]
    sums = [np.linalg.eigvalsh(s[part[:, :, None], part[:, None, :]])[:, -r:].sum(axis=1) for part in parts]
    return np.concatenate(sums) if sums else np.zeros(0)


def _one_more(members: Index, feature: Index, d: int) -> Index:
    """Each set with its further feature; sets that occur twice are given once."""
    larger = np.concatenate([members, feature[:, None]], axis=1)
    larger.sort(axis=1)
    size = larger.shape[1]
    # the place of a set among all sets of its size, in colexicographic order
    table = np.array([[math.comb(i, j + 1) for j in range(size)] for i in range(d)])
    numbers = table[larger, np.arange(size)].sum(axis=1)
    return np.asarray(larger[np.unique(numbers, return_index=True)[1]])
