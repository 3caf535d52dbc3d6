"""The l1 surrogate on the Stiefel manifold: proximal steps find the support, Newton steps polish on it."""

import math
import time
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedspca.linalg.certificate import certify
from fedspca.linalg.compiled import proximal as compiled
from fedspca.linalg.compiled import stiefel
from fedspca.linalg.compiled.blas import with_blas
from fedspca.linalg.newton import DUST, Surrogate, descend, polish
from fedspca.linalg.quadratic import DenseQuadratic, Quadratic, nearly_all
from fedspca.linalg.shrinkage import soft_threshold
from fedspca.linalg.sparse_stiefel import NormalEquations, retract, retract_with_signs
from fedspca.linalg.splitting import nearest
from fedspca.linalg.stiefel import orthonormality_error

Array = NDArray[np.float64]
Index = NDArray[np.intp]

SMALL = 200  # with at most this many rows, a working set costs more than it saves
_UNDAMPED = 1e-10  # the least damping, as a share of the mean curvature of the dual
_INEXACT = 1e-3  # relative residual of the equations of a Newton step on the dual, if solved iteratively
_LENGTHS = (1.0, 0.4, 0.16, 0.064, 0.0256, 0.01)  # of a Newton step on the dual
_ROUNDED = 1e-12  # near convergence the objective may stay the same up to rounding: share of what it is made of
_BOOST = 1e6  # steps are divided by at most about so much
_TANGENT = 1e-11  # how far dense steps may leave the tangent space: what the last z lacks to be orthonormal
_ORTHONORMAL = 1e-8  # an entry of w'w may differ from that of the identity by so much where no smooth set has w
_PATIENCE, _FALLEN = 25, 0.7  # in so many dense steps the least residual falls to this share, or they end
_ATTEMPTS, _ATTEMPT = (10, 30, 70), 40  # dense steps after which the sparse point is solved from, with so many steps
CAREFUL = 1500  # the same for more than six columns: there, leaving rows out at first leads to worse local optima


@dataclass(frozen=True)
class L1Solution:
    """A point of St(d, r), exactly sparse; ``multiplier`` is the symmetric L of its stationarity condition."""

    w: Array
    multiplier: Array
    objective: float
    residual: float
    n_iter: int
    converged: bool


def minimise(
    quadratic: Quadratic,
    lam: Array | float,
    start: Array,
    *,
    half: Array | None = None,
    tol: float = 1e-8,
    max_iter: int = 200,
    multiplier: Array | None = None,
) -> L1Solution:
    """Argmin over w in St(d, r) of ``-tr(w' Q w) - 2 <C, w> + lam ||w||_1``, a stationary point near ``start``.

    The solver works on a set of rows, and adds the rows that violate ``|2 (Q w + C)| <= lam``. For rows where w is
    zero, this is the only optimality condition.

    Parameters
    ----------
    quadratic : Q (d, d), as a factor.
    lam : scalar, or one per column.
    start : (d, r), orthonormal; may be dense.
    half : ``Q start + C``, where that is known and C is not zero.
    tol : bound on the first-order residual relative to ``||2 (Q w + C)||_F``.
    """
    d, r = start.shape
    weights = np.asarray(lam, dtype=float)
    if weights.shape != (r,):
        weights = np.broadcast_to(weights, (r,))
    if d <= (SMALL if r <= 6 else CAREFUL):
        return _solve(_restricted(quadratic, None, weights, start, half), start, tol, max_iter, multiplier)
    rows = nearly_all(
        _first_rows(quadratic @ start if half is None else half, weights, start, known=half is not None), d
    )
    origin, used = start, 0
    while True:
        problem = _restricted(quadratic, rows, weights, origin, half)
        inside = retract(start[rows], np.ones((len(rows), r)))
        if inside is None:
            inside = np.linalg.qr(start[rows])[0]
        part = _solve(problem, inside, tol, max_iter - used, multiplier)
        used += part.n_iter
        w = np.zeros((d, r))
        w[rows] = part.w
        gradient = 2.0 * (quadratic @ w if half is None else half + quadratic @ (w - origin))
        excess = (np.abs(gradient) - weights).max(axis=1)
        excess[rows] = 0.0
        violated = excess.max() > 0.5 * tol * np.linalg.norm(gradient)
        if not violated or used >= max_iter:
            return L1Solution(w, part.multiplier, part.objective, part.residual, used, part.converged and not violated)
        near = np.flatnonzero(excess > -0.1 * weights.min())
        rows, start, multiplier = nearly_all(np.union1d(rows, near), d), w, part.multiplier


