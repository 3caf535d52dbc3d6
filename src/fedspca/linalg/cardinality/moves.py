"""Moves of one solution that change two columns at once: sweeps, which change one at a time, cannot make them."""

from itertools import combinations, islice

import numpy as np
from numpy.typing import NDArray

from fedspca.linalg.cardinality.beside import Beside, Column
from fedspca.linalg.cardinality.column import Columns, best_of_each, best_of_trials, climbed, promised_by_swaps
from fedspca.linalg.cardinality.points import GAIN, Counts, Points, bases, fitted, parts, put, swept
from fedspca.linalg.cardinality.polish import Fit
from fedspca.linalg.cardinality.selection import heaviest
from fedspca.linalg.cardinality.tuning import Tuning

Array = NDArray[np.float64]
Index = NDArray[np.intp]

_CLIMBED = 8  # points with a feature handed over that are improved by swaps, best first
_TRIED = 3  # features that may replace the one given up, the most promising ones
_TRADES = 4  # features that two columns trade in a row, at most


def handed_over(s: Array, fit: Fit, k: Counts, orthogonal: bool, tuning: Tuning) -> Fit:
    """Move single features from one column to another while that gains.

    A feature that would suit two columns stays in the one that was found first. Sweeps alone cannot move it.
    """
    for _ in range(tuning.sweeps):
        if tuning.late:
            break
        found = [_handovers(s, fit, i, k, orthogonal, tuning) for i in range(len(k))]
        better = _better(found[0].joined(*found[1:]), fit)
        if better is None:
            break
        fit = _settled(s, better, k, orthogonal, tuning)
    return fit


def _better(points: Points, fit: Fit) -> Points | None:
    """The best point, if it gains."""
    best = points.best(1)
    return best if len(best.variances) and best.variances[0] > fit.variance * (1.0 + GAIN) else None


def _settled(s: Array, points: Points, k: Counts, orthogonal: bool, tuning: Tuning) -> Fit:
    return swept(s, points, k, orthogonal, tuning, sweeps=2, everywhere=True).best(1).fits()[0]


def _handovers(s: Array, fit: Fit, i: int, k: Counts, orthogonal: bool, tuning: Tuning) -> Points:
    """Points in which column i gives up one of its features and another column takes it."""
    without = _replacements(s, fit, i, orthogonal)
    given_up = [
        (at, feature)
        for at, feature in enumerate(np.flatnonzero(fit.w[:, i]).tolist()[: len(without.gains)])
        if np.isfinite(without.gains[at])
    ]
    found = [Points(np.zeros((0, *fit.w.shape)), np.zeros(0))]
    for j, kj in enumerate(k):
        # a column may have a feature with weight zero: a support that named it twice would be no support
        support = heaviest(np.abs(fit.w[None, :, j]), kj)[0]
        mine = [(at, feature) for at, feature in given_up if j != i and feature not in support]
        if mine:
            found += _taken(s, fit, i, j, support, without, np.array(mine), orthogonal, tuning)
    return found[0].joined(*found[1:])


def _replacements(s: Array, fit: Fit, i: int, orthogonal: bool) -> Columns:
    """For each feature of column i, the best column in which another feature replaces it."""
    beside = Beside(s, bases(np.delete(fit.w, i, axis=1)[None]), orthogonal)
    support = np.flatnonzero(fit.w[:, i])
    d, k = len(s), len(support)
    n = min(_TRIED, d - k)
    if n <= 0 or k == 0:
        return Columns(np.zeros((0, k), dtype=np.intp), np.zeros((0, k)), np.zeros(0), np.zeros(0, dtype=np.intp))
    x, of = fit.w[support, i], np.zeros(1, dtype=np.intp)
    image = beside.images(support[None], x[None], of)[0]
    here = Columns(support[None], x[None], np.array([float(image[support] @ x)]), of)
    promised = promised_by_swaps(beside, here, image[None])[0]
    come = np.argpartition(promised, d - n, axis=1)[:, d - n :]
    trials = np.repeat(np.repeat(support[None, None, :], k, axis=0), n, axis=1)
    trials[np.arange(k)[:, None], np.arange(n), np.arange(k)[:, None]] = np.sort(come, axis=1)
    return best_of_trials(beside, trials, np.zeros(k, dtype=np.intp))


