"""The l1 problem as the outer loop sees it: propose on the surrogate, assess with exact products."""

from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from fedspca.linalg import nystrom
from fedspca.linalg.certificate import certify
from fedspca.linalg.proximal import L1Solution, minimise, minimise_through_dense
from fedspca.linalg.quadratic import Quadratic, nearly_all
from fedspca.linalg.rotations import canonical_order
from fedspca.linalg.shrinkage import soft_threshold
from fedspca.linalg.splitting import settle
from fedspca.solvers.exact.penalised_search import first_look, search, solved
from fedspca.solvers.exact.problem import Assessment, Incumbent, oversampled, scatter
from fedspca.solvers.exact.tuning import PenalisedTuning

Array = NDArray[np.float64]

_EXACT, _LAST = 1e-10, 4  # residual, and the most steps, of the last solve: a Newton step has all digits


@dataclass(frozen=True)
class Penalised:
    """min over w in St(d, r) of ``-tr(w' S w) + lam ||w||_1``."""

    lam: Array
    tol: float = 1e-6
    tuning: PenalisedTuning = field(default_factory=PenalisedTuning)

    @property
    def moving(self) -> bool:
        """False: one exact product gives the exact objective, and the model does not enter."""
        return False

    @property
    def worthwhile(self) -> float:
        """A very small gain: local optima differ little. A search without any gain is usually the last useful one."""
        return 1e-6

    def width(self, r: int) -> int:
        """For r > 2 starts are compared on the model, and a model with more columns finds better local optima."""
        return oversampled(r if r <= 2 else 3 * r)

    def search_rounds(self, r: int) -> int:
        """For r <= 2 the starts agree; for r > 2 the rotation is the difficult part.

        A model that has seen sparse points ranks starts far better than one that has seen only power iterates.
        """
        return 1 if r <= 2 else 4 if r <= self.tuning.many else 3

    def probes(self, model: nystrom.NystromModel, r: int, at: Incumbent | None) -> Array | None:
        """The residual of the stationarity condition on the support: the direction in which the point will move."""
        if at is None:
            return None
        gradient, used = 2.0 * at.product, at.w != 0.0
        pull = np.where(used, gradient - self.lam * np.sign(at.w), 0.0)
        if r <= 2 or at.certificate < self.tuning.settled:
            # a simple multiplier is enough on the support: only the span of these columns matters
            multiplier = at.w.T @ pull
            return np.where(used, pull - at.w @ (0.5 * (multiplier + multiplier.T)), 0.0)
        slack = gradient - at.w @ certify(at.w, gradient, self.lam).multiplier
        moving = np.where(used, slack - self.lam * np.sign(at.w), 0.0)
        # far from convergence, entries still enter: the likely ones are asked too, with as many columns
        entering = np.where(used, 0.0, soft_threshold(slack, self.tuning.entering * self.lam))
        return np.hstack([moving, entering])

    def start(self, model: nystrom.NystromModel, r: int, rotations: Array, warm: Array | None) -> list[Array]:
        """The best stationary points of the predicted objective over several starts, best first.

        If the model equals S, the best point is solved to full accuracy, and the model's products certify it.
        """
        _, basis = nystrom.leading(model, r)
        rows = self._rows(model, basis)
        quadratic = nystrom.predictor(model, rows)
        inside = self._inside(basis, rows)
        if warm is None:
            return [scatter(first_look(quadratic, self.lam, inside, self.tuning).w, rows, model.n_features)]
        known = nystrom.known(model)
        warm = self._inside(warm, rows)
        tol = 0.1 * self.tol if known else self.tuning.fine
        found = search(quadratic, self.lam, inside, rotations, [warm], self.tuning, tol=tol)
        # exact products rank the points kept, and their columns improve the model: more points find better optima
        keep = 1 if known else self.tuning.kept if r <= self.tuning.many else self.tuning.kept // 2
        return [scatter(self._canonical(quadratic, s.w), rows, model.n_features) for s in found[:keep]]

    def on(
        self,
        quadratic: Quadratic,
        basis: Array,
        rotations: Array,
        before: list[Array],
        deadline: float,
        *,
        partitions: int = 0,
    ) -> L1Solution:
        """The best point found on S itself, which needs no model and no rounds.

        ``before`` are further starts, and there are so many random ``partitions``.
        """
        rows = self._likely(2.0 * (quadratic @ basis), most=max(self.tuning.most, self.tuning.least * basis.shape[1]))
        # S is searched once, a model several times for r > 2: so the search is then not reduced for many features
        wide = self.tuning.wide if basis.shape[1] <= 2 else len(basis)
        # of many features only some are searched: a good start for the steps over all of them is enough
        hurried = len(rows) < len(basis) and basis.shape[1] > self.tuning.some
        tuning = replace(self.tuning, deadline=deadline, wide=wide, hurried=hurried, partitions=partitions)
        part, inside = quadratic, basis
        if len(rows) < len(basis):
            part, inside = quadratic.rows(rows), self._inside(basis, rows)
        starts = [self._inside(w, rows) for w in before]
        tol, whole = 0.1 * self.tol, len(rows) == len(basis)
        found = search(part, self.lam, inside, rotations, starts, tuning, tol=tol if whole else tuning.fine)[0]
        if not whole:
            last = replace(tuning.at(*basis.shape), proximal=tuning.some)
            found = self._over_all(quadratic, rows, found, tol, last)
        order, signs = self._canonical_order(quadratic, found.w)
        multiplier = found.multiplier[np.ix_(order, order)] * np.outer(signs, signs)
        return replace(found, w=found.w[:, order] * signs, multiplier=multiplier)

    def finished(self, quadratic: Quadratic, near: L1Solution, deadline: float) -> tuple[L1Solution, float]:
        """The stationary point of S itself near one of an S that is known to seven digits, and its certificate.

        Only Newton steps on the support are left to take. With many weights they take long, and the point stays as it
        is: its residual on S is larger by a ten-millionth. Where the search was stuck, dense points lead on.
        """
        if near.w.size < self.tuning.small:
            near = minimise(quadratic, self.lam, near.w, tol=_EXACT, max_iter=_LAST, multiplier=near.multiplier)
        certificate = self.certificate(near.w, quadratic @ near.w, near.multiplier)
        if certificate <= self.tol or near.w.size * len(self.lam) > self.tuning.dear:
            return near, certificate
        found = minimise_through_dense(quadratic, self.lam, near, tol=0.5 * self.tol, deadline=deadline)
        return found, self.certificate(found.w, quadratic @ found.w, found.multiplier)

    def _over_all(
        self, quadratic: Quadratic, rows: NDArray[np.intp], found: L1Solution, tol: float, tuning: PenalisedTuning
    ) -> L1Solution:
        """The stationary point over all features near one over some rows.

        Rows where w is zero take no part, and their only condition is ``|2 S w| <= lam``. Those that violate it, or
        nearly do, are added until none does. Products over these rows take far less time than over all features.
        """
        d = quadratic.n_rows
        w, multiplier = scatter(found.w, rows, d), found.multiplier
        # proximal steps go on from where they were: until the features are known, few digits are enough
        few, to = tuning.settled if len(self.lam) <= tuning.some else tol, np.inf
        for _ in range(tuning.enlarged):
            gradient = 2.0 * (quadratic @ w)
            excess = (np.abs(gradient) - self.lam).max(axis=1)
            excess[rows] = -np.inf
            if tuning.late or (to == tol and float(excess.max()) <= 0.5 * tol * float(np.linalg.norm(gradient))):
                break
            more = np.flatnonzero(excess > -tuning.nearly * float(self.lam.min()))
            rows = nearly_all(np.union1d(rows, more), d)
            part = quadratic.rows(rows)
            to = tol if to <= few else max(few, tol)
            found = solved(part, self.lam, w[rows], to, tuning, multiplier)
            w, multiplier = scatter(found.w, rows, d), found.multiplier
        return replace(found, w=w)

    @staticmethod
    def _inside(w: Array, rows: NDArray[np.intp]) -> Array:
        """Some rows of a point, made orthonormal again."""
        return np.linalg.qr(w[rows])[0] if len(rows) < len(w) else w

    def improve(self, model: nystrom.NystromModel, at: Incumbent) -> list[Array]:
        """Argmin of the surrogate that touches the objective at the incumbent, as accurately as this round needs.

        With many components, the point of the predictor and the safe point of the majoriser are asked together. Their
        columns improve the model more, and a failed prediction does not cost a round.
        """
        tol = min(1e-3, max(0.03 * at.certificate, 0.1 * self.tol))  # a round gains a factor of about ten
        if at.cautious:
            models = [nystrom.majoriser(model)]
        elif at.w.shape[1] <= 5:
            models = [nystrom.predictor(model)]
        else:
            models = [nystrom.predictor(model), nystrom.majoriser(model)]
        return [self._descended(q, at, tol) for q in models]

    def _descended(self, q: Quadratic, at: Incumbent, tol: float) -> Array:
        """The stationary point near the incumbent of the surrogate with the quadratic Q, which touches there."""
        half = at.product - q.shift * at.w
        if at.w.shape[1] > self.tuning.some:
            multiplier = certify(at.w, 2.0 * at.product, self.lam).multiplier
            linear = half - q @ at.w
            found = settle(q, self.lam, at.w, steps=self.tuning.settling, tol=tol, linear=linear, multiplier=multiplier)
            if found.sparse:
                return found.w
        return minimise(q, self.lam, at.w, half=half, tol=tol).w

    def assess(self, w: Array, product: Array, model: nystrom.NystromModel) -> Assessment:
        """The true objective and the first-order residual of the pooled problem."""
        return self.assessed(w, product, self.certificate(w, product))

    def assessed(self, w: Array, product: Array, certificate: float) -> Assessment:
        """The same with a certificate that is known already."""
        value = float(-np.vdot(w, product) + self.lam @ np.abs(w).sum(axis=0))
        return Assessment(value, certificate, certificate <= self.tol)

    def certificate(self, w: Array, product: Array, multiplier: Array | None = None) -> float:
        """The first-order residual of the pooled problem at w, from its exact product; ``multiplier`` if known."""
        return certify(w, 2.0 * product, self.lam, multiplier=multiplier).residual

    def _canonical_order(self, quadratic: Quadratic, w: Array) -> tuple[NDArray[np.intp], Array]:
        variances = np.einsum("ij,ij->j", w, quadratic @ w)
        return canonical_order(w, variances, reorder=bool(np.ptp(self.lam) == 0.0))

    def _canonical(self, quadratic: Quadratic, w: Array) -> Array:
        order, signs = self._canonical_order(quadratic, w)
        return np.asarray(w[:, order] * signs)

    def _rows(self, model: nystrom.NystromModel, basis: Array) -> NDArray[np.intp]:
        """Rows that any rotation of the basis could make non-zero: the row norm of the gradient is rotation-free.

        For many components only the likeliest: steps over all features follow.
        """
        r = basis.shape[1]
        most = None if r <= self.tuning.some else max(self.tuning.most, self.tuning.least * r)
        return self._likely(2.0 * (model @ basis), most=most)

    def _likely(self, gradient: Array, most: int | None = None) -> NDArray[np.intp]:
        """The features that may enter, by their gradients: at most so many, the likeliest."""
        norms = np.sqrt(np.einsum("ij,ij->i", gradient, gradient))
        chosen = norms > self.tuning.likely * float(self.lam.min())
        least = min(len(norms), self.tuning.rows * gradient.shape[1])
        if np.count_nonzero(chosen) < least:
            chosen[np.argpartition(-norms, least - 1)[:least]] = True
        if most is not None and np.count_nonzero(chosen) > most:
            return np.sort(np.argsort(-norms, kind="stable")[:most])
        return np.flatnonzero(chosen)
