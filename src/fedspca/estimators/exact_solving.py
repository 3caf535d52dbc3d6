"""How ExactSPCA finds loadings: on the whole covariance, or by products round by round."""

import json
import math
import time
from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from fedspca._callers import warn_caller
from fedspca.estimators.base import FederatedSparsePCA, Found
from fedspca.estimators.exact_bound import MODEL_ROUNDING, RANK_TOL, bound_on
from fedspca.federation import Federation
from fedspca.federation.base import is_single, most_directions
from fedspca.linalg import nystrom
from fedspca.linalg.rotations import canonical_order
from fedspca.linalg.single import ROUNDING
from fedspca.linalg.spread import SINGLE_PAYS
from fedspca.site.errors import InvalidData, count
from fedspca.solvers.exact import loop, whole
from fedspca.solvers.exact.cardinality import Cardinality
from fedspca.solvers.exact.driver import penalised_objective, run
from fedspca.solvers.exact.penalised import Penalised
from fedspca.solvers.exact.problem import Problem
from fedspca.solvers.exact.state import ExactState
from fedspca.solvers.exact.variance_kept import VarianceKept
from fedspca.solvers.rounds import Rounds
from fedspca.solvers.standardise import Moments
from fedspca.solvers.stopping import StopReason

Array = NDArray[np.float64]

AUTO = "auto"
VARIANCE_KEPT = 0.95
GAIN_AFTER_SAMPLE = 1e-6  # the share of the variance for which a full pass after a sample is worth while
MOST_DIRECTIONS = 1024  # that the first question of an update asks, if owners set no limit
LATER_DIRECTIONS = 20  # of a later question, beside three for each component


class Course(NamedTuple):
    """What one fit needs besides the settings: the state to start from, and the callback for its states."""

    state: ExactState | None = None
    on_state: Callable[[ExactState], object] | None = None
    earlier: loop.Earlier | None = None  # where a fit to other rows of these features ended


BEGINNING = Course()


