"""The workers' side of consensus ADMM: the local primal and dual updates of FSSPCA and FASPCA.

A round is one exchange. The question brings zᵗ. The site first takes the dual step, which needs zᵗ:
uᵗ = uᵗ⁻¹ + ρ(wᵗ − zᵗ). It then takes its primal step, and answers with terms of sums: wᵗ⁺¹ + uᵗ/ρ and a few norms.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedspca.linalg.operators import DeflatedRows, Frame
from fedspca.linalg.stiefel import polar_factor, project_out
from fedspca.site.descent import Descent, ReconstructionProblem, descend

Array = NDArray[np.float64]


class ConsensusState(NamedTuple):
    """What a site keeps between rounds. It never leaves the site."""

    iteration: int  # how many primal steps were taken
    frame: Frame
    w: Array
    u: Array
    gram_w: Array  # AᵀAw, kept because the next step begins with it
    rho: float
    step: float  # the last step size accepted, where the next line search begins


def begin(rows: DeflatedRows, frame: Frame, w: Array) -> ConsensusState:
    """State before the first round: w given, u = 0."""
    return ConsensusState(0, frame, w, np.zeros_like(w), rows.gram_product(w), rho=0.0, step=0.0)


def restarted(rows: DeflatedRows, state: ConsensusState, w: Array) -> ConsensusState:
    """Begin this round's descent at another point (Algorithm 3, step 1, as printed)."""
    return state._replace(w=w, gram_w=rows.gram_product(w), step=0.0)


def dual_step(state: ConsensusState, z: Array) -> ConsensusState:
    """Update u ← u + ρ(w − z), with the ρ of the round in which w was found; no update before the first round."""
    if state.iteration == 0:
        return state
    return state._replace(u=state.u + state.rho * (state.w - z))


def fsspca_update(
    rows: DeflatedRows, state: ConsensusState, problem: ReconstructionProblem, how: Descent
) -> ConsensusState:
    """Primal step of FSSPCA: descend on the smoothed problem."""
    w, gram_w, step = descend(rows, replace(problem, u=state.u), state.w, state.gram_w, state.step, how)
    return state._replace(w=w, gram_w=gram_w, step=step)


def faspca_update(
    rows: DeflatedRows, state: ConsensusState, z: Array, rho: float, stay_in_complement: bool
) -> ConsensusState:
    """Primal step of FASPCA: argmin over wᵀw = I of ‖A − Ywᵀ‖² + ⟨u, w⟩ + (ρ/2)‖w − z‖² with Y = Awᵗ.

    On the manifold ‖w‖ is fixed, so the problem is linear and its solution is the polar factor of 2AᵀY − u + ρz;
    with one column that is the numerator of Algorithm 7, normalised.
    """
    pull = 2.0 * state.gram_w - state.u + rho * z
    if stay_in_complement:
        pull = project_out(rows.removed, pull)
    w = polar_factor(pull, rows.removed)
    return state._replace(w=w, gram_w=rows.gram_product(w))


def consensus_terms(state: ConsensusState, z: Array, rho: float, smooth: Callable[[Array], Array]) -> dict[str, Array]:
    """Build the site's terms after its primal step: what the master averages, and norms for residuals and objective."""
    gap = state.w - z
    return {
        "consensus": state.w + state.u / rho,
        "gap": np.array(np.vdot(gap, gap)),
        "norms": np.einsum("ij,ij->j", state.w, state.w),
        "dual": np.array(np.vdot(state.u, state.u)),
        "variance": np.array(np.vdot(state.w, state.gram_w)),
        "smooth": smooth(state.w),
    }
