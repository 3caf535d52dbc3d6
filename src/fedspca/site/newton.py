"""The Newton direction of an FSSPCA worker: second order for all but the smoothed norm, which is kept as it is.

At w the model of the problem is ⟨g, ζ⟩ + ½⟨ζ, (H + σI)ζ⟩ + Σ λ1 ψ(w + ζ), over tangent vectors ζ, with σ so large that
it is convex. ψ has three pieces: −x, a parabola, x. If each entry stayed on the piece of w, as in the plain method of
Newton, steps would cross a kink, and the next ones would cross it back. So the pieces are guessed, the linear equations
for these pieces are solved, and the guess is corrected wherever w + ζ is on another piece: a primal-dual active set.

Reference: Hintermüller, Ito and Kunisch (2003), The primal-dual active set strategy as a semismooth Newton method.
"""

from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from fedspca.linalg.operators import DeflatedRows
from fedspca.linalg.stiefel import project_out, sym

Array = NDArray[np.float64]

RTOL = 0.1  # equations are solved to one digit: the guess of the pieces is no better
GUESSES = 12  # of the pieces and of σ, for one direction
STEPS = 100  # of conjugate gradients, for one guess
LEAST_SHIFT = 0.1  # the least σ, relative to ρ, where the model is not convex without
TINY = float(np.finfo(float).tiny)


class Problem(Protocol):
    """What is needed of a worker's problem."""

    @property
    def rho(self) -> float:
        """Penalty of the augmented Lagrangian."""
        ...

    def pieces(self, w: Array) -> Array:
        """Piece of ψ for each entry: 0 for the parabola, else the sign."""
        ...

    def force(self, w: Array, pieces: Array) -> Array:
        """Slope of the smoothed norm at w, if these are the pieces."""
        ...

    def stiffness(self, pieces: Array) -> Array:
        """Diagonal part of the second derivative, on these pieces."""
        ...

    def coupling(self, w: Array, gram_w: Array, x: Array, gram_x: Array) -> Array:
        """Return the rest of the second derivative at w, applied to x, given Sw and Sx."""
        ...


class _Solution(NamedTuple):
    """ζ, the second derivative without its diagonal at ζ, and how concave the model was along a direction met."""

    zeta: Array
    bent: Array
    concavity: float


class _Model:
    """The model at w, without the smoothed norm."""

    def __init__(self, rows: DeflatedRows, problem: Problem, w: Array, gram_w: Array, gradient: Array) -> None:
        self.rows, self.problem, self.w, self.gram_w = rows, problem, w, gram_w
        self.normal = project_out(rows.removed, w)
        self.multiplier = sym(self.normal.T @ gradient)

    def tangent(self, x: Array) -> Array:
        """Project x onto the tangent space, so that the equations stay symmetric there."""
        return x - self.normal @ sym(self.normal.T @ x)

    def bent(self, x: Array) -> Array:
        """Apply the second derivative of the Lagrangian, without its diagonal part."""
        whole = self.problem.coupling(self.w, self.gram_w, x, self.rows.gram_product(x))
        return whole - project_out(self.rows.removed, x) @ self.multiplier

    def scaled_descent(self, gradient: Array, stiffness: Array) -> tuple[Array, float]:
        """Return the direction of descent that the stiffness alone gives, and how far the gradient falls along it."""
        slope = self.tangent(gradient)
        direction = -self.tangent(slope / stiffness)
        return direction, -float(np.vdot(slope, direction))

    def solved(self, slope: Array, stiffness: Array, start: _Solution, enough: float) -> _Solution:
        """Solve (stiffness + bent)ζ = −slope on the tangent space by conjugate gradients, from ``start``.

        The stiffness is the preconditioner: without it 2λ1/μ beside ρ makes the equations ill-conditioned. The first
        direction of negative curvature ends the iteration.
        """
        zeta, bent, _ = start
        residual = -self.tangent(slope + stiffness * zeta + bent)
        direction = self.tangent(residual / stiffness)
        size = float(np.vdot(residual, direction))
        for _ in range(STEPS):
            if size <= enough:
                break
            part = self.bent(direction)
            image = self.tangent(stiffness * direction + part)
            curvature = float(np.vdot(direction, image))
            if curvature <= 0.0:
                return _Solution(zeta, bent, max(-curvature / float(np.vdot(direction, direction)), TINY))
            length = size / curvature
            zeta, bent, residual = zeta + length * direction, bent + length * part, residual - length * image
            smoothed = self.tangent(residual / stiffness)
            size, before = float(np.vdot(residual, smoothed)), size
            direction = smoothed + (size / before) * direction
        return _Solution(zeta, bent, 0.0)


def newton_direction(rows: DeflatedRows, problem: Problem, w: Array, gram_w: Array, gradient: Array) -> Array:
    """Argmin over tangent vectors ζ at w of the model above, roughly; along it the problem decreases."""
    model = _Model(rows, problem, w, gram_w, gradient)
    here = problem.pieces(w)
    smooth = gradient - problem.force(w, here)
    nothing = _Solution(np.zeros_like(w), np.zeros_like(w), 0.0)
    pieces, found, shift = here, nothing, 0.0
    downhill, enough = model.scaled_descent(gradient, problem.stiffness(here))
    for _ in range(GUESSES):
        slope = smooth + problem.force(w, pieces)
        found = model.solved(slope, problem.stiffness(pieces) + shift, found, RTOL**2 * enough)
        if found.concavity:
            shift = max(3.0 * shift, 2.0 * found.concavity + LEAST_SHIFT * problem.rho)
            pieces, found = here, nothing
            downhill, enough = model.scaled_descent(gradient, problem.stiffness(here) + shift)
            continue
        if pieces is here:
            downhill = found.zeta  # of a convex model of the problem itself
        corrected = _corrected(pieces, problem.pieces(w + found.zeta))
        if np.array_equal(corrected, pieces):
            break
        pieces = corrected
    return found.zeta if float(np.vdot(gradient, found.zeta)) < 0.0 else downhill


def _corrected(pieces: Array, reached: Array) -> Array:
    """The next guess: an entry that leaves its line goes to the parabola first, not at once to the other line."""
    return np.where((pieces == 0.0) | (pieces == reached), reached, 0.0)
