"""The search for all columns together: added one by one from several starts, then updated in turn, then in pairs."""

from collections.abc import Iterable
from itertools import combinations, islice

import numpy as np
from numpy.typing import NDArray

from fedspca.linalg.cardinality.beside import Beside, Column
from fedspca.linalg.cardinality.column import best_columns, best_entry, best_replacement, climb, lowest
from fedspca.linalg.cardinality.polish import (
    Fit,
    captured,
    nearest_orthogonal,
    orthonormal_basis,
    refit_free,
    refit_orthogonal,
)
from fedspca.linalg.cardinality.selection import TIE, heaviest
from fedspca.linalg.cardinality.tuning import Tuning
from fedspca.linalg.sparse_stiefel import retract
from fedspca.linalg.stiefel import orthonormality_error

Array = NDArray[np.float64]
Index = NDArray[np.intp]
Counts = tuple[int, ...]

_GAIN = 1e-8  # relative: a move that gains less is not worth another sweep
_APART = 1e-9  # columns farther from orthonormal than this are rejected


def best_loadings(s: Array, k: Counts, *, orthogonal: bool, tuning: Tuning, starts: Iterable[Array] = ()) -> Fit:
    """Argmax of the variance of span(w) over unit columns with ``||w_j||_0 <= k_j``, orthonormal if asked.

    Parameters
    ----------
    s : ndarray of shape (d, d)
        Symmetric, positive semidefinite.
    k : tuple of int
        The most non-zeros of each column.
    orthogonal : bool
        Whether ``w' w = I``.
    tuning : Tuning
        Effort of the search.
    starts : iterable of ndarray of shape (d, r)
        Dense loadings, such as rotations of the leading eigenvectors, to begin from as well.
    """
    k = tuple(min(kj, len(s)) for kj in k)
    dense = list(starts)
    if len(k) == 1:
        given = np.hstack(dense) if dense else None
        alone = Beside(s, np.zeros((len(s), 0)), orthogonal)
        column = lowest(alone, best_columns(alone, k[0], tuning, given)[0])
        return Fit(_with(np.zeros((len(s), 1)), 0, column), column.gain)
    first = [_swept(s, fit, k, orthogonal, tuning, sweeps=1) for fit in _first(s, k, orthogonal, tuning, dense)]
    last = [_swept(s, fit, k, orthogonal, tuning, sweeps=tuning.sweeps) for fit in _best(first, tuning.finalists)]
    if not tuning.handovers:
        return _finished(s, _best(last, 1)[0], k, orthogonal)
    best = _handed_over(s, _best(last, 1)[0], k, orthogonal, tuning)
    best = _exchanged(s, _swapped(s, best, k, orthogonal, tuning), k, orthogonal, tuning)
    return _finished(s, best, k, orthogonal)


def loadings_near(s: Array, k: Counts, starts: Iterable[Array], *, orthogonal: bool, tuning: Tuning) -> Fit:
    """The best loadings near some dense ones, each truncated and swept once: a quick search for many similar S.

    Columns with many non-zeros are found by truncated power steps alone: they have few local optima, and sweeps over
    them take long.
    """
    if max(k) > tuning.long:
        return _best([_powered(s, w, k, tuning.power_steps) for w in starts], 1)[0]
    cut = [_cut(w, k) for w in starts]
    near = [nearest_orthogonal(s, w, rough=True) if orthogonal else Fit(w, captured(s, w)) for w in cut]
    fits = [fit for fit in near if fit is not None] or _beam(s, k, orthogonal, tuning, _single(s, k, tuning))
    return _best([_swept(s, fit, k, orthogonal, tuning, sweeps=1) for fit in fits], 1)[0]


def _powered(s: Array, w: Array, k: Counts, steps: int) -> Fit:
    """Truncated power steps of all columns together, made orthonormal on their supports if that is possible."""
    for _ in range(steps):
        cut = _cut(s @ w, k)
        near = retract(cut)
        after = cut if near is None else near
        same = bool(((after != 0.0) == (w != 0.0)).all())
        w = after
        if same:
            break
    return Fit(w, captured(s, w))


