"""What the paper's two methods share as estimators."""

from abc import abstractmethod
from collections.abc import Sequence
from numbers import Integral, Real
from typing import Any, ClassVar, Literal, Self, cast

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from fedspca._callers import warn_caller
from fedspca.estimators.base import FederatedSparsePCA, Found, checked_federation
from fedspca.estimators.paper import paper_settings
from fedspca.estimators.rows import RowsBeside
from fedspca.federation import Federation
from fedspca.federation.base import preparation_of
from fedspca.linalg.operators import Frame
from fedspca.solvers.deflation import Loadings, Stages, captured_variance
from fedspca.solvers.mapping import through
from fedspca.solvers.rounds import Rounds
from fedspca.solvers.standardise import Moments, first_sums
from fedspca.solvers.stopping import StopReason

Array = NDArray[np.float64]

NON_NEGATIVE = Interval(Real, 0, None, closed="left")
POSITIVE = Interval(Real, 0, None, closed="neither")
AT_LEAST_ONE = Interval(Integral, 1, None, closed="left")


class ConsensusSparsePCA(FederatedSparsePCA):
    """What FSSPCA and FASPCA share: consensus ADMM in stages, and adding loadings to a fitted model."""

    block_sizes: Sequence[int] | None
    rho: float | Literal["auto"] | Sequence[float | Literal["auto"]]
    adaptive_rho: bool | None
    init: Any
    deflation: Literal["orthogonal", "generalized", "literal"]
    finish: Literal["sparse", "qf"]
    tol: float
    rho_: Array

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "n_components": [AT_LEAST_ONE],
        "block_sizes": ["array-like", None],
        "rho": [POSITIVE, StrOptions({"auto"}), "array-like"],
        "adaptive_rho": ["boolean", None],
        "init": [StrOptions({"warm", "random"}), "array-like"],
        "deflation": [StrOptions({"orthogonal", "generalized"})],
        "finish": [StrOptions({"sparse", "qf"})],
        "scale": ["boolean"],
        "max_missing": [Interval(Real, 0, 1, closed="both")],
        "tol": [POSITIVE],
        "max_rounds": [AT_LEAST_ONE],
        "random_state": ["random_state", np.random.Generator],
        "callbacks": [list, tuple, None],
        "verbose": ["verbose"],
    }

    @classmethod
    def paper(cls, n_components: int = 2, **further: Any) -> Self:
        """Return the method with all settings of the paper, except those given in ``further``.

        Parameters
        ----------
        n_components : int, default=2
            How many loadings.
        **further
            Parameters of the estimator: the penalties, and all settings that should differ from the paper.
        """
        return cls(n_components, **{**paper_settings(cls.__name__, n_components), **further})

    @abstractmethod
    def _run(self, rounds: Rounds, frame: Frame, plan: Stages, columns: slice, rng: np.random.Generator) -> Loadings:
        """Run the method for some of the components, given by ``columns``."""

    def _solve(self, rounds: Rounds, moments: Moments, n_components: int, rng: np.random.Generator) -> Found:
        plan = self._plan(self._sizes(n_components), self._init((len(moments.mean), n_components)))
        loadings = self._run(rounds, moments.frame, plan, slice(0, n_components), rng)
        self._conclude(loadings)
        return self._evaluated(rounds, moments, loadings.w)

    def _evaluated(self, rounds: Rounds, moments: Moments, w: Array) -> Found:
        captured = captured_variance(rounds, moments.frame, w)
        objective = self._objective(w, captured, rounds.n_sites)
        rounds.report(objective=objective, nonzeros=int(np.count_nonzero(w)))
        return Found(w, captured)

    def extend(self, X: Any, n_components: int, *, sites: Any = None, **beside: Any) -> Self:
        """Add loadings to the fitted ones, which stay as they are, from the same rows.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            The rows that the model was fitted to.
        n_components : int
            How many loadings to add, all at once. Penalties given per component must include the new ones.
        sites : array-like of shape (n_samples,), optional
            The owner of each row.
        **beside
            Further arguments that :meth:`fit` was given: covariates, weights.

        Returns
        -------
        self : object
            The same estimator, with ``n_components`` more components.
        """
        check_is_fitted(self)
        return self.extend_federation(self._local_federation(X, RowsBeside(sites, **beside), reset=False), n_components)

    def extend_federation(self, federation: Federation, n_components: int) -> Self:
        """Add loadings to the fitted ones, which stay as they are, over a federation.

        Parameters
        ----------
        federation : Federation
            The sites that the model was fitted to.
        n_components : int
            How many loadings to add, all at once.

        Returns
        -------
        self : object
            The same estimator, with ``n_components`` more components.
        """
        check_is_fitted(self)
        self._validate_params()
        if not _is_count(n_components):
            raise ValueError(f"'n_components' must be an integer of at least 1. Got {n_components!r} instead.")
        found, moments, before = self.components_.T, self._fitted_moments(), self.stop_reason_
        self._check_n_components(n_components, moments, taken=self.n_components_)
        seen = through(checked_federation(federation), self.feature_map_)
        rounds, bar = self._rounds(seen, self.history_)
        rounds.stage = 1 + max(record.stage for record in self.history_)
        columns = slice(self.n_components_, self.n_components_ + n_components)
        plan = self._plan((n_components,), self._init(None), last=True)
        try:
            self._check_same_rows(rounds, moments)
            loadings = self._run(rounds, moments.frame.without(found), plan, columns, self._generator())
            earlier = self.rho_
            self._conclude(loadings)
            self.rho_ = np.concatenate([earlier, self.rho_])
            self.stop_reason_ = self.stop_reason_ if before.success else before
            self._set_fitted(rounds, moments, self._evaluated(rounds, moments, np.hstack([found, loadings.w])))
        finally:
            if bar is not None:
                bar.close()
        return self

    def _check_same_rows(self, rounds: Rounds, moments: Moments) -> None:
        """Raise unless the federation holds the features and rows that the model was fitted to, by one sum."""
        names = tuple(getattr(self, "feature_names_in_", rounds.feature_names))
        if names != rounds.feature_names or len(names) != len(moments.mean):
            raise ValueError("The features of the federation are not those that the model was fitted to.")
        if preparation_of(rounds) != self.preparation_:
            raise ValueError(
                "The model was fitted to rows with other covariates or weights. Extend it with the same, or fit anew."
            )
        first = first_sums(rounds, self.preparation_)
        spread = np.where(moments.constant, np.inf, np.sqrt(self.total_variance_) * np.maximum(moments.scale, 1.0))
        moved = np.abs(first.sums / first.counts - moments.mean) > 1e-6 * (spread + np.abs(moments.mean))
        if not np.isclose(first.n_rows, moments.n_rows, rtol=1e-12, atol=0.0) or moved.any():
            raise ValueError(
                f"The model was fitted to {moments.n_rows} rows, and these are others ({first.n_rows:.0f} rows"
                f"{', with other means' if moved.any() else ''}). Extend it with the same rows, or fit anew."
            )

    def _sizes(self, n_components: int) -> tuple[int, ...]:
        sizes = (n_components,) if self.block_sizes is None else tuple(self.block_sizes)
        if not all(_is_count(size) for size in sizes) or sum(sizes) != n_components:
            raise ValueError(
                f"The 'block_sizes' parameter of {type(self).__name__} must be positive integers that add up to "
                f"n_components={n_components}. Got {self.block_sizes!r} instead."
            )
        return sizes

    def _plan(self, sizes: tuple[int, ...], init: Any, *, last: bool = False) -> Stages:
        rho = self._rho(len(self._sizes(self.n_components)))  # an added stage uses the ρ of the last stage
        return Stages(
            block_sizes=sizes,
            rho=rho[-1:] if last else rho,
            adaptive_rho=self.adaptive_rho,
            init=init,
            deflation=self.deflation,
            finish=self.finish,
            tol=self.tol,
            max_rounds=self.max_rounds,
        )

    def _init(self, shape: tuple[int, int] | None) -> Any:
        if isinstance(self.init, str):
            return self.init
        if shape is None:
            return "warm"  # a given start was for the first components
        start = np.asarray(self.init, dtype=np.float64).T
        if start.shape != shape or not np.isfinite(start).all() or np.linalg.matrix_rank(start) < shape[1]:
            raise ValueError(
                f"The 'init' parameter of {type(self).__name__}, as an array, must be {shape[1]} finite and linearly "
                f"independent components of {shape[0]} features. Got shape {start.T.shape} instead."
            )
        return start

    def _rho(self, stages: int) -> tuple[float | Literal["auto"], ...]:
        given: tuple[Any, ...] = (self.rho,) * stages if np.ndim(self.rho) == 0 else tuple(cast(Any, self.rho))
        if len(given) != stages or not all(
            rho == "auto" or (isinstance(rho, Real) and float(rho) > 0) for rho in given
        ):
            raise ValueError(
                f"The 'rho' parameter of {type(self).__name__}, as a sequence, must have a positive number or 'auto' "
                f"for each of the {stages} stage(s). Got {self.rho!r} instead."
            )
        return given

    def _penalty(self, name: str, columns: slice) -> Array:
        """Penalty weights for these components, from one number, or one number per component."""
        try:
            given = np.asarray(getattr(self, name), dtype=np.float64)
        except (TypeError, ValueError):
            given = np.empty(0)
        if given.ndim == 0:
            return np.full(columns.stop - columns.start, float(given))
        if given.shape != (columns.stop,) or not (np.isfinite(given).all() and (given >= 0).all()):
            raise ValueError(
                f"The {name!r} parameter of {type(self).__name__}, as a sequence, must have a non-negative number for "
                f"each of the {columns.stop} components. Got {getattr(self, name)!r} instead."
            )
        return np.asarray(given[columns])

    def _conclude(self, loadings: Loadings) -> None:
        """Record why the fit stopped. If it did not converge, warn, and say what to try."""
        self.stop_reason_ = loadings.stop_reason
        self.rho_ = np.array([stage.rho for stage in loadings.stages])
        if self.stop_reason_ is not StopReason.MAX_ROUNDS:
            return
        stage, worst = max(enumerate(loadings.stages), key=lambda pair: pair[1].residuals.worst)
        tries = ["more rounds (max_rounds)", "a larger tol", "ExactSPCA, which needs about ten rounds"]
        if any(rho != "auto" for rho in self._rho(len(self._sizes(self.n_components)))):
            tries.insert(0, "rho='auto', since a rho below the sites' curvature does not converge")
        if isinstance(self.init, str) and self.init == "random":
            tries.insert(0, "init='warm', since sites that start apart may settle on other signs and rotations")
        warn_caller(
            f"{type(self).__name__} stopped after {self.max_rounds} rounds of stage {stage} with a primal residual of "
            f"{worst.residuals.primal:.1e} and a dual residual of {worst.residuals.dual:.1e} (tol={self.tol:g}, "
            f"rho={worst.rho:g}). Try {'; or '.join(tries)}.",
            ConvergenceWarning,
        )


def _is_count(value: object) -> bool:
    return isinstance(value, Integral) and int(value) >= 1


def weighted_norm(lam: Any, magnitudes: Array) -> float:
    """Sum of magnitudes, each column times its weight."""
    weights = np.asarray(lam, dtype=np.float64)
    return float(np.sum(weights[: magnitudes.shape[1]] * magnitudes if weights.ndim else weights * magnitudes))
