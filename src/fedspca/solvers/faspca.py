"""FASPCA: federated sparse PCA by a least-squares approximation (Algorithms 6 and 7, and their block form)."""

import numpy as np
from numpy.typing import NDArray

from fedspca.linalg.operators import Frame
from fedspca.solvers.consensus import Method
from fedspca.solvers.deflation import Loadings, Stages, solve_in_stages
from fedspca.solvers.rounds import Rounds


def faspca(
    rounds: Rounds,
    frame: Frame,
    plan: Stages,
    lam: NDArray[np.float64],
    rng: np.random.Generator,
) -> Loadings:
    """Min over w in St(d, r) of ‖A − Awwᵀ‖² + Σ λ_j‖w_j‖₁, each site replacing Aw by its value of the round before.

    With ``plan.block_sizes`` of ones this is the paper's method, one loading at a time with deflation; with one block
    of r it is the block form, whose local problem the polar factor solves exactly.
    """

    def method(columns: slice) -> Method:
        penalty = lam[columns]
        return Method("faspca_step", {}, {}, lam=penalty, lam1=np.zeros_like(penalty))

    return solve_in_stages(rounds, frame, plan, method, rng)
