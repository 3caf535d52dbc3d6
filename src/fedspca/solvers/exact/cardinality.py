"""Explained variance under a cardinality constraint on each column, on the surrogate and by exact products."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedspca.linalg import nystrom
from fedspca.linalg.cardinality.beside import Beside
from fedspca.linalg.cardinality.column import best_columns
from fedspca.linalg.cardinality.joint import best_loadings
from fedspca.linalg.cardinality.tuning import Tuning
from fedspca.linalg.quadratic import Quadratic
from fedspca.linalg.rotations import rotated
from fedspca.solvers.exact.columns import (
    Fit,
    explained,
    explained_by,
    largest,
    orthogonalise,
    refine,
    truncate,
    truncated_power,
)
from fedspca.solvers.exact.problem import Assessment, Incumbent, oversampled, scatter
from fedspca.solvers.exact.tuning import CardinalityTuning

Array = NDArray[np.float64]
Index = NDArray[np.intp]


class _Effort(NamedTuple):
    """How many starts are ranked, after how many sweeps, and how many of them are refined fully and then asked."""

    ranked: int
    kept: int
    finished: int
    sweeps: int = 1


@dataclass(frozen=True)
class Cardinality:
    """max of the variance explained by span(w) subject to ``||w_j||_0 <= k_j``, ``||w_j|| = 1``.

    With ``orthogonal`` also ``w.T w = I``, and the objective is ``tr(w' S w)``; without it supports may overlap
    freely and the objective is ``tr((w' w)^-1 w' S w)``, the variance of the QR-orthonormalised loadings.
    """

    k: tuple[int, ...]
    orthogonal: bool = True
    tol: float = 1e-4  # a predicted gain below this share of the variance is not worth a round
    tuning: CardinalityTuning = field(default_factory=CardinalityTuning)

    @property
    def moving(self) -> bool:
        """False: one exact product gives the exact objective, and the model does not enter."""
        return False

    @property
    def _in_sight(self) -> int:
        return max(self.tuning.rows * len(self.k), 3 * sum(self.k))

    @property
    def _easy(self) -> bool:
        """Whether there are few local optima: true for at most two loadings with many non-zeros."""
        return len(self.k) <= 2 and min(self.k) > self.tuning.large

    @property
    def worthwhile(self) -> float:
        """Searches that gain less than this seldom lead anywhere."""
        return 1e-3

    def width(self, r: int) -> int:
        """More columns for r > 2: there, starts are rotations that are compared on the model."""
        return oversampled(r, 14) if r <= 2 else oversampled(r)

    def search_rounds(self, r: int) -> int:
        """Cardinality has many local optima at any r."""
        return 1 if r <= 2 else 3

    def probes(self, model: nystrom.NystromModel, r: int, at: Incumbent | None) -> Array | None:
        """None: only columns of candidates are asked."""
        return None

    def start(self, model: nystrom.NystromModel, r: int, rotations: Array, warm: Array | None) -> list[Array]:
        """The best of several starts, refined by column updates on the predicted S."""
        _, basis = nystrom.leading(model, r)
        if model.rank == 0:
            return [truncate(basis, self.k)]
        rows = heavy_rows(basis if warm is None else np.hstack([basis, warm]), self._in_sight)
        if warm is not None:  # a cluster of similar features may be far from the leading eigenvectors
            rows = np.union1d(rows, largest(nystrom.diagonal(model), self._in_sight))
        part = nystrom.predictor(model, rows)
        effort = self._effort(first=warm is None)
        trials = self._trials(part, basis[rows], rotations, None if warm is None else warm[rows], effort.ranked)
        refined = _by_variance(
            refine(part, fit, self.k, self.orthogonal, self.tuning.ranking(effort.sweeps)) for fit in trials
        )
        enough = self.tuning.behind * refined[0].variance  # a worse point seldom wins and adds little to the model
        kept = [fit for fit in _distinct(refined)[: effort.kept] if fit.variance >= enough]
        if effort.finished:
            last = [refine(part, fit, self.k, self.orthogonal, self.tuning) for fit in kept[: effort.finished]]
            kept = _distinct(_by_variance(last + kept[effort.finished :]))
        return [scatter(fit.w, rows, model.n_features) for fit in kept]

    def _effort(self, *, first: bool) -> _Effort:
        """Effort of a search. The first one only has to provide sparse columns for the model."""
        if first:
            return _Effort(ranked=1, kept=1, finished=0, sweeps=0 if self._easy else 1)
        if self._easy:
            return _Effort(ranked=2, kept=2, finished=0)
        if len(self.k) <= 2:
            return _Effort(ranked=3, kept=3, finished=1)
        return _Effort(ranked=3, kept=3, finished=3) if self.orthogonal else _Effort(ranked=4, kept=2, finished=2)

    def _trials(self, part: Quadratic, basis: Array, rotations: Array, warm: Array | None, n: int) -> list[Fit]:
        """The n best feasible starts: truncated rotations; after the first search also truncated power iterations."""
        trials = [truncate(w, self.k) for w in rotated(basis, rotations)]
        if warm is not None:
            if not self._easy:
                trials += [truncated_power(part, basis, self.k, self.tuning, hotelling=h) for h in (False, True)]
                trials += [truncated_power(part, None, self.k, self.tuning, hotelling=False)]
            trials.append(truncate(warm, self.k))
            if max(self.k) <= self.tuning.large:
                trials += self._searched(part)
        trials = list({(w != 0.0).tobytes(): w for w in trials}.values())  # equal supports refit to the same point
        fits = _by_variance(Fit(w, explained(part, w)) for w in trials)
        if self.orthogonal:  # orthogonality costs variance and time: only the best are made orthogonal
            if warm is not None:  # overlapping supports are easier to reach from non-orthogonal points
                fits.insert(0, refine(part, fits[0], self.k, orthogonal=False, tuning=self.tuning.ranking(1)))
            feasible = (orthogonalise(part, fit.w, self.tuning) for fit in fits[: 2 * n])
            fits = _by_variance(Fit(w, explained(part, w)) for w in feasible)
        return _distinct(fits)[:n]

    def _searched(self, part: Quadratic) -> list[Array]:
        """Results of a search on the predicted S, over the rows considered, from every feature that can still win."""
        rows = np.arange(part.n_rows)
        s = part.block(rows)
        s.flat[:: len(s) + 1] += part.shift
        k = tuple(min(kj, len(s)) for kj in self.k)
        if len(k) == 1:
            alone = Beside(s, np.zeros((len(s), 0)), orthogonal=True)
            found = best_columns(alone, k[0], Tuning.for_size(len(s), k[0], 1), n=3)
            return [scatter(column.weights[:, None], column.support, len(s)) for column in found]
        return [
            best_loadings(s, k, orthogonal=self.orthogonal, tuning=Tuning.for_size(len(s), max(k), len(k)).lighter()).w
        ]

    def improve(self, model: nystrom.NystromModel, at: Incumbent) -> list[Array]:
        """Column updates from the incumbent; empty when the model knows no better point.

        Both models agree at the incumbent, and the majoriser never predicts a larger gain than the predictor. If the
        predictor finds no gain, the majoriser finds none either. The majoriser is used only after the predictor has
        predicted too much.
        """
        scale = float(np.abs(at.product).max()) or 1.0
        rows = heavy_rows(np.hstack([at.product / scale, 1e3 * at.w]), self._in_sight)
        build = nystrom.majoriser if at.cautious else nystrom.predictor
        quadratic = build(model, rows)
        before = Fit(at.w[rows], explained(quadratic, at.w[rows]))
        after = refine(quadratic, before, self.k, self.orthogonal, self.tuning)
        gained = after.variance > before.variance + self.tol * abs(at.objective)
        return [scatter(after.w, rows, model.n_features)] if gained else []

    def assess(self, w: Array, product: Array, model: nystrom.NystromModel) -> Assessment:
        """Minus the exact explained variance. It gives no certificate: the fit ends when ``improve`` finds nothing."""
        return Assessment(-explained_by(w, product), np.nan, False)


def heavy_rows(w: Array, n: int) -> Index:
    """The n rows of largest norm, ascending."""
    return largest(np.einsum("ij,ij->i", w, w), n)


def _by_variance(fits: Iterable[Fit]) -> list[Fit]:
    """Points by decreasing explained variance."""
    return sorted(fits, key=lambda fit: -fit.variance)


def _distinct(fits: list[Fit]) -> list[Fit]:
    """Drop points whose set of supports has occurred before: a refit gives the same point."""
    kept: dict[frozenset[bytes], Fit] = {}
    for fit in fits:
        kept.setdefault(frozenset(column.tobytes() for column in (fit.w != 0.0).T), fit)
    return list(kept.values())