def _first(s: Array, k: Counts, orthogonal: bool, tuning: Tuning, dense: list[Array]) -> list[Fit]:
    """Starting points: columns by deflation, and from a pool of supports; made orthogonal if that is required."""
    cut = [_cut(w, k) for w in dense]
    single = _single(s, k, tuning)
    free = _beam(s, k, False, tuning, single) + _pooled(s, k, cut, tuning, single)
    if not orthogonal:
        return _best(free, 2 * tuning.beam)
    near = [nearest_orthogonal(s, w, rough=True) for w in [fit.w for fit in _best(free, 2 * tuning.beam)] + cut]
    return _best(_beam(s, k, True, tuning, single) + [fit for fit in near if fit is not None], 2 * tuning.beam)


def _single(s: Array, k: Counts, tuning: Tuning) -> list[Column]:
    """The best columns for one component. Each of them may serve as the first column."""
    return best_columns(Beside(s, np.zeros((len(s), 0)), orthogonal=True), k[0], tuning, n=tuning.beam)


def _pooled(s: Array, k: Counts, cut: list[Array], tuning: Tuning, single: list[Column]) -> list[Fit]:
    """Columns from a pool of supports: each support in turn is first, then those that add most variance to the span.

    The pool contains the supports of the truncated dense starts and of the best single columns.
    """
    d, size = len(s), max(k)
    if min(k) < size:
        return []
    alone = Beside(s, np.zeros((d, 0)), orthogonal=False)
    given = [np.flatnonzero(column) for w in cut for column in w.T]
    supports = given + [column.support for column in single]
    pool = np.unique([support for support in supports if len(support) == size], axis=0)[: tuning.pool]
    points = []
    for support in pool:
        w, variance = _with(np.zeros((d, 1)), 0, alone.column(support)), 0.0
        variance = captured(s, w)
        for j in range(1, len(k)):
            gains, weights = Beside(s, orthonormal_basis(w), orthogonal=False).refit(pool)
            at = int(np.argmax(gains))
            column = Column(pool[at], weights[at], float(gains[at]))
            w = _with(np.hstack([w, np.zeros((d, 1))]), j, column)
            variance += column.gain
        if np.isfinite(variance):
            points.append(Fit(w, variance))
    return _best(points, tuning.beam)


def _beam(s: Array, k: Counts, orthogonal: bool, tuning: Tuning, single: list[Column]) -> list[Fit]:
    """Beam search: columns are added one after another, and several partial solutions are kept."""
    kept = _best([Fit(_with(np.zeros((len(s), 1)), 0, column), column.gain) for column in single], tuning.beam)
    for j, kj in enumerate(k[1:], start=1):
        longer = []
        for w, variance in kept:
            beside = Beside(s, orthonormal_basis(w), orthogonal)
            longer += [
                Fit(_with(np.hstack([w, np.zeros((len(s), 1))]), j, column), variance + column.gain)
                for column in best_columns(beside, kj, tuning, n=tuning.branches)
            ]
        if not longer:  # no variance is left to gain: any column orthogonal to the others will do
            longer = [Fit(np.hstack([w, _leftover(s, w, kj, orthogonal)]), variance) for w, variance in kept]
        kept = _best(longer, tuning.beam)
    return kept


def _swept(s: Array, fit: Fit, k: Counts, orthogonal: bool, tuning: Tuning, *, sweeps: int) -> Fit:
    """Update columns in turn, then all together on their supports, until nothing gains."""
    fit = _refit(s, fit, orthogonal)
    for _ in range(sweeps):
        if tuning.late:
            break
        before = fit.variance
        for j in range(len(k)):
            fit = _updated(s, fit, j, k[j], orthogonal, tuning, everywhere=sweeps > 1)
        fit = _stepped(s, _refit(s, fit, orthogonal), k, orthogonal)
        if fit.variance <= before * (1.0 + _GAIN):
            break
    return fit


