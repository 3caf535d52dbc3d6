"""FSSPCA as an estimator."""

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.utils._param_validation import StrOptions

from fedspca.estimators.consensus import AT_LEAST_ONE, NON_NEGATIVE, POSITIVE, ConsensusSparsePCA, weighted_norm
from fedspca.linalg.operators import Frame
from fedspca.linalg.shrinkage import smooth_abs
from fedspca.solvers.deflation import Loadings, Stages
from fedspca.solvers.fsspca import LocalDescent, fsspca
from fedspca.solvers.rounds import Round, Rounds

Array = NDArray[np.float64]


class FSSPCA(ConsensusSparsePCA):
    """Federated sparse PCA with a smoothed ℓ1 norm at the sites: FSSPCA.

    Min over w in St(d, r) of Σ_i (‖A_i − A_iwwᵀ‖² + λ1 r(w)) + λ2‖w‖₁ over all rows, by consensus ADMM, where
    r(w) = Σ ψ(w_jk) rounds the absolute value off within μ/2 of zero. Each site descends on the Stiefel manifold.

    Parameters
    ----------
    n_components : int, default=2
        How many loadings.
    lam1 : float or array-like of shape (n_components,), default=0.0
        Weight of each site's smoothed norm; 0 is the method of Tan et al. (2019). It counts once per site.
    lam2 : float or array-like of shape (n_components,), default=1.0
        Weight of the ℓ1 norm of the consensus.
    mu : float, default=1e-3
        Width of the smoothing.
    block_sizes : sequence of int, optional
        How many loadings each stage solves for: r_1, r_2, …; None solves for all at once.
    rho : float, "auto" or a sequence of them, default="auto"
        Penalty of the augmented Lagrangian, one for all stages or one per stage. ``"auto"`` is the sites' largest
        curvature, below which consensus does not converge; the paper uses 1000.
    adaptive_rho : bool, optional
        Whether ρ doubles while residuals grow. None means yes for ``rho="auto"`` only.
    init : {"warm", "random"} or array-like of shape (n_components, n_features), default="warm"
        A common start from a few block power rounds, or random ones at each site as in the paper, or given components.
    line_search : {"armijo", "wolfe"}, default="armijo"
        The condition that a step size must satisfy: Armijo's, or the strong Wolfe conditions.
    direction : {"steepest", "conjugate", "newton"}, default="steepest"
        Steepest descent as in the paper, conjugate gradients as in Tan et al. (2019), or Newton's method, which solves
        a local problem to its minimum in the least time.
    retraction : {"qr", "polar"}, default="qr"
        How a step returns to the manifold.
    local_steps : int, default=5
        The most steps that each site takes in a round. Consensus converges better with few steps than with many.
    local_tol : float, default=0.05
        A site also stops when its gradient has fallen to this share of the gradient at the round's first step. With
        a small value and many steps the local problem is solved to its minimum, as in the paper.
    local_start : {"last", "random"}, default="last"
        Where a site's descent begins in each round: at its loadings of the round before, or, as Algorithm 3 is
        printed, at a random point. Both give the same result if ρ is so large that the local problem has one minimum.
    deflation : {"orthogonal", "generalized"}, default="orthogonal"
        Whether later stages stay orthogonal to earlier loadings throughout, so that zeros survive, or move on the
        generalised Stiefel manifold and are projected at the end, as in the paper.
    finish : {"sparse", "qf"}, default="sparse"
        The last step: orthonormal loadings that keep every zero, or the paper's Q factor, which may fill zeros in.
    scale : bool, default=False
        Divide features by their joint standard deviation (ddof = 1). At the command line the default is True.
    max_missing : float, default=0.0
        The largest share of missing values (NaN) that a feature may have over all sites. The joint mean replaces them.
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
        "direction": [StrOptions({"steepest", "conjugate", "newton"})],
        "retraction": [StrOptions({"qr", "polar"})],
        "local_steps": [AT_LEAST_ONE],
        "local_tol": [POSITIVE],
        "local_start": [StrOptions({"last", "random"})],
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
        direction: Literal["steepest", "conjugate", "newton"] = "steepest",
        retraction: Literal["qr", "polar"] = "qr",
        local_steps: int = 5,
        local_tol: float = 0.05,
        local_start: Literal["last", "random"] = "last",
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
        self.direction = direction
        self.retraction = retraction
        self.local_steps = local_steps
        self.local_tol = local_tol
        self.local_start = local_start
        self.deflation = deflation
        self.finish = finish
        self.scale = scale
        self.max_missing = max_missing
        self.tol = tol
        self.max_rounds = max_rounds
        self.random_state = random_state
        self.callbacks = callbacks
        self.verbose = verbose

    def _run(self, rounds: Rounds, frame: Frame, plan: Stages, columns: slice, rng: np.random.Generator) -> Loadings:
        local = LocalDescent(
            float(self.mu),
            int(self.local_steps),
            float(self.local_tol),
            self.line_search,
            self.retraction,
            self.local_start,
            self.direction,
        )
        lam1, lam2 = self._penalty("lam1", columns), self._penalty("lam2", columns)
        return fsspca(rounds, frame, plan, lam1, lam2, local, rng)

    def _objective(self, w: Array, captured: Array, n_sites: int) -> float:
        smooth = n_sites * weighted_norm(self.lam1, smooth_abs(w, self.mu)) if np.any(self.lam1) else 0.0
        return smooth + weighted_norm(self.lam2, np.abs(w)) - float(np.trace(captured))
