"""The search for all columns together: added one by one from several starts, then updated in turn, then in pairs."""

from collections.abc import Iterable, Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from fedspca.linalg.cardinality.beside import Beside, Column
from fedspca.linalg.cardinality.column import Columns, best_columns, best_of_each, copied, lowest
from fedspca.linalg.cardinality.linked import chains, ring
from fedspca.linalg.cardinality.moves import exchanged, handed_over, redivided, swapped
from fedspca.linalg.cardinality.points import GAIN, Points, bases, fitted, in_order, parts, supports_of, swept
from fedspca.linalg.cardinality.polish import (
    Fit,
    captured,
    orthonormal_basis,
    refit_free,
    refit_orthogonal,
)
from fedspca.linalg.cardinality.selection import TIE, distinct, heaviest
from fedspca.linalg.cardinality.sweeps import swept_well, with_copies
from fedspca.linalg.cardinality.tuning import Tuning
from fedspca.linalg.compiled import columns
from fedspca.linalg.sparse_stiefel import retract
from fedspca.linalg.stiefel import orthonormality_error

Array = NDArray[np.float64]
Index = NDArray[np.intp]
Counts = tuple[int, ...]

_APART = 1e-9  # columns farther from orthonormal than this are rejected
_LINKED = 0.99  # share of the variance: linked columns that begin below it gained 0.1 % at most, on public tables
_MOST = 0.95  # share of the features: a search on more takes as long as one on all
_BEHIND = 0.1  # share of the variance: after a sweep, the later winner was never farther behind the best


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
    near = near_best(s, k, orthogonal=orthogonal, tuning=tuning, starts=starts)
    return near if len(k) == 1 else finished(s, near, k, orthogonal)


def near_best(s: Array, k: Counts, *, orthogonal: bool, tuning: Tuning, starts: Iterable[Array] = ()) -> Fit:
    """The same, before all columns are refitted together to full precision: one column has it already."""
    k = tuple(min(kj, len(s)) for kj in k)
    dense = list(starts)
    if len(k) == 1:
        alone = Beside(s, np.zeros((len(s), 0)), orthogonal)
        column = alone.column(_single_support(alone, k[0], tuning, dense))
        return Fit(_with(np.zeros((len(s), 1)), 0, column), column.gain)
    rows = _promising(s, k, dense, tuning)
    if len(rows) < len(s):
        return _widened(s, rows, k, orthogonal, tuning, dense)
    return _searched(s, k, orthogonal, tuning, dense)


def _single_support(alone: Beside, k: int, tuning: Tuning, dense: list[Array]) -> Index:
    """The features of the best column, if it is the only one."""
    support = columns.single(alone.s, k, tuning, dense) if columns.suits((k,), tuning) else None
    if support is not None:
        return support
    given = np.hstack(dense) if dense else None
    return lowest(alone, best_columns(alone, k, tuning, given)[0]).support


