"""The workers' side of consensus ADMM: the local primal and dual updates of FSSPCA and FASPCA.

A round is one exchange. The question brings zᵗ. The site first takes the dual step, which needs zᵗ:
uᵗ = uᵗ⁻¹ + ρ(wᵗ − zᵗ). It then takes its primal step, and answers with terms of sums: wᵗ⁺¹ + uᵗ/ρ and a few norms.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedspca.linalg.line_search import LineSearch, armijo, strong_wolfe
from fedspca.linalg.operators import DeflatedRows, Frame
from fedspca.linalg.shrinkage import smooth_abs_gradient, smooth_norms
from fedspca.linalg.stiefel import (
    Retraction,
    metric_gram,
    polar_factor,
    project_out,
    retraction_factor,
    retraction_velocity,
    tangent_projection,
)

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


@dataclass(frozen=True)
class ReconstructionProblem:
    """Min over wᵀGw = I of ‖A − Awwᵀ‖² + Σ λ1 ψ(w) + ⟨u, w⟩ + (ρ/2)‖w − z‖² (up to the constant ‖A‖²).

    ``orthonormal`` says that G = I. Then wᵀw = I too, and the first term is −tr(wᵀSw) with S = AᵀA.
    """

    u: Array
    z: Array
    rho: float
    lam1: Array
    mu: float
    orthonormal: bool

    @cached_property
    def _smooth(self) -> bool:
        return bool(self.lam1.any())

    @cached_property
    def _pull(self) -> Array:
        """The part of the gradient that does not depend on w."""
        return self.u - self.rho * self.z

    def value(self, w: Array, gram_w: Array) -> float:
        """Objective at w, given AᵀAw."""
        smooth = float(smooth_norms(w, self.mu) @ self.lam1) if self._smooth else 0.0
        gap = w - self.z
        fit = -float(np.vdot(w, gram_w))
        if not self.orthonormal:
            fit += fit + float(np.vdot(w.T @ gram_w, w.T @ w))
        return fit + smooth + float(np.vdot(self.u, w)) + self.rho / 2 * float(np.vdot(gap, gap))

    def gradient(self, w: Array, gram_w: Array) -> Array:
        """Euclidean gradient at w, given Sw = AᵀAw: of the first term −2Sw, or −4Sw + 2Sw(wᵀw) + 2w(wᵀSw)."""
        if self.orthonormal:
            slope = self.rho * w - 2.0 * gram_w
        else:
            slope = 2.0 * (gram_w @ (w.T @ w) + w @ (w.T @ gram_w)) - 4.0 * gram_w + self.rho * w
        slope += self._pull
        if self._smooth:
            slope += self.lam1 * smooth_abs_gradient(w, self.mu)
        return np.asarray(slope)


@dataclass(frozen=True)
class Descent:
    """How a site descends: the choices of Algorithm 3 and of its extension to the generalised manifold."""

    steps: int
    tol: float  # stop at this gradient norm, relative to the first: z changes in the next round anyway
    search: LineSearch
    retraction: Retraction
    stay_in_complement: bool
    conjugate: bool = False


def descend_on_manifold(
    rows: DeflatedRows, problem: ReconstructionProblem, state: ConsensusState, how: Descent
) -> ConsensusState:
    """Take a few steps of steepest descent, or of conjugate gradients, on the manifold (Algorithm 3)."""
    w, gram_w, step = state.w, state.gram_w, state.step
    value = problem.value(w, gram_w)
    previous: tuple[Array, Array] | None = None
    last: tuple[Array, Array] | None = None  # the direction taken, and the steepest one, where it was taken
    steepest = 0.0
    for _ in range(how.steps):
        gradient = problem.gradient(w, gram_w)
        if how.stay_in_complement:
            gradient = project_out(rows.removed, gradient)
        direction = steepest_direction = -tangent_projection(w, gradient, rows.removed)
        if how.conjugate and last is not None:
            direction = _conjugate(w, rows.removed, direction, *last, gradient)
        if how.stay_in_complement:  # rounding may move w towards removed directions, and the error would grow
            direction = project_out(rows.removed, direction)
        slope = float(np.vdot(gradient, direction))
        steepest = max(steepest, -slope)
        if -slope <= how.tol**2 * steepest or -slope <= 1e-28 * float(np.vdot(gradient, gradient)):
            break
        step = _first_trial(w, direction, previous, step, problem.rho)
        previous, last = (w, direction), (direction, steepest_direction)
        curve = _Curve(problem, w, gram_w, direction, rows.gram_product(direction), rows.removed, how.retraction)
        if how.search == "armijo":
            step = armijo(curve.value, value, slope, step)
        else:
            step = strong_wolfe(curve.value_and_slope, value, slope, step)
        value, (_, w, gram_w, _) = curve.value(step), curve.point(step)
    return state._replace(w=w, gram_w=gram_w, step=step)


def _conjugate(w: Array, removed: Array, steepest: Array, direction: Array, before: Array, gradient: Array) -> Array:
    """Polak and Ribière's direction, with the last one projected to this point; the steepest if it does not descend."""
    carried, old = tangent_projection(w, direction, removed), tangent_projection(w, before, removed)
    beta = max(0.0, float(np.vdot(steepest, steepest - old)) / max(float(np.vdot(before, before)), 1e-300))
    mixed = steepest + beta * carried
    return mixed if float(np.vdot(gradient, mixed)) < 0 else steepest


