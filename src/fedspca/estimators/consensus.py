"""The paper's two methods as estimators."""

import warnings
from abc import abstractmethod
from collections.abc import Callable, Sequence
from numbers import Integral, Real
from typing import Any, ClassVar, Literal, Self, cast

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from fedspca.estimators.base import FederatedSparsePCA, Found, checked_federation
from fedspca.federation import Federation
from fedspca.linalg.operators import Frame
from fedspca.linalg.shrinkage import smooth_abs
from fedspca.site.queries import Query
from fedspca.solvers.deflation import Loadings, Plan, captured_variance
from fedspca.solvers.faspca import faspca
from fedspca.solvers.fsspca import LocalDescent, fsspca
from fedspca.solvers.rounds import Round, Rounds
from fedspca.solvers.standardise import Moments
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
    deflation: Literal["orthogonal", "generalized"]
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

    @abstractmethod
    def _run(self, rounds: Rounds, frame: Frame, plan: Plan, columns: slice, rng: np.random.Generator) -> Loadings:
        """Run the method for these of all components."""

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

    def extend(self, X: Any, n_components: int, *, sites: Any = None) -> Self:
        """Add loadings to the fitted ones, which stay as they are, from the same rows.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            The rows that the model was fitted to.
        n_components : int
            How many loadings to add, all at once. Penalties given one a component must name the new ones too.
        sites : array-like of shape (n_samples,), optional
            The owner of each row.

        Returns
        -------
        self : object
            The same estimator, with ``n_components`` more components.
        """
        check_is_fitted(self)
        return self.extend_federation(self._local_federation(X, sites, reset=False), n_components)

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
        rounds, bar = self._rounds(checked_federation(federation), self.history_)
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
        answer = rounds.sum(Query("moments"))
        spread = np.where(moments.constant, np.inf, np.sqrt(self.total_variance_) * np.maximum(moments.scale, 1.0))
        moved = np.abs(answer["sums"] / answer["counts"] - moments.mean) > 1e-6 * (spread + np.abs(moments.mean))
        if answer.number("rows") != moments.n_rows or moved.any():
            raise ValueError(
                f"The model was fitted to {moments.n_rows} rows, and these are others ({answer.number('rows'):.0f} rows"
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

    def _plan(self, sizes: tuple[int, ...], init: Any, *, last: bool = False) -> Plan:
        rho = self._rho(len(self._sizes(self.n_components)))  # a stage that is added takes the last one's
        return Plan(
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
        """Penalty weights for these components, from one number or one a component."""
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
        """Keep why it stopped; warn, with what to try, unless it converged."""
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
        warnings.warn(
            f"{type(self).__name__} stopped after {self.max_rounds} rounds of stage {stage} with a primal residual of "
            f"{worst.residuals.primal:.1e} and a dual residual of {worst.residuals.dual:.1e} (tol={self.tol:g}, "
            f"rho={worst.rho:g}). Try {'; or '.join(tries)}.",
            ConvergenceWarning,
            stacklevel=5,
        )


class FASPCA(ConsensusSparsePCA):
    """Federated sparse PCA by a least-squares approximation: FASPCA, and its block form.

    Min over w in St(d, r) of ‖A − Awwᵀ‖² + Σ λ_j‖w_j‖₁ over the rows of all sites, by consensus ADMM. Each site takes
    for Aw its value of the round before, which makes its problem linear on the manifold: the polar factor solves it.

    Parameters
    ----------
    n_components : int, default=2
        How many loadings.
    lam : float or array-like of shape (n_components,), default=1.0
        Weight of the ℓ1 norm, for all loadings or for each. It is weighed against sums of squares over all rows, so it
        grows with them.
    block_sizes : sequence of int, optional
        How many loadings each stage solves for. None solves for all at once (the block form); ``[1] * n_components`` is
        the paper's method, one at a time with deflation.
    rho : float, "auto" or a sequence of them, default="auto"
        Penalty of the augmented Lagrangian, one for all stages or one a stage. ``"auto"`` is the sites' largest
        curvature, below which consensus does not converge; the paper has 1000.
    adaptive_rho : bool, optional
        Whether ρ doubles while residuals grow. None lets only an automatic one.
    init : {"warm", "random"} or array-like of shape (n_components, n_features), default="warm"
        A common start from a few block power rounds, or random ones at each site as in the paper, or given components.
    deflation : {"orthogonal", "generalized"}, default="orthogonal"
        Whether later stages stay orthogonal to earlier loadings throughout, so that zeros survive, or are only
        orthonormal in the metric G = I − ZZᵀ and projected at the end, as in the paper.
    finish : {"sparse", "qf"}, default="sparse"
        The last step: orthonormal loadings that keep every zero, or the paper's Q factor, which may fill zeros in.
    scale : bool, default=False
        Divide features by their joint standard deviation (ddof = 1).
    max_missing : float, default=0.0
        The largest share of missing values (NaN) that a feature may have over all sites. They stand at the joint mean.
    tol : float, default=1e-6
        Relative primal and dual residual at which consensus is reached.
    max_rounds : int, default=1000
        The most rounds a stage may take.
    random_state : int, Generator, RandomState or None, default=0
        Seed of the first directions and of random starts.
    callbacks : list of callables, optional
        Each is called with every :class:`~fedspca.Round` as it happens.
    verbose : int, default=0
        1 shows a progress bar.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        Sparse, orthonormal loadings; the weight of largest magnitude of each is positive.
    mean_, scale_ : ndarray of shape (n_features,)
        Joint mean, and what features are divided by.
    explained_variance_, explained_variance_ratio_ : ndarray of shape (n_components,)
        Variance that each component adds to those before it (adjusted for correlated scores), and its share.
    objective_ : float
        −tr(wᵀSw) + Σ λ_j‖w_j‖₁ of the components.
    history_ : list of Round
        One record a round.
    n_rounds_, n_sites_, n_samples_ : int
        Sums asked for, sites and rows.
    stop_reason_ : StopReason
        Why it stopped.
    rho_ : ndarray
        The last ρ of each stage.
    constant_features_ : ndarray of int
        Features with one value everywhere.
    missing_share_ : ndarray of shape (n_features,)
        The share of each feature's values that are missing.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from fedspca import FASPCA
    >>> data = load_breast_cancer(as_frame=True).data
    >>> owners = [row % 5 for row in range(len(data))]
    >>> pca = FASPCA(n_components=2, lam=600, scale=True).fit(data, sites=owners)
    >>> [int((weights != 0).sum()) for weights in pca.components_]
    [18, 18]
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **ConsensusSparsePCA._parameter_constraints,
        "lam": [NON_NEGATIVE, "array-like"],
    }

    def __init__(
        self,
        n_components: int = 2,
        *,
        lam: float | Sequence[float] = 1.0,
        block_sizes: Sequence[int] | None = None,
        rho: float | Literal["auto"] | Sequence[float | Literal["auto"]] = "auto",
        adaptive_rho: bool | None = None,
        init: Any = "warm",
        deflation: Literal["orthogonal", "generalized"] = "orthogonal",
        finish: Literal["sparse", "qf"] = "sparse",
        scale: bool = False,
        max_missing: float = 0.0,
        tol: float = 1e-6,
        max_rounds: int = 1000,
        random_state: Any = 0,
        callbacks: Sequence[Callable[[Round], object]] | None = None,
        verbose: int = 0,
    ) -> None:
        self.n_components = n_components
        self.lam = lam
        self.block_sizes = block_sizes
        self.rho = rho
        self.adaptive_rho = adaptive_rho
        self.init = init
        self.deflation = deflation
        self.finish = finish
        self.scale = scale
        self.max_missing = max_missing
        self.tol = tol
        self.max_rounds = max_rounds
        self.random_state = random_state
        self.callbacks = callbacks
        self.verbose = verbose

    def _run(self, rounds: Rounds, frame: Frame, plan: Plan, columns: slice, rng: np.random.Generator) -> Loadings:
        return faspca(rounds, frame, plan, self._penalty("lam", columns), rng)

    def _objective(self, w: Array, captured: Array, n_sites: int) -> float:  # noqa: ARG002 - FSSPCA's has it
        return _weighted(self.lam, np.abs(w)) - float(np.trace(captured))


class FSSPCA(ConsensusSparsePCA):
    """Federated sparse PCA with a smoothed ℓ1 norm at the sites: FSSPCA.

    Min over w in St(d, r) of Σ_i (‖A_i − A_iwwᵀ‖² + λ1 r(w)) + λ2‖w‖₁ over all rows, by consensus ADMM, where
    r(w) = Σ ψ(w_jk) rounds the absolute value off within μ/2 of zero. Each site descends on the Stiefel manifold.

    Parameters
    ----------
    n_components : int, default=2
        How many loadings.
    lam1 : float or array-like of shape (n_components,), default=0.0
        Weight of each site's smoothed norm; 0 is the method of Tan et al. (2019). It counts once a site.
    lam2 : float or array-like of shape (n_components,), default=1.0
        Weight of the ℓ1 norm of the consensus.
    mu : float, default=1e-3
        Width of the smoothing.
    block_sizes : sequence of int, optional
        How many loadings each stage solves for: r_1, r_2, …; None solves for all at once.
    rho : float, "auto" or a sequence of them, default="auto"
        Penalty of the augmented Lagrangian, one for all stages or one a stage. ``"auto"`` is the sites' largest
        curvature, below which consensus does not converge; the paper has 1000.
    adaptive_rho : bool, optional
        Whether ρ doubles while residuals grow. None lets only an automatic one.
    init : {"warm", "random"} or array-like of shape (n_components, n_features), default="warm"
        A common start from a few block power rounds, or random ones at each site as in the paper, or given components.
    line_search : {"armijo", "wolfe"}, default="armijo"
        The condition that a step size must satisfy: Armijo's, or the strong Wolfe conditions.
    retraction : {"qr", "polar"}, default="qr"
        How a step returns to the manifold.
    local_steps : int, default=5
        The most steps that each site takes in a round. A few serve consensus better than many.
    local_tol : float, default=0.05
        A site also stops when its gradient has fallen to this share of what it was in the round's first step; with
        a small one and many steps the local problem is solved, as the paper has it.
    deflation : {"orthogonal", "generalized"}, default="orthogonal"
        Whether later stages stay orthogonal to earlier loadings throughout, so that zeros survive, or move on the
        generalised Stiefel manifold and are projected at the end, as in the paper.
    finish : {"sparse", "qf"}, default="sparse"
        The last step: orthonormal loadings that keep every zero, or the paper's Q factor, which may fill zeros in.
    scale : bool, default=False
        Divide features by their joint standard deviation (ddof = 1).
    max_missing : float, default=0.0
        The largest share of missing values (NaN) that a feature may have over all sites. They stand at the joint mean.
    tol : float, default=1e-6
        Relative primal and dual residual at which consensus is reached.
    max_rounds : int, default=1000
        The most rounds a stage may take.
    random_state : int, Generator, RandomState or None, default=0
        Seed of the first directions and of random starts.
    callbacks : list of callables, optional
        Each is called with every :class:`~fedspca.Round` as it happens.
    verbose : int, default=0
        1 shows a progress bar.

    Attributes
    ----------
    components_, mean_, scale_, explained_variance_, explained_variance_ratio_, history_, n_rounds_, n_sites_, \
n_samples_, stop_reason_, rho_, constant_features_
        As in :class:`FASPCA`.
    objective_ : float
        −tr(wᵀSw) + K Σ λ1_j r(w_j) + Σ λ2_j‖w_j‖₁ of the components.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from fedspca import FSSPCA
    >>> data = load_breast_cancer(as_frame=True).data
    >>> owners = [row % 5 for row in range(len(data))]
    >>> pca = FSSPCA(n_components=2, lam1=10, lam2=500, scale=True).fit(data, sites=owners)
    >>> pca.components_.shape
    (2, 30)
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **ConsensusSparsePCA._parameter_constraints,
        "lam1": [NON_NEGATIVE, "array-like"],
        "lam2": [NON_NEGATIVE, "array-like"],
        "mu": [POSITIVE],
        "line_search": [StrOptions({"armijo", "wolfe"})],
        "retraction": [StrOptions({"qr", "polar"})],
        "local_steps": [AT_LEAST_ONE],
        "local_tol": [POSITIVE],
    }

    def __init__(
        self,
        n_components: int = 2,
        *,
        lam1: float | Sequence[float] = 0.0,
        lam2: float | Sequence[float] = 1.0,
        mu: float = 1e-3,
        block_sizes: Sequence[int] | None = None,
        rho: float | Literal["auto"] | Sequence[float | Literal["auto"]] = "auto",
        adaptive_rho: bool | None = None,
        init: Any = "warm",
        line_search: Literal["armijo", "wolfe"] = "armijo",
        retraction: Literal["qr", "polar"] = "qr",
        local_steps: int = 5,
        local_tol: float = 0.05,
        deflation: Literal["orthogonal", "generalized"] = "orthogonal",
        finish: Literal["sparse", "qf"] = "sparse",
        scale: bool = False,
        max_missing: float = 0.0,
        tol: float = 1e-6,
        max_rounds: int = 1000,
        random_state: Any = 0,
        callbacks: Sequence[Callable[[Round], object]] | None = None,
        verbose: int = 0,
    ) -> None:
        self.n_components = n_components
        self.lam1 = lam1
        self.lam2 = lam2
        self.mu = mu
        self.block_sizes = block_sizes
        self.rho = rho
        self.adaptive_rho = adaptive_rho
        self.init = init
        self.line_search = line_search
        self.retraction = retraction
        self.local_steps = local_steps
        self.local_tol = local_tol
        self.deflation = deflation
        self.finish = finish
        self.scale = scale
        self.max_missing = max_missing
        self.tol = tol
        self.max_rounds = max_rounds
        self.random_state = random_state
        self.callbacks = callbacks
        self.verbose = verbose

    def _run(self, rounds: Rounds, frame: Frame, plan: Plan, columns: slice, rng: np.random.Generator) -> Loadings:
        local = LocalDescent(
            float(self.mu), int(self.local_steps), float(self.local_tol), self.line_search, self.retraction
        )
        lam1, lam2 = self._penalty("lam1", columns), self._penalty("lam2", columns)
        return fsspca(rounds, frame, plan, lam1, lam2, local, rng)

    def _objective(self, w: Array, captured: Array, n_sites: int) -> float:
        smooth = n_sites * _weighted(self.lam1, smooth_abs(w, self.mu)) if np.any(self.lam1) else 0.0
        return smooth + _weighted(self.lam2, np.abs(w)) - float(np.trace(captured))


def _is_count(value: object) -> bool:
    return isinstance(value, Integral) and int(value) >= 1


def _weighted(lam: Any, magnitudes: Array) -> float:
    """Sum of magnitudes, each column with its weight."""
    weights = np.asarray(lam, dtype=np.float64)
    return float(np.sum(weights[: magnitudes.shape[1]] * magnitudes if weights.ndim else weights * magnitudes))