def _taken(
    s: Array, fit: Fit, i: int, j: int, support: Index, without: Columns, mine: Index, orthogonal: bool, tuning: Tuning
) -> list[Points]:
    """Points in which column j takes a feature that column i gave up, the promising ones improved by swaps."""
    kj = len(support)
    w = np.repeat(fit.w[None], len(mine), axis=0)
    put(w, np.arange(len(mine)), i, without.at(mine[:, 0]))
    trials = np.repeat(np.repeat(support[None, None, :], len(mine), axis=0), kj, axis=1)
    trials[:, np.arange(kj), np.arange(kj)] = mine[:, 1:]
    found = []
    for part in parts(len(mine), len(s)):
        beside = Beside(s, bases(np.delete(w[part], j, axis=2)), orthogonal)
        took = best_of_trials(beside, trials[part], beside.owners)
        value = beside.captured + took.gains
        near = np.flatnonzero(value > fit.variance * tuning.near)
        near = near[np.argsort(-value[near], kind="stable")[:_CLIMBED]]
        if len(near):
            took = climbed(beside, took.at(near), tuning)
            points = w[part][near]
            put(points, np.arange(len(near)), j, took)
            found.append(Points(points, beside.captured[near] + took.gains))
    return found


def redivided(s: Array, fit: Fit, k: Counts, orthogonal: bool, tuning: Tuning) -> Fit:
    """Let two columns divide their features anew while that gains (Kernighan and Lin 1970).

    They trade one feature for one, several times in a row: a trade that loses may lead to one that gains more.
    """
    for _ in range(tuning.sweeps):
        if tuning.late:
            break
        trials = [w for pair in combinations(range(len(k)), 2) for w in _division(s, fit.w, pair, orthogonal)]
        better = _better(fitted(s, np.array(trials), k, orthogonal), fit) if trials else None
        if better is None:
            break
        fit = _settled(s, better, k, orthogonal, tuning)
    return fit


def _division(s: Array, w: Array, pair: tuple[int, int], orthogonal: bool) -> list[Array]:
    """The point after the best number of trades between two columns; none if they have nothing to trade.

    A feature that both have, or that was traded before, stays where it is.
    """
    if not w[:, pair].any(axis=0).all():  # a column is empty where nothing is left that is orthogonal to the others
        return []
    beside = Beside(s, bases(np.delete(w, pair, axis=1)[None]), orthogonal)
    one, two = (beside.column(np.flatnonzero(w[:, j])) for j in pair)
    stays = np.intersect1d(one.support, two.support)
    best, found = -np.inf, []
    for _ in range(_TRADES):
        mine, yours = np.setdiff1d(one.support, stays), np.setdiff1d(two.support, stays)
        if not mine.size or not yours.size or not np.isfinite(one.gain + two.gain):
            break
        promised = _promised(beside, one, mine, yours) + _promised(beside, two, yours, mine).T
        give, take = np.unravel_index(np.argmax(promised), promised.shape)
        one = beside.column(np.sort(np.where(one.support == mine[give], yours[take], one.support)))
        two = beside.column(np.sort(np.where(two.support == yours[take], mine[give], two.support)))
        stays = np.append(stays, [mine[give], yours[take]])
        if one.gain + two.gain > best:
            best, z = one.gain + two.gain, w.copy()
            z[:, pair] = 0.0
            z[one.support, pair[0]], z[two.support, pair[1]] = one.weights, two.weights
            found = [z]
    return found