def _first_trial(w: Array, direction: Array, previous: tuple[Array, Array] | None, last: float, rho: float) -> float:
    """Barzilai and Borwein's step where there is a step before, else the last one accepted, else 1/ρ."""
    fallback = last if last > 0 else 1.0 / max(rho, np.finfo(float).tiny)
    if previous is None:
        return fallback
    moved = w - previous[0]
    bend = abs(float(np.vdot(moved, previous[1] - direction)))
    length = float(np.vdot(moved, moved))
    return length / bend if bend > 1e-12 * rho * length > 0 else fallback


class _Point(NamedTuple):
    """A point of a curve, AᵀA times it, and the factor that brought it back to the manifold."""

    theta: float
    w: Array
    gram_w: Array
    factor: Array


@dataclass
class _Curve:
    """θ ↦ R_w(θζ) and the problem's value along it. AᵀA acts on w and ζ once, whatever the number of trials."""

    problem: ReconstructionProblem
    w: Array
    gram_w: Array
    direction: Array
    gram_direction: Array
    removed: Array
    retraction: Retraction
    _last: _Point | None = None
    _last_value: tuple[float, float] | None = None

    def point(self, theta: float) -> _Point:
        if self._last is None or self._last.theta != theta:
            moved = self.w + theta * self.direction
            factor = retraction_factor(metric_gram(self.removed, moved), self.retraction)
            self._last = _Point(theta, moved @ factor, (self.gram_w + theta * self.gram_direction) @ factor, factor)
        return self._last

    def value(self, theta: float) -> float:
        if self._last_value is None or self._last_value[0] != theta:
            at = self.point(theta)
            self._last_value = (theta, self.problem.value(at.w, at.gram_w))
        return self._last_value[1]

    def value_and_slope(self, theta: float) -> tuple[float, float]:
        at = self.point(theta)
        velocity = retraction_velocity(at.w, self.direction, at.factor, self.removed, self.retraction)
        return self.value(theta), float(np.vdot(self.problem.gradient(at.w, at.gram_w), velocity))


def fsspca_update(
    rows: DeflatedRows, state: ConsensusState, problem: ReconstructionProblem, how: Descent
) -> ConsensusState:
    """Primal step of FSSPCA: descend on the smoothed problem."""
    return descend_on_manifold(rows, replace(problem, u=state.u), state, how)


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
