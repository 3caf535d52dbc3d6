"""Tan, Hu, Yan, Cao, Gong and Wu (2019), Learning sparse PCA with stabilized ADMM on the Stiefel manifold, IEEE TKDE.

The paper builds on this method. It is FSSPCA without the smoothed norm. Each site solves its local problem by conjugate
gradients on the manifold.
"""

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from fedspca.estimators import FSSPCA
from fedspca.estimators.consensus import NON_NEGATIVE
from fedspca.solvers.rounds import Round

Array = NDArray[np.float64]


class StabilizedADMM(FSSPCA):
    """Min over w in St(d, r) of ‖A − Awwᵀ‖² + λ‖w‖₁ by consensus ADMM, with conjugate gradients at the sites.

    Parameters
    ----------
    n_components : int, default=2
        How many loadings.
    lam : float or array-like of shape (n_components,), default=1.0
        Weight of the ℓ1 norm.
    rho : float or "auto", default="auto"
        Penalty of the augmented Lagrangian.
    init : {"warm", "random"} or array-like, default="warm"
        A common start, or a random start at each site.
    local_steps, local_tol : int, float, default=50, 1e-3
        The stopping rule of a site within a round: most steps, and tolerance.
    scale, tol, max_rounds, random_state, callbacks, verbose
        As in :class:`~fedspca.FSSPCA`.
    """

    reveals: ClassVar[str] = (
        "the local loadings plus the scaled dual variable, d × r numbers a round: a site's covariance"
    )
    # parameters of FSSPCA that the source does not have
    lam1 = 0.0
    mu = 1e-3
    block_sizes = None
    adaptive_rho = None
    line_search: Literal["armijo", "wolfe"] = "armijo"
    direction: Literal["steepest", "conjugate", "newton"] = "conjugate"
    retraction: Literal["qr", "polar"] = "qr"
    local_start: Literal["last", "random"] = "last"
    deflation: Literal["orthogonal", "generalized", "literal"] = "orthogonal"
    finish: Literal["sparse", "qf"] = "sparse"

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        name: FSSPCA._parameter_constraints[name]
        for name in ("n_components", "rho", "init", "local_steps", "local_tol", "scale", "max_missing")
    } | {
        "lam": [NON_NEGATIVE, "array-like"],
        **{
            name: FSSPCA._parameter_constraints[name]
            for name in ("tol", "max_rounds", "random_state", "callbacks", "verbose")
        },
    }

    def __init__(
        self,
        n_components: int = 2,
        *,
        lam: float | Sequence[float] = 1.0,
        rho: float | Literal["auto"] = "auto",
        init: Any = "warm",
        local_steps: int = 50,
        local_tol: float = 1e-3,
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
        self.rho = rho
        self.init = init
        self.local_steps = local_steps
        self.local_tol = local_tol
        self.scale = scale
        self.max_missing = max_missing
        self.tol = tol
        self.max_rounds = max_rounds
        self.random_state = random_state
        self.callbacks = callbacks
        self.verbose = verbose

    @property
    def lam2(self) -> Any:  # type: ignore[override] # the source has one penalty
        """FSSPCA's name for λ."""
        return self.lam