def _updated(s: Array, fit: Fit, j: int, kj: int, orthogonal: bool, tuning: Tuning, *, everywhere: bool) -> Fit:
    """Search column j again, given the others: from its present value or, with ``everywhere``, from every feature."""
    beside = Beside(s, orthonormal_basis(np.delete(fit.w, j, axis=1)), orthogonal)
    support = np.flatnonzero(fit.w[:, j])
    if len(support) < kj:  # add the features with the largest scores
        scores = np.abs(beside.deflated @ fit.w[:, j])
        scores[support] = scores.max() + 1.0
        support = heaviest(scores[None, :], kj)[0]
    here = beside.column(support)
    found = [climb(beside, here, tuning)] if np.isfinite(here.gain) else []
    if everywhere:
        found += best_columns(beside, kj, tuning)
    others = captured(s, beside.basis) if beside.basis.shape[1] else 0.0
    best = max(found, key=lambda column: column.gain, default=None)
    if best is None or others + best.gain <= fit.variance * (1.0 + _GAIN):
        return fit
    return Fit(_with(fit.w.copy(), j, best), others + best.gain)


def _stepped(s: Array, fit: Fit, k: Counts, orthogonal: bool) -> Fit:
    """A gradient step of all columns at once, truncated and refitted, accepted if it gains.

    Orthogonal columns with overlapping supports constrain each other: often none of them can move alone.
    """
    if not orthogonal:
        return fit
    image = s @ fit.w
    inner = fit.w.T @ image
    weight = np.maximum(inner.diagonal(), 1e-3 * float(np.abs(inner).max()) + 1e-300)
    moved = nearest_orthogonal(s, _cut(fit.w + (image - fit.w @ inner) / weight, k), rough=True)
    return moved if moved is not None and moved.variance > fit.variance * (1.0 + _GAIN) else fit


def _handed_over(s: Array, fit: Fit, k: Counts, orthogonal: bool, tuning: Tuning) -> Fit:
    """Move single features from one column to another while that gains.

    A feature that would suit two columns stays in the one that was found first. Sweeps alone cannot move it.
    """
    for _ in range(tuning.sweeps):
        if tuning.late:
            break
        better = max((_handover(s, fit, i, k, orthogonal, tuning) for i in range(len(k))), key=lambda one: one.variance)
        if better.variance <= fit.variance * (1.0 + _GAIN):
            break
        fit = _swept(s, better, k, orthogonal, tuning, sweeps=2)
    return fit


def _handover(s: Array, fit: Fit, i: int, k: Counts, orthogonal: bool, tuning: Tuning) -> Fit:
    """The best point in which column i gives up one of its features and another column takes it."""
    best = fit
    beside = Beside(s, orthonormal_basis(np.delete(fit.w, i, axis=1)), orthogonal)
    support = np.flatnonzero(fit.w[:, i])
    for feature in support:
        without = best_replacement(beside, support, int(feature))
        if without is None:
            continue
        w = _with(fit.w.copy(), i, without)
        for j in range(len(k)):
            if j == i or fit.w[feature, j]:
                continue
            others = orthonormal_basis(np.delete(w, j, axis=1))
            there, variance = Beside(s, others, orthogonal), float(np.vdot(others, s @ others))
            took = best_entry(there, np.flatnonzero(fit.w[:, j]), int(feature))
            if took is None or variance + took.gain <= best.variance * tuning.near:
                continue
            took = climb(there, took, tuning)
            if variance + took.gain > best.variance:
                best = Fit(_with(w.copy(), j, took), variance + took.gain)
    return best


