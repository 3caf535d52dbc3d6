"""The fewest non-zeros that keep a share of the variance."""

from collections.abc import Iterable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from fedspca.linalg.cardinality.joint import best_loadings
from fedspca.linalg.cardinality.polish import Fit, groups, nearest_orthogonal, refit_orthogonal
from fedspca.linalg.cardinality.removal import Removals, cheapest_removals, single_removals
from fedspca.linalg.cardinality.restarts import restarted
from fedspca.linalg.cardinality.selection import TIE
from fedspca.linalg.cardinality.trades import Margins, promising_trades, ranked
from fedspca.linalg.cardinality.tuning import Tuning
from fedspca.linalg.compiled import fewest as compiled
from fedspca.linalg.compiled.library import library
from fedspca.linalg.small import largest_eigenpairs

Array = NDArray[np.float64]
Counts = tuple[int, ...]
Index = NDArray[np.intp]

_ROUGH = 1e-4  # share of the variance: a rough refit is nearer than this to a full one
_GAIN = 1e-7  # relative: a trade that gains less is not worth another
_HOPE = 1.3  # leaving entries out costs a little less than is predicted, more often than not
_SINGLE = 2.5  # one entry costs at least so many times less than is predicted, in all cases that were tried
_GROWTH = 0.5  # entries that are added at once, of those that there are
_FILL = 0.25  # the same while the target is not reached yet
_COLUMNS = 15  # with more components, no start won that needed more entries than an earlier one has in the end
_COARSE = 16  # the first search ends if less than one entry in so many could be removed


def fewest_nonzeros(s: Array, target: float, *, tuning: Tuning, starts: Iterable[Array]) -> Fit | None:
    """Argmin of ``||w||_0`` over orthonormal w (d x r) with ``tr(w' S w) >= target``; None if no start reaches it.

    From each start the smallest entries are cut off, in bulk. Then entries are left out in the order of what that costs
    once the others are refitted, and entries are exchanged, in turn, until neither helps. In the end many entries are
    added to the best loadings, and as many as possible are left out again: that leads out of local optima.
    """
    starts, kernels = list(starts), library()
    if kernels is not None and starts and compiled.fits(starts):
        found = compiled.fewest(kernels, s, target, starts, tuning.asked)
        return None if found is None else Fit(*found)
    best: Fit | None = None
    for w in starts:
        reached = _filled(s, w, target, tuning, most=_worth_filling(best, w))
        if reached is not None:
            thin = eliminated(s, thinned(s, reached, target, tuning), target, tuning)
            best = _sparser(best, _settled(s, thin, target, tuning))
    if best is None:
        return None
    if best.w.shape[1] > 1:
        best = _oscillated(s, best, target, tuning)
    best = _none_spare(s, best, target, tuning)
    return refit_orthogonal(s, best.w)


def no_more_than_alike(
    s: Array, fit: Fit, target: float, *, hope: float, tuning: Tuning, starts: Iterable[Array], whole: bool = False
) -> Fit:
    """The same loadings, or sparser ones near loadings with the same number of non-zeros in each column.

    These are found by a search from every feature, for the largest number that is sparser in all. It falls as long as
    the target is reached. The search takes long. It is left out if a first guess captures less than the share ``hope``
    of the target. With ``whole`` it is the search of ``n_nonzero`` itself, so that this finds no fewer; else a lighter
    one. The columns may then also differ by one non-zero.
    """
    r, dense = fit.w.shape[1], list(starts)
    sparser: Fit | None = fit
    while sparser is not None:
        fit, sparser = sparser, None
        for k in _even(_nonzeros(fit) - 1, r, whole=whole):
            if tuning.late or (hope and _cut_alike(s, fit, k[-1]) < hope * target):
                break
            effort = Tuning.for_size(len(s), k[0], r)
            effort = replace(effort if whole or r == 1 else effort.lighter(), deadline=tuning.deadline)
            alike = best_loadings(s, k, orthogonal=True, tuning=effort, starts=dense)
            if alike.variance < target and whole and r > 1:
                alike = restarted(s, alike, k, orthogonal=True, tuning=effort)
            if alike.variance >= target:
                sparser = _improved(s, alike, target, tuning)
                break
    return refit_orthogonal(s, fit.w)


def _even(n: int, r: int, *, whole: bool) -> list[Counts]:
    """At most n non-zeros for r columns, as many for each; with ``whole`` also n in all, some columns one more."""
    k, more = divmod(n, r)
    counts = [(k,) * r, *([(k + 1,) * more + (k,) * (r - more)] if whole and more else [])]
    return [each for each in counts if k > 0]


