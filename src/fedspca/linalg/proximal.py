"""The l1 surrogate on the Stiefel manifold: proximal steps find the support, Newton steps polish on it."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedspca.linalg.newton import Surrogate, descend, polish
from fedspca.linalg.quadratic import Quadratic
from fedspca.linalg.shrinkage import soft_threshold
from fedspca.linalg.sparse_stiefel import normal_matrix, retract, solve_symmetric

Array = NDArray[np.float64]

SMALL = 200  # up to this many rows a working set costs more than it saves
CAREFUL = 1500  # the same with more than six columns, where rows left out at first lead into poorer basins


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

    Works on a set of rows that grows by those that violate ``|2 (Q w + C)| <= lam``; rows where w vanishes
    enter the optimality conditions in no other way.

    Parameters
    ----------
    quadratic : Q (d, d), as a factor.
    lam : scalar, or one per column.
    start : (d, r), orthonormal; may be dense.
    half : ``Q start + C``, where that is known and C is not zero.
    tol : bound on the first-order residual relative to ``||2 (Q w + C)||_F``.
    """
    d, r = start.shape
    weights = np.broadcast_to(np.asarray(lam, dtype=float), (r,))
    if d <= (SMALL if r <= 6 else CAREFUL):
        return _solve(_restricted(quadratic, None, weights, start, half), start, tol, max_iter, multiplier)
    rows = _first_rows(quadratic @ start if half is None else half, weights, start, known=half is not None)
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
        rows, start, multiplier = np.union1d(rows, near), w, part.multiplier


def _restricted(
    quadratic: Quadratic, rows: NDArray[np.intp] | None, lam: Array, origin: Array, half: Array | None
) -> Surrogate:
    """The surrogate on some rows, all that the origin uses among them where C is not zero."""
    if rows is not None:
        quadratic, origin, half = quadratic.rows(rows), origin[rows], None if half is None else half[rows]
    return Surrogate(quadratic, np.zeros_like(origin) if half is None else half - quadratic @ origin, lam)


def _first_rows(half: Array, lam: Array, start: Array, *, known: bool) -> NDArray[np.intp]:
    """Rows likely to be non-zero: those of a sparse start, or where the gradient at a dense one is near lam."""
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
    value, half_way = p.trial(w)
    half = p.quadratic.outer(half_way) + p.linear
    lagrange = _first_multiplier(w, half, p.lam) if multiplier is None else multiplier
    boost, residual, converged = 1.0, np.inf, False
    it = 0
    while it < max_iter:
        it += 1
        scale = 2.0 * float(np.linalg.norm(half)) or 1.0
        step = _steps(lagrange, scale, boost)
        z, lagrange = proximal_point(w, half, p.lam, step, lagrange, tol=1e-2 * tol)
        residual = float(np.linalg.norm((z - w) / step)) / scale
        converged = residual <= tol
        accepted = descend(p, z, value, 1e-12 if residual < 1e-5 else 0.0)
        if converged:
            # take this last step too: a small entry that z has already dropped would spoil the certificate of w
            w, value = (w, value) if accepted is None else accepted[:2]
            break
        if accepted is None:
            boost *= 3.0
            if boost > 1e6:
                break
            continue
        boost = max(1.0, boost / 2.0)
        changed = int(np.count_nonzero((accepted[0] != 0.0) != (w != 0.0)))
        w, value = accepted[:2]
        half = p.quadratic.outer(accepted[2]) + p.linear
        if changed <= max(2, 0.1 * np.count_nonzero(w)):
            w, half, value, polished = polish(p, w, half, value, 0.1 * tol)
            lagrange = lagrange if polished is None else polished
    return L1Solution(w, lagrange, value, residual, it, converged)


def _first_multiplier(w: Array, half: Array, lam: Array) -> Array:
    z = w.T @ (2.0 * half - lam * np.sign(w))
    return 0.5 * (z + z.T)


def _steps(multiplier: Array, scale: float, boost: float) -> Array:
    """Column steps 1 / L_jj: -tr(w' M w) is concave, so only the retraction, whose curvature is L, limits them."""
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
    max_iter: int = 8,
) -> tuple[Array, Array]:
    """Argmin over z of ``-2 <half, z> + sum_j ||z_j - w_j||^2 / (2 step_j) + lam ||z||_1``, z - w tangent at w.

    The ManPG subproblem (Chen, Ma, So, Zhang 2020), in a metric with one step per column. Its dual has
    r (r + 1) / 2 unknowns; semi-smooth Newton with a residual check, warm-started by the last multiplier.
    """
    forward = w + 2.0 * step * half
    eye2, threshold, damping = 2.0 * np.eye(w.shape[1]), step * lam, 1e-10 * float(step.min())

    def trial(lagrange: Array) -> tuple[Array, Array]:
        z = soft_threshold(forward - (w @ lagrange) * step, threshold)
        cross = w.T @ z
        return z, cross + cross.T - eye2

    z, excess = trial(multiplier)
    size = float(np.abs(excess).max())
    for _ in range(max_iter):
        if size <= max(tol, 1e-12):
            break
        mask = (z != 0.0) * step
        normal = normal_matrix(w, mask)
        # damping: where a pair of columns shares no support yet, the dual is flat and its Newton step unbounded
        normal.flat[:: len(normal) + 1] += damping
        newton = solve_symmetric(normal, excess)
        t = 1.0
        for _ in range(6):
            candidate = multiplier + t * newton
            z_new, excess_new = trial(candidate)
            size_new = float(np.abs(excess_new).max())
            if size_new < (1.0 - 0.1 * t) * size:
                break
            t *= 0.4
        else:
            damping = max(
                100.0 * damping, 1e-4 * float(normal.diagonal().mean())
            )  # towards the gradient, which descends
            continue
        multiplier, z, excess, size = candidate, z_new, excess_new, size_new
    return z, multiplier
