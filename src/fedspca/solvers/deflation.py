"""Loadings in stages (Algorithm 4): solve for some, remove their directions, solve for more."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fedspca.linalg.operators import Frame
from fedspca.linalg.stiefel import project_out
from fedspca.site.question import Query, Scalar
from fedspca.solvers.asking import frame_arrays
from fedspca.solvers.consensus import Consensus, Method, RhoControl, reach_consensus
from fedspca.solvers.finish import Deflation, Finish, finish, nowhere_empty, q_factor, with_fixed_signs
from fedspca.solvers.rounds import Rounds
from fedspca.solvers.stopping import StopReason
from fedspca.solvers.warm_start import largest_curvature, leading_subspace

Array = NDArray[np.float64]
Init: TypeAlias = Literal["warm", "random"] | Array


@dataclass(frozen=True)
class Stages:
    """The settings that both of the paper's methods share.

    Attributes
    ----------
    block_sizes : sequence of int
        How many loadings each stage solves for: r_1, r_2, … of Algorithm 4.
    rho : sequence of (float or "auto")
        The penalty of the augmented Lagrangian, one a stage.
    adaptive_rho : bool or None
        Whether ρ may grow; with None, only an automatic ρ may grow.
    init : "warm", "random" or ndarray of shape (d, r)
        Where the sites begin.
    deflation : "orthogonal", "generalized" or "literal"
        ``"orthogonal"``: loadings stay orthogonal to the removed directions throughout. ``"generalized"``: they are
        projected off these directions at the end. ``"literal"``: as Algorithm 4 is printed, loadings are also removed
        before they are normalised.
    finish : "sparse" or "qf"
        The last step of each stage.
    tol : float
        The relative residual at which consensus is reached.
    max_rounds : int
        The most rounds that one stage may take.
    """

    block_sizes: Sequence[int]
    rho: Sequence[float | Literal["auto"]]
    adaptive_rho: bool | None
    init: Init
    deflation: Deflation
    finish: Finish
    tol: float
    max_rounds: int


@dataclass(frozen=True)
class Loadings:
    """Loadings of all stages, and how each stage ended."""

    w: Array
    stages: tuple[Consensus, ...]

    @property
    def stop_reason(self) -> StopReason:
        """Converged if every stage converged; otherwise the reason of the first stage that did not."""
        reasons = [stage.stop_reason for stage in self.stages if stage.stop_reason is not StopReason.CONVERGED]
        return reasons[0] if reasons else StopReason.CONVERGED


def solve_in_stages(
    rounds: Rounds, frame: Frame, plan: Stages, method: Callable[[slice], Method], rng: np.random.Generator
) -> Loadings:
    """Solve for the loadings of each stage, orthogonal to those of earlier stages.

    Each stage's loadings are orthonormal before they are removed, so that I − ZZᵀ is a projection, as the text of the
    paper says. The printed Algorithm 4 removes them first (``"literal"``); then I − ZZᵀ is a projection only if z has
    converged.
    """
    found, stages, first = np.zeros((len(frame.mean), 0)), [], rounds.stage
    for stage, size in enumerate(plan.block_sizes):
        rounds.stage = first + stage
        columns = slice(found.shape[1], found.shape[1] + size)
        consensus = _solve_stage(rounds, frame, plan, stage, columns, method(columns), rng)
        w = with_fixed_signs(finish(consensus, frame.removed, plan.finish, plan.deflation))
        removed = project_out(frame.removed, nowhere_empty(consensus)) if plan.deflation == "literal" else w
        found, frame = np.hstack([found, w]), frame.without(removed)
        stages.append(consensus)
        if consensus.stop_reason is StopReason.CALLBACK:
            break
    return Loadings(found, tuple(stages))


def _solve_stage(
    rounds: Rounds,
    frame: Frame,
    plan: Stages,
    stage: int,
    columns: slice,
    method: Method,
    rng: np.random.Generator,
) -> Consensus:
    size = columns.stop - columns.start
    rho, start = plan.rho[stage], None
    warm = isinstance(plan.init, str) and plan.init == "warm"
    if isinstance(plan.init, np.ndarray):
        start = q_factor(project_out(frame.removed, plan.init[:, columns]))
    if warm or rho == "auto":
        leading = leading_subspace(rounds, frame, size, rng)
        start = leading.vectors if warm else start
        if rho == "auto":
            # if ρ is smaller than the penalty, the number of rounds grows in proportion to penalty / ρ
            rho = max(largest_curvature(rounds, frame, leading.values[0]), method.lam.max() / rounds.n_sites)
    chosen: dict[str, Scalar] = {"deflation": plan.deflation, "seed": int(rng.integers(2**31))}
    method = replace(method, scalars={**method.scalars, **chosen})
    adaptive = plan.rho[stage] == "auto" if plan.adaptive_rho is None else plan.adaptive_rho
    control = RhoControl(float(rho), adaptive, plan.tol, plan.max_rounds)
    return reach_consensus(rounds, frame, start, (len(frame.mean), size), method, control)


def captured_variance(rounds: Rounds, frame: Frame, w: Array) -> Array:
    """WᵀSW, by one sum."""
    return rounds.sum(Query("captured_variance", {**frame_arrays(frame), "directions": w}))["captured"]