def _promising(s: Array, k: Counts, dense: list[Array], tuning: Tuning) -> Index:
    """The features of a first search: of the best single columns, of the longest rows of S, of a dense start."""
    n = max(tuning.wide, tuning.spare * sum(k))
    if n >= _MOST * len(s):
        return np.arange(len(s))
    lengths = [np.einsum("ij,ij->i", table, table) for table in (s, *dense[:1])]
    longest = heaviest(np.array(lengths), n // len(lengths))
    found = columns.singles(s, k[0], tuning.quick()) if columns.suits(k, tuning) else []
    return np.unique(np.concatenate([longest.ravel(), *(found or _single(s, k, tuning.quick()).supports)]))


def _widened(s: Array, rows: Index, k: Counts, orthogonal: bool, tuning: Tuning, dense: list[Array]) -> Fit:
    """Search on some features, then update the columns of the result until no other feature gains either."""
    near = _searched(s[np.ix_(rows, rows)], k, orthogonal, tuning, [w[rows] for w in dense])
    w = np.zeros((1, len(s), len(k)))
    w[0, rows] = near.w
    if columns.suits(k, tuning):
        return Fit(*columns.swept(s, w[0], near.variance, k, orthogonal, tuning))
    found = Points(w, np.array([near.variance]))
    return swept_well(s, found, k, orthogonal, tuning, sweeps=tuning.sweeps, everywhere=True).fits()[0]


def _searched(s: Array, k: Counts, orthogonal: bool, tuning: Tuning, dense: list[Array]) -> Fit:
    best = _searched_apart(s, k, orthogonal, tuning, dense)
    return best if orthogonal or not tuning.handovers else _or_linked(s, best, k, tuning)


def _or_linked(s: Array, best: Fit, k: Counts, tuning: Tuning) -> Fit:
    """The same loadings, or better ones near linked columns, which the starts of a search do not show."""
    if min(k) < max(k):
        return best
    quick = tuning.quick()
    for w in _linked(s, k[0], len(k), _LINKED * best.variance, tuning):
        found = improved(s, Fit(w, captured(s, w)), k, False, quick)
        if found.variance > best.variance * (1.0 + GAIN):
            best = improved(s, found, k, False, tuning, moves=True)
    return best


def _linked(s: Array, k: int, r: int, least: float, tuning: Tuning) -> Iterator[Array]:
    """Loadings (d, r) of which some are linked in a chain, or three in a ring, that may capture more than ``least``.

    What the span of a chain is near to is searched like loadings with other numbers of non-zeros. Links come last: they
    are short, and would take features away that the other columns need.
    """
    light = _for_chains(tuning)
    for chain in chains(len(s), k, r):
        if tuning.late:
            return
        long, *links = chain.spans
        near = _searched_apart(s, (long, *[k] * (r - chain.length), *links), False, light, [])
        if near.variance > least:
            direction, others, link = np.split(near.w, [1, r - len(links)], axis=1)
            yield np.hstack([chain.opened(np.hstack([direction, link])), others])
    if r == 3 and k > 2 and 3 * k - 3 <= len(s):
        long = 3 * (k - 2)
        w, variance = ring(s, near_best(s, (long,), orthogonal=False, tuning=light).w[:, 0])
        if variance > least:
            yield w


def _for_chains(tuning: Tuning) -> Tuning:
    """Little effort: a few solutions, since the best one may need another link."""
    return replace(tuning.lighter(), beam=4, branches=2, points=8, finalists=2)


def improved(s: Array, fit: Fit, k: Counts, orthogonal: bool, tuning: Tuning, *, moves: bool = False) -> Fit:
    """Columns updated in turn until none gains; then features move between them, if asked."""
    if columns.suits(k, tuning):
        return Fit(*columns.swept(s, fit.w, fit.variance, k, orthogonal, tuning, moves=moves))
    found = each_improved(s, Points.of([fit]), k, orthogonal, tuning).best(1).fits()[0]
    return _moved(s, _refit(s, found, orthogonal), k, orthogonal, tuning) if moves else found


def each_improved(s: Array, points: Points, k: Counts, orthogonal: bool, tuning: Tuning) -> Points:
    """The same for every point, without moves: in numpy for all of them at once, which takes less time."""
    if columns.suits(k, tuning):
        return Points.of([improved(s, fit, k, orthogonal, tuning) for fit in points.fits()])
    return swept_well(s, points, k, orthogonal, tuning, sweeps=tuning.sweeps, everywhere=True)


def _searched_apart(s: Array, k: Counts, orthogonal: bool, tuning: Tuning, dense: list[Array]) -> Fit:
    if columns.suits(k, tuning):
        found = columns.searched(s, k, orthogonal, tuning, dense)
        if found is not None:
            return Fit(*found)
    quick = tuning.quick()
    points = swept_well(s, _first(s, k, orthogonal, quick, dense), k, orthogonal, quick, sweeps=1)
    if tuning.handovers:
        points = swept_well(s, points.best(tuning.points // 2, _BEHIND), k, orthogonal, quick, sweeps=1)
        points = points.best(tuning.finalists, _BEHIND)
    points = points.best(tuning.finalists)
    points = swept_well(s, points, k, orthogonal, tuning, sweeps=tuning.sweeps, everywhere=True)
    if len(points.variances) == 1 and not tuning.handovers:  # it is refitted in the end
        return points.fits()[0]
    best = _polished(s, points, orthogonal)
    return _moved(s, best, k, orthogonal, tuning) if tuning.handovers else best


def _moved(s: Array, best: Fit, k: Counts, orthogonal: bool, tuning: Tuning) -> Fit:
    """The same loadings, or better ones after features have moved between columns."""
    best = handed_over(s, best, k, orthogonal, tuning)
    best = redivided(s, best, k, orthogonal, tuning)
    best = swapped(s, best, k, orthogonal, tuning)
    best = exchanged(s, best, k, orthogonal, tuning)
    return best if orthogonal else _refit(s, best, orthogonal, rough=False)


def _polished(s: Array, points: Points, orthogonal: bool) -> Fit:
    """The best point after all columns of each were refitted together."""
    refitted = [_refit(s, fit, orthogonal) for fit in points.fits()]
    return Points.of(refitted).best(1).fits()[0]


def loadings_near(s: Array, k: Counts, starts: Iterable[Array], *, orthogonal: bool, tuning: Tuning) -> Fit:
    """The best loadings near some dense ones, each truncated and swept once: a quick search for many similar S.

    Columns with many non-zeros are found by truncated power steps alone: they have few local optima, and sweeps over
    them take long.
    """
    if max(k) > tuning.long:
        return Points.of([_powered(s, w, k, tuning.power_steps) for w in starts]).best(1).fits()[0]
    points = fitted(s, np.array(list(starts)), k, orthogonal)
    if not np.isfinite(points.variances).any():
        points = _beam(s, k, orthogonal, tuning, _single(s, k, tuning))
    return swept(s, points.best(len(points.variances)), k, orthogonal, tuning, sweeps=1).best(1).fits()[0]


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


def _first(s: Array, k: Counts, orthogonal: bool, tuning: Tuning, dense: list[Array]) -> Points:
    """Starting points: columns by deflation, and from a pool of supports; made orthogonal if that is required."""
    given = np.array(dense).reshape(-1, len(s), len(k))
    single = _single(s, k, tuning)
    if tuning.points == 1:
        return _beam(s, k, orthogonal, tuning, single)
    pooled = _pooled(s, k, supports_of(given, k), tuning, single)
    if orthogonal:
        if sum(k) > len(s):  # supports overlap: columns that were found freely may suit, too
            pooled = pooled.joined(_beam(s, k, False, tuning, single)).best(tuning.points)
        near = fitted(s, np.concatenate([pooled.w, given]), k, orthogonal)
    else:
        near = pooled.joined(fitted(s, given, k, orthogonal))
    return _beam(s, k, orthogonal, tuning, single).joined(near).best(tuning.points)


def _single(s: Array, k: Counts, tuning: Tuning) -> Columns:
    """The best columns for one component. Each of them may serve as the first column."""
    return best_of_each(Beside(s, np.zeros((len(s), 0)), orthogonal=True), k[0], tuning, n=tuning.beam)


def _pooled(s: Array, k: Counts, cut: list[Index], tuning: Tuning, single: Columns) -> Points:
    """Columns from a pool of supports: each support in turn is first, then those that add most variance to the span.

    The pool contains the supports of the truncated dense starts and of the best single columns.
    """
    d, size = len(s), max(k)
    if min(k) < size or not tuning.pool:
        return Points(np.zeros((0, d, len(k))), np.zeros(0))
    pool = np.concatenate([single.supports, np.stack(cut, axis=1).reshape(-1, size)])
    pool = pool[distinct(pool)][: tuning.pool]
    n = len(pool)
    found = [pool]
    points = in_order(s, found, orthogonal=False)
    for _ in k[1:]:
        beside = Beside(s, bases(points.w), orthogonal=False)
        gains = beside.refit(np.tile(pool, (n, 1)), np.repeat(beside.owners, n))[0].reshape(n, n)
        top = gains.max(axis=1, keepdims=True)
        found.append(pool[np.argmax(gains >= top - TIE * np.abs(top), axis=1)])
        points = in_order(s, found, orthogonal=False)
    return points.best(tuning.points)


def _beam(s: Array, k: Counts, orthogonal: bool, tuning: Tuning, single: Columns) -> Points:
    """Beam search: columns are added one after another, and several partial solutions are kept."""
    kept = _longer(s, Points(np.zeros((1, len(s), 0)), np.zeros(1)), single).best(tuning.beam)
    for kj in k[1:]:
        longer = []
        for part in parts(len(kept.variances), len(s)):
            here = kept.at(part)
            beside = Beside(s, bases(here.w), orthogonal)
            longer.append(_longer(s, here, best_of_each(beside, kj, tuning, n=tuning.branches)))
        points = longer[0].joined(*longer[1:])
        if not len(points.variances):  # no variance is left to gain: any column orthogonal to the others will do
            full = [np.hstack([w, _leftover(s, w, kj, orthogonal)]) for w in kept.w]
            points = Points(np.array(full), kept.variances)
        kept = points.best(tuning.beam)
    return kept


def _longer(s: Array, points: Points, columns: Columns) -> Points:
    """Each column beside the point that owns it."""
    w = np.zeros((len(columns.of), len(s), points.w.shape[2] + 1))
    w[:, :, :-1] = points.w[columns.of]
    w[np.arange(len(w))[:, None], columns.supports, -1] = columns.weights
    return Points(w, points.variances[columns.of] + columns.gains)


def finished(s: Array, fit: Fit, k: Counts, orthogonal: bool) -> Fit:
    """The same supports, ties settled by the rule, refitted to full precision. No column is empty or a repetition."""
    k = tuple(min(kj, len(s)) for kj in k)
    w = _refit(s, _named(s, fit, orthogonal), orthogonal, rough=False).w
    for j in np.flatnonzero(~w.any(axis=0)):
        w[:, [j]] = _leftover(s, w, k[j], orthogonal)
    if orthogonal and orthonormality_error(w) > _APART:
        w = _coordinates(s, w.shape[1])
    return Fit(w, captured(s, w))


def _named(s: Array, fit: Fit, orthogonal: bool) -> Fit:
    """The same variance, with the lowest index selected among equal features."""
    w = columns.lowest(s, fit.w, orthogonal) if columns.available(fit.w) else _lowest(s, fit.w, orthogonal)
    if w is None:
        return fit
    after = _refit(s, Fit(w, captured(s, w)), orthogonal)
    return after if after.variance >= fit.variance * (1.0 - TIE) else fit


def _lowest(s: Array, w: Array, orthogonal: bool) -> Array | None:
    """Loadings with the lowest index selected among equal features; None where nothing changes."""
    z = w.copy()
    for j in with_copies(s, w, orthogonal):
        support = np.flatnonzero(z[:, j])
        if not len(support):
            continue
        beside = Beside(s, orthonormal_basis(np.delete(z, j, axis=1)), orthogonal)
        if not copied(beside, support):
            continue
        there = lowest(beside, beside.column(support))
        if (there.support != support).any():
            z = _with(z, j, there)
    return z if bool(((z != 0.0) != (w != 0.0)).any()) else None


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