class ExactSolving(FederatedSparsePCA):
    """The solving of one sparse problem over a federation, as the estimator's settings state it."""

    variance_kept: float
    n_nonzero: int | Sequence[int] | Literal["auto"] | None
    lam: float | Sequence[float] | None
    orthogonal: bool
    n_starts: int
    precision: str
    proof_seconds: float
    sample: int | None
    tol: float
    max_seconds: float | None
    _working: str  # the precision of the answers, once it is decided

    @abstractmethod
    def _asks_gram(self, federation: Federation, n_rows: float) -> bool:
        """Whether the whole covariance is to be asked for."""

    def _auto(self, name: str) -> bool:
        """Whether a setting is "auto", to be chosen from the data."""
        given = getattr(self, name)
        return isinstance(given, str) and given == AUTO

    def _tell_unused(self, n_features: int) -> None:
        """Warn of settings without effect: a share to keep beside another sparsity, more non-zeros than features."""
        given = next((name for name in ("n_nonzero", "lam") if getattr(self, name) is not None), None)
        if given is not None and self.variance_kept != VARIANCE_KEPT:
            unused = (
                f"variance_kept={self.variance_kept:g} is not used, since {given} is given: they are two ways to ask"
            )
            warn_caller(f"{unused} for sparsity.", UserWarning)
        if self.n_nonzero is not None and (told := more_than_there_are(self.n_nonzero, n_features)):
            warn_caller(told, UserWarning)

    def _precision_for(self, federation: Federation, moments: Moments) -> str:
        """Return the precision of answers: single where rows are many, stored so, and no certificate is asked for."""
        if not self._auto("precision"):
            return self.precision
        many = moments.n_rows * len(moments.mean) >= SINGLE_PAYS
        return "float32" if many and self.lam is None and is_single(federation) else "float64"

    def _settings(self, feature_names: Sequence[str]) -> str:
        """Return the settings that a solution depends on, as text."""
        names = (
            "n_components",
            "variance_kept",
            "n_nonzero",
            "lam",
            "orthogonal",
            "scale",
            "max_missing",
            "missing",
            "n_starts",
            "precision",
            "search",
            "sample",
            "tol",
        )
        chosen = {name: getattr(self, name) for name in names}
        return json.dumps({**chosen, "feature_names": feature_names}, sort_keys=True, default=_listed)

    def _solve(self, rounds: Rounds, moments: Moments, _: int, rng: np.random.Generator) -> Found:
        return self._solve_on(rounds, moments, rng, Course())[0]

    def _solve_on(
        self, rounds: Rounds, moments: Moments, rng: np.random.Generator, course: Course
    ) -> tuple[Found, Array | None]:
        """Find the loadings: on the whole S if it is asked for (S is then returned too), else by products."""
        if course.state is None and self._asks_gram(rounds, moments.n_rows):
            return self._solve_whole(rounds, moments, rng, course)
        return self._solve_by_products(rounds, moments, rng, course), None

    def _solve_by_products(self, rounds: Rounds, moments: Moments, rng: np.random.Generator, course: Course) -> Found:
        problem, settings, on_state = self._problem(), self._settings(rounds.feature_names), course.on_state
        state = self._begin(moments, problem, rng) if course.state is None else course.state.loop
        if (earlier := self._usable(course.earlier, moments)) is not None:
            most = _directions(rounds, self.n_components) if self.sample is None else 0
            state = loop.begin_at(state, earlier, most=most)
            if self.sample is not None:  # the search was on the sample
                state = replace(state, search_rounds=0)
        state = loop.reopen(state, self.max_rounds)
        save = None if on_state is None else lambda loop_state: on_state(ExactState(settings, moments, loop_state))
        lam = self._penalty()
        state = run(
            rounds,
            moments.frame,
            problem,
            state,
            precision=self._working,
            lam=lam,
            on_state=save,
            max_seconds=self._seconds,
        )
        self.state_ = ExactState(settings, moments, state)
        w, product = loop.solution(state)
        found = self._ordered(w, product)
        dense = nystrom.captured(state.model, self.n_components)
        self.variance_kept_ = -penalised_objective(found.w, found.captured, None) / dense
        self.certificate_ = state.incumbent.certificate if lam is not None and state.incumbent is not None else None
        self._set_bound(
            found, None, nystrom.at_most(state.model, self.n_components, moments.total), MODEL_ROUNDING * moments.total
        )
        self._conclude(state)
        return found

    def _solve_whole(
        self, rounds: Rounds, moments: Moments, rng: np.random.Generator, course: Course
    ) -> tuple[Found, Array]:
        """Ask for S in one sum, then search on S."""
        s = whole.ask(rounds, moments.frame, self._working)
        return self._solve_given(s, rounds, moments, course, rng), s

    def _solve_given(
        self, s: Array, rounds: Rounds, moments: Moments, course: Course, rng: np.random.Generator | None = None
    ) -> Found:
        """Search on S, which the last round returned, and report that round."""
        settings = self._settings(rounds.feature_names)
        found, state = self._solve_known(s, moments, rng or self._generator(), self._usable(course.earlier, moments))
        rounds.report(
            objective=self._objective(found.w, found.captured, rounds.n_sites),
            certificate=self.certificate_,
            nonzeros=int(np.count_nonzero(found.w)),
            upper_bound=self.upper_bound_,
        )
        self.state_ = ExactState(settings, moments, state)
        if course.on_state is not None:
            course.on_state(self.state_)
        return found

    def _solve_known(
        self, s: Array, moments: Moments, rng: np.random.Generator, earlier: loop.Earlier | None = None
    ) -> tuple[Found, loop.State]:
        """Search on S, and set the attributes that only this method knows."""
        problem = self._problem()
        begun = self._begin(moments, problem, rng, asks=False)
        deadline = time.monotonic() + self._seconds
        seconds = float(self.proof_seconds)
        solved = whole.solve(s, problem, begun, seconds=seconds, deadline=deadline, earlier=earlier)
        if self._rounded and solved.stopped is StopReason.PROVED:  # only of S as it was rounded
            solved = replace(solved, stopped=StopReason.STATIONARY)
        state = whole.known(s, problem, begun, solved)
        found = self._ordered(*loop.solution(state))
        self.certificate_ = None if self.lam is None else solved.certificate
        self.variance_kept_ = -penalised_objective(found.w, found.captured, None) / solved.dense
        rounding = ROUNDING * math.sqrt(self.n_components) * moments.total
        proved = solved.stopped is StopReason.PROVED
        self._set_bound(found, solved.bound, solved.dense * (1.0 + 1e-9), rounding, proved=proved)
        self._conclude(state)
        return found, state

    def _usable(self, earlier: loop.Earlier | None, moments: Moments) -> loop.Earlier | None:
        """Return where an earlier fit ended, if it had as many components; refuse other features."""
        if earlier is None:
            return None
        d = len(moments.mean)
        if any(part.ndim != 2 or len(part) != d for part in earlier):
            raise InvalidData(f"The earlier fit was to other features: these rows have {d}.")
        return earlier if earlier.w.shape[1] == self.n_components else None

    @property
    def _seconds(self) -> float:
        """How long a search may take."""
        return math.inf if self.max_seconds is None else float(self.max_seconds)

    @property
    def _rounded(self) -> bool:
        """Whether answers were in single precision."""
        return self._working == "float32"

    def _set_bound(
        self, found: Found, bound: float | None, dense: float, rounding: float, *, proved: bool = False
    ) -> None:
        """Set the upper bound and the gap; see :func:`~fedspca.estimators.exact_bound.bound_on`."""
        told = bound_on(found, self._penalty(), bound, dense, rounding if self._rounded else 0.0, proved=proved)
        self.upper_bound_, self.bound_is_dense_, self.optimality_gap_ = told

    def _begin(self, moments: Moments, problem: Problem, rng: np.random.Generator, *, asks: bool = True) -> loop.State:
        return loop.begin(
            problem,
            len(moments.mean),
            self.n_components,
            moments.total,
            rng,
            n_rotations=self.n_starts,
            max_rounds=self.max_rounds,
            rank_tol=RANK_TOL[self._working],
            asks=asks,
        )

    def _ordered(self, w: Array, product: Array) -> Found:
        """Fix the signs of the loadings, and sort them by decreasing variance unless each has its own setting."""
        captured = w.T @ product
        setting: Any = self.lam if self.lam is not None else self.n_nonzero
        own = np.ndim(setting) > 0
        order, signs = canonical_order(w, np.diag(captured), reorder=not own)
        return Found(w[:, order] * signs + 0.0, captured[order[:, None], order] * (signs[:, None] * signs))

    def _problem(self) -> Problem:
        if self.lam is not None and self.n_nonzero is not None:
            raise ValueError(
                "The 'lam' and 'n_nonzero' parameters of ExactSPCA are two ways to ask for sparsity. Give only one."
            )
        lam = self._penalty()
        if lam is not None:
            return Penalised(lam, self.tol)
        if self.n_nonzero is not None:
            problem = Cardinality(self._counts(self.n_nonzero), self.orthogonal)
            # a sample's weights are a little off, and a further pass puts them right
            return problem if self.sample is None else replace(problem, tol=GAIN_AFTER_SAMPLE)
        return VarianceKept(float(self.variance_kept))

    def _penalty(self) -> Array | None:
        if self.lam is None:
            return None
        lam = np.asarray(self.lam, dtype=np.float64)
        if lam.ndim == 0:
            return np.full(self.n_components, float(lam))
        if lam.shape != (self.n_components,) or not (np.isfinite(lam).all() and (lam >= 0).all()):
            raise ValueError(
                f"The 'lam' parameter of ExactSPCA, as a sequence, must have a non-negative number for each of the "
                f"{self.n_components} components. Got {self.lam!r} instead."
            )
        return lam

    def _counts(self, n_nonzero: Any) -> tuple[int, ...]:
        given = np.asarray(n_nonzero)
        counts = np.full(self.n_components, given) if given.ndim == 0 else given
        if counts.shape != (self.n_components,) or counts.dtype.kind not in "iu" or (counts < 1).any():
            raise ValueError(
                f"The 'n_nonzero' parameter of ExactSPCA must be an integer of at least 1, or one for each of the "
                f"{self.n_components} components. Got {n_nonzero!r} instead."
            )
        return tuple(int(count) for count in counts)

    def _conclude(self, state: loop.State) -> None:
        self.stop_reason_ = state.stopped or StopReason.MAX_ROUNDS
        if self.stop_reason_.success or self.stop_reason_ is StopReason.CALLBACK:
            return
        told = stopped_early(self.stop_reason_, state.round, self.certificate_, self.tol)
        warn_caller(f"ExactSPCA {told}", ConvergenceWarning)

    def _objective(self, w: Array, captured: Array, n_sites: int) -> float:
        return penalised_objective(w, captured, self._penalty())


