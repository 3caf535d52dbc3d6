"""FSSPCA: federated sparse PCA with a smoothed ℓ1 norm at the sites (Algorithms 1 to 5)."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from fedspca.linalg.line_search import LineSearch
from fedspca.linalg.operators import Frame
from fedspca.linalg.stiefel import Retraction
from fedspca.solvers.consensus import Method
from fedspca.solvers.deflation import Loadings, Stages, solve_in_stages
from fedspca.solvers.rounds import Rounds


@dataclass(frozen=True)
class LocalDescent:
    """How each site solves its smooth problem: Algorithm 3's choices."""

    mu: float
    steps: int
    tol: float
    search: LineSearch
    retraction: Retraction
    begin: Literal["last", "random"]
    direction: Literal["steepest", "conjugate", "newton"]


def fsspca(
    rounds: Rounds,
    frame: Frame,
    plan: Stages,
    lam1: NDArray[np.float64],
    lam2: NDArray[np.float64],
    local: LocalDescent,
    rng: np.random.Generator,
) -> Loadings:
    """Min over w in St(d, r) of Σ_i(‖A_i − A_iwwᵀ‖² + λ1 r(w)) + λ2‖w‖₁, with r the smoothed ℓ1 norm.

    λ1 = 0 is the method of Tan et al. (2019) with which the paper compares.
    """

    def method(columns: slice) -> Method:
        return Method(
            "fsspca_step",
            {"lam1": lam1[columns]},
            {
                "mu": local.mu,
                "steps": local.steps,
                "tol": local.tol,
                "search": local.search,
                "retraction": local.retraction,
                "begin": local.begin,
                "direction": local.direction,
            },
            lam=lam2[columns],
            lam1=lam1[columns],
        )

    return solve_in_stages(rounds, frame, plan, method, rng)
