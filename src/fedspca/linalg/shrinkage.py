"""Penalties that shrink: the ℓ1 norm's prox, and the smooth absolute value of the paper."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]


def soft_threshold(x: Array, threshold: ArrayLike) -> Array:
    """Argmin over z of ½‖z − x‖² + Σ t|z|; the threshold t broadcasts, so each column may have its own."""
    threshold = np.asarray(threshold)
    return np.asarray(x - np.minimum(np.maximum(x, -threshold), threshold))


def smooth_abs(x: Array, mu: float) -> Array:
    """Absolute value, rounded off to x²/μ + μ/4 within μ/2 of zero (ψ in the paper)."""
    magnitude = np.abs(x)
    return np.where(magnitude < mu / 2, magnitude**2 / mu + mu / 4, magnitude)


def smooth_norms(x: Array, mu: float) -> Array:
    """Σ ψ(x) by column, where ψ(x) is |x|, plus (μ/2 − |x|)²/μ within μ/2 of zero."""
    magnitude = np.abs(x)
    inside = np.maximum(mu / 2 - magnitude, 0.0)
    inside *= inside
    inside /= mu
    inside += magnitude
    return np.asarray(np.ones(len(x)) @ inside)


def smooth_abs_gradient(x: Array, mu: float) -> Array:
    """Derivative of :func:`smooth_abs`: 2x/μ within μ/2 of zero, the sign of x elsewhere."""
    return np.minimum(np.maximum((2.0 / mu) * x, -1.0), 1.0)
