"""The search for one sparse column: starts from every feature that can still win, power steps, refits, swaps."""

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from fedspca.linalg.cardinality.beside import Beside, Column
from fedspca.linalg.cardinality.selection import TIE, distinct, heaviest, ranked
from fedspca.linalg.cardinality.tuning import Tuning

Array = NDArray[np.float64]
Index = NDArray[np.intp]

_GAIN = 1e-11  # relative: a smaller gain is rounding error
_DENSE = 20  # per entry, a dense product is about this many times as fast as a sparse one
_GATHERED = 1_000_000  # entries of S that are gathered at a time for products with sparse rows
_ALL = 200  # with at most this many features, the row bounds of all of P S P are computed
_LONGEST = 32  # rows whose bounds are computed first
_COPY = 1e-8  # share of the largest variance: features are copies of each other if their entries differ by less


def row_bounds(s: Array, k: int) -> Array:
    """``b_j``, the sum of the k largest ``|S_ji|`` of row j.

    If feature j carries the largest weight of the best k-sparse unit x, then
    ``x' S x = sum_i S_ji x_i / x_j <= b_j``.
    """
    d = s.shape[1]
    sizes = np.abs(s)
    return np.asarray((np.partition(sizes, d - k, axis=1)[:, d - k :] if k < d else sizes).sum(axis=1))


def _reach(s: Array, k: int) -> Array:
    """√k times the length of each row: at least its row bound."""
    return np.asarray(np.sqrt(k * np.einsum("ij,ij->i", s, s)))


def largest_row_bound(s: Array, k: int) -> float:
    """The largest row bound. A row whose length is below it by a factor of √k cannot have it, and is not sorted."""
    reach = _reach(s, k)
    longest = np.argsort(-reach, kind="stable")
    best = float(row_bounds(s[longest[:_LONGEST]], k).max())
    rest = longest[_LONGEST:]
    rest = rest[reach[rest] > best]
    return max(best, float(row_bounds(s[rest], k).max())) if len(rest) else best


class Columns(NamedTuple):
    """Columns with supports of the same size, one per row: supports (m, k), weights (m, k), gains (m,), owners (m,).

    An owner is one of the stack of bases that a column stands beside.
    """

    supports: Index
    weights: Array
    gains: Array
    of: Index

    def at(self, chosen: Index | NDArray[np.bool_]) -> "Columns":
        """Some of the columns."""
        return Columns(self.supports[chosen], self.weights[chosen], self.gains[chosen], self.of[chosen])

    def columns(self) -> list[Column]:
        """One by one."""
        rows = zip(self.supports, self.weights, self.gains.tolist(), strict=True)
        return [Column(support, x, gain) for support, x, gain in rows]

    def joined(self, others: "Columns") -> "Columns":
        """These and others."""
        return Columns(*(np.concatenate(both) for both in zip(self, others, strict=True)))

    def ranked(self) -> "Columns":
        """By owner, then by decreasing gain, one for each support."""
        return self.at(ranked(self.gains, self.supports, self.of))

    def top(self, n: int) -> "Columns":
        """The first n of each owner, if they are ranked."""
        return self.at(np.flatnonzero(rank_within(self.of) < n))


def rank_within(of: Index) -> Index:
    """The position of each entry among those of its owner, if they are ordered by owner."""
    starts = np.searchsorted(of, of)
    return np.arange(len(of)) - starts


def best_columns(beside: Beside, k: int, tuning: Tuning, starts: Array | None = None, n: int = 1) -> list[Column]:
    """Argmax of the variance that a k-sparse column adds to a span: the n best local optima found, best first.

    Starts are the rows of ``P S P``, one for each feature, and the columns of ``starts``. A feature is not used as a
    start if its row bound is below the best gain so far. Without other columns, or with disjoint supports, such a
    feature cannot carry the largest weight of a better column.
    """
    return best_of_each(beside, k, tuning, starts, n).columns()[:n]