def _swapped(s: Array, fit: Fit, k: Counts, orthogonal: bool, tuning: Tuning) -> Fit:
    """Swap one feature of one column and refit all columns together, while that gains.

    Columns with overlapping supports depend on each other. The gain of a swap is known only after all are refitted.
    """
    for _ in range(tuning.sweeps):
        if tuning.late:
            break
        refitted = [_refitted(s, w, orthogonal) for w in _promising_swaps(s, fit.w, tuning.swaps, tuning.few)]
        best = max((one for one in refitted if one is not None), key=lambda one: one.variance, default=fit)
        if best.variance <= fit.variance * (1.0 + _GAIN):
            break
        fit = _swept(s, best, k, orthogonal, tuning, sweeps=2)
    return fit


def _promising_swaps(s: Array, w: Array, n: int, few: int) -> list[Array]:
    """The n most promising points with one feature exchanged, by the estimated gain of entry and cost of removal."""
    image = s @ w
    inner = w.T @ image
    own = np.maximum(inner.diagonal(), 1e-300)
    room = np.maximum(own - s.diagonal()[:, None], 1e-2 * own)
    enter = np.where(w == 0.0, np.square(image - w @ inner) / room, -np.inf)
    leave = np.where(w != 0.0, np.square(w) * own, np.inf)
    few = min(few, len(s))
    found = []
    for j in range(w.shape[1]):
        come, gone = np.argsort(-enter[:, j], kind="stable")[:few], np.argsort(leave[:, j], kind="stable")[:few]
        pairs = [(enter[f, j] - leave[i, j], j, int(i), int(f)) for f in come for i in gone]
        found += [pair for pair in pairs if np.isfinite(pair[0])]
    found.sort(key=lambda pair: -pair[0])
    return [_exchange(w, j, i, f) for _, j, i, f in found[:n]]


def _exchange(w: Array, j: int, gone: int, come: int) -> Array:
    z = w.copy()
    z[come, j], z[gone, j] = z[gone, j], 0.0
    return z


def _refitted(s: Array, w: Array, orthogonal: bool) -> Fit | None:
    return nearest_orthogonal(s, w, rough=True) if orthogonal else refit_free(s, w, rough=True)


def _exchanged(s: Array, fit: Fit, k: Counts, orthogonal: bool, tuning: Tuning) -> Fit:
    """Remove two columns and search them again, in either order, from several starts; keep the result if it gains."""
    if len(k) == 2:  # the first search has done the same
        return fit
    for pair in islice(combinations(range(len(k)), 2), tuning.pairs):
        if tuning.late:
            break
        better = _pair(s, fit, pair, k, orthogonal, tuning)
        if better.variance > fit.variance * (1.0 + _GAIN):
            fit = _swept(s, better, k, orthogonal, tuning, sweeps=tuning.sweeps)
    return fit


def _pair(s: Array, fit: Fit, pair: tuple[int, int], k: Counts, orthogonal: bool, tuning: Tuning) -> Fit:
    """The best of several searches for two new columns beside the others."""
    others = np.delete(fit.w, pair, axis=1)
    base = captured(s, others) if others.shape[1] else 0.0
    beside, best = Beside(s, orthonormal_basis(others), orthogonal), fit
    for one, two in (pair, pair[::-1]):
        for first in best_columns(beside, k[one], tuning, n=tuning.branches):
            w = _with(fit.w.copy(), one, first)
            then = Beside(s, orthonormal_basis(np.delete(w, two, axis=1)), orthogonal)
            for second in best_columns(then, k[two], tuning):
                value = base + first.gain + second.gain
                if value > best.variance:
                    best = Fit(_with(w, two, second), value)
        if k[one] == k[two]:
            break
    return best


def _finished(s: Array, fit: Fit, k: Counts, orthogonal: bool) -> Fit:
    """The same supports, ties settled by the rule, refitted to full precision. No column is empty or a repetition."""
    w = _refit(s, _named(s, fit, orthogonal), orthogonal, rough=False).w
    for j in np.flatnonzero(~w.any(axis=0)):
        w[:, [j]] = _leftover(s, w, k[j], orthogonal)
    if orthogonal and orthonormality_error(w) > _APART:
        w = _coordinates(s, w.shape[1])
    return Fit(w, captured(s, w))


