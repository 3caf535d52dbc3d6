"""All sets of m features whose r leading eigenvalues reach a level, found one feature at a time.

Let ``v(M)`` be the sum of the r largest eigenvalues of S on the features M: what r directions on M capture. Every M
that reaches the level ends a chain of sets of 1, 2, ..., m features, each of which reaches a lower level of its own.
The sets of each size are found from those of the size before, so none is missed. There are two kinds of chains; the one
that starts with fewer sets is followed.

By value. With ``S = B' B`` and Q the projection that attains it, ``v(M) = sum_j |Q b_j|^2``. Without feature j the same
Q captures the rest. So some feature can be left out with ``v(M - j) >= (1 - 1/m) v(M)``.

By squares. The m eigenvalues on M have the sum t, the trace, and the sum of squares q. Therefore
``v(M) <= r t / m + sqrt(c (q - t^2 / m))`` with ``c = r (m - r) / m``. The root of x is at most ``x / (2 a) + a / 2``
for every a > 0, and ``-t^2 <= t_0^2 - 2 t_0 t`` for every t_0. What is left is a sum of terms of single features and of
pairs, h(M). If it is to reach a level, some feature can be left out that contributes no more than the mean.
"""

import math
import time
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Index = NDArray[np.intp]

ROUNDING = 1e-11  # relative: computed sums of eigenvalues may be off by this much
_CHUNK = 40_000  # eigenproblems solved at a time; it only limits memory
_ENTRIES = 2_000_000  # of a matrix of sets and features; it only limits memory
_LARGEST = 4_000_000  # sets of one size that are looked at; more would take too much memory
_PRODUCT = 1e-10  # seconds for an entry of a matrix product and each of its terms
_SECONDS = 1e-6  # a set takes about this long, plus a tenth of it for each of its features
_SHORT = 4  # size of the sets at which the two kinds of chains are compared
_FEW = 2000  # so few of them that the other kind is not tried
_TRACES = 9  # values of t_0 that are tried


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
    members = _by_either(s, r, m, level, deadline)
    if members is None:
        return None
    values = leading_sums(s, members, r)
    order = np.argsort(-values, kind="stable")[: int(np.count_nonzero(values >= level * (1.0 - ROUNDING)))]
    return Sets(members[order], values[order], level)


def _by_either(s: Array, r: int, m: int, level: float, deadline: float) -> Index | None:
    """Sets of m features, those above the level among them: by squares, unless chains by value start with fewer."""
    d, short, every = len(s), min(_SHORT, m), np.arange(len(s))[:, None]
    squares = _BySquares.towards(s, r, m, level) if m > r else None
    begun = None if squares is None else grown(squares, every, short, d, deadline)
    if squares is None or begun is None or len(begun) > _FEW:
        value = _ByValue.towards(s, r, m, level)
        other = grown(value, every, short, d, deadline)
        if other is not None and (squares is None or begun is None or len(other) < len(begun)):
            return grown(value, other, m, d, deadline)
    return None if squares is None or begun is None else grown(squares, begun, m, d, deadline)


class _Chain(Protocol):
    """What a set of each size has to reach."""

    @property
    def terms(self) -> tuple[Array, Array]:
        """Terms of pairs and of single features that tell which sets may reach it."""

    def promising(self, sums: Array, own: Array, size: int) -> NDArray[np.bool_]:
        """Whether sets of a size may reach it, by the two sums of terms."""

    def reached(self, members: Index) -> NDArray[np.bool_]:
        """Whether they do."""


def grown(chain: _Chain, members: Index, m: int, d: int, deadline: float) -> Index | None:
    """Sets of m features from those of fewer, one feature at a time; None if that would take too long."""
    for size in range(members.shape[1] + 1, m + 1):
        if time.monotonic() + len(members) * d * (_SECONDS / 40.0 + _PRODUCT * d) > deadline:
            return None
        parent, feature = _promising(chain, members, size, d)
        n = len(parent)
        if n > _LARGEST or time.monotonic() + n * _SECONDS * (1.0 + 0.1 * size) > deadline:
            return None
        members = _one_more(members[parent], feature, d)
        members = members[chain.reached(members)]
    return members


