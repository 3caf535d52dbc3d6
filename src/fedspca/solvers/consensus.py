"""The master's side of consensus ADMM (Algorithms 1, 2 and 6), one exchange per round."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedspca.federation.base import Aggregate
from fedspca.linalg.operators import Frame
from fedspca.linalg.shrinkage import soft_threshold
from fedspca.metrics import mean_cosine
from fedspca.site.question import Query, Scalar
from fedspca.solvers.asking import frame_arrays
from fedspca.solvers.rounds import Rounds
from fedspca.solvers.stopping import Residuals, StopReason

Array = NDArray[np.float64]

PATIENCE = 50  # after this many rounds without progress ρ may grow


@dataclass(frozen=True)
class Method:
    """What distinguishes FSSPCA from FASPCA for the master: the question, and the penalties in its objective."""

    query: str
    arrays: dict[str, Array]
    scalars: dict[str, Scalar]
    lam: Array  # weight of ‖z‖₁, one a loading
    lam1: Array  # weight of each site's smoothed norm, one a loading


@dataclass(frozen=True)
class RhoControl:
    """When to stop, and whether ρ may grow."""

    rho: float
    adaptive: bool
    tol: float
    max_rounds: int


@dataclass(frozen=True)
class Consensus:
    """The consensus of the sites, or the last iterates if it was not reached."""

    z: Array
    mean_w: Array
    rho: float
    residuals: Residuals
    stop_reason: StopReason


def reach_consensus(
    rounds: Rounds,
    frame: Frame,
    start: Array | None,
    shape: tuple[int, int],
    method: Method,
    control: RhoControl,
) -> Consensus:
    """Minimise Σ f_i(w_i) + λ‖z‖₁ subject to w_i = z over the manifold, by consensus ADMM.

    Parameters
    ----------
    start : ndarray of shape (d, r) or None
        The common w_i⁰ and z⁰; None lets each site begin at a random point of its own and z at 0, as the paper does.
    """
    z = np.zeros(shape) if start is None else start
    dual_sum = np.zeros(shape)  # Σu_i follows from the sums, so it need not be asked for
    rho = control.rho
    primals: list[float] = []
    for iteration in range(control.max_rounds):
        answer = rounds.sum(_question(method, frame, start, iteration, z, rho))
        sites = answer.n_sites
        z_before, z = z, soft_threshold(answer["consensus"] / sites, method.lam / (sites * rho))
        w_sum = answer["consensus"] - dual_sum / rho
        dual_sum += rho * (w_sum - sites * z)
        residuals = _residuals(answer, w_sum, z, z_before, rho)
        primals.append(residuals.primal)
        stop = _report(rounds, answer, method, w_sum, z, rho, residuals, control.tol)
        if stop is not None:
            break
        if control.adaptive:
            rho *= _growth(residuals, primals, control.tol)
    else:
        stop = StopReason.MAX_ROUNDS
    return Consensus(z, w_sum / sites, rho, residuals, stop)


def _question(method: Method, frame: Frame, start: Array | None, iteration: int, z: Array, rho: float) -> Query:
    """Build the question of one round: zᵗ and ρ; the first one also contains the frame and the start."""
    arrays = {"z": z, **method.arrays}
    if iteration == 0:
        arrays |= frame_arrays(frame) | ({} if start is None else {"start": start})
    return Query(method.query, arrays, {**method.scalars, "iteration": iteration, "rho": float(rho)})


def _residuals(answer: Aggregate, w_sum: Array, z: Array, z_before: Array, rho: float) -> Residuals:
    """Residuals relative to the new z. The sites measured their distance to the old z; the sums allow to convert it."""
    sites, moved = answer.n_sites, z - z_before
    gap = answer.number("gap") - 2.0 * float(np.vdot(w_sum - sites * z_before, moved))
    gap += sites * float(np.vdot(moved, moved))
    size = float(answer["norms"].sum())
    gradients = 2.0 * answer.number("variance") / np.sqrt(sites * z.shape[1])
    force = max(np.sqrt(answer.number("dual")), gradients, np.finfo(float).tiny)
    return Residuals(
        primal=float(np.sqrt(max(gap, 0.0) / size)),
        dual=float(rho * np.sqrt(sites) * np.linalg.norm(moved) / force),
    )


def _report(
    rounds: Rounds,
    answer: Aggregate,
    method: Method,
    w_sum: Array,
    z: Array,
    rho: float,
    residuals: Residuals,
    tol: float,
) -> StopReason | None:
    """Record the round; return the reason to stop, if there is one."""
    penalty = float(method.lam @ np.abs(z).sum(axis=0)) + float(method.lam1 @ answer["smooth"])
    rounds.report(
        objective=penalty - answer.number("variance"),
        primal_residual=residuals.primal,
        dual_residual=residuals.dual,
        rho=float(rho),
        nonzeros=int(np.count_nonzero(z)),
        alignment=mean_cosine(w_sum, answer["norms"], answer.n_sites),
    )
    if residuals.worst <= tol:
        return StopReason.CONVERGED
    return StopReason.CALLBACK if rounds.stop_requested else None


def _growth(residuals: Residuals, primals: list[float], tol: float) -> float:
    """Factor by which ρ grows: 2 if the primal residual is far above the dual one, or has not fallen for many rounds.

    ρ never decreases. If ρ is below the curvature of the sites, the solution of a site's problem need not stay near z.
    """
    if len(primals) % PATIENCE or residuals.primal <= max(residuals.dual, 10 * tol):
        return 1.0
    stuck = len(primals) > PATIENCE and min(primals[-PATIENCE:]) >= min(primals[:-PATIENCE])
    return 2.0 if stuck or residuals.primal > 10 * residuals.dual else 1.0