def minimise_through_dense(
    quadratic: Quadratic,
    lam: Array,
    near: L1Solution,
    *,
    tol: float,
    max_iter: int = 100,
    deadline: float = math.inf,
) -> L1Solution:
    """Solve on where :func:`minimise` could not: ``near`` itself, if this gains nothing.

    The orthonormal matrices with one support are no smooth set where columns share few features, and steps within the
    set get stuck there. So here the points between proximal steps are dense: each is the orthonormal matrix nearest to
    the last z (ManPG; Chen, Ma, So, Zhang 2020). Now and then the sparse z is solved from. In the end z needs no
    retraction: it is orthonormal up to the square of the last step.
    """
    p = Surrogate(quadratic, np.zeros_like(near.w), lam)
    # the last residual may be that of another point: this one may need nothing
    known = certify(near.w, 2.0 * p.half_gradient(near.w), lam)
    near = replace(near, multiplier=known.multiplier, residual=known.residual, converged=known.residual <= tol)
    if near.converged:
        return near
    w, multiplier, boost = nearest(near.w[None])[0], near.multiplier, 1.0
    best, value, smallest, earlier = near, p.value(w), math.inf, math.inf
    rounding = _ROUNDED * (abs(near.objective) + 2.0 * float(lam @ np.abs(near.w).sum(axis=0)))
    for it in range(1, max_iter + 1):
        half = p.half_gradient(w)
        scale = 2.0 * float(np.linalg.norm(half)) or 1.0
        step = _steps(multiplier, scale, boost)
        z, multiplier = proximal_point(w, half, lam, step, multiplier, tol=_TANGENT)
        residual = float(np.linalg.norm((z - w) / step)) / scale
        if residual < best.residual and orthonormality_error(z) <= _ORTHONORMAL:
            best = L1Solution(z, multiplier, value, residual, near.n_iter + it, residual <= tol)
        smallest = min(smallest, residual)
        if it % _PATIENCE == 0:
            if smallest > _FALLEN * earlier:
                break
            earlier = smallest
        if best.converged or time.monotonic() > deadline:
            break
        if it in _ATTEMPTS and (start := retract_with_signs(z)) is not None:
            found = _solve(p, start, tol, _ATTEMPT, multiplier)
            if found.converged and found.objective <= near.objective + rounding:
                return found
        moved = _nearer(p, w, z - w, value + (rounding if residual < 1e-5 else 0.0))
        if moved is not None:
            (w, value), boost = moved, max(1.0, boost / 2.0)
        elif boost < _BOOST:
            boost *= 3.0
        else:
            break
    return near if best is near else _sparse_end(p, best, near, near.objective + rounding)


def _sparse_end(p: Surrogate, end: L1Solution, near: L1Solution, most: float) -> L1Solution:
    """The point at which dense steps ended, without entries that are rounding errors, if it is at most so high."""
    z = np.where(np.abs(end.w) > DUST, end.w, 0.0)
    w = retract_with_signs(z)
    if w is None or float(np.abs(w - z).max()) > _ORTHONORMAL:
        w = z
    value = p.value(w)
    if orthonormality_error(w) > _ORTHONORMAL or value > most:
        return near
    return replace(end, w=w, objective=value)


def _nearer(p: Surrogate, w: Array, move: Array, most: float) -> tuple[Array, float] | None:
    """The orthonormal matrix nearest to ``w + move``, or to a shorter step, whose objective is below ``most``."""
    for length in _LENGTHS:
        point = nearest((w + length * move)[None])[0]
        reached = p.value(point)
        if reached < most:
            return point, reached
    return None


def _restricted(quadratic: Quadratic, rows: Index | None, lam: Array, origin: Array, half: Array | None) -> Surrogate:
    """The surrogate on some rows. If C is not zero, these include all rows that the origin uses."""
    if rows is not None:
        quadratic, origin, half = quadratic.rows(rows), origin[rows], None if half is None else half[rows]
    return Surrogate(quadratic, np.zeros_like(origin) if half is None else half - quadratic @ origin, lam)


def _first_rows(half: Array, lam: Array, start: Array, *, known: bool) -> Index:
    """Rows likely to be non-zero: those of a sparse start; for a dense start, those with a gradient near lam."""
    score = (np.abs(half) - 0.4 * lam).max(axis=1)
    chosen = score > 0.0
    used = start.any(axis=1)
    if known or np.count_nonzero(used) <= len(start) // 4:
        chosen |= used
    least = min(start.shape[0], 20 * start.shape[1])
    if np.count_nonzero(chosen) < least:
        chosen[np.argpartition(-score, least - 1)[:least]] = True
    return np.flatnonzero(chosen)


