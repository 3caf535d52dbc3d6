"""Rough solutions of the l1 problem from many starts at once, by ADMM between orthonormal and sparse matrices."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedspca.linalg.quadratic import Quadratic
from fedspca.linalg.shrinkage import soft_threshold

Array = NDArray[np.float64]

_LEAST = 0.02  # a column's penalty parameter is at least this share of the largest
_STIFF = 2.0  # and at least this many times lam
_REFRESH = 10  # steps between two updates of the penalty parameters
_DEPENDENT = 1e-10  # share of the largest eigenvalue of x' x at which columns count as dependent
_ORIGIN = 1e-300


class Split(NamedTuple):
    """Points of each start: ``w`` orthonormal, ``z`` sparse, both (n, d, r); ``values`` is the objective at w."""

    w: Array
    z: Array
    values: Array


def split(quadratic: Quadratic, lam: Array, starts: Array, *, steps: int, tol: float = 1e-4) -> Split:
    """Argmin over w in St(d, r) of ``-tr(w' Q w) + lam ||z||_1``, z = w, roughly, from each of the starts (n, d, r).

    ADMM (Boyd et al. 2011). The quadratic is concave, and each step replaces it by its tangent. With one penalty
    parameter per column, w is the polar factor of ``2 Q w + (z - u) diag(rho)``, because the columns of every w have
    norm one. So each step costs one product with Q for all starts together, and r x r eigenproblems.
    """
    w, z, dual = starts, starts, np.zeros_like(starts)
    rho = np.ones((len(starts), 1, starts.shape[2]))
    for step in range(steps):
        gradient = 2.0 * _images(quadratic, w)
        if step % _REFRESH == 0:
            rho, dual = _penalties(w, gradient, lam, rho, dual)
        w = orthonormal(gradient + (z - dual) * rho)
        moved = w + dual
        z = soft_threshold(moved, lam / rho)
        dual = moved - z
        if step % _REFRESH == _REFRESH - 1 and float(np.abs(w - z).max()) <= tol:
            break
    return Split(w, z, objectives(quadratic, lam, w))


def objectives(quadratic: Quadratic, lam: Array, w: Array) -> Array:
    """``-tr(w' Q w) + lam ||w||_1`` at each of (n, d, r)."""
    captured = np.einsum("nij,nij->n", w, _images(quadratic, w))
    return np.asarray(np.abs(w).sum(axis=1) @ lam - captured)


def _penalties(w: Array, gradient: Array, lam: Array, rho: Array, dual: Array) -> tuple[Array, Array]:
    """One penalty parameter per column, its curvature ``2 w_j' Q w_j``; the scaled dual is rescaled with it.

    The parameter is so large that no step sets a whole unit column to zero.
    """
    curvature = np.einsum("nij,nij->nj", w, gradient)[:, None, :]
    largest = np.maximum(curvature.max(axis=2, keepdims=True), _ORIGIN)
    new = np.maximum(np.maximum(curvature, _LEAST * largest), _STIFF * lam)
    return new, dual * (rho / new)


def _images(quadratic: Quadratic, w: Array) -> Array:
    """``Q w`` of every start by one product, with the shift, which makes Q positive semidefinite."""
    n, d, r = w.shape
    side_by_side = w.transpose(1, 0, 2).reshape(d, n * r)
    product = quadratic @ side_by_side
    if quadratic.shift:
        product = product + quadratic.shift * side_by_side
    return np.ascontiguousarray(product.reshape(d, n, r).transpose(1, 0, 2))


def orthonormal(x: Array) -> Array:
    """The orthonormal matrix nearest to x, or to each of a stack."""
    transposed = np.swapaxes(x, -1, -2)
    values, vectors = np.linalg.eigh(transposed @ x)
    if not float((values[..., 0] - _DEPENDENT * values[..., -1]).min()) > 0.0:
        left, _, right = np.linalg.svd(x, full_matrices=False)  # the SVD completes a basis if x has too low a rank
        return np.asarray(left @ right)
    return np.asarray(x @ ((vectors / np.sqrt(values)[..., None, :]) @ np.swapaxes(vectors, -1, -2)))
