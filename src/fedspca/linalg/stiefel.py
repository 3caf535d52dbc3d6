"""The Stiefel manifold St(d, r) = {w : wᵀw = I} and its generalisation {w : wᵀGw = I}.

Here G = I − ZZᵀ always is the projection off the directions Z already found (``removed``, d × q and orthonormal), so it
is applied and never formed; with q = 0 it is the identity and everything below is the ordinary manifold. Tangent
vectors ξ satisfy sym(wᵀGξ) = 0, and the metric is the Euclidean one.

A retraction here is (w + ξ)M with an r × r factor M. Keeping the factor lets a caller who knows S w and S ξ obtain
S R_w(ξ) = (Sw + Sξ)M without another pass over data.

References: Absil, Mahony and Sepulchre (2008), Optimization algorithms on matrix manifolds; Sato and Aihara (2019),
Cholesky QR-based retraction on the generalized Stiefel manifold.
"""

from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_sylvester

from fedspca.linalg.small import eigenpairs, inverse_cholesky

Array = NDArray[np.float64]
Retraction = Literal["qr", "polar"]


def sym(x: Array) -> Array:
    """Symmetric part, (x + xᵀ)/2."""
    return (x + x.T) / 2


def nothing_removed(d: int) -> Array:
    """Return the empty d × 0 basis, for which G is the identity."""
    return np.zeros((d, 0))


def project_out(removed: Array, x: Array) -> Array:
    """Argmin over y with Zᵀy = 0 of ‖y − x‖: Gx = x − Z(Zᵀx)."""
    if not removed.shape[1]:
        return x
    return x - removed @ (removed.T @ x)


def metric_gram(removed: Array, x: Array) -> Array:
    """Inner products xᵀGx = (Gx)ᵀ(Gx) of the columns in the metric of the generalised manifold."""
    seen = project_out(removed, x)
    return seen.T @ seen


def tangent_projection(w: Array, x: Array, removed: Array) -> Array:
    """Project x onto the tangent space at w: x − w sym(wᵀGx)."""
    return x - w @ sym(w.T @ project_out(removed, x))


def retraction_factor(gram: Array, kind: Retraction) -> Array:
    """M such that XM is orthonormal, given gram = XᵀGX.

    ``"qr"`` is Cholesky QR (Algorithm 5 of the paper): M = R⁻¹ with gram = RᵀR, so XM = qf(X) with positive diagonal.
    ``"polar"`` is M = gram^(−1/2), which gives the orthonormal matrix nearest to X.
    """
    if kind == "qr":
        return inverse_cholesky(gram)
    values, vectors = eigenpairs(gram)
    return np.asarray((vectors / np.sqrt(values)) @ vectors.T)


def retraction(w: Array, tangent: Array, removed: Array, kind: Retraction = "qr") -> Array:
    """Point of the manifold reached from w along a tangent vector."""
    moved = w + tangent
    return moved @ retraction_factor(metric_gram(removed, moved), kind)


def retraction_velocity(point: Array, direction: Array, factor: Array, removed: Array, kind: Retraction) -> Array:
    """Derivative of the curve θ ↦ R_w(θζ) at ``point`` = XM, for X = w + θζ, ζ = ``direction`` and M = ``factor``.

    Outside the span of the point, the derivative of both retractions is that of ζM; inside the span it is a skew Ω. QR:
    Ω = L − Lᵀ with L the strictly lower part of QᵀGζM. Polar, X = PH with M = H⁻¹: ΩH + HΩ = PᵀGζ − (PᵀGζ)ᵀ.
    """
    inner = point.T @ project_out(removed, direction)
    if kind == "qr":
        lower = np.tril(inner @ factor, -1)
        omega = lower - lower.T
    else:
        stretch = np.linalg.inv(factor)
        omega = np.asarray(solve_sylvester(stretch, stretch, inner - inner.T), dtype=np.float64)
    return np.asarray(point @ omega + (direction - point @ inner) @ factor)


def polar_factor(x: Array, removed: Array) -> Array:
    """Argmax over w with wᵀGw = I of ⟨w, Gx⟩: x(xᵀGx)^(−1/2), by an r × r eigenproblem."""
    values, vectors = eigenpairs(metric_gram(removed, x))
    if values[0] > 1e-8 * values[-1]:
        return np.asarray(x @ ((vectors / np.sqrt(values)) @ vectors.T))
    return _polar_factor_by_svd(project_out(removed, x), removed)


def _polar_factor_by_svd(x: Array, removed: Array) -> Array:
    """Polar factor of an x with nearly or truly dependent columns, for which the eigenproblem is not accurate enough.

    Directions that x lacks are taken from the Householder reflections, which complete any basis orthonormally.
    """
    left, values, right = np.linalg.svd(x, full_matrices=False)
    rank = int(np.sum(values > 1e-14 * max(values[0], np.finfo(float).tiny)))
    q = removed.shape[1]
    missing = np.zeros((len(x), x.shape[1] - rank))
    completed = np.linalg.qr(np.hstack([removed, left[:, :rank], missing]))[0]
    return np.asarray(np.hstack([left[:, :rank], completed[:, q + rank :]]) @ right)


def orthonormality_error(w: Array) -> float:
    """Largest entry of |wᵀw − I|."""
    return float(np.abs(w.T @ w - np.eye(w.shape[1])).max(initial=0.0))
