"""Hajinezhad and Hong (2015), Nonconvex ADMM for distributed sparse PCA, GlobalSIP."""

from collections.abc import Callable, Sequence
from numbers import Real
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.utils._param_validation import Interval, StrOptions

from fedspca.literature.base import WHOLE, Covariance, Literature
from fedspca.literature.mackey import one_by_one_of
from fedspca.literature.penalties import PENALTIES
from fedspca.solvers.rounds import Round

Array = NDArray[np.float64]


class NonconvexADMM(Literature):
    """Min −½ xᵀSx + λh(z) with x = z and ‖z‖ ≤ 1, for h the ℓ1 norm, SCAD, MCP or a logarithm, by ADMM.

    In the source, every agent has a copy x_i of x, and the coordinator has z. Here the coordinator knows the sum of the
    sites' covariances, so one x is enough and the coordinator takes all steps: x = (ρI − S)⁻¹(ρz − y); then z is the
    proximal map of h, shortened to length one if it is longer; then y ← y + ρ(x − z). Deflation gives the further
    loadings.

    Parameters
    ----------
    n_components : int, default=2
        How many loadings.
    penalty : {"l1", "scad", "mcp", "log"}, default="mcp"
        The penalty h.
    lam : float, default=1.0
        The weight of h. It is compared with the entries of Sx.
    scale, tol, max_rounds, random_state, callbacks, verbose
        As in :class:`~fedspca.literature.TruncatedPower`; ``max_rounds`` counts ADMM steps, which send no query.
    """

    reveals = WHOLE
    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **Literature._parameter_constraints,
        "penalty": [StrOptions(set(PENALTIES))],
        "lam": [Interval(Real, 0, None, closed="left")],
    }

    def __init__(
        self,
        n_components: int = 2,
        *,
        penalty: Literal["l1", "scad", "mcp", "log"] = "mcp",
        lam: float = 1.0,
        scale: bool = False,
        tol: float = 1e-6,
        max_rounds: int = 20000,
        random_state: Any = 0,
        callbacks: Sequence[Callable[[Round], object]] | None = None,
        verbose: int = 0,
    ) -> None:
        self.n_components = n_components
        self.penalty = penalty
        self.lam = lam
        self.scale = scale
        self.tol = tol
        self.max_rounds = max_rounds
        self.random_state = random_state
        self.callbacks = callbacks
        self.verbose = verbose

    def _loadings(self, s: Covariance, r: int, rng: np.random.Generator) -> Array:
        return one_by_one_of(s.whole(), r, lambda matrix: self._one(s, matrix))

    def _one(self, s: Covariance, matrix: Array) -> Array:
        """Run the ADMM from the leading eigenvector, with ρ = 2λ_max, which makes the x-step convex."""
        values, vectors = np.linalg.eigh(matrix)
        rho = 2.0 * float(values[-1])
        prox = PENALTIES[self.penalty]
        inverse = (vectors / (rho - values)) @ vectors.T

        def step(state: Array) -> Array:
            z, y = state
            x = inverse @ (rho * z - y)
            z = within_ball(prox(x + y / rho, self.lam / rho))
            return np.stack([z, y + rho * (x - z)])

        return np.asarray(self._settled(s, step, np.stack([vectors[:, -1], matrix @ vectors[:, -1]]))[0])


def within_ball(z: Array) -> Array:
    """Z, shortened to length one if it is longer."""
    return np.asarray(z / max(1.0, float(np.linalg.norm(z))))
