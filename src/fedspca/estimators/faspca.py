"""FASPCA as an estimator."""

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.utils._param_validation import StrOptions

from fedspca.estimators.consensus import NON_NEGATIVE, ConsensusSparsePCA, weighted_norm
from fedspca.linalg.operators import Frame
from fedspca.solvers.deflation import Loadings, Stages
from fedspca.solvers.faspca import faspca
from fedspca.solvers.rounds import Round, Rounds

Array = NDArray[np.float64]


class FASPCA(ConsensusSparsePCA):
    """Federated sparse PCA by a least-squares approximation: FASPCA, and its block form.

    Min over w in St(d, r) of ‖A − Awwᵀ‖² + Σ λ_j‖w_j‖₁ over the rows of all sites, by consensus ADMM. Each site
    replaces Aw by its value of the previous round. Its problem is then linear on the manifold, and the polar factor
    solves it.

    Parameters
    ----------
    n_components : int, default=2
        How many loadings.
    lam : float or array-like of shape (n_components,), default=1.0
        Weight of the ℓ1 norm, for all loadings or for each. It is compared with sums of squares over all rows, so a
        suitable λ grows with the number of rows.
    block_sizes : sequence of int, optional
        How many loadings each stage solves for. None solves for all at once (the block form); ``[1] * n_components`` is
        the paper's method, one at a time with deflation.
    rho : float, "auto" or a sequence of them, default="auto"
        Penalty of the augmented Lagrangian, one for all stages or one per stage. ``"auto"`` is the sites' largest
        curvature, below which consensus does not converge; the paper uses 1000.
    adaptive_rho : bool, optional
        Whether ρ doubles while residuals grow. None means yes for ``rho="auto"`` only.
    init : {"warm", "random"} or array-like of shape (n_components, n_features), default="warm"
        A common start from a few block power rounds, or random ones at each site as in the paper, or given components.
    deflation : {"orthogonal", "generalized", "literal"}, default="orthogonal"
        Whether later stages stay orthogonal to earlier loadings throughout, so that zeros survive, or are only
        orthonormal in the metric G = I − ZZᵀ and projected at the end, as in the paper. ``"literal"`` follows Algorithm
        4 as printed: it also removes z before z is normalised. It allows at most two stages, and ends with a Q factor.
    finish : {"sparse", "qf"}, default="sparse"
        The last step: orthonormal loadings that keep every zero, or the paper's Q factor, which may fill zeros in.
    scale : bool, default=False
        Divide features by their joint standard deviation (ddof = 1). At the command line the default is True.
    max_missing : float, default=0.0
        The largest share of missing values (NaN) that a feature may have over all sites. The joint mean replaces them.
        At the command line the default is 0.2.
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
    captured_variance_ratio_ : ndarray of shape (n_components,)
        Share of the variance that the span of the first 1, 2, … components captures: cumulative. Compare this with
        dense PCA.
    score_covariance_ : ndarray of shape (n_components, n_components)
        Covariance of the scores. Sparse components may correlate.
    explained_variance_, explained_variance_ratio_ : ndarray of shape (n_components,)
        Variance of each score beyond what the scores before it predict (Zou, Hastie and Tibshirani 2006), and its
        share. Where scores correlate, it adds up to less than the variance captured.
    objective_ : float
        −tr(wᵀSw) + Σ λ_j‖w_j‖₁ of the components.
    history_ : list of Round
        One record per round.
    n_rounds_, n_sites_, n_samples_ : int
        Numbers of sums asked for, of sites and of rows.
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
        "deflation": [StrOptions({"orthogonal", "generalized", "literal"})],
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
        deflation: Literal["orthogonal", "generalized", "literal"] = "orthogonal",
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

    def _run(self, rounds: Rounds, frame: Frame, plan: Stages, columns: slice, rng: np.random.Generator) -> Loadings:
        if self.deflation == "literal" and len(plan.block_sizes) > 2:
            raise ValueError(
                "The 'deflation' parameter of FASPCA, as 'literal', is for two stages at most: with more, the printed "
                f"product of I − zzᵀ is not symmetric. Got block_sizes={list(plan.block_sizes)}; take 'generalized'."
            )
        return faspca(rounds, frame, plan, self._penalty("lam", columns), rng)

    def _objective(self, w: Array, captured: Array, n_sites: int) -> float:
        return weighted_norm(self.lam, np.abs(w)) - float(np.trace(captured))