def _promised(beside: Beside, column: Column, leaving: Index, entering: Index) -> Array:
    """What a column gains if some feature of it leaves and some other enters: (leaving, entering)."""
    support, x, first = column.support[None], column.weights[None], np.zeros(1, dtype=np.intp)
    here = Columns(support, x, np.array([column.gain]), first)
    promised = promised_by_swaps(beside, here, beside.images(support, x, first))[0]
    return np.asarray(promised[np.ix_(np.searchsorted(column.support, leaving), entering)])


def swapped(s: Array, fit: Fit, k: Counts, orthogonal: bool, tuning: Tuning) -> Fit:
    """Swap one feature of one column and refit all columns together, while that gains.

    Columns with overlapping supports depend on each other. The gain of a swap is known only after all are refitted.
    """
    for _ in range(tuning.sweeps):
        if tuning.late:
            break
        better = _better(fitted(s, _promising_swaps(s, fit.w, tuning), k, orthogonal), fit)
        if better is None:
            break
        fit = _settled(s, better, k, orthogonal, tuning)
    return fit


def _promising_swaps(s: Array, w: Array, tuning: Tuning) -> Array:
    """The most promising points with one feature exchanged, by the estimated gain of entry and cost of removal."""
    image = s @ w
    inner = w.T @ image
    own = np.maximum(inner.diagonal(), 1e-300)
    room = np.maximum(own - s.diagonal()[:, None], 1e-2 * own)
    enter = np.where(w == 0.0, np.square(image - w @ inner) / room, -np.inf)
    leave = np.where(w != 0.0, np.square(w) * own, np.inf)
    few = min(tuning.few, len(s))
    come, gone = np.argsort(-enter, axis=0, kind="stable")[:few], np.argsort(leave, axis=0, kind="stable")[:few]
    each = np.arange(w.shape[1])
    gain = enter[come, each][:, None, :] - leave[gone, each][None, :, :]
    order = np.argsort(-gain, axis=None, kind="stable")[: tuning.swaps]
    f, i, j = np.unravel_index(order[np.isfinite(gain.ravel()[order])], gain.shape)
    z, rows = np.repeat(w[None], len(f), axis=0), np.arange(len(f))
    z[rows, come[f, j], j], z[rows, gone[i, j], j] = w[gone[i, j], j], 0.0
    return np.asarray(z)


def exchanged(s: Array, fit: Fit, k: Counts, orthogonal: bool, tuning: Tuning) -> Fit:
    """Remove two columns and search them again, in either order, from several starts; keep the result if it gains."""
    chosen = list(islice(combinations(range(len(k)), 2), tuning.pairs))
    for pair in chosen:
        if tuning.late:
            break
        better = _better(_pairs(s, fit, pair, k, orthogonal, tuning), fit)
        if better is not None:
            fit = swept(s, better, k, orthogonal, tuning, sweeps=tuning.sweeps, everywhere=True).best(1).fits()[0]
    return fit


def _pairs(s: Array, fit: Fit, pair: tuple[int, int], k: Counts, orthogonal: bool, tuning: Tuning) -> Points:
    """Points with two new columns beside the others."""
    beside = Beside(s, bases(np.delete(fit.w, pair, axis=1)[None]), orthogonal)
    found = [Points(np.zeros((0, *fit.w.shape)), np.zeros(0))]
    for one, two in (pair, pair[::-1]):
        first = best_of_each(beside, k[one], tuning, n=tuning.branches)
        w = np.repeat(fit.w[None], len(first.of), axis=0)
        put(w, np.arange(len(w)), one, first)
        for part in parts(len(w), len(s)):
            then = Beside(s, bases(np.delete(w[part], two, axis=2)), orthogonal)
            second = best_of_each(then, k[two], tuning)
            points = w[part][second.of]
            put(points, np.arange(len(points)), two, second)
            found.append(Points(points, then.captured[second.of] + second.gains))
        if k[one] == k[two]:
            break
    return found[0].joined(*found[1:])
