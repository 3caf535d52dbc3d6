"""Sweeps over many columns of one solution: new columns are proposed for all of them at once, then tried in turn."""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components

from fedspca.linalg.cardinality.column import Columns, best_of_each, climbed, copied
from fedspca.linalg.cardinality.others import Others
from fedspca.linalg.cardinality.points import GAIN, Counts, Points, bases, replaced, stepped, swept, together
from fedspca.linalg.cardinality.selection import TIE, heaviest
from fedspca.linalg.cardinality.tuning import Tuning, at_once

Array = NDArray[np.float64]
Index = NDArray[np.intp]
_Proposal = tuple[Index, Array, float, int]  # support, weights, the variance that all columns then capture, column

_MANY = 8  # columns: of fewer, each is looked at by itself
_INDEPENDENT = 1e-8  # share of the largest eigenvalue of w' w: below it, a column is nearly in the span of the others
_STACK = 4_000_000  # entries of the rows of P S P that swaps of columns need at a time


def swept_well(
    s: Array, points: Points, k: Counts, orthogonal: bool, tuning: Tuning, *, sweeps: int, everywhere: bool = False
) -> Points:
    """Update columns until nothing gains: in turn, or all at once if there are many of a single point."""
    sweep = swept_at_once if len(points.variances) == 1 and at_once(len(k), tuning) else swept
    return sweep(s, points, k, orthogonal, tuning, sweeps=sweeps, everywhere=everywhere)


def swept_at_once(
    s: Array, points: Points, k: Counts, orthogonal: bool, tuning: Tuning, *, sweeps: int, everywhere: bool = False
) -> Points:
    """Update all columns of one point until nothing gains, as ``points.swept`` does in turn.

    Each column that has to be looked at again is searched beside the others as they are now. The results are tried one
    after another, the largest gain first; what does not gain any more is searched again in the next sweep.
    """
    stale = np.ones(len(k), dtype=bool)
    for sweep in range(sweeps):
        if tuning.late or not stale.any():
            break
        own = _own(points.w[0])
        if own is None:  # dependent columns
            return swept(s, points, k, orthogonal, tuning, sweeps=sweeps - sweep, everywhere=everywhere)
        before, proposed = points, []
        for kj in sorted({k[j] for j in np.flatnonzero(stale)}):
            columns = np.array([j for j in np.flatnonzero(stale) if k[j] == kj])
            proposed += _proposed(s, points.w[0], own, columns, kj, orthogonal, tuning, everywhere)
        points = _tried(s, points, proposed, orthogonal)
        if everywhere and not orthogonal:  # where features may be shared, later searches found nothing from others
            tuning = replace(tuning, starts=min(tuning.starts, tuning.first_wave))
        moved = bool(points.variances[0] > before.variances[0] * (1.0 + GAIN))
        if orthogonal and (moved or not sweep):
            points = together(s, points, k)
            if tuning.points > 1:  # as in `swept`
                points = stepped(s, points, k)
        stale[:] = points.variances[0] > before.variances[0] * (1.0 + GAIN)
    return points


def with_copies(s: Array, w: Array, orthogonal: bool) -> list[int]:
    """The columns in which a feature has a copy of lower index. Of few columns, or dependent ones, all are named."""
    own = _own(w) if w.shape[1] > _MANY else None
    if own is None:
        return list(range(w.shape[1]))
    beside = Others(s, bases(w[None])[0], orthogonal, own)
    return [j for j, column in enumerate(w.T) if copied(beside, np.flatnonzero(column), j)]


def _own(w: Array) -> Array | None:
    """For each column the unit vector in the span of all that is orthogonal to the others (r, d); None if dependent."""
    gram = w.T @ w
    if float(np.linalg.eigvalsh(gram)[0]) < _INDEPENDENT:
        return None
    dual = np.linalg.solve(gram, w.T)
    return np.asarray(dual / np.linalg.norm(dual, axis=1)[:, None])


def _proposed(
    s: Array, w: Array, own: Array, columns: Index, kj: int, orthogonal: bool, tuning: Tuning, everywhere: bool
) -> list[Columns]:
    """The best column found in the place of each, beside the others."""
    basis, done = bases(w[None])[0], []
    size = max(1, _STACK // (kj * len(s)))
    for start in range(0, len(columns), size):
        part = columns[start : start + size]
        beside = Others(s, basis, orthogonal, own[part])
        support = heaviest(np.abs(w[:, part].T), kj)
        gains, weights = beside.refit(support, beside.owners)
        found = climbed(beside, Columns(support, weights, gains, beside.owners).at(np.isfinite(gains)), tuning)
        if everywhere:
            least = np.full(len(part), -np.inf)
            least[found.of] = found.gains
            found = found.joined(best_of_each(beside, kj, tuning.quick(), least=least)).ranked().top(1)
        done.append(Columns(found.supports, found.weights, beside.captured[found.of] + found.gains, part[found.of]))
    return done


def _tried(s: Array, points: Points, proposed: list[Columns], orthogonal: bool) -> Points:
    """Columns replaced by those proposed, the largest gain first, where that still gains.

    A proposal stands as it is if no column that it shares a feature with, directly or through others, has changed.
    Otherwise it is refitted beside the others.
    """
    before, groups = float(points.variances[0]), _groups(points.w[0])
    changed = np.zeros(groups.max() + 1, dtype=bool)
    worth = [column for part in proposed for column in zip(*part, strict=True) if column[2] > before * (1.0 + GAIN)]
    for support, weights, value, j in _in_order(worth):
        former = np.flatnonzero(points.w[0, :, j])
        met = groups[np.concatenate([support, former])]
        if changed[met].any():
            if not np.array_equal(support, former):  # weights alone are refitted in the end
                points = replaced(s, points, int(j), orthogonal, support[None])
        else:
            w = points.w.copy()
            w[0, :, j] = 0.0
            w[0, support, j] = weights
            points = Points(w, points.variances + (value - before))
        changed[met] = True
    return points


def _in_order(proposed: list[_Proposal]) -> list[_Proposal]:
    """Proposals, the largest variance first. Those equal up to ``TIE`` are ordered by column."""
    value, column = np.array([each[2] for each in proposed]), np.array([each[3] for each in proposed])
    order = np.argsort(-value, kind="stable")
    group = np.zeros(len(order))
    group[1:] = np.cumsum(value[order[1:]] < value[order[:-1]] * (1.0 - TIE))
    return [proposed[at] for at in order[np.lexsort((column[order], group))]]


def _groups(w: Array) -> Index:
    """A number for each feature (d,): equal for those of columns that share features, directly or through others."""
    named = w != 0.0
    _, group = connected_components(named.T.astype(float) @ named, directed=False)
    unused = ~named.any(axis=1)
    return np.asarray(np.where(unused, w.shape[1] + np.arange(len(w)), group[np.argmax(named, axis=1)]))
