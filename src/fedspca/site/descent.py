"""The descent of an FSSPCA worker: its smooth problem, and steps on the manifold that lower it (Algorithm 3)."""

from dataclasses import dataclass
from functools import cached_property
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedspca.linalg.line_search import LineSearch, armijo, strong_wolfe
from fedspca.linalg.operators import DeflatedRows
from fedspca.linalg.shrinkage import smooth_abs_gradient, smooth_norms
from fedspca.linalg.stiefel import (
    Retraction,
    metric_gram,
    project_out,
    retraction_factor,
    retraction_velocity,
    tangent_projection,
)
from fedspca.site.newton import newton_direction

Array = NDArray[np.float64]
Direction = Literal["steepest", "conjugate", "newton"]


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

    def pieces(self, w: Array) -> Array:
        """Piece of ψ for each entry: 0 where it is the parabola, else the sign of w."""
        return np.sign(w) * (np.abs(w) >= self.mu / 2)

    def force(self, w: Array, pieces: Array) -> Array:
        """Slope of the smoothed norm at w, if these are the pieces."""
        return np.asarray(self.lam1 * np.where(pieces == 0.0, (2.0 / self.mu) * w, pieces))

    def stiffness(self, pieces: Array) -> Array:
        """The diagonal part of the second derivative on these pieces: ρ, and on the parabola that of ψ."""
        return np.asarray(self.rho + (pieces == 0.0) * (2.0 / self.mu * self.lam1))

    def coupling(self, w: Array, gram_w: Array, x: Array, gram_x: Array) -> Array:
        """Return the rest of the second derivative at w, applied to x, given Sw and Sx."""
        if self.orthonormal:
            return -2.0 * gram_x
        cross, mixed = w.T @ x, w.T @ gram_x
        bent = gram_x @ (w.T @ w) + gram_w @ (cross + cross.T) + x @ (w.T @ gram_w) + w @ (mixed + mixed.T)
        return np.asarray(2.0 * bent - 4.0 * gram_x)


@dataclass(frozen=True)
class Descent:
    """How a site descends: the choices of Algorithm 3 and of its extension to the generalised manifold."""

    steps: int
    tol: float  # stop at this gradient norm, relative to the first: z changes in the next round anyway
    search: LineSearch
    retraction: Retraction
    stay_in_complement: bool
    direction: Direction = "steepest"


def descend(
    rows: DeflatedRows, problem: ReconstructionProblem, w: Array, gram_w: Array, step: float, how: Descent
) -> tuple[Array, Array, float]:
    """Take a few steps on the manifold (Algorithm 3); returns w, AᵀAw and the last step size."""
    value = problem.value(w, gram_w)
    previous: tuple[Array, Array] | None = None
    last: tuple[Array, Array] | None = None  # the direction taken, and the steepest one, where it was taken
    largest = 0.0
    for _ in range(how.steps):
        gradient = problem.gradient(w, gram_w)
        if how.stay_in_complement:
            gradient = project_out(rows.removed, gradient)
        steepest = -tangent_projection(w, gradient, rows.removed)
        # not −⟨gradient, steepest⟩: its rounding error is of the size of the whole gradient, and would hide the end
        size = float(np.vdot(steepest, steepest))
        largest = max(largest, size)
        if size <= how.tol**2 * largest or size <= 1e-28 * float(np.vdot(gradient, gradient)):
            break
        direction = steepest
        if how.direction == "conjugate" and last is not None:
            direction = _conjugate(w, rows.removed, steepest, *last, gradient)
        if how.direction == "newton":
            direction = newton_direction(rows, problem, w, gram_w, gradient)
        if how.stay_in_complement:  # rounding may move w towards removed directions, and the error would grow
            direction = project_out(rows.removed, direction)
        slope = float(np.vdot(gradient, direction))
        step = 1.0 if how.direction == "newton" else _first_trial(w, direction, previous, step, problem.rho)
        previous, last = (w, direction), (direction, steepest)
        curve = _Curve(problem, w, gram_w, direction, rows.gram_product(direction), rows.removed, how.retraction)
        if how.search == "armijo":
            step = armijo(curve.value, value, slope, step)
        else:
            step = strong_wolfe(curve.value_and_slope, value, slope, step)
        if step == 0.0:  # rounding hides any further descent
            break
        value, (_, w, gram_w, _) = curve.value(step), curve.point(step)
    return w, gram_w, step


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