def _solve(p: Surrogate, w: Array, tol: float, max_iter: int, multiplier: Array | None) -> L1Solution:
    """Proximal steps; a Newton step whenever the support has (almost) stopped changing."""
    fast = with_blas()
    if fast is not None and isinstance(p.quadratic, DenseQuadratic) and stiefel.fits(w):
        linear = p.linear if p.linear.any() else None
        return L1Solution(*compiled.solve(fast, p.quadratic, linear, p.lam, w, tol, max_iter, multiplier))
    value, half_way = p.trial(w)
    half = p.quadratic.outer(half_way) + p.linear
    lagrange = _first_multiplier(w, half, p.lam) if multiplier is None else multiplier
    boost, radius, residual, converged = 1.0, np.inf, np.inf, False
    it = 0
    while it < max_iter:
        it += 1
        scale = 2.0 * float(np.linalg.norm(half)) or 1.0
        step = _steps(lagrange, scale, boost)
        z, lagrange = proximal_point(w, half, p.lam, step, lagrange, tol=1e-2 * tol)
        residual = float(np.linalg.norm((z - w) / step)) / scale
        converged = residual <= tol
        accepted = descend(p, z, value, _ROUNDED if residual < 1e-5 else 0.0)
        if converged:
            # take this last step too: w may contain a small entry that is zero in z and would spoil the certificate
            w, value = (w, value) if accepted is None else accepted[:2]
            break
        if accepted is None:
            boost *= 3.0
            if boost > _BOOST:
                break
            continue
        boost = max(1.0, boost / 2.0)
        changed = int(np.count_nonzero((accepted[0] != 0.0) != (w != 0.0)))
        w, value = accepted[:2]
        half = p.quadratic.outer(accepted[2]) + p.linear
        if changed <= max(2, 0.1 * np.count_nonzero(w)):
            w, half, value, polished, radius = polish(p, w, half, value, 0.1 * tol, radius=4.0 * radius)
            lagrange = lagrange if polished is None else polished
    return L1Solution(w, lagrange, value, residual, it, converged)


def _first_multiplier(w: Array, half: Array, lam: Array) -> Array:
    z = w.T @ (2.0 * half - lam * np.sign(w))
    return 0.5 * (z + z.T)


def _steps(multiplier: Array, scale: float, boost: float) -> Array:
    """Column steps 1 / L_jj: -tr(w' M w) is concave, so only the curvature L of the retraction limits them."""
    curvature = np.abs(multiplier).sum(axis=0) - np.abs(np.diag(multiplier)) + np.diag(multiplier)
    return np.asarray(1.0 / (boost * np.maximum(curvature, 0.02 * scale)))


def proximal_point(
    w: Array,
    half: Array,
    lam: Array,
    step: Array,
    multiplier: Array,
    *,
    tol: float = 1e-12,
    max_iter: int = 15,
) -> tuple[Array, Array]:
    """Argmin over z of ``-2 <half, z> + sum_j ||z_j - w_j||^2 / (2 step_j) + lam ||z||_1``, z - w tangent at w.

    The ManPG subproblem (Chen, Ma, So, Zhang 2020), in a metric with one step per column. Its dual has r (r + 1) / 2
    unknowns, is concave and once differentiable. It is solved by a semi-smooth Newton method that starts at the last
    multiplier. A step is accepted if the dual increases; a short enough step always achieves that. If rounding hides
    the increase, a step is accepted if z gets nearer to the tangent space.
    """
    dual = _Dual(w, w / step + 2.0 * half, lam, step)
    here = dual.at(multiplier)
    damping = _UNDAMPED
    for _ in range(max_iter):
        if here.distance <= max(tol, 1e-12):
            break
        # damping: where a pair of columns shares no support yet, the dual is flat and its Newton step unbounded
        equations = NormalEquations.at(w, (here.z != 0.0) * step, damping=damping)
        newton = equations.solve(here.excess, rtol=_INEXACT)
        rise = 0.5 * float(np.vdot(newton, here.excess))
        for length in _LENGTHS:
            there = dual.at(here.multiplier + length * newton)
            ascends = there.value >= here.value + 1e-4 * length * rise
            if ascends or there.distance < 0.5 * here.distance:
                break
        else:
            if damping > 1.0:
                break
            damping = max(100.0 * damping, 1e-4)  # the step turns towards the gradient, which increases the dual
            continue
        here, damping = there, _UNDAMPED if length == 1.0 else damping
    return here.z, here.multiplier


class _DualPoint(NamedTuple):
    """A multiplier L, the best z for it, the value of the dual, and the distance of z - w from the tangent space."""

    multiplier: Array
    z: Array
    value: float
    excess: Array
    distance: float


@dataclass(frozen=True)
class _Dual:
    """D(L) = min over z of ``-<pull, z> + sum_j ||z_j||^2 / (2 step_j) + lam ||z||_1 + <L, w'z - I>``."""

    w: Array
    pull: Array
    lam: Array
    step: Array

    def at(self, multiplier: Array) -> _DualPoint:
        pull = self.pull - self.w @ multiplier
        z = self.step * soft_threshold(pull, self.lam)
        # at the minimiser, linear term plus norm equals minus twice the quadratic term
        value = -0.5 * float(np.vdot(z, z / self.step)) - float(np.trace(multiplier))
        excess = self.w.T @ z
        excess = excess + excess.T
        excess.flat[:: len(excess) + 1] -= 2.0
        return _DualPoint(multiplier, z, value, excess, float(np.abs(excess).max()))
