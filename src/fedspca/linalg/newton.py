"""Smooth steps on the sparse Stiefel manifold: trust-region Newton on a fixed support."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lapack

from fedspca.linalg.compiled import stiefel
from fedspca.linalg.compiled.library import library
from fedspca.linalg.quadratic import DenseQuadratic, HalfWay, Quadratic, nearly_all
from fedspca.linalg.small import positive_factor, solve_factored
from fedspca.linalg.sparse_stiefel import Tangent, retract

Array = NDArray[np.float64]

_LENGTHS = (1.0, 0.3, 0.09)  # of a Newton step
_SHRUNK = 0.03  # the trust radius is multiplied by this if none of these lengths descends
_FEW = 300  # with at most this many non-zeros, a factorisation is faster than conjugate gradients
_STIFF = 1e4  # curvature off the tangent space, relative to the largest on it
_ROUNDED = (
    1e-15  # two columns that share one feature cannot both keep it: a retraction leaves zero, or a rounding error
)
DUST = 1e-9  # an entry this small is a zero that rounding has missed, and would demand an exact sign of its gradient


@dataclass(frozen=True)
class Surrogate:
    """-tr(w' Q w) - 2 <C, w> + <lam, |w|> on a subset of the rows."""

    quadratic: Quadratic
    linear: Array
    lam: Array

    def half_gradient(self, w: Array) -> Array:
        """``Q w + C``."""
        return self.quadratic @ w + self.linear

    def value(self, w: Array) -> float:
        """The surrogate at w, up to a constant."""
        return self.trial(w)[0]

    def trial(self, w: Array) -> tuple[float, HalfWay]:
        """The surrogate at w, and the half-way product of its gradient.

        A rejected point then costs only half as much.
        """
        energy, signed = self.quadratic.inner(w)
        return -energy - 2.0 * float(np.vdot(self.linear, w)) + float(self.lam @ np.abs(w).sum(axis=0)), signed

    def rows(self, index: NDArray[np.intp], *, often: bool = True) -> "Surrogate":
        """The problem restricted to some features; ``often`` if many products are to come."""
        return Surrogate(self.quadratic.rows(index, often=often), self.linear[index], self.lam)


class Polished(NamedTuple):
    """A point, half its gradient, its value, its multiplier if one was computed, and the trust radius in the end."""

    w: Array
    half: Array
    value: float
    multiplier: Array | None
    radius: float


def descend(p: Surrogate, z: Array, value: float, slack: float = 0.0) -> tuple[Array, float, HalfWay] | None:
    """Retract z on its own support: the point, its value, its half-way product.

    None unless the objective decreases (or, near convergence, stays the same up to rounding).
    """
    w = retract(np.where(np.abs(z) > DUST, z, 0.0))
    if w is None:
        return None
    if p.lam.any():  # without a penalty, zeros do not matter
        w[np.abs(w) <= _ROUNDED] = 0.0
    new, signed = p.trial(w)
    return (w, new, signed) if new < value + slack * abs(value) else None


def polish(
    p: Surrogate,
    w: Array,
    half: Array,
    value: float,
    tol: float,
    *,
    max_newton: int = 6,
    keep_signs: bool = True,
    radius: float = np.inf,
) -> Polished:
    """Riemannian trust-region Newton on the fixed support and, where lam > 0, signs: there the objective is smooth.

    Entries whose sign would flip leave the support. No entry enters the support here; the proximal step does that.
    """
    kernels = library()
    if kernels is not None and isinstance(p.quadratic, DenseQuadratic) and stiefel.fits(w):
        linear, lam = (given if given.any() else None for given in (p.linear, p.lam))
        how = stiefel.Effort(tol, max_newton, keep_signs, radius)
        return Polished(*stiefel.polish(kernels, p.quadratic.factor, linear, lam, w, half, value, how))
    radius, multiplier = min(radius, 0.5 * float(np.sqrt(w.shape[1]))), None
    rough = tol > 1e-4  # a rough solve only ranks starts: it has to leave saddle points, but needs few digits
    max_newton, max_cg = (min(max_newton, 2), 12) if rough else (max_newton, 40)
    scale = 2.0 * float(np.linalg.norm(half)) or 1.0
    keep = nearly_all(np.flatnonzero(w.any(axis=1)), len(w))
    part = p if len(keep) == len(w) else p.rows(keep, often=max_newton > 1)
    wk, slope, moved = w[keep], 2.0 * half[keep], False
    for _ in range(max_newton):
        mask = (wk != 0.0).astype(float)
        tangent = Tangent.at(wk, mask)
        pull = mask * (slope - p.lam * np.sign(wk))
        multiplier = tangent.multiplier(pull)
        gradient = pull - mask * (wk @ multiplier)
        size = float(np.sqrt(np.vdot(gradient, gradient)))
        if size <= tol * scale:
            break
        rtol = max(min(0.1, size / scale), 0.3 * tol * scale / size)
        direct = None if rough else _direct_direction(part.quadratic, wk, multiplier, gradient, radius)
        if direct is not None:
            move, on_boundary = direct, False
        else:
            move, on_boundary = _newton_direction(part.quadratic, tangent, multiplier, gradient, rtol, radius, max_cg)
        slack = 1e-12 if size < 1e-5 * scale else 0.0
        accepted, length = _backtrack(part, wk, move, value, slack, keep_signs)
        if accepted is None:
            radius *= _SHRUNK
            break
        radius = 2.0 * radius if on_boundary and length == 1.0 else radius if length == 1.0 else length * radius
        wk, value, moved = accepted[0], accepted[1], True
        slope = 2.0 * (part.quadratic.outer(accepted[2]) + part.linear)
    if not moved:
        return Polished(w, half, value, multiplier, radius)
    if part is p:
        return Polished(wk, 0.5 * slope, value, multiplier, radius)
    w = np.zeros_like(w)
    w[keep] = wk
    return Polished(w, p.half_gradient(w), value, multiplier, radius)


def _backtrack(
    p: Surrogate, w: Array, move: Array, value: float, slack: float, keep_signs: bool
) -> tuple[tuple[Array, float, HalfWay] | None, float]:
    """The longest of three steps that decreases the objective, and its length; entries that change sign become zero."""
    for length in _LENGTHS:
        z = w + length * move
        if keep_signs:
            z[z * w < 0.0] = 0.0
        accepted = descend(p, z, value, slack)
        if accepted is not None:
            return accepted, length
    return None, 0.0


def _direct_direction(
    quadratic: Quadratic, w: Array, multiplier: Array, gradient: Array, radius: float
) -> Array | None:
    """The same as :func:`_newton_direction` by a factorisation, for few non-zeros: there, calls take longer.

    None if there are many, if the curvature is negative somewhere, or if the step leaves the trust region.
    """
    row, column = np.nonzero(w)
    if len(row) > _FEW or not isinstance(quadratic, DenseQuadratic):
        return None
    same = column[:, None] == column
    hessian = np.where(row[:, None] == row, multiplier.take(column, 0).take(column, 1), 0.0)
    hessian -= np.where(same, 2.0 * quadratic.factor.take(row, 0).take(row, 1), 0.0)
    # the gradients of the constraints: w_b in column a, and w_a in column b
    inside, weights = column[:, None] == np.arange(w.shape[1]), w.take(row, 0)
    first, second = np.triu_indices(w.shape[1])
    normal = weights.take(second, 1) * inside.take(first, 1) + weights.take(first, 1) * inside.take(second, 1)
    normal = normal[:, normal.any(axis=0)]
    # on the tangent space this term is zero; elsewhere it is so large that only the tangent space decides on the sign
    stiff = _STIFF * (float(np.abs(hessian).max()) or 1.0)
    factor, info = lapack.dpotrf(hessian + (stiff * normal) @ normal.T)
    if info:
        return None
    g = gradient[row, column]
    solved = lapack.dpotrs(factor, np.hstack([g[:, None], normal]))[0]
    forces = solve_factored(positive_factor(normal.T @ solved[:, 1:]), normal.T @ solved[:, 0])
    step = solved[:, 0] - solved[:, 1:] @ forces
    if not float(step @ step) < radius * radius:
        return None
    move = np.zeros_like(w)
    move[row, column] = step
    return move


def _newton_direction(
    quadratic: Quadratic,
    tangent: Tangent,
    multiplier: Array,
    gradient: Array,
    rtol: float,
    radius: float,
    max_iter: int,
) -> tuple[Array, bool]:
    """Argmin over tangent D, ``||D|| <= radius``, of ``<D, D L - 2 Q D> / 2 - <gradient, D>``.

    Steihaug's conjugate gradients. Directions of negative curvature are followed to the boundary. They are common: a
    column that has not found its features yet is near a saddle point. Returns D and whether it is on the boundary.
    """
    x = np.zeros_like(gradient)
    residual = direction = gradient
    rr = float(np.vdot(residual, residual))
    stop = rtol * rtol * rr
    for _ in range(max_iter):
        hd = direction @ multiplier - 2.0 * (quadratic @ direction)
        hd = tangent.project(tangent.mask * hd)
        curvature = float(np.vdot(direction, hd))
        alpha = rr / curvature if curvature > 0.0 else np.inf
        dd, xd, xx = float(np.vdot(direction, direction)), float(np.vdot(x, direction)), float(np.vdot(x, x))
        if alpha == np.inf or xx + 2.0 * alpha * xd + alpha * alpha * dd >= radius * radius:
            reach = (-xd + np.sqrt(max(xd * xd + dd * (radius * radius - xx), 0.0))) / max(dd, 1e-300)
            return x + reach * direction, True
        x = x + alpha * direction
        residual = residual - alpha * hd
        rr, old = float(np.vdot(residual, residual)), rr
        if rr <= stop:
            break
        direction = residual + (rr / old) * direction
    return x, False