def _named(s: Array, fit: Fit, orthogonal: bool) -> Fit:
    """The same variance, with the lowest index selected among equal features."""
    w = fit.w.copy()
    for j in range(w.shape[1]):
        beside = Beside(s, orthonormal_basis(np.delete(w, j, axis=1)), orthogonal)
        support = np.flatnonzero(w[:, j])
        if not len(support):
            continue
        here = beside.column(support)
        there = lowest(beside, here)
        if (there.support != support).any():
            w = _with(w, j, there)
    changed = bool(((w != 0.0) != (fit.w != 0.0)).any())
    after = _refit(s, Fit(w, captured(s, w)), orthogonal) if changed else fit
    return after if after.variance >= fit.variance * (1.0 - TIE) else fit


def _refit(s: Array, fit: Fit, orthogonal: bool, *, rough: bool = True) -> Fit:
    """Refit all columns together on their supports; keep the result if it gains."""
    after = refit_orthogonal(s, fit.w, rough=rough) if orthogonal else refit_free(s, fit.w, rough=rough)
    return after if after.variance >= fit.variance * (1.0 - 1e-12) else fit


def _with(w: Array, j: int, column: Column) -> Array:
    w[:, j] = 0.0
    w[column.support, j] = column.weights
    return w


def _leftover(s: Array, w: Array, kj: int, orthogonal: bool) -> Array:
    """A column where no variance is left to gain: on unused features, or on the support of another column."""
    unused = np.flatnonzero(~w.any(axis=1))
    free = unused[np.argsort(-s.diagonal()[unused], kind="stable")]
    named = [np.flatnonzero(column) for column in w.T if column.any()]
    supports = [np.sort(np.concatenate([own, free])[:kj]) for own in [free[:0], *named]]
    full = np.array([support for support in supports if len(support) == kj], dtype=np.intp).reshape(-1, kj)
    x = np.zeros((len(s), 1))
    if len(full):
        gains, weights = Beside(s, orthonormal_basis(w), orthogonal).refit(full)
        at = int(np.argmax(gains))
        if np.isfinite(gains[at]):
            x[full[at], 0] = weights[at]
            return x
    x[free[0] if len(free) else 0] = 1.0
    return x


def _coordinates(s: Array, r: int) -> Array:
    """The r features of largest variance, one per column. They are always orthonormal."""
    heaviest_first = np.argsort(-s.diagonal(), kind="stable")[:r]
    return np.asarray(np.eye(len(s))[:, heaviest_first])


def _cut(w: Array, k: Counts) -> Array:
    """The k_j largest entries of each column, of unit norm."""
    z, sizes = np.zeros_like(w), np.abs(w.T)
    for kj in set(k):
        of_it = [j for j, other in enumerate(k) if other == kj]
        for j, top in zip(of_it, heaviest(sizes[of_it], kj), strict=True):
            z[top, j] = w[top, j]
    return np.asarray(z / np.maximum(np.linalg.norm(z, axis=0), 1e-300))


def _best(fits: list[Fit], n: int) -> list[Fit]:
    """The n best points with different sets of supports. Ties are ordered by feature index, lowest first."""
    kept: list[tuple[list[tuple[int, ...]], Fit]] = []
    for fit in sorted(fits, key=lambda fit: -fit.variance):
        features = sorted(tuple(support.tolist()) for support in fit.supports)
        if all(features != known for known, _ in kept):
            kept.append((features, fit))
    top = [(features, fit) for features, fit in kept if fit.variance >= kept[0][1].variance * (1.0 - TIE)]
    top.sort(key=lambda pair: pair[0])
    return [fit for _, fit in top + kept[len(top) :]][:n]