def _improved(s: Array, fit: Fit, target: float, tuning: Tuning) -> Fit:
    """Entries left out and exchanged, until none can be."""
    kernels = library()
    if kernels is not None and compiled.fits([fit.w]):
        return Fit(*compiled.fewer(kernels, s, target, fit.w, fit.variance, tuning.asked))
    return _none_spare(s, _settled(s, eliminated(s, fit, target, tuning), target, tuning), target, tuning)


def _cut_alike(s: Array, fit: Fit, k: int) -> float:
    """The variance of the k largest entries in each column of a gradient step, refitted; 0 if they admit no refit."""
    kernels = library()
    if kernels is not None and compiled.fits([fit.w]):
        return compiled.cut_alike(kernels, s, fit.w, k)
    step, _ = _ascent(s, fit.w)
    z = np.zeros_like(step)
    for j, column in enumerate(step.T):
        top = ranked(-np.abs(column), k)
        z[top, j] = column[top]
    after = _refitted(s, z, fit)
    return 0.0 if after is None else after.variance


def _filled(s: Array, w: Array, target: float, tuning: Tuning, most: int) -> Fit | None:
    """Add entries until the target is reached; None if it cannot be, or only with more than ``most`` entries."""
    fit: Fit | None = Fit(w, float(np.vdot(w, s @ w)))
    while fit is not None and fit.variance < target:
        fit = None if tuning.late or _nonzeros(fit) > most else _grown(s, fit, _FILL)
    return fit


def _worth_filling(best: Fit | None, w: Array) -> int:
    """The most entries that a start may need. With many components, each step of filling takes long."""
    return w.size if best is None or w.shape[1] <= _COLUMNS else _nonzeros(best)


