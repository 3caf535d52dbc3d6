"""The sparsest loadings that keep a share of what dense PCA explains: the default problem."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from fedspca.linalg import nystrom
from fedspca.linalg.cardinality.fewest import fewest_nonzeros
from fedspca.linalg.cardinality.partition import partitioned
from fedspca.linalg.cardinality.tuning import Tuning
from fedspca.linalg.newton import Surrogate, polish
from fedspca.linalg.quadratic import Quadratic
from fedspca.linalg.rotations import rotated
from fedspca.linalg.sparse_stiefel import retract
from fedspca.solvers.exact.cardinality import heavy_rows
from fedspca.solvers.exact.columns import Fit
from fedspca.solvers.exact.problem import Assessment, Incumbent, oversampled, scatter
from fedspca.solvers.exact.tuning import VarianceTuning

Array = NDArray[np.float64]

_FORMED = 2000  # features: with more, a search on the whole matrix takes longer than rounds
FEW = 800  # non-zeros: with more, refits of columns that share features take long


@dataclass(frozen=True)
class VarianceKept:
    """min of ``||w||_0`` over w in St(d, r) with ``tr(w' S w) >= share * (sum of the r largest eigenvalues of S)``."""

    share: float = 0.95
    tuning: VarianceTuning = field(default_factory=VarianceTuning)

    @property
    def moving(self) -> bool:
        """True: the reference, the variance of dense PCA, is estimated from the model and changes with it."""
        return True

    @property
    def worthwhile(self) -> float:
        """Not used: there is only one search."""
        return 0.0

    def width(self, r: int) -> int:
        """The reference, the variance of dense PCA, has to be known accurately before entries can be left out."""
        return oversampled(r if r <= 2 else 3 * r)

    def search_rounds(self, r: int) -> int:
        """One: the rotation matters less than for l1, and PCA and varimax cover the range of rotations."""
        return 1

    def probes(self, model: nystrom.NystromModel, r: int, at: Incumbent | None) -> Array | None:
        """The leading eigenvectors of M: they improve the reference (PCA's variance) at no extra round."""
        return nystrom.leading(model, r)[1]

    def start(self, model: nystrom.NystromModel, r: int, rotations: Array, warm: Array | None) -> list[Array]:
        """The sparsest point from PCA or from its varimax rotation, whichever promises more, on the predicted S."""
        values, basis = nystrom.leading(model, r)
        if model.rank == 0:
            return [basis]
        target = self.share * (1.0 + self.tuning.margin) * float(values.sum())
        rows = heavy_rows(basis, max(self.tuning.rows, 2 * _first_guess(basis, values, float(values.sum()) - target)))
        build = nystrom.predictor if len(rows) <= self.tuning.large else nystrom.majoriser
        part = build(model, rows)
        inside = [_orthonormal_rows(w, rows) for w in rotated(basis, rotations[:0])]
        w = min(inside, key=lambda w: _first_guess(w, *_spare(part, w, target)))
        # the first search only has to provide sparse columns for the model
        best = sparsest(part, w, target, self.tuning, trials=self.tuning.first_trials if warm is None else None)
        if best is None:  # the rows considered have too little variance: the dense answer is feasible
            return [basis]
        found = best if warm is None else fewer(part, best, target)
        return [scatter(found, rows, model.n_features)]

    def improve(self, model: nystrom.NystromModel, at: Incumbent) -> list[Array]:
        """A sparser point, or a feasible one if the incumbent proved infeasible; empty if none is known."""
        r = at.w.shape[1]
        values, basis = nystrom.leading(model, r)
        target = self.share * (1.0 + self.tuning.margin) * float(values.sum())
        infeasible = float(np.vdot(at.w, at.product)) < self.share * float(values.sum()) * (1.0 - 1e-9)
        used = np.count_nonzero(at.w.any(axis=1))
        scale = float(np.abs(at.product).max()) or 1.0
        rows = heavy_rows(np.hstack([at.product / scale, 1e3 * at.w]), max(self.tuning.rows, int(1.2 * used)))
        build = nystrom.majoriser if at.cautious or len(rows) > self.tuning.large else nystrom.predictor
        part, w = build(model, rows), at.w[rows]
        if infeasible:
            found = grow(part, w, target, self.tuning)
            return [basis if found is None else scatter(found, rows, model.n_features)]
        worthwhile = int(np.count_nonzero(w) - max(1.0, self.tuning.patience * np.count_nonzero(w)))
        fit = fit_cardinality(part, w, worthwhile, self.tuning) if worthwhile >= r else None
        if fit is None or fit.variance < target:
            return []
        found = sparsest(part, fit.w, target, self.tuning.to_the_end())
        return [] if found is None else [scatter(fewer(part, found, target), rows, model.n_features)]

    def assess(self, w: Array, product: Array, model: nystrom.NystromModel) -> Assessment:
        """The number of non-zeros if the share is kept; otherwise r d plus a measure of the shortfall."""
        reference = float(nystrom.leading(model, w.shape[1])[0].sum())
        kept = float(np.vdot(w, product)) / max(reference, 1e-300)
        short = self.share - kept
        nonzero = float(np.count_nonzero(w))
        return Assessment(nonzero if short <= 1e-9 else w.size * (1.0 + short), kept, False)


def sparsest(
    q: Quadratic, w: Array, target: float, tuning: VarianceTuning, *, trials: int | None = None
) -> Array | None:
    """Argmin ``||w||_0`` subject to ``tr(w' S w) >= target``, by trials over the number of non-zeros.

    The first guess drops entries until their first-order losses add up to the allowance. Every trial is refitted on its
    support, so the answer has fewer non-zeros than the guess. If a guess misses the target, bisection continues between
    it and the best point, until at most one non-zero in ``tuning.within`` could still be removed.
    """
    variances, spare = _spare(q, w, target)
    if spare < 0.0:
        return grow(q, w, target, tuning)
    best, upper, value = w, int(np.count_nonzero(w)), target + spare
    lower, least = w.shape[1] - 1, 0.0
    guess, step = _first_guess(w, variances, spare), _ascent(q, w)
    for _ in range(trials or tuning.trials):
        trial = min(max(guess, lower + 1), upper - 1)
        if upper - trial < max(1, upper // tuning.within) or trial <= lower:
            break
        fit = _truncated(q, step, trial, tuning)
        if fit is not None and fit.variance >= target:
            best, upper, value = fit.w, int(np.count_nonzero(fit.w)), fit.variance
            step, variances = _ascent(q, best), _spare(q, best, target)[0]
            guess = _first_guess(best, variances, value - target)
        else:
            lower, least = trial, least if fit is None else max(fit.variance, least)
            guess = lower
        if (
            guess <= lower and least > 0.0
        ):  # where a straight line between the two ends meets the target; refits bend it
            share = (target - least) / max(value - least, 1e-300)
            guess = lower + round((upper - lower) * min(max(share, 0.2), 0.8))
        elif guess <= lower:  # too few for any orthonormal matrix: bisect on the logarithmic scale
            guess = round(np.sqrt(lower * upper))
    return best


def fewer(q: Quadratic, w: Array, target: float) -> Array:
    """The same, or sparser loadings that a search on the whole matrix finds: it is formed, if it is not too large."""
    if q.n_rows > _FORMED:
        return w
    s = q.block(np.arange(q.n_rows))
    s.flat[:: len(s) + 1] += q.shift
    fit = fewest_nonzeros(s, target, tuning=Tuning(), starts=starts_near(s, w, target))
    return w if fit is None or np.count_nonzero(fit.w) >= np.count_nonzero(w) else fit.w


def starts_near(s: Array, w: Array, target: float) -> list[Array]:
    """Where the search for the fewest non-zeros begins: loadings w, and a division of the features.

    Loadings with many non-zeros are left out, because their refits would take long; and if the division does not reach
    the target, nothing is left.
    """
    apart = partitioned(s, w)
    if np.count_nonzero(w) <= FEW:
        return [w, apart]
    return [apart] if float(np.vdot(apart, s @ apart)) >= target else []


def fit_cardinality(q: Quadratic, w: Array, n: int, tuning: VarianceTuning) -> Fit | None:
    """Argmax ``tr(w' S w)`` over w in St(d, r), ``||w||_0 <= n``: hard thresholding, then Newton on the support."""
    return _truncated(q, _ascent(q, w), n, tuning)


def _ascent(q: Quadratic, w: Array) -> tuple[Array, Array]:
    """A step along the gradient, and the score of each of its entries."""
    product = q @ w
    multiplier = w.T @ product
    weight = np.maximum(np.diag(multiplier), 1e-3 * float(np.abs(multiplier).max()) + 1e-300)
    step = w + (product - w @ (0.5 * (multiplier + multiplier.T))) / weight
    return step, np.abs(step) * np.sqrt(weight)


def _truncated(q: Quadratic, ascent: tuple[Array, Array], n: int, tuning: VarianceTuning) -> Fit | None:
    """The n entries of a step with the largest scores, made orthonormal and refitted on their rows."""
    step, score = ascent
    cut = np.partition(score, score.size - n, axis=None)[score.size - n] if n < score.size else -1.0
    rows = np.flatnonzero((score >= cut).any(axis=1))
    z = retract(np.where(score[rows] >= cut, step[rows], 0.0))
    if z is None:
        return None
    part = q.rows(rows, often=False)
    if n <= tuning.large:  # with more non-zeros, a refit gains too little for its cost
        p = Surrogate(part, np.zeros_like(z), np.zeros(z.shape[1]))
        value, half_way = p.trial(z)
        z, _, value, *_ = polish(p, z, part.outer(half_way), value, tuning.rough, max_newton=1, keep_signs=False)
        explained = -value
    else:
        explained = part.energy(z)
    return Fit(scatter(z, rows, len(step)), explained + q.shift * float(z.shape[1]))


def grow(q: Quadratic, w: Array, target: float, tuning: VarianceTuning) -> Array | None:
    """Add non-zeros, in growing numbers, until the target is met."""
    n, step = int(np.count_nonzero(w)), 0.02
    while n < w.size:
        n = min(w.size, n + max(w.shape[1], int(step * n)))
        step = min(2.0 * step, 0.5)
        fit = fit_cardinality(q, w, n, tuning)
        if fit is not None:
            w = fit.w
            if fit.variance >= target:
                return w
    return None


def _orthonormal_rows(w: Array, rows: NDArray[np.intp]) -> Array:
    """Some rows of orthonormal columns, made orthonormal again."""
    return np.linalg.qr(w[rows])[0] if len(rows) < len(w) else w


def _spare(q: Quadratic, w: Array, target: float) -> tuple[Array, float]:
    """The variance of each column, and their total variance minus the target."""
    variances = np.einsum("ij,ij->j", w, q @ w) + q.shift
    return variances, float(variances.sum()) - target


def _first_guess(w: Array, values: Array, spare: float) -> int:
    """Non-zeros left when the smallest entries, by their share of the variance, use up the allowance."""
    loss = np.sort((w * w * values)[w != 0.0])
    return len(loss) - int(np.searchsorted(np.cumsum(loss), spare))
