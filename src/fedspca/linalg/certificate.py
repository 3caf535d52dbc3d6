"""First-order certificate of the pooled l1 problem, from exact products S w."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedspca.linalg.sparse_stiefel import normal_matrix, solve_symmetric

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Certificate:
    """``residual`` is ``||G - xi - w L||_F / ||G||_F`` at the best L and xi; ``largest`` its largest entry."""

    residual: float
    largest: float
    multiplier: Array


def certify(w: Array, gradient: Array, lam: Array | float, *, max_iter: int = 30) -> Certificate:
    """Min over symmetric L and xi in lam d||w||_1 of ``||G - xi - w L||_F``, with ``G = 2 S w``.

    Zero exactly at the stationary points of ``-tr(w' S w) + lam ||w||_1`` on St(d, r). The best xi for a given L
    is closed-form, and what remains is a convex piecewise quadratic in the r (r + 1) / 2 entries of L: least
    squares over the support and over the off-support entries that exceed lam. Newton's method on it ends in a
    few steps. Minimising over L matters: ``sym(w'(G - lam sign w))`` is the minimiser only when every support
    is full, and it is arbitrary for two columns with disjoint supports, where only off-support entries fix L.
    """
    lam = np.broadcast_to(np.asarray(lam, dtype=float), (w.shape[1],))
    scale = float(np.linalg.norm(gradient)) or 1.0
    support = w != 0.0
    # rows where w vanishes do not see L: their excess is constant
    rows = support.any(axis=1)
    outside = np.maximum(np.abs(gradient[~rows]) - lam, 0.0)
    w, g, support = w[rows], gradient[rows], support[rows]
    target = np.where(support, lam * np.sign(w), 0.0)
    active = support
    multiplier = np.zeros((w.shape[1], w.shape[1]))
    best, best_excess, best_multiplier = np.inf, np.zeros_like(w), multiplier
    for _ in range(max_iter):
        mask = active.astype(float)
        z = w.T @ (mask * (g - target))
        multiplier = solve_symmetric(normal_matrix(w, mask), z + z.T)
        slack = g - w @ multiplier
        sign = np.where(support, target, lam * np.sign(slack))
        excess = np.where(support | (np.abs(slack) > lam), slack - sign, 0.0)
        value = float(np.einsum("ij,ij->", excess, excess))
        if value < best:
            best, best_excess, best_multiplier = value, excess, multiplier
        violated = support | (np.abs(slack) > lam)
        if np.array_equal(violated, active):
            break
        active, target = violated, sign
    residual = np.sqrt(best + float(np.einsum("ij,ij->", outside, outside))) / scale
    largest = max(float(np.abs(best_excess).max(initial=0.0)), float(outside.max(initial=0.0))) / scale
    return Certificate(float(residual), largest, best_multiplier)
