"""The search for one sparse column: starts from every feature that can still win, power steps, refits, swaps."""

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from fedspca.linalg.cardinality.beside import Beside, Column
from fedspca.linalg.cardinality.selection import TIE, heaviest, ranked
from fedspca.linalg.cardinality.tuning import Tuning

Array = NDArray[np.float64]
Index = NDArray[np.intp]

_GAIN = 1e-11  # relative: a smaller gain is rounding error
_DENSE = 20  # per entry, a dense product is about this many times as fast as a sparse one
_COPY = 1e-8  # share of the largest variance: features are copies of each other if their entries differ by less


def row_bounds(s: Array, k: int) -> Array:
    """``b_j``, the sum of the k largest ``|S_ji|`` of row j.

    If feature j carries the largest weight of the best k-sparse unit x, then
    ``x' S x = sum_i S_ji x_i / x_j <= b_j``.
    """
    d = len(s)
    sizes = np.abs(s)
    return np.asarray((np.partition(sizes, d - k, axis=1)[:, d - k :] if k < d else sizes).sum(axis=1))


def best_columns(beside: Beside, k: int, tuning: Tuning, starts: Array | None = None, n: int = 1) -> list[Column]:
    """Argmax of the variance that a k-sparse column adds to a span: the n best local optima found, best first.

    Starts are the rows of ``P S P``, one for each feature, and the columns of ``starts``. A feature is not used as a
    start if its row bound is below the best gain so far. Without other columns, or with disjoint supports, such a
    feature cannot carry the largest weight of a better column.
    """
    d = len(beside.s)
    k = min(k, d)
    bounds = row_bounds(beside.deflated, k)
    order = np.argsort(-bounds, kind="stable")[: _starting(d, k, tuning)]
    first, later = order[: tuning.first_wave], order[tuning.first_wave :]
    supports = _settled(
        beside, beside.deflated[first] if starts is None else _stacked(beside, first, starts), k, tuning
    )
    found = _refitted(beside, supports, tuning)
    if found:
        later = later[bounds[later] > found[0].gain * (1.0 + TIE)]
    if len(later):
        more = [
            _settled(beside, beside.deflated[np.sort(part)], k, tuning)
            for part in np.array_split(later, -(-len(later) // tuning.chunk))
        ]
        found = _refitted(beside, np.unique(np.vstack([supports, *more]), axis=0), tuning)
    climbs = max(n, tuning.climbs if beside.alone else tuning.climbs // 3)
    ended = _distinct(climbed(beside, found[:climbs], tuning))
    known = {tuple(column.support) for column in ended}
    return (ended + [column for column in found if tuple(column.support) not in known])[:n]


def _starting(d: int, k: int, tuning: Tuning) -> int:
    """How many features are used as starts. Columns with many non-zeros cost more and have fewer local optima."""
    return d if k <= tuning.short else max(tuning.first_wave, d * tuning.short // k)


def climb(beside: Beside, column: Column, tuning: Tuning) -> Column:
    """Improve a refitted support: by power steps while these gain, then by swaps of two features."""
    return climbed(beside, [column], tuning)[0]


def climbed(beside: Beside, columns: list[Column], tuning: Tuning) -> list[Column]:
    """Improve several refitted supports of the same size at once, so that their eigenproblems are solved together."""
    if not columns:
        return []
    points = _Points(
        np.array([column.support for column in columns]),
        np.array([column.weights for column in columns]),
        np.array([column.gain for column in columns]),
    )
    moving = np.arange(len(columns))
    for _ in range(tuning.steps):
        here = points.at(moving)
        scores = beside.scores(here.supports, here.weights, here.gains)
        proposed = heaviest(np.abs(scores), here.supports.shape[1])
        gained = _accepted(beside, points, moving, proposed[:, None, :], (proposed != here.supports).any(axis=1))
        stuck = np.flatnonzero(~gained)
        if len(stuck):
            swaps = _promising_swaps(beside, here.at(stuck), scores[stuck], tuning.swaps)
            gained[stuck] = _accepted(beside, points, moving[stuck], swaps, np.ones(len(stuck), dtype=bool))
        moving = moving[gained]
        if len(moving) > 1:  # where two have reached the same support, only one continues
            moving = np.sort(moving[np.unique(points.supports[moving], axis=0, return_index=True)[1]])
        if not len(moving):
            break
    return points.columns()


class _Points(NamedTuple):
    """Columns with supports of the same size, one per row: supports (m, k), weights (m, k) and gains (m,)."""

    supports: Index
    weights: Array
    gains: Array

    def at(self, chosen: Index) -> "_Points":
        return _Points(self.supports[chosen], self.weights[chosen], self.gains[chosen])

    def columns(self) -> list[Column]:
        return [
            Column(support, x, float(gain))
            for support, x, gain in zip(self.supports, self.weights, self.gains, strict=True)
        ]


def _accepted(beside: Beside, points: _Points, at: Index, trials: Index, worth: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Replace points by the best of their trials (m, n, k) where that gains, and return which were replaced.

    Only points marked in ``worth`` are considered.
    """
    gained = np.zeros(len(at), dtype=bool)
    n, k = trials.shape[1:]
    tried = np.flatnonzero(worth) if n else np.zeros(0, dtype=np.intp)
    if not len(tried):
        return gained
    gains, weights = beside.refit(trials[tried].reshape(-1, k))
    gains, weights = gains.reshape(-1, n), weights.reshape(-1, n, k)
    for row, i in enumerate(tried):
        won, before = _winner(gains[row], trials[i]), points.gains[at[i]]
        if gains[row, won] > before + _GAIN * abs(before):
            points.supports[at[i]], points.weights[at[i]] = trials[i, won], weights[row, won]
            points.gains[at[i]] = gains[row, won]
            gained[i] = True
    return gained


def best_replacement(beside: Beside, support: Index, feature: int) -> Column | None:
    """The best column after the given feature is replaced by another one; None if there is no other feature."""
    outside = np.ones(len(beside.s), dtype=bool)
    outside[support] = False
    others = np.flatnonzero(outside)
    kept = np.repeat(support[support != feature][None, :], len(others), axis=0)
    return _best_of(beside, np.hstack([kept, others[:, None]]))


def best_entry(beside: Beside, support: Index, feature: int) -> Column | None:
    """The best column in which the given feature replaces one of the support."""
    entered = np.repeat(support[None, :], len(support), axis=0)
    np.fill_diagonal(entered, feature)
    return _best_of(beside, entered)


def _best_of(beside: Beside, supports: Index) -> Column | None:
    """The best of some supports, refitted; None if no support adds variance to the span."""
    if not supports.size:
        return None
    supports = np.sort(supports, axis=1)
    gains, weights = beside.refit(supports)
    at = _winner(gains, supports)
    return Column(supports[at], weights[at], float(gains[at])) if np.isfinite(gains[at]) else None


def _stacked(beside: Beside, features: Index, starts: Array) -> Array:
    return np.vstack([beside.deflated[features], starts.T])


def _settled(beside: Beside, rows: Array, k: int, tuning: Tuning) -> Index:
    """The distinct supports that truncated power steps reach from dense rows."""
    supports = heaviest(np.abs(rows), k)
    weights = np.take_along_axis(rows, supports, axis=1)
    moving, ended = np.arange(len(rows)), np.array(supports)
    for _ in range(tuning.power_steps):
        images = _rows_times(supports, weights, beside.deflated)
        after = heaviest(np.abs(images), k)
        ended[moving] = after
        moved = (after != supports).any(axis=1)
        if not moved.any():
            break
        moving, supports, images = moving[moved], after[moved], images[moved]
        weights = np.take_along_axis(images, supports, axis=1)
        weights /= np.maximum(np.linalg.norm(weights, axis=1, keepdims=True), 1e-300)
    return np.unique(ended, axis=0)


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


def _refitted(beside: Beside, supports: Index, tuning: Tuning) -> list[Column]:
    """The best supports, refitted, best first.

    If there are too many, those with the largest block norms are refitted.
    """
    if len(supports) > tuning.refits:
        images = _sparse_rows(supports, np.ones(supports.shape), len(beside.s)) @ np.square(beside.deflated)
        norms = np.take_along_axis(images, supports, axis=1).sum(axis=1)
        supports = supports[ranked(norms, supports)[: tuning.refits]]
    gains, weights = beside.refit(supports)
    order = [at for at in ranked(gains, supports) if np.isfinite(gains[at])]
    return [Column(supports[at], weights[at], float(gains[at])) for at in order]


def _winner(gains: Array, supports: Index) -> int:
    """The position of the largest gain.

    Of gains that are equal up to ``TIE``, the one with the lowest features wins.
    """
    top = float(gains.max())
    tied = np.flatnonzero(gains >= top - TIE * abs(top)) if np.isfinite(top) else np.array([0])
    return int(min(tied, key=lambda at: tuple(supports[at])) if len(tied) > 1 else tied[0])


def _promising_swaps(beside: Beside, points: _Points, scores: Array, n: int) -> Index:
    """For each of m points, the n most promising supports with one feature exchanged: (m, n, k).

    Remove entry i of x and let feature j enter. The best combination of the remaining x and the new coordinate solves
    an eigenproblem of order two, whose entries are already known. The span of the other columns is ignored here.
    """
    s, (supports, x, gains) = beside.deflated, points
    m, k = supports.shape
    d = len(s)
    if k == d:
        return np.empty((m, 0, k), dtype=np.intp)
    own, rows = s.diagonal(), np.arange(m)[:, None]
    weight = np.minimum(x * x, 1.0 - 1e-12)
    left = 1.0 - weight
    kept = (gains[:, None] - 2.0 * x * scores[rows, supports] + weight * own[supports]) / left
    cross = (scores[:, None, :] - x[:, :, None] * s[supports]) / np.sqrt(left)[:, :, None]
    if k == 1:
        kept, cross = np.zeros_like(kept), np.zeros_like(cross)
    half = 0.5 * (kept[:, :, None] - own)
    promised = own + half + np.sqrt(half * half + cross * cross)
    np.put_along_axis(promised, np.broadcast_to(supports[:, None, :], (m, k, k)), -np.inf, axis=2)
    n, promised = min(n, k * (d - k)), promised.reshape(m, -1)
    chosen = np.sort(np.argpartition(promised, promised.shape[1] - n, axis=1)[:, promised.shape[1] - n :], axis=1)
    gone, come = np.divmod(chosen, d)
    swapped = np.repeat(supports[:, None, :], n, axis=1)
    np.put_along_axis(swapped, gone[:, :, None], come[:, :, None], axis=2)
    swapped.sort(axis=2)
    return swapped


def lowest(beside: Beside, column: Column) -> Column:
    """The same column, with each selected feature replaced by its copy of lowest index, up to sign, if it has one.

    A fixed rule then decides which of two equal features is selected, and rounding does not.
    """
    sizes = np.abs(beside.deflated[:, column.support])
    own = beside.deflated.diagonal()
    for at in reversed(range(len(column.support))):
        feature = column.support[at]
        apart = np.abs(sizes[:feature] - sizes[feature])
        apart[:, at] = np.abs(own[:feature] - own[feature])
        alike = apart.max(axis=1) <= _COPY * beside.size
        alike[column.support[:at]] = False
        copies = np.flatnonzero(alike)
        for other in copies:
            there = beside.column(np.sort(np.where(column.support == feature, other, column.support)))
            if there.gain >= column.gain * (1.0 - TIE):
                return lowest(beside, there)
    return column


def _distinct(columns: list[Column]) -> list[Column]:
    """Columns by decreasing gain, one for each support."""
    if not columns:
        return []
    order = ranked(np.array([column.gain for column in columns]), np.array([column.support for column in columns]))
    return [columns[at] for at in order]
