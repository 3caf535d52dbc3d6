"""The l1 problem as the outer loop sees it: propose on the surrogate, assess with exact products."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedspca.linalg import nystrom
from fedspca.linalg.certificate import certify
from fedspca.linalg.proximal import L1Solution, minimise
from fedspca.linalg.quadratic import Quadratic
from fedspca.linalg.rotations import canonical, rotated, turned_pairs
from fedspca.linalg.shrinkage import soft_threshold
from fedspca.solvers.exact.problem import Assessment, Incumbent, oversampled, scatter

Array = NDArray[np.float64]

_ROWS = 100  # rows in sight of a search, for each component, even if fewer look likely
_ROUGH, _FINE = 3e-2, 3e-3  # residuals to which starts are solved before, and after, they are ranked
_SOME = 6  # components up to which solves are cheap enough for a wider search, and turning pairs of columns pays
_SETTLED = 1e-4  # below this residual the support is all but found
_STEPS = 6  # of the continuation in lam


@dataclass(frozen=True)
class Penalised:
    """min over w in St(d, r) of ``-tr(w' S w) + lam ||w||_1``."""

    lam: Array
    tol: float = 1e-6

    @property
    def moving(self) -> bool:
        """The objective is exact at once."""
        return False

    @property
    def worthwhile(self) -> float:
        """None: basins differ by less than rounds of search find."""
        return 0.0

    def width(self, r: int) -> int:
        """Beyond two components starts are compared on the model, and a wider one finds better basins."""
        return oversampled(r if r <= 2 else 3 * r)

    def search_rounds(self, r: int) -> int:
        """At r <= 2 the starts agree; beyond, the rotation is the hard part.

        A model that has seen sparse points ranks starts far better than one that has seen only power iterates.
        """
        return 1 if r <= 2 else 4 if r <= _SOME else 3

    def probes(self, model: nystrom.NystromModel, r: int, at: Incumbent | None) -> Array | None:
        """The residual of the stationarity condition on the support: the direction in which the point will move."""
        if at is None:
            return None
        gradient, used = 2.0 * at.product, at.w != 0.0
        pull = np.where(used, gradient - self.lam * np.sign(at.w), 0.0)
        if r <= 2 or at.certificate < _SETTLED:
            # on the support the multiplier needs no more care: only the span of these columns matters
            multiplier = at.w.T @ pull
            return np.where(used, pull - at.w @ (0.5 * (multiplier + multiplier.T)), 0.0)
        slack = gradient - at.w @ certify(at.w, gradient, self.lam).multiplier
        moving = np.where(used, slack - self.lam * np.sign(at.w), 0.0)
        # far from settled, entries are still entering: where they will is worth as many columns again
        entering = np.where(used, 0.0, soft_threshold(slack, 0.8 * self.lam))
        return np.hstack([moving, entering])

    def start(self, model: nystrom.NystromModel, r: int, rotations: Array, warm: Array | None) -> list[Array]:
        """The best stationary points of the predicted objective over several starts, best first."""
        _, basis = nystrom.leading(model, r)
        rows = self._rows(model, basis)
        quadratic = nystrom.predictor(model, rows)
        fresh = rotations if warm is None or r > _SOME else rotations[: len(rotations) // 2]
        points = rotated(basis, fresh)
        if r <= 2 or (warm is None and len(rotations) == 0):
            points = points[-1:]  # only to show the model sparse columns, or r so small that starts agree
        inside = [self._inside(w, rows) for w in points]
        rough = [minimise(quadratic, self.lam, w, tol=_ROUGH, max_iter=25) for w in inside]
        if warm is None and len(rotations) == 0:
            return [scatter(rough[0].w, rows, model.n_features)]
        if warm is not None:
            # the other half of the starts turn two columns of the best point only, and keep what is good in the rest
            near = [self._inside(w, rows) for w in turned_pairs(warm, len(rotations) - len(fresh))]
            rough += [minimise(quadratic, self.lam, w, tol=_ROUGH, max_iter=25) for w in near]
            # the best point itself is almost solved
            rough.append(minimise(quadratic, self.lam, self._inside(warm, rows), tol=_FINE, max_iter=40))
        if len(rotations):
            rough.append(self._continued(quadratic, inside[1]))
        rough.sort(key=lambda s: s.objective)
        # exact products rank what survives, and its columns teach the model: more of it finds better basins
        keep = 1 if len(rotations) == 0 else 8 if r <= _SOME else 4
        best = [
            s
            if s.residual <= _FINE
            else minimise(quadratic, self.lam, s.w, tol=_FINE, max_iter=40, multiplier=s.multiplier)
            for s in rough[:keep]
        ]
        best.sort(key=lambda s: s.objective)
        return [scatter(self._canonical(quadratic, s.w), rows, model.n_features) for s in _distinct(best)]

    @staticmethod
    def _inside(w: Array, rows: NDArray[np.intp]) -> Array:
        """Some rows of a point, made orthonormal again."""
        return np.linalg.qr(w[rows])[0] if len(rows) < len(w) else w

    def improve(self, model: nystrom.NystromModel, at: Incumbent) -> list[Array]:
        """Argmin of the surrogate that touches the objective at the incumbent, as exactly as a round deserves.

        With many components the bold point (the predictor's) and the safe one (the bound's) are asked about together:
        their columns teach the model more, and no round is lost to a prediction that fails.
        """
        tol = min(1e-3, max(0.03 * at.certificate, 0.1 * self.tol))  # a round gains a factor of about ten
        if at.cautious:
            models = [nystrom.majoriser(model)]
        elif at.w.shape[1] <= 5:
            models = [nystrom.predictor(model)]
        else:
            models = [nystrom.predictor(model), nystrom.majoriser(model)]
        return [minimise(q, self.lam, at.w, half=at.product - q.shift * at.w, tol=tol).w for q in models]

    def assess(self, w: Array, product: Array, model: nystrom.NystromModel) -> Assessment:
        """The true objective and the first-order residual of the pooled problem."""
        value = float(-np.vdot(w, product) + self.lam @ np.abs(w).sum(axis=0))
        residual = certify(w, 2.0 * product, self.lam).residual
        return Assessment(value, residual, residual <= self.tol)

    def _canonical(self, quadratic: Quadratic, w: Array) -> Array:
        return canonical(w, np.einsum("ij,ij->j", w, quadratic @ w), reorder=bool(np.ptp(self.lam) == 0.0))

    def _rows(self, model: nystrom.NystromModel, basis: Array) -> NDArray[np.intp]:
        """Rows that any rotation of the basis could make non-zero: the row norm of the gradient is rotation-free."""
        gradient = 2.0 * (model @ basis)
        norms = np.sqrt(np.einsum("ij,ij->i", gradient, gradient))
        chosen = norms > 0.7 * float(self.lam.min())
        least = min(len(norms), _ROWS * basis.shape[1])
        if np.count_nonzero(chosen) < least:
            chosen[np.argpartition(-norms, least - 1)[:least]] = True
        return np.flatnonzero(chosen)

    def _continued(self, quadratic: Quadratic, w: Array) -> L1Solution:
        """Raise lam in steps, each solve warm-started by the last."""
        for share in np.linspace(1.0 / _STEPS, 1.0, _STEPS):
            solution = minimise(quadratic, share * self.lam, w, tol=_ROUGH, max_iter=10)
            w = solution.w
        return solution


def _distinct(solutions: list[L1Solution]) -> list[L1Solution]:
    """Drop repeats: the same objective to 1e-4 is taken for the same point."""
    kept: list[L1Solution] = []
    for s in solutions:
        if all(abs(s.objective - k.objective) > 1e-4 * abs(k.objective) for k in kept):
            kept.append(s)
    return kept
