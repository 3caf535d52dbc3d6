"""The sparsest loadings that keep a share of what dense PCA explains: the default problem."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedspca.linalg import nystrom
from fedspca.linalg.newton import Surrogate, polish
from fedspca.linalg.quadratic import Quadratic
from fedspca.linalg.rotations import rotated
from fedspca.linalg.sparse_stiefel import retract
from fedspca.solvers.exact.cardinality import heavy_rows
from fedspca.solvers.exact.problem import Assessment, Incumbent, scatter

Array = NDArray[np.float64]

_ROWS = 400  # rows in sight of a search, if the first guess asks for no more
_LARGE = 5000  # non-zeros, or rows, beyond which refits and the predictor cost more than they save
_MARGIN = 1e-4  # the reference still grows a little while the last rounds are asked


@dataclass(frozen=True)
class VarianceKept:
    """min of ``||w||_0`` over w in St(d, r) with ``tr(w' S w) >= share * (sum of the r largest eigenvalues of S)``."""

    share: float = 0.95
    patience: float = 0.01  # a round is worth asking for only if it promises this share of zeros more

    @property
    def moving(self) -> bool:
        """The reference, PCA's variance, is itself learnt."""
        return True

    def search_rounds(self, r: int) -> int:
        """One: the rotation matters less than for l1, as PCA and varimax bracket it."""
        return 1

    def probes(self, model: nystrom.NystromModel, r: int, at: Incumbent | None) -> Array | None:
        """The leading eigenvectors of M: asked along, they sharpen the reference (PCA's variance) at no extra round."""
        return nystrom.leading(model, r)[1]

    def start(self, model: nystrom.NystromModel, r: int, rotations: Array, warm: Array | None) -> list[Array]:
        """The sparsest point from PCA and from its varimax rotation, on the predicted S."""
        values, basis = nystrom.leading(model, r)
        if model.rank == 0:
            return [basis]
        target = self.share * (1.0 + _MARGIN) * float(values.sum())
        rows = heavy_rows(basis, max(_ROWS, 2 * _first_guess(basis, values, float(values.sum()) - target)))
        build = nystrom.predictor if len(rows) <= _LARGE else nystrom.majoriser
        part = build(model).rows(rows)
        points = rotated(basis, rotations[:0])
        # a first look only has to show the model sparse columns; varimax is usually the sparser
        points = points[-1:] if warm is None or len(rows) > _LARGE else points
        inside = [np.linalg.qr(w[rows])[0] if len(rows) < len(w) else w for w in points]
        found = [
            w for w in (sparsest(part, w, target, max_iter=4 if warm is None else 9) for w in inside) if w is not None
        ]
        if not found:  # the rows in sight do not hold enough variance: the dense answer is feasible
            return [basis]
        best = min(found, key=lambda w: (np.count_nonzero(w), -variance(part, w)))
        return [scatter(best, rows, model.n_features)]

    def improve(self, model: nystrom.NystromModel, at: Incumbent) -> list[Array]:
        """A sparser point, or a feasible one where the incumbent has turned out not to be; empty if none is known."""
        r = at.w.shape[1]
        values, basis = nystrom.leading(model, r)
        target = self.share * (1.0 + _MARGIN) * float(values.sum())
        infeasible = float(np.vdot(at.w, at.product)) < self.share * float(values.sum()) * (1.0 - 1e-9)
        used = np.count_nonzero(at.w.any(axis=1))
        scale = float(np.abs(at.product).max()) or 1.0
        rows = heavy_rows(np.hstack([at.product / scale, 1e3 * at.w]), max(_ROWS, int(1.2 * used)))
        build = nystrom.majoriser if at.cautious or len(rows) > _LARGE else nystrom.predictor
        part, w = build(model).rows(rows), at.w[rows]
        if infeasible:
            found = grow(part, w, target)
            return [basis if found is None else scatter(found, rows, model.n_features)]
        worthwhile = int(np.count_nonzero(w) - max(1.0, self.patience * np.count_nonzero(w)))
        found = fit_cardinality(part, w, worthwhile, n_iter=2) if worthwhile >= r else None
        if found is None or variance(part, found) < target:
            return []
        found = sparsest(part, found, target)
        return [] if found is None else [scatter(found, rows, model.n_features)]

    def assess(self, w: Array, product: Array, model: nystrom.NystromModel) -> Assessment:
        """The number of non-zeros where the share is kept; beyond r d where it is not, by how much it falls short."""
        reference = float(nystrom.leading(model, w.shape[1])[0].sum())
        kept = float(np.vdot(w, product)) / max(reference, 1e-300)
        short = self.share - kept
        nonzero = float(np.count_nonzero(w))
        return Assessment(nonzero if short <= 1e-9 else w.size * (1.0 + short), kept, False)


def variance(q: Quadratic, w: Array) -> float:
    """``tr(w' S w)`` for orthonormal w and the S the quadratic stands for."""
    return q.energy(w) + q.shift * float(w.shape[1])


def sparsest(q: Quadratic, w: Array, target: float, *, max_iter: int = 9) -> Array | None:
    """Argmin ``||w||_0`` subject to ``tr(w' S w) >= target``, by bisection over the number of non-zeros.

    The first guess drops the entries whose first-order loss adds up to the allowance; every trial is refitted on
    its support, so the answer lies below it.
    """
    value = variance(q, w)
    if value < target:
        return grow(q, w, target)
    best, upper, lower, least = w, int(np.count_nonzero(w)), w.shape[1] - 1, 0.0
    guess = _first_guess(w, np.einsum("ij,ij->j", w, q @ w + q.shift * w), value - target)
    for _ in range(max_iter):
        if upper - lower <= max(1, upper // 64):
            break
        trial = min(max(guess, lower + 1), upper - 1)
        z = fit_cardinality(q, best, trial)
        reached = -np.inf if z is None else variance(q, z)
        if z is not None and reached >= target:
            best, upper, value = z, int(np.count_nonzero(z)), reached
        else:
            lower, least = trial, max(reached, least)
        guess = _next_guess(lower, upper, least, value, target)
    return best


def _next_guess(lower: int, upper: int, least: float, most: float, target: float) -> int:
    """Where a straight line between the two ends meets the target, but well inside: refits bend it."""
    if lower < 0.5 * upper:  # the lower end is no more than a guess
        return int(0.75 * upper)
    share = (target - least) / max(most - least, 1e-300)
    return lower + round((upper - lower) * min(max(share, 0.2), 0.8))


def fit_cardinality(q: Quadratic, w: Array, n: int, *, n_iter: int = 1) -> Array | None:
    """Argmax ``tr(w' S w)`` over w in St(d, r), ``||w||_0 <= n``: hard thresholding, then Newton on the support."""
    for _ in range(n_iter):
        product = q @ w
        multiplier = w.T @ product
        weight = np.maximum(np.diag(multiplier), 1e-3 * float(np.abs(multiplier).max()) + 1e-300)
        step = w + (product - w @ (0.5 * (multiplier + multiplier.T))) / weight
        score = np.abs(step) * np.sqrt(weight)
        cut = np.partition(score, score.size - n, axis=None)[score.size - n] if n < score.size else -1.0
        z = retract(np.where(score >= cut, step, 0.0))
        if z is None:
            return None
        if n <= _LARGE:  # beyond, a refit buys less than it costs
            z = polish_free(q, z, 1)
        same = np.array_equal(z != 0.0, w != 0.0)
        w = z
        if same:
            break
    return w


def grow(q: Quadratic, w: Array, target: float) -> Array | None:
    """Add non-zeros, ever more at a time, until the target is met."""
    n, step = int(np.count_nonzero(w)), 0.02
    while n < w.size:
        n = min(w.size, n + max(w.shape[1], int(step * n)))
        step = min(2.0 * step, 0.5)
        z = fit_cardinality(q, w, n)
        if z is not None:
            w = z
            if variance(q, w) >= target:
                return w
    return None


def polish_free(q: Quadratic, w: Array, n: int) -> Array:
    """Newton steps for ``tr(w' S w)`` on the support of w."""
    p = Surrogate(q, np.zeros_like(w), np.zeros(w.shape[1]))
    return polish(p, w, p.half_gradient(w), p.value(w), 1e-5, max_newton=n, keep_signs=False)[0]


def _first_guess(w: Array, values: Array, spare: float) -> int:
    """Non-zeros left when the smallest entries, by their share of the variance, use up the allowance."""
    loss = np.sort((w * w * values)[w != 0.0])
    return len(loss) - int(np.searchsorted(np.cumsum(loss), spare))
