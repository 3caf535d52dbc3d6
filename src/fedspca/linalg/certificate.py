"""First-order certificate of the pooled l1 problem, from exact products S w."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedspca.linalg.sparse_stiefel import NormalEquations

Array = NDArray[np.float64]

_LENGTHS = tuple(0.3**i for i in range(12))
_SOLVED = 1e-8  # relative residual of the equations of a Newton step, if they are solved iteratively
_ENOUGH = 1e-8  # a multiplier that leaves so little is not improved
_DAMPED = 1e-6  # the first damping, as a share of the mean curvature


@dataclass(frozen=True)
class Certificate:
    """``residual`` is ``||G - xi - w L||_F / ||G||_F`` at the best L and xi; ``largest`` its largest entry."""

    residual: float
    largest: float
    multiplier: Array


def certify(
    w: Array, gradient: Array, lam: Array | float, *, max_iter: int = 100, multiplier: Array | None = None
) -> Certificate:
    """Min over symmetric L and ξ in λ∂‖w‖₁ of ‖G − ξ − wL‖_F, with G = 2Sw.

    The minimum is zero exactly at the stationary points of −tr(wᵀSw) + λ‖w‖₁ on St(d, r). The best ξ for a given L has
    a closed form. The rest is a convex, piecewise quadratic function of the r(r + 1)/2 entries of L. Newton's method
    with a line search minimises it in a few steps. Minimising over L matters: sym(wᵀ(G − λ sign w)) is the minimiser
    only if every support is full. If columns have disjoint supports, the entries on the support do not determine L;
    only the entries off the support do. A solver that knows L gives its ``multiplier``: the search begins there.
    """
    lam = np.broadcast_to(np.asarray(lam, dtype=float), (w.shape[1],))
    scale = float(np.linalg.norm(gradient)) or 1.0
    rows = (w != 0.0).any(axis=1)  # the other rows do not depend on L: their excess is constant
    outside = np.maximum(np.abs(gradient[~rows]) - lam, 0.0)
    w, g = w[rows], gradient[rows]
    support, target = w != 0.0, lam * np.sign(w)

    def excess(multiplier: Array) -> Array:
        slack = g - w @ multiplier
        return np.asarray(slack - np.where(support, target, np.minimum(np.maximum(slack, -lam), lam)))

    best, damping = np.inf, 0.0
    if multiplier is None:
        multiplier = np.zeros((w.shape[1], w.shape[1]))
        weights = support.astype(float)
        left = weights * (g - target)  # the first step uses the entries on the support only
    else:
        left = excess(multiplier)
        best = float(np.vdot(left, left))
        weights = (support | (left != 0.0)).astype(float)
        if best <= _ENOUGH * _ENOUGH * scale * scale:
            max_iter = 0
    for _ in range(max_iter):
        pull = w.T @ left
        step = NormalEquations.at(w, weights, damping=damping).solve(pull + pull.T, rtol=_SOLVED)
        # any L gives a valid bound: an exact minimiser is not needed
        if damping == 0.0 and float(np.vdot(step, pull)) <= 1e-3 * best < np.inf:
            break
        for t in _LENGTHS:
            trial = excess(multiplier + t * step)
            value = float(np.vdot(trial, trial))
            if value < best:
                break
        else:  # only rounding is left
            break
        best, multiplier, left = value, multiplier + t * step, trial
        # where the support does not determine L, Newton's step is far too long; damping shortens it
        damping = max(10.0 * damping, _DAMPED) if t < 1.0 else 0.0
        weights = (support | (left != 0.0)).astype(float)
    residual = np.sqrt(best + float(np.vdot(outside, outside))) / scale
    largest = max(float(np.abs(left).max(initial=0.0)), float(outside.max(initial=0.0))) / scale
    return Certificate(float(residual), largest, multiplier)