def more_than_there_are(n_nonzero: Any, n_features: int) -> str | None:
    """Say that more non-zeros are asked for than there are features; None if they are not."""
    most = 0 if isinstance(n_nonzero, str) else int(np.max(n_nonzero))
    if most <= n_features:
        return None
    there = f"there {'is' if n_features == 1 else 'are'} {count(n_features, 'feature')}"
    return f"n_nonzero is {most}, and {there}: each of them may have a weight."


def stopped_early(reason: StopReason, rounds: int, certificate: float | None, tol: float) -> str:
    """Say why a fit stopped before its search was over, and what helps against that reason."""
    certified = certificate is not None and certificate <= tol
    after = f"stopped after {rounds} round{'' if rounds == 1 else 's'}"
    if certified:
        return (
            f"{after}: {reason.value}. The certificate holds ({certificate:.1e}), so that no small change of the "
            f"loadings helps. The search for other loadings was cut short. {reason.remedy}"
        )
    reached = "" if certificate is None else f" with a certificate of {certificate:.1e} (tol={tol:g})"
    return f"{after}{reached}: {reason.value}. {reason.remedy}"


def _listed(value: Any) -> Any:
    """Return an array, or a number of numpy's, as JSON can hold it."""
    return np.asarray(value).tolist()


def _directions(federation: Federation, r: int) -> int:
    """Return how many directions the first question of an update may ask: later ones ask some of them, and others."""
    allowed = most_directions(federation)
    return MOST_DIRECTIONS if allowed is None else min(MOST_DIRECTIONS, allowed - 3 * r - LATER_DIRECTIONS)
