"""Differential privacy for any federation: noised sums are released once, and answer every later question.

There are two ways to spend a budget. *One release* of the noised Gram matrix is for up to a few thousand features; each
λ, path and refit after it costs no further budget. *Noised products* are for more features: a fixed number of block
power rounds, each released with noise. Questions are then answered from the subspace that the rounds found. Sites are
asked only what was planned beforehand, and the solver sees only what was released.

With folds the Gram matrix is released once for each fold, at the price of one release: a row is in one fold. Each fold
has the noise of a whole release, so that their sum has √F times as much.

If rows are transformed by quantiles (normal scores, winsorising), values are first counted in stated bins, with noise,
for a fifth of the budget. All later releases are of the transformed rows.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedspca.door.agreement import Agreement, noise_among
from fedspca.dp.accounting import Cost, epsilon_of
from fedspca.dp.noise import unpacked
from fedspca.dp.plan import OFFSET, length_edges, per_feature, seen_about, value_edges
from fedspca.dp.quantiles import PRIVATE_MAPS, learnt_from
from fedspca.federation.base import Aggregate, Around, Federation, FederationError
from fedspca.federation.release_plan import GRID_BITS, Privacy, make_plan
from fedspca.federation.released import (
    Release,
    ReleasedData,
    about_mean,
    release_in,
    release_of,
    row_count,
    symmetric_model,
)
from fedspca.linalg.maps import Learnt
from fedspca.linalg.operators import Frame
from fedspca.linalg.stiefel import project_out
from fedspca.site.answers.products import random_directions
from fedspca.site.queries import AVERAGED, QUERIES
from fedspca.site.question import DEAL, FOLDS, Query, Scalar, State

Array = NDArray[np.float64]

QUANTILE = 0.5  # half of the rows keep their length; shorter rows need less noise


def under_agreement(
    federation: Federation, agreement: Agreement, notice: Callable[[str], object] = lambda _: None
) -> "PrivateFederation":
    """Return a federation that keeps the promise of an agreement, around the one that asks its sites."""
    privacy = Privacy.from_mapping(agreement.privacy or {})
    dealt = (agreement.folds, int(agreement.fit.get("seed") or 0))
    return PrivateFederation(federation, privacy, among=noise_among(agreement), notice=notice, dealt=dealt)


class PrivateFederation(Around):
    """A federation that spends a budget once, then answers every question from what was released.

    Parameters
    ----------
    federation : Federation
        The sites: each must keep a ledger. Under masks the noise is shared among them.
    privacy : Privacy
        What is promised.
    among : int
        The number of sites whose noise is certainly in a sum and unknown to everyone else: 1 without masks.
    notice : callable, optional
        Called with the plan and its predicted error, before any budget is spent.
    dealt : pair of int
        The number of folds by which the Gram matrix is released, 0 for none, and the seed that assigns rows to folds.
    """

    def __init__(
        self,
        federation: Federation,
        privacy: Privacy,
        *,
        among: int = 1,
        notice: Callable[[str], object] = lambda _: None,
        dealt: tuple[int, int] = (0, 0),
    ) -> None:
        super().__init__(federation)
        self._joint = self.preparation.joint
        planned = self._joint is None or self._joint[0] in PRIVATE_MAPS
        if not (planned and replace(self.preparation, transform=()).plain):
            raise FederationError(
                "A private study takes no covariates, weights, means of single sites, nor transforms that need all "
                "sites other than normal and winsorise: what these would release is not planned, so nothing is known "
                "of what it costs. Leave them out, or leave out the noise."
            )
        d = len(federation.feature_names)
        self.privacy = privacy
        excess = math.sqrt(max(1.0, federation.n_sites / among))
        self.plan = make_plan(privacy, d, excess, dealt[0], counts=self._joint is not None)
        self._stated = per_feature("centre", privacy.centre, d), per_feature("scale", privacy.scale, d)
        self.centre, self.scale = seen_about(self._joint, *self._stated)
        self._among = among
        self._dealt = dealt
        self._notice = notice
        self._costs: dict[str, list[Cost]] = {}
        self._release: Release | None = None
        self._learnt: Learnt | None = None
        self._folds: tuple[Release, ...] = ()
        self._sigma = 0.0
        self._state: State = None
        self._traffic = [0, 0]
        if not (self._stated[1] > 0).all():
            raise ValueError("The stated scale of every feature must be positive.")

    @property
    def lost(self) -> dict[str, str]:
        """The sites that are no longer asked, and why."""
        return getattr(self._federation, "lost", {})

    def spent(self) -> dict[str, Any]:
        """Return what the study has spent, for a report: ε and δ, and the noise of each release."""
        costs = [cost for each in self._costs.values() for cost in each]
        return {
            "epsilon": epsilon_of(costs, self.privacy.delta),
            "delta": self.privacy.delta,
            "releases": {name: [cost.multiplier for cost in each] for name, each in self._costs.items()},
        }

    def released(self) -> Release:
        """Return what was released. The first call spends the budget."""
        if self._release is None:
            self._notice(str(self.plan))
            if self._joint is not None:
                self._learnt = self._count_values(self._joint)
            clip = self.privacy.clip or self._find_clip()
            self._release = self._gram(clip) if self.plan.mechanism == "gram" else self._products(clip)
        return self._release

    @property
    def learnt(self) -> Learnt | None:
        """The transform by quantiles through which rows were released; None if the study has none."""
        if self._joint is not None:
            self.released()
        return self._learnt

    def answers_gram(self) -> bool:
        """Whether the whole covariance may be asked for: the release contains one."""
        return True

    def sum(self, query: Query) -> Aggregate:
        """Answer a solver's question from what was released; no site is asked again."""
        if query.folds and (query.folds, query.scalars[DEAL]) != self._dealt:
            planned = f"{self._dealt[0]} folds, by another seed" if self._dealt[0] == query.folds else "no such folds"
            raise FederationError(
                f"This private study releases {planned if self._dealt[0] else 'one matrix and no sums by fold'}: what "
                "is released is planned before the budget is spent. Plan it with these folds, or leave folds out."
            )
        if query.sample:
            raise FederationError(
                "A private study releases sums over all rows once, and has no sample: leave the sample out."
            )
        release = self.released()
        (up, down), self._traffic = self._traffic, [0, 0]  # the traffic of the releases is reported with this round
        sites = 1 if query.name in AVERAGED else self.n_sites  # an average over one: the release itself
        return Aggregate(self._by_fold(query) if query.folds else self._answer(release, query), sites, up, down)

    def noise_in(self, frame: Frame) -> float | None:
        """Return the variance of the semicircle law of the noise in S, seen in a frame; None if S was not released."""
        if self.plan.mechanism != "gram":
            return None
        self.released()
        squares = (self.scale / frame.scale) ** 2
        sites = max(self.n_sites / self._among, 1.0)
        return float(0.5 * self._sigma**2 * sites * max(self.plan.folds, 1) * squares.max() * squares.sum())

    # -- spending -----------------------------------------------------------------------------------------------------

    def _ask(
        self, name: str, multiplier: float, sensitivity: float, arrays: Mapping[str, Array], **scalars: Scalar
    ) -> Array:
        """Ask for one noised sum, and return it."""
        seen = {} if self._learnt is None else self._learnt.seen.arrays
        arrays = {"centre": self.centre, "scale": self.scale, **seen, **arrays}
        sigma = multiplier * sensitivity
        grid = max(0, GRID_BITS - math.floor(math.log2(sigma / math.sqrt(self._among))))
        about = {**scalars, "grid": grid, "among": self._among}
        d = len(self.feature_names)
        price = QUERIES[name].cost
        assert price is not None  # every planned release has noise
        draft = price(d, Query(name, arrays, {**about, "sigma": sigma}))
        sigma *= multiplier / draft.multiplier  # a little more noise, to cover rounding and margins
        query = Query(name, arrays, {**about, "sigma": sigma})
        self._sigma = sigma
        answer = self._federation.sum(query)
        cost = price(d, query)
        self._costs.setdefault(name, []).append(cost)
        self._traffic = [self._traffic[0] + answer.bytes_up, self._traffic[1] + answer.bytes_down]
        (released,) = answer.arrays.values()
        return released

    def _count_values(self, joint: tuple[str, float]) -> Learnt:
        """Learn the transform from noised counts of values in stated bins."""
        (centre, scale), edges = self._stated, value_edges()
        about = {"centre": centre, "scale": scale, "edges": edges}
        counts = self._ask("private_counts", self.plan.multipliers["counts"], math.sqrt(len(centre)), about)
        return learnt_from(counts, edges, centre, scale, joint, self._sigma * self.plan.excess)

    def _find_clip(self) -> float:
        """Find the length that most rows do not exceed, from noised counts of rows by length."""
        edges = length_edges(len(self.feature_names))
        counts = self._ask("private_lengths", self.plan.multipliers["lengths"], 1.0, {"edges": edges})
        share = np.cumsum(np.maximum(counts, 0.0))
        return float(edges[int(np.searchsorted(share, QUANTILE * share[-1]))])

    def _gram(self, clip: float) -> Release:
        offset = OFFSET * clip
        multiplier = self.plan.multipliers["gram"]
        squares = clip**2 + offset**2
        dealt = {FOLDS: self._dealt[0], DEAL: self._dealt[1]} if self._dealt[0] else {}
        answer = self._ask("private_gram", multiplier, squares, {}, clip=clip, offset=offset, **dealt)
        grams = np.array([unpacked(vector) for vector in np.atleast_2d(answer)])
        rows = np.array([row_count(gram[-1, -1] / offset**2) for gram in grams])
        whole = about_mean(grams.sum(axis=0), float(rows.sum()), offset)
        release = release_of(float(rows.sum()), *whole)
        if self.plan.folds:  # what was left out as noise is left out of each fold alike, so that the folds still add up
            left_out = (release.product(np.eye(len(whole[0]))) - whole[1]) / self.plan.folds
            about = [about_mean(gram, n, offset) for gram, n in zip(grams, rows, strict=True)]
            self._folds = tuple(
                Release(float(n), mean, float(np.trace(s)), *np.linalg.eigh(s + left_out)[::-1])
                for n, (mean, s) in zip(rows, about, strict=True)
            )
        return release

    def _products(self, clip: float) -> Release:
        """Block power rounds, each with noise; the last one's product makes the model."""
        d, offset = len(self.feature_names), OFFSET * clip
        multiplier = self.plan.multipliers["moments"]
        squares = clip**2 + offset**2
        moments = self._ask("private_moments", multiplier, squares, {}, clip=clip, offset=offset)
        rows = row_count(moments[-1] / offset**2)
        mean = moments[d : 2 * d] / (math.sqrt(2) * offset * rows)
        trace = float(moments[:d].sum()) - rows * float(mean @ mean)
        block = np.linalg.qr(random_directions(0, (d, min(self.privacy.columns, d))))[0]
        multiplier = self.plan.multipliers["product"]
        for number in range(self.privacy.rounds):
            raw = self._ask("private_product", multiplier, clip**2, {"directions": block}, clip=clip)
            product = raw - rows * np.outer(mean, mean @ block)
            if number < self.privacy.rounds - 1:
                block = np.linalg.qr(product)[0]
        return release_in(rows, mean, trace, *symmetric_model(block, product))

    # -- answering ----------------------------------------------------------------------------------------------------

    def _by_fold(self, query: Query) -> dict[str, Array]:
        """Answer for each fold. S of a fold may have negative eigenvalues: left as they are, noise cancels in sums."""
        answers = [self._answer(fold, query.as_a_whole()) for fold in self._folds]
        return {name: np.stack([answer[name] for answer in answers]) for name in answers[0]}

    def _answer(self, release: Release, query: Query) -> dict[str, Array]:
        d = len(self.feature_names)
        if query.name not in QUERIES or QUERIES[query.name].cost is not None:
            raise FederationError(f"A private study cannot be asked {query.name!r}: what it releases is planned.")
        QUERIES[query.name].validate("released", d, query)
        mean = self.centre + self.scale * release.mean
        if query.name == "moments":
            count = np.full(d, release.rows)
            return {"rows": np.array(release.rows), "counts": count, "sums": count * mean}
        # the stated deviations are multiplied by one common factor, so that they match the released total variance: the
        # noise on the variance of a single feature would be much larger than on the total
        if query.name == "deviations":
            shift = (mean - query.arrays["mean"]) / self.scale
            total = release.trace + release.rows * float(shift @ shift)
            return {"offsets": release.rows * self.scale * shift, "squares": self.scale**2 * total / d}
        seen = ReleasedData(release, mean, self.scale)
        if query.name == "row_errors":
            return self._row_errors(release, seen, query)
        self._state, terms = QUERIES[query.name].answer(seen, self._state, query)
        return {name: np.asarray(value, np.float64) for name, value in terms.items()}

    def _row_errors(self, release: Release, seen: ReleasedData, query: Query) -> dict[str, Array]:
        """Σe and Σe² of squared reconstruction errors as expected for Gaussian rows with the released covariance."""
        frame = Frame(query.arrays["mean"], query.arrays["scale"], query.arrays["removed"])
        root = project_out(query.arrays["directions"], seen.gram_in(frame).root())
        inner = root.T @ root
        total = float(np.trace(inner))
        spread = 2.0 * float(np.vdot(inner, inner)) / release.rows
        return {"errors": np.array(total), "squares": np.array(spread + total**2 / release.rows)}
