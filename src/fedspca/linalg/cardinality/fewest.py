"""The fewest non-zeros that keep a share of the variance."""

import math
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from fedspca.linalg.cardinality.joint import best_loadings, loadings_near
from fedspca.linalg.cardinality.polish import Fit, nearest_orthogonal, refit_orthogonal
from fedspca.linalg.cardinality.tuning import Tuning

Array = NDArray[np.float64]
Index = NDArray[np.intp]

_RECOVERED = 0.25  # a refit wins back at most three quarters of what an entry costs, in all cases that were tried
_ROUGH = 1e-4  # share of the variance: a rough refit is nearer than this to a full one


def fewest_nonzeros(s: Array, r: int, target: float, *, tuning: Tuning, starts: Iterable[Array]) -> Fit | None:
    """Argmin of ``||w||_0`` over orthonormal w (d x r) with ``tr(w' S w) >= target``; None if no start reaches it.

    The first starts are those of the caller. Further starts are loadings with the same number of non-zeros in every
    column. This number begins a little above that of the best solution so far, and falls as long as the loadings reach
    the target: first those near the best solution, and in the end the best that a search finds. From each start,
    entries are removed one after another as long as the refitted loadings reach the target.
    """
    dense = list(starts)
    feasible = [fit for fit in (refit_orthogonal(s, w) for w in dense) if fit.variance >= target]
    best = min((eliminated(s, fit, target, tuning) for fit in feasible), key=_sparsest_first, default=None)
    if best is None:
        return None
    k = min(_column_length(best) + 1, len(s))
    while k >= 1 and not tuning.late:
        alike = loadings_near(s, (k,) * r, [_ascended(s, best.w), *dense], orthogonal=True, tuning=tuning.quick())
        if alike.variance < target:
            alike = best_loadings(s, (k,) * r, orthogonal=True, tuning=tuning)
        if alike.variance < target:
            break
        best = min(best, eliminated(s, alike, target, tuning), key=_sparsest_first)
        k = min(k - 1, _column_length(best))
    return refit_orthogonal(s, best.w)


def _ascended(s: Array, w: Array) -> Array:
    """A step along the gradient, dense: its heaviest entries are those of w, or promise more."""
    image = s @ w
    own = np.maximum(np.einsum("ij,ij->j", w, image), 1e-300)
    return np.asarray(w + (image - w @ (w.T @ image)) / own)


def eliminated(s: Array, fit: Fit, target: float, tuning: Tuning) -> Fit:
    """Backward elimination: leave out entries as long as the refitted loadings still capture the target.

    Many entries are left out at once while that succeeds; in the end, one by one.
    """
    size = max(1, int(np.count_nonzero(fit.w)) // 8)
    while not tuning.late:
        order, loss = _by_loss(s, fit.w)
        fewer = _without(s, fit.w, order[:size], target) if len(order) > size else None
        if fewer is None and size == 1:
            able = order[1 : tuning.entries][_RECOVERED * loss[1 : tuning.entries] <= fit.variance - target]
            tried = (_without(s, fit.w, entry, target) for entry in able[:, None])
            fewer = next((one for one in tried if one is not None), None)
            if fewer is None:
                return fit
        if fewer is None:
            size = max(1, size // 2)
        else:
            fit = fewer
    return fit


def _without(s: Array, w: Array, entries: Index, target: float) -> Fit | None:
    """The loadings w without some entries, refitted; None if they cannot be orthonormal or miss the target."""
    left = w.copy()
    left.flat[entries] = 0.0
    if not left.any(axis=0).all():
        return None
    after = nearest_orthogonal(s, left, rough=True)
    if after is not None and target * (1.0 - _ROUGH) <= after.variance < target:
        after = refit_orthogonal(s, after.w)
    return after if after is not None and after.variance >= target else None


def _by_loss(s: Array, w: Array) -> tuple[Index, Array]:
    """Flat indices of the non-zeros, ordered by the first-order cost of leaving them out, and what each costs.

    The cost is that before a refit: the other entries of the column keep their proportions.
    """
    values = np.maximum(np.einsum("ij,ij->j", w, s @ w), 0.0)
    places = np.flatnonzero(w)
    share = np.square(w).ravel()[places]
    feature, column = np.divmod(places, w.shape[1])
    first = share * values[column]
    order = np.argsort(np.round(first / max(float(first.max(initial=0.0)), 1e-300), 9), kind="stable")
    left = np.maximum(1.0 - share, 1e-12)
    return places[order], (share * (values[column] - s.diagonal()[feature]) / left)[order]


def _column_length(fit: Fit) -> int:
    """Average number of non-zeros per column, rounded up."""
    n, r = int(np.count_nonzero(fit.w)), int(fit.w.shape[1])
    return math.ceil(n / r)


def _sparsest_first(fit: Fit) -> tuple[int, float]:
    return int(np.count_nonzero(fit.w)), -fit.variance
