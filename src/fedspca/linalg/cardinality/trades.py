"""Exchanges of non-zeros that gain variance: entries that would gain much, in the place of entries that cost little."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Index = NDArray[np.intp]

_MOST = 200  # entries that are exchanged at once
_WORTH = 1e-9  # share of the variance: a pair that promises less is left out
_ROOM = 0.05  # share of a column's variance: the least curvature by which the weight of a new entry is estimated
_FLAT = 1e-3  # the same for the cost of an entry


class Margins(NamedTuple):
    """What single entries are worth (d x r each), if the other weights of their columns only keep their proportions.

    Attributes
    ----------
    gain : ndarray
        Variance gained by an entry that is zero now, as if its column stood alone: exact, by an eigenproblem of order
        two. Minus infinity for the others.
    shared : ndarray
        The same where other columns use the feature: to first order, since these have to stay orthogonal.
    cost : ndarray
        Variance lost without an entry. Infinity for those that are zero, and for the last one of a column.
    weights : ndarray
        Weights for the new entries: one Newton step for each alone.
    """

    gain: Array
    shared: Array
    cost: Array
    weights: Array

    @classmethod
    def at(cls, s: Array, w: Array) -> "Margins":
        """At orthonormal loadings that are the best on their supports."""
        image = s @ w
        inner = w.T @ image
        own = np.maximum(inner.diagonal(), 1e-300)
        pull = image - w @ inner
        diagonal = s.diagonal()[:, None]
        half = 0.5 * (diagonal - own)
        gain = np.where(w == 0.0, half + np.sqrt(half * half + pull * pull), -np.inf)
        shared = np.where((w == 0.0) & w.any(axis=1, keepdims=True), pull * pull / own, gain)
        room, share = own - diagonal, w * w
        cost = share * np.maximum(room, _FLAT * own) / np.maximum(1.0 - share, 1e-12)
        cost = np.where((w != 0.0) & (np.count_nonzero(w, axis=0) > 1), cost, np.inf)
        return cls(gain, shared, cost, np.asarray(w + pull / np.maximum(room, _ROOM * own)))


class _Trades(NamedTuple):
    """Pairs of flat indices of entries that enter and that leave, and what each pair promises."""

    enter: Index
    leave: Index
    net: Array


def promising_trades(s: Array, w: Array, margins: Margins) -> tuple[Index, Index]:
    """Entries that enter and entries that leave, in pairs that promise a gain, the most promising first."""
    found = [_swaps(w, margins), _transfers(w, margins), _lone_swaps(s, w)]
    enter, leave, net = (np.concatenate(each) for each in zip(*found, strict=True))
    order = ranked(-net)
    order = order[net[order] > _WORTH * float(s.diagonal().max())]
    used: set[int] = set()
    kept = []
    for at, both in zip(order.tolist(), zip(enter[order].tolist(), leave[order].tolist(), strict=True), strict=True):
        if used.isdisjoint(both):
            used.update(both)
            kept.append(at)
    return enter[kept], leave[kept]


def _swaps(w: Array, margins: Margins) -> _Trades:
    """Any entry that enters, in the place of any that leaves.

    Two columns that share a single feature are not orthogonal. So an entry enters only where its column shares other
    features already with each column that uses its feature.
    """
    named = (w != 0.0).astype(float)
    apart = (named.T @ named == 0.0).astype(float)
    gain = np.where(named @ apart == 0.0, margins.shared, -np.inf).ravel()
    cost = margins.cost.ravel()
    n = min(_MOST, int(np.isfinite(cost).sum()), int(np.isfinite(gain).sum()))
    enter, leave = ranked(-gain, n), ranked(cost, n)
    return _Trades(enter, leave, gain[enter] - cost[leave])


def _transfers(w: Array, margins: Margins) -> _Trades:
    """A feature that one column gives to another."""
    features = np.flatnonzero(np.count_nonzero(w, axis=1) == 1)
    giver, taker = np.argmax(w[features] != 0.0, axis=1), np.argmax(margins.gain[features], axis=1)
    net = margins.gain[features, taker] - margins.cost[features, giver]
    r = w.shape[1]
    return _Trades(features * r + taker, features * r + giver, net)


def _lone_swaps(s: Array, w: Array) -> _Trades:
    """Another feature for a column that has only one, in the order of their variances."""
    named = w != 0.0
    columns, free = np.flatnonzero(named.sum(axis=0) == 1), np.flatnonzero(~named.any(axis=1))
    features = np.argmax(named[:, columns], axis=0)
    n = min(len(columns), len(free))
    weakest, heaviest = ranked(s.diagonal()[features], n), free[ranked(-s.diagonal()[free], n)]
    columns, features = columns[weakest], features[weakest]
    r = w.shape[1]
    return _Trades(heaviest * r + columns, features * r + columns, s.diagonal()[heaviest] - s.diagonal()[features])


def ranked(values: Array, n: int | None = None) -> Index:
    """Positions of the n smallest values, smallest first. Values equal up to rounding stay in order."""
    finite = values[np.isfinite(values)]
    scale = float(np.abs(finite).max(initial=0.0)) or 1.0
    keys = np.round(values / scale, 9)
    if n is None or n >= len(keys):
        return np.argsort(keys, kind="stable")
    if n < 1:
        return np.zeros(0, dtype=np.intp)
    able = np.flatnonzero(keys <= np.partition(keys, n - 1)[n - 1])  # n, and those equal to the last of them
    return np.asarray(able[np.argsort(keys[able], kind="stable")[:n]])