def best_of_each(
    beside: Beside, k: int, tuning: Tuning, starts: Array | None = None, n: int = 1, least: Array | None = None
) -> Columns:
    """The same for each of a stack of bases: the n best columns beside each of them, by owner, best first.

    ``least`` (m,) are gains that are known already: a feature whose row bound is not above it is no start.
    """
    k = min(k, len(beside.s))
    found = (
        _from_all(beside, k, tuning, starts)
        if len(beside.s) <= tuning.small
        else _in_waves(beside, k, tuning, starts, least)
    )
    climbs = max(n, tuning.climbs if beside.alone else tuning.climbs // 3)
    ended = climbed(beside, found.top(climbs), tuning)
    return ended.joined(found).ranked().top(n)


def _from_all(beside: Beside, k: int, tuning: Tuning, starts: Array | None) -> Columns:
    """Refitted supports from every feature. With few features, choosing among them takes longer than using all."""
    d = len(beside.s)
    rows = _stacked(beside.each.reshape(-1, d), np.repeat(beside.owners, d), starts)
    return _refitted(beside, *_settled(beside, *rows, k, tuning), tuning)


def _stacked(rows: Array, of: Index, starts: Array | None) -> tuple[Array, Index]:
    """Rows to start from and their owners, those that were given last."""
    if starts is None:
        return rows, of
    return np.vstack([rows, starts.T]), np.concatenate([of, np.zeros(starts.shape[1], dtype=np.intp)])


def _in_waves(beside: Beside, k: int, tuning: Tuning, starts: Array | None, least: Array | None = None) -> Columns:
    """Refitted supports, first from the features of largest row bounds, then from those that can still win."""
    m = len(beside.owners)
    features, bounds = _candidates(beside, k, tuning)
    best = np.full(m, -np.inf) if least is None else least.copy()
    of, place = np.nonzero(bounds[:, : tuning.first_wave] > best[:, None] * (1.0 + TIE))
    settled = _settled(beside, *_stacked(_rows_of(beside, features[of, place], of), of, starts), k, tuning)
    found = _refitted(beside, *settled, tuning)
    np.maximum.at(best, found.of, found.gains)
    later = bounds[:, tuning.first_wave :] > best[:, None] * (1.0 + TIE)
    of, place = np.nonzero(later)
    more = features[of, place + tuning.first_wave]
    if beside.alone and len(of):  # some of these bounds were estimates
        able = row_bounds(beside.s[more], k) > best[of] * (1.0 + TIE)
        of, more = of[able], more[able]
    if not len(of):
        return found
    parts = [
        _settled(beside, _rows_of(beside, more[part], of[part]), of[part], k, tuning)
        for part in np.array_split(np.arange(len(of)), -(-len(of) // tuning.chunk))
    ]
    supports, of = (np.concatenate(both) for both in zip(settled, *parts, strict=True))
    kept = distinct(supports, of)
    return _refitted(beside, supports[kept], of[kept], tuning)


def _rows_of(beside: Beside, features: Index, of: Index) -> Array:
    return beside.rows(features[:, None], of)[:, 0]


def _candidates(beside: Beside, k: int, tuning: Tuning) -> tuple[Index, Array]:
    """The features to start from beside each basis and their row bounds, largest first: (m, n) each.

    With many features the bounds are those of S, scaled by what is left of each feature: P S P differs from S only in
    the rows and columns that the sparse basis touches. Beside other columns, at most ``tuning.starts`` features are
    used, those whose rows are longest. Without other columns, the bound of a row that is not among the longest is
    estimated by its length, which is at least as large.
    """
    d = len(beside.s)
    n = _starting(d, k, tuning)
    if beside.alone:
        reach = _reach(beside.s, k)
        features = np.repeat(np.argsort(-reach, kind="stable")[None], len(beside.owners), axis=0)
        bounds = reach[features]
        bounds[:, :_LONGEST] = row_bounds(beside.s[features[0, :_LONGEST]], k)
    elif d <= _ALL:
        features = np.broadcast_to(np.arange(d), (len(beside.owners), d))
        bounds = np.array([row_bounds(deflated, k) for deflated in beside.each])
    else:
        n = min(n, tuning.starts)
        left = np.clip(beside.diagonals / np.maximum(beside.s.diagonal(), 1e-300), 0.0, 1.0)
        features = heaviest(np.sqrt(np.einsum("ij,ij->i", beside.s, beside.s)) * left, n)
        used = np.unique(features)
        bounds = row_bounds(beside.s[used], k)[np.searchsorted(used, features)]
        bounds = bounds * np.take_along_axis(left, features, axis=1)
    order = np.argsort(-bounds, axis=1, kind="stable")[:, :n]
    return np.take_along_axis(features, order, axis=1), np.take_along_axis(bounds, order, axis=1)


def _starting(d: int, k: int, tuning: Tuning) -> int:
    """How many features are used as starts. Columns with many non-zeros cost more and have fewer local optima."""
    return d if k <= tuning.short else max(tuning.first_wave, d * tuning.short // k)


def climb(beside: Beside, column: Column, tuning: Tuning) -> Column:
    """Improve a refitted support by power steps and by swaps of two features, while these gain."""
    point = Columns(column.support[None], column.weights[None], np.array([column.gain]), np.zeros(1, dtype=np.intp))
    return climbed(beside, point, tuning).columns()[0]


def climbed(beside: Beside, columns: Columns, tuning: Tuning) -> Columns:
    """Improve several refitted supports of the same size at once, so that their eigenproblems are solved together."""
    points = Columns(columns.supports.copy(), columns.weights.copy(), columns.gains.copy(), columns.of)
    moving = np.arange(len(points.gains))
    for _ in range(tuning.steps):
        if not len(moving):
            break
        here = points.at(moving)
        scores = beside.scores(here.supports, here.weights, here.gains, here.of)
        trials = heaviest(np.abs(scores), here.supports.shape[1])[:, None, :]
        if tuning.swaps:
            trials = np.concatenate([trials, _promising_swaps(beside, here, scores, tuning.swaps)], axis=1)
        gained = _accepted(beside, points, moving, trials)
        moving = moving[gained]
        if len(moving) > 1:  # where two have reached the same support, only one continues
            moving = moving[distinct(points.supports[moving], points.of[moving])]
    return points


def _accepted(beside: Beside, points: Columns, at: Index, trials: Index) -> NDArray[np.bool_]:
    """Replace some points by the best of their trials (m, n, k) where that gains, and return which were replaced."""
    (m, n, k), rows = trials.shape, np.arange(len(at))
    gains, weights = beside.refit(trials.reshape(-1, k), points.of[at].repeat(n))
    gains = gains.reshape(m, n)
    won = _winners(gains, trials)
    best, before = gains[rows, won], points.gains[at]
    better = np.asarray(best > before + _GAIN * np.abs(before))
    to, rows, won = at[better], rows[better], won[better]
    points.supports[to], points.weights[to] = trials[rows, won], weights.reshape(m, n, k)[rows, won]
    points.gains[to] = best[better]
    return better


def _winners(gains: Array, supports: Index) -> Index:
    """The position of the largest gain of each row (m, n) of trials with supports (m, n, k).

    Of gains that are equal up to ``TIE``, the one with the lowest features wins.
    """
    top = gains.max(axis=1)
    tied = gains >= (top - TIE * np.abs(top))[:, None]
    won = np.asarray(np.argmax(tied, axis=1))
    for row in np.flatnonzero((np.count_nonzero(tied, axis=1) > 1) & np.isfinite(top)):
        equal = np.flatnonzero(tied[row])
        won[row] = equal[np.lexsort(supports[row, equal].T[::-1])[0]]
    return won


def best_of_trials(beside: Beside, trials: Index, of: Index) -> Columns:
    """The best of several supports (m, n, k) beside the basis of each owner (m,), refitted."""
    m, n, k = trials.shape
    trials = np.sort(trials, axis=2)
    gains, weights = beside.refit(trials.reshape(-1, k), np.repeat(of, n))
    won, rows = _winners(gains.reshape(m, n), trials), np.arange(m)
    return Columns(trials[rows, won], weights.reshape(m, n, k)[rows, won], gains.reshape(m, n)[rows, won], of)


def _settled(beside: Beside, rows: Array, of: Index, k: int, tuning: Tuning) -> tuple[Index, Index]:
    """The distinct supports, and their owners, that truncated power steps reach from dense rows."""
    supports = heaviest(np.abs(rows), k)
    weights = np.take_along_axis(rows, supports, axis=1)
    moving, ended = np.arange(len(rows)), np.array(supports)
    for _ in range(tuning.power_steps):
        images = _images(beside, supports, weights, of[moving])
        after = heaviest(np.abs(images), k)
        ended[moving] = after
        moved = (after != supports).any(axis=1)
        if not moved.any():
            break
        moving, supports, images = moving[moved], after[moved], images[moved]
        weights = np.take_along_axis(images, supports, axis=1)
        weights /= np.maximum(np.sqrt(np.einsum("mk,mk->m", weights, weights))[:, None], 1e-300)
    kept = distinct(ended, of)
    return ended[kept], of[kept]


def _images(beside: Beside, supports: Index, weights: Array, of: Index) -> Array:
    """Sparse rows times ``P S P``, each that of its owner, so many at a time that their entries fit in memory."""
    size = max(1, _GATHERED // (supports.shape[1] * len(beside.s)))
    if len(of) <= size:
        return beside.images(supports, weights, of)
    if beside.alone:
        return _rows_times(supports, weights, beside.s)
    cuts = [slice(start, start + size) for start in range(0, len(of), size)]
    return np.concatenate([beside.images(supports[cut], weights[cut], of[cut]) for cut in cuts])


def _rows_times(supports: Index, weights: Array, s: Array) -> Array:
    """Sparse rows times S. Rows with many non-zeros are made dense first: a dense product is then faster."""
    if supports.shape[1] * _DENSE < len(s):
        return np.asarray(_sparse_rows(supports, weights, len(s)) @ s)
    rows = np.zeros((len(supports), len(s)))
    np.put_along_axis(rows, supports, weights, axis=1)
    return rows @ s


def _sparse_rows(supports: Index, weights: Array, d: int) -> sp.csr_array:
    """The m sparse rows with d entries that have these supports (m, k) and weights (m, k)."""
    m, k = supports.shape
    return sp.csr_array((weights.ravel(), supports.ravel(), np.arange(0, m * k + 1, k)), shape=(m, d))


def _refitted(beside: Beside, supports: Index, of: Index, tuning: Tuning) -> Columns:
    """The best supports, refitted, by owner and best first.

    If there are too many for an owner, those that promise most are refitted.
    """
    if len(supports) > tuning.refits:
        order = ranked(_promised(beside, supports, of), supports, of)
        order = order[rank_within(of[order]) < tuning.refits]
        supports, of = supports[order], of[order]
    gains, weights = beside.refit(supports, of)
    found = Columns(supports, weights, gains, of)
    return (found if np.isfinite(gains).all() else found.at(np.isfinite(gains))).ranked()


def _promised(beside: Beside, supports: Index, of: Index) -> Array:
    """The squared norm of the block of ``P S P`` on each support, over its trace: at most its largest eigenvalue."""
    blocks = beside.blocks(supports, of)
    return np.asarray(np.einsum("mij,mij->m", blocks, blocks) / np.maximum(np.einsum("mii->m", blocks), 1e-300))


def _promising_swaps(beside: Beside, points: Columns, scores: Array, n: int) -> Index:
    """For each of m points, the n most promising supports with one feature exchanged: (m, n, k)."""
    m, k = points.supports.shape
    d = len(beside.s)
    if k == d:
        return np.empty((m, 0, k), dtype=np.intp)
    n, promised = min(n, k * (d - k)), promised_by_swaps(beside, points, scores).reshape(m, -1)
    chosen = np.sort(np.argpartition(promised, promised.shape[1] - n, axis=1)[:, promised.shape[1] - n :], axis=1)
    gone, come = np.divmod(chosen, d)
    swapped = np.repeat(points.supports[:, None, :], n, axis=1)
    np.put_along_axis(swapped, gone[:, :, None], come[:, :, None], axis=2)
    swapped.sort(axis=2)
    return swapped


def promised_by_swaps(beside: Beside, points: Columns, scores: Array) -> Array:
    """What each of m points gains if entry i of its support leaves and feature j enters: (m, k, d).

    The best combination of the remaining x and the new coordinate solves an eigenproblem of order two, whose entries
    are already known. The span of the other columns is ignored here.
    """
    supports, x, gains, of = points
    m, k = supports.shape
    own, rows = beside.diagonals[of], np.arange(m)[:, None]
    weight = np.minimum(x * x, 1.0 - 1e-12)
    left = 1.0 - weight
    kept = (gains[:, None] - 2.0 * x * scores[rows, supports] + weight * own[rows, supports]) / left
    cross = (scores[:, None, :] - x[:, :, None] * beside.rows(supports, of)) / np.sqrt(left)[:, :, None]
    if k == 1:
        kept, cross = np.zeros_like(kept), np.zeros_like(cross)
    half = 0.5 * (kept[:, :, None] - own[:, None, :])
    promised = own[:, None, :] + half + np.sqrt(half * half + cross * cross)
    np.put_along_axis(promised, np.broadcast_to(supports[:, None, :], (m, k, k)), -np.inf, axis=2)
    return np.asarray(promised)


def lowest(beside: Beside, column: Column) -> Column:
    """The same column, with each selected feature replaced by its copy of lowest index, up to sign, if it has one.

    A fixed rule then decides which of two equal features is selected, and rounding does not.
    """
    for feature, copies in copied(beside, column.support):
        for other in copies:
            there = beside.column(np.sort(np.where(column.support == feature, other, column.support)))
            if there.gain >= column.gain * (1.0 - TIE):
                return lowest(beside, there)
    return column


def copied(beside: Beside, support: Index, of: int = 0) -> list[tuple[int, Index]]:
    """The features of a support that have copies of lower index outside of it, with these copies; the last first."""
    rows = np.abs(beside.rows(support[None], np.array([of]))[0])
    own, most = beside.diagonals[of], _COPY * beside.size
    near = np.abs(own - own[support, None]) <= most
    near &= np.arange(len(own)) < support[:, None]
    near[:, support] = False
    telling = np.argsort(rows.var(axis=1))[-2:]  # two entries tell most features apart
    for at in telling:
        alike = np.abs(rows[at] - rows[at, support, None]) <= most
        alike[at] = True  # entries beside itself are not compared
        near &= alike
    found = []
    for at in reversed(np.flatnonzero(near.any(axis=1))):
        feature, others = int(support[at]), np.flatnonzero(near[at])
        apart = np.abs(rows[:, others] - rows[:, [feature]])
        apart[at] = 0.0
        others = others[apart.max(axis=0) <= most]
        if len(others):
            found.append((feature, others))
    return found