def _promising(chain: _Chain, members: Index, size: int, d: int) -> tuple[Index, Index]:
    """Sets, and features to add to them, that may reach together what a set of their size has to reach."""
    pairs, single = chain.terms
    chunk = max(1, _ENTRIES // d)
    sets, features = [np.zeros(0, dtype=np.intp)], [np.zeros(0, dtype=np.intp)]
    for at in range(0, len(members), chunk):
        part = members[at : at + chunk]
        inside = np.zeros((len(part), d))
        np.put_along_axis(inside, part, values=1.0, axis=1)
        couples = inside @ pairs
        sums = np.einsum("ij,ij->i", couples, inside)[:, None] + 2.0 * couples
        own = (inside @ single)[:, None] + single
        parent, feature = np.nonzero((inside == 0.0) & chain.promising(sums, own, size))
        sets.append(parent + at)
        features.append(feature)
    return np.concatenate(sets), np.concatenate(features)


@dataclass(frozen=True)
class _ByValue:
    """A set of l features reaches ``l/m`` of the level."""

    s: Array
    r: int
    share: float
    terms: tuple[Array, Array]

    @classmethod
    def towards(cls, s: Array, r: int, m: int, level: float) -> "_ByValue":
        pairs = np.square(s)
        np.fill_diagonal(pairs, 0.0)
        return cls(s, r, level * (1.0 - ROUNDING) / m, (pairs, s.diagonal()))

    def promising(self, sums: Array, own: Array, size: int) -> NDArray[np.bool_]:
        if size <= self.r:
            return np.asarray(own >= self.share * size)
        q = sums + own * float(self.s.diagonal().max())  # no less than the sum of all squares
        rest = np.sqrt(np.maximum(self.r * (size - self.r) / size * (q - own * own / size), 0.0))
        return np.asarray(self.r / size * own + rest >= self.share * size)

    def reached(self, members: Index) -> NDArray[np.bool_]:
        return np.asarray(leading_sums(self.s, members, self.r) >= self.share * members.shape[1])


@dataclass(frozen=True)
class _BySquares:
    """A set of l features reaches ``needs[l]``."""

    terms: tuple[Array, Array]
    needs: Array

    @classmethod
    def towards(cls, s: Array, r: int, m: int, level: float) -> "_BySquares | None":
        """The terms for which the fewest pairs reach what they need, over several t_0; None if there are none."""
        own = np.sort(s.diagonal())
        traces = np.linspace(own[:m].sum(), own[-m:].sum(), _TRACES)
        tried = [cls._at(s, r, m, level, t) for t in traces if level > r * t / m]
        return min(tried, key=lambda chain: chain._pairs) if tried else None

    @classmethod
    def _at(cls, s: Array, r: int, m: int, level: float, t: float) -> "_BySquares":
        root = level - r * t / m  # the a at which the bound on the root is exact, if the trace is t
        weight = r * (m - r) / (2.0 * root * m)
        own = s.diagonal()
        single = r / m * own + weight * (own * own - 2.0 * t * own / m)
        pairs = weight * np.square(s)
        np.fill_diagonal(pairs, 0.0)
        means = np.cumsum(np.sort(single)) / np.arange(1, len(s) + 1)
        needs = np.empty(m + 1)
        needs[m] = level - (weight * t * t / m + 0.5 * root) - ROUNDING * level
        for size in range(m, 0, -1):  # h without a mean feature: pairs count twice, single terms once
            needs[size - 1] = needs[size] * (1.0 - 2.0 / size) + means[size - 1]
        return cls((pairs, single), needs - ROUNDING * np.abs(needs))

    @property
    def _pairs(self) -> int:
        pairs, single = self.terms
        return int(
            np.count_nonzero(2.0 * pairs + np.add.outer(single, single) >= self.needs[min(2, len(self.needs) - 1)])
        )

    def promising(self, sums: Array, own: Array, size: int) -> NDArray[np.bool_]:
        return np.asarray(sums + own >= self.needs[size])

    def reached(self, members: Index) -> NDArray[np.bool_]:
        return np.ones(len(members), dtype=bool)


def leading_sums(s: Array, members: Index, r: int) -> Array:
    """The sum of the r largest eigenvalues of S on each of n sets of features."""
    parts = [members[at : at + _CHUNK] for at in range(0, len(members), _CHUNK)]
    sums = [np.linalg.eigvalsh(s[part[:, :, None], part[:, None, :]])[:, -r:].sum(axis=1) for part in parts]
    return np.concatenate(sums) if sums else np.zeros(0)


def _one_more(members: Index, feature: Index, d: int) -> Index:
    """Each set with its further feature; sets that occur twice are given once."""
    larger = np.concatenate([members, feature[:, None]], axis=1)
    larger.sort(axis=1)
    numbers = np.zeros(len(larger), dtype=np.int64)
    for at, features in enumerate(larger.T):  # the place of a set among all of its size, in colexicographic order
        numbers += np.array([math.comb(i, at + 1) for i in range(d)])[features]
    return np.asarray(larger[np.unique(numbers, return_index=True)[1]])