def thinned(s: Array, fit: Fit, target: float, tuning: Tuning) -> Fit:
    """Cut off the smallest entries of a gradient step, by trials over the number of non-zeros.

    The first guess drops entries until their first-order losses add up to the allowance. If a guess misses the target,
    bisection continues between it and the best point.
    """
    lower, least = fit.w.shape[1] - 1, 0.0
    guess = _first_guess(s, fit, target)
    while not tuning.late:
        upper = _nonzeros(fit)
        trial = min(max(guess, lower + 1), upper - 1)
        if upper - trial < max(1, upper // _COARSE) or trial <= lower:
            break
        fewer = _cut(s, fit, trial)
        if fewer is not None and fewer.variance >= target:
            fit = fewer
            guess = _first_guess(s, fit, target)
        else:
            lower, least = trial, least if fewer is None else max(fewer.variance, least)
            guess = lower
        if guess <= lower:  # where a straight line between the two ends meets the target; refits bend it
            share = (target - least) / max(fit.variance - least, 1e-300)
            guess = lower + round((_nonzeros(fit) - lower) * min(max(share, 0.2), 0.8))
    return fit


def _first_guess(s: Array, fit: Fit, target: float) -> int:
    """Non-zeros left when the smallest entries, by their share of the variance, use up the allowance."""
    variances = np.einsum("ij,ij->j", fit.w, s @ fit.w)
    loss = np.sort((fit.w * fit.w * variances)[fit.w != 0.0])
    return len(loss) - int(np.searchsorted(np.cumsum(loss), fit.variance - target))


def _cut(s: Array, fit: Fit, n: int) -> Fit | None:
    """The n largest entries of a step along the gradient, each by its share of the variance, refitted."""
    step, weight = _ascent(s, fit.w)
    top = ranked(-(np.abs(step) * np.sqrt(weight)).ravel(), n)
    z = np.zeros_like(step)
    z.flat[top] = step.flat[top]
    return _refitted(s, z, fit)


def _ascent(s: Array, w: Array) -> tuple[Array, Array]:
    """A step along the gradient, and the variance of each column."""
    image = s @ w
    inner = w.T @ image
    weight = np.maximum(inner.diagonal(), 1e-3 * float(np.abs(inner).max()) + 1e-300)
    return np.asarray(w + (image - w @ inner) / weight), weight


def _settled(s: Array, fit: Fit, target: float, tuning: Tuning) -> Fit:
    """Exchange entries and leave entries out, in turn, until that removes none.

    No entry can be left out before the first exchange.
    """
    while not tuning.late:
        n, traded = _nonzeros(fit), _traded(s, fit, tuning)
        if traded is fit:
            break
        fit = eliminated(s, traded, target, tuning)
        if _nonzeros(fit) >= n:
            break
    return fit


def _traded(s: Array, fit: Fit, tuning: Tuning) -> Fit:
    """Exchange entries while that gains: all pairs that promise to, and if that fails, fewer of them."""
    while not tuning.late:
        margins = Margins.at(s, fit.w)
        enter, leave = promising_trades(s, fit.w, margins)
        size, after = len(enter), None
        while size:
            z = fit.w.copy()
            z.flat[leave[:size]], z.flat[enter[:size]] = 0.0, margins.weights.flat[enter[:size]]
            after = _refitted(s, z, fit)
            if after is not None and after.variance > fit.variance * (1.0 + _GAIN):
                break
            size //= 3
        if after is None or not size:
            break
        fit = after
    return fit


def eliminated(s: Array, fit: Fit, target: float, tuning: Tuning) -> Fit:
    """Leave entries out, many at once, as long as the refitted loadings still capture the target."""
    while not tuning.late:
        fewer = _fewer(s, fit, cheapest_removals(s, fit.w, _HOPE * (fit.variance - target)), target)
        if fewer is None:
            break
        fit = fewer
    return fit


def _fewer(s: Array, fit: Fit, removals: Removals, target: float) -> Fit | None:
    """As many of these entries left out as possible; None if none can be.

    A trial that misses the target tells how much removals cost, compared with what was predicted.
    """
    size = len(removals.costs)
    while size:
        after = _reaching(s, removals.without(fit.w, size), fit, target)
        if after is not None and after.variance >= target:
            return after
        fewer = size // 2
        if after is not None:
            ratio = (fit.variance - after.variance) / max(float(removals.costs[size - 1]), 1e-300)
            able = int(np.searchsorted(removals.costs, (fit.variance - target) / ratio, side="right"))
            fewer = min(able, max(size - 1 - size // 8, fewer))
        size = fewer
    return None


def _none_spare(s: Array, fit: Fit, target: float, tuning: Tuning) -> Fit:
    """Leave out single entries, whichever can be: in the end, none can."""
    while not tuning.late:
        trials = (_reaching(s, z, fit, target) for z in single_removals(s, fit.w, _SINGLE * (fit.variance - target)))
        fewer = next((after for after in trials if after is not None and after.variance >= target), None)
        if fewer is None:
            break
        fit = eliminated(s, fewer, target, tuning)
    return fit


def _oscillated(s: Array, fit: Fit, target: float, tuning: Tuning) -> Fit:
    """Add many entries and leave out as many as possible, as long as fewer are left."""
    while not tuning.late:
        more = _grown(s, fit, _GROWTH)
        if more is None or more.variance < target:
            break
        fewer = _settled(s, eliminated(s, more, target, tuning), target, tuning)
        if _nonzeros(fewer) >= _nonzeros(fit):
            break
        fit = fewer
    return fit


def _grown(s: Array, fit: Fit, share: float) -> Fit | None:
    """Add the entries that promise most; only at unused features, if the others admit no orthonormal loadings."""
    margins = Margins.at(s, fit.w)
    unused = np.where(fit.w.any(axis=1, keepdims=True), -np.inf, margins.shared)
    for gain in (margins.shared, unused):
        n = min(max(1, int(share * _nonzeros(fit))), int(np.isfinite(gain).sum()))
        if n:
            enter = ranked(-gain.ravel(), n)
            z = fit.w.copy()
            z.flat[enter] = margins.weights.flat[enter]
            after = _refitted(s, z, fit)
            if after is not None and _nonzeros(after) > _nonzeros(fit):
                return after
    return None


def _refitted(s: Array, z: Array, before: Fit) -> Fit | None:
    """The best orthonormal loadings on the supports of z, roughly; None if there are none near z.

    Columns that share no feature are refitted apart. Those that are the same as before stay.
    """
    if not z.any(axis=0).all():
        return None
    w, variance = np.zeros_like(z), 0.0
    for columns in groups(z):
        rows = np.flatnonzero(z[:, columns].any(axis=1))
        at = np.ix_(rows, columns)
        part = s[np.ix_(rows, rows)]
        fit: Fit | None
        if len(columns) == 1:
            values, vectors = largest_eigenpairs(part, 1)
            fit = Fit(vectors, float(values[0]))
        elif np.array_equal(z[:, columns], before.w[:, columns]):
            fit = Fit(z[at], float(np.vdot(z[at], part @ z[at])))
        else:
            fit = nearest_orthogonal(part, z[at], rough=True)
        if fit is None:
            return None
        w[at], variance = fit.w, variance + fit.variance
    return Fit(w, variance)


def _reaching(s: Array, z: Array, before: Fit, target: float) -> Fit | None:
    """The same, to full precision where that decides whether the target is reached."""
    after = _refitted(s, z, before)
    if after is not None and target * (1.0 - _ROUGH) <= after.variance < target:
        return refit_orthogonal(s, after.w)
    return after


def _nonzeros(fit: Fit) -> int:
    return int(np.count_nonzero(fit.w))


def _sparser(best: Fit | None, fit: Fit) -> Fit:
    """The one with fewer non-zeros or, if they have the same number, more variance. The first one settles ties."""
    if best is None:
        return fit
    fewer = _nonzeros(best) - _nonzeros(fit)
    return fit if fewer > 0 or (fewer == 0 and fit.variance > best.variance * (1.0 + TIE)) else best
