"""Rough solutions of the l1 problem from many starts at once, by ADMM between orthonormal and sparse matrices."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedspca.linalg.compiled import splitting as compiled
from fedspca.linalg.compiled.blas import with_blas
from fedspca.linalg.quadratic import DenseQuadratic, Quadratic
from fedspca.linalg.sparse_stiefel import retract, retract_with_signs

Array = NDArray[np.float64]
Index = NDArray[np.intp]

_LEAST = 0.02  # a column's penalty parameter is at least this share of the largest
_STIFF = 2.0  # and at least this many times lam
_REFRESH = 10  # steps between two updates of the penalty parameters
_PATIENCE = 200  # steps after which it is judged whether they converge fast enough
_ADAPTED = 200  # steps after which they stay as they are, so that the steps converge
_RELAXED = 1.6  # over-relaxation: about half as many steps as with 1
_SETTLING = 1.8  # the same near a stationary point
_AHEAD = 0.7  # how far the gradient is extrapolated there: half as many steps as with 0; with 1.5 they diverge
_NEAR = 1e-4  # only this near, where the support hardly changes: farther away, such steps may end in a worse point
_SLOW = 0.5  # and only if ten steps leave more than this share of the distance: fast ones would become slower
_NO_HELP = 0.9  # and never again, once ten extrapolated steps leave more than this share
_DEPENDENT = 1e-10  # share of the largest eigenvalue of x' x at which columns count as dependent
_COARSE = 1.5e-6  # single precision is enough down to this distance from a stationary point
_LARGE = 1000  # features from which products in single precision are worth a copy of Q
_WIDER = (0.5, 1.0)  # entries that a support gets in addition, as shares of those it has
_ORIGIN = 1e-300
_EVERY: Mapping[int, int] = {}


class Split(NamedTuple):
    """Points of the starts that are left: ``w`` orthonormal, ``z`` sparse, both (n, d, r).

    ``values`` is the objective at w, or at the orthonormal matrix nearest to z if that is lower; ``start`` tells where
    each began. ``multipliers`` (n, r, r) are the symmetric L of the stationarity condition, as far as it holds.
    """

    w: Array
    z: Array
    values: Array
    start: Index
    multipliers: Array


def split(
    quadratic: Quadratic,
    lam: Array,
    starts: Array,
    *,
    steps: int,
    tol: float = 1e-4,
    keep: Mapping[int, int] = _EVERY,
    multipliers: Array | None = None,
    aim: float = np.inf,
) -> Split:
    """Argmin over w in St(d, r) of ``-tr(w' Q w) + lam ||z||_1``, z = w, roughly, from each of the starts (n, d, r).

    ADMM (Boyd et al. 2011). The quadratic is concave, and each step replaces it by its tangent. With one penalty
    parameter per column, w is the polar factor of ``2 Q w + (z - u) diag(rho)``, because the columns of every w have
    norm one. So each step costs one product with Q for all starts together, and r x r eigenproblems.

    After ``step`` steps, only the ``keep[step]`` starts with the lowest objectives continue. Near a stationary point,
    ``multipliers`` (n, r, r), the symmetric L of its condition, let the steps begin where others would end. Steps end
    early once ten of them change no entry by more than ``tol``, or if ``max(keep)`` steps leave all objectives above
    ``aim``.
    """
    fast = with_blas()
    if fast is not None:
        return Split(
            *compiled.split(
                fast, quadratic, lam, starts, steps=steps, tol=tol, keep=keep, multipliers=multipliers, aim=aim
            )
        )
    w, z, at = starts, starts, np.arange(len(starts))
    rho = np.ones((len(starts), 1, starts.shape[2]))
    dual, last, threshold = np.zeros_like(starts), starts, lam / rho
    if multipliers is not None:
        dual = _first_dual(w, 2.0 * _images(quadratic, w) - w @ multipliers, lam)
    for step in range(steps):
        gradient = 2.0 * _images(quadratic, w)
        if step in keep:
            values = np.minimum(_values(lam, w, gradient), objectives(quadratic, lam, orthonormal(z)))
            if step == max(keep) and float(values.min()) > aim:
                break
            best = np.sort(np.argsort(values, kind="stable")[: keep[step]])
            w, z, dual, gradient, at = w[best], z[best], dual[best], gradient[best], at[best]
            rho, threshold = rho[best], threshold[best]
        if step % _REFRESH == 0:
            if step and len(last) == len(w) and float(np.abs(w - last).max()) <= tol:
                break
            last = w
            rho, dual = _penalties(w, gradient, lam, rho, dual)
            threshold = lam / rho
        w = orthonormal(gradient + (z - dual) * rho)
        moved = _RELAXED * w + (1.0 - _RELAXED) * z + dual
        dual = np.minimum(np.maximum(moved, -threshold), threshold)
        z = moved - dual
    gradient = 2.0 * _images(quadratic, w)
    values = np.minimum(_values(lam, w, gradient), objectives(quadratic, lam, orthonormal(z)))
    return Split(w, z, values, at, _multiplier(w, gradient - dual * rho))


class Settled(NamedTuple):
    """An orthonormal point ``w``, the symmetric L of its stationarity condition, and its objective.

    ``stationary`` tells whether the steps have settled. ``w`` is ``sparse``, unless no orthonormal matrix is near the
    sparse one: supports then overlap in too few features, and w is dense, or has some more non-zeros.
    """

    w: Array
    multiplier: Array
    value: float
    stationary: bool
    sparse: bool


def settle(
    quadratic: Quadratic,
    lam: Array,
    start: Array,
    *,
    steps: int,
    tol: float,
    linear: Array | float = 0.0,
    multiplier: Array | None = None,
    widen: bool = False,
) -> Settled:
    """A stationary point of ``-tr(w' Q w) - 2 <C, w> + lam ||w||_1`` by the same steps, from one start (d, r).

    Steps end once the residual of the stationarity condition is at most ``tol``, relative to the gradient, or if it
    falls too slowly for that. ``multiplier``, the L of a stationary point nearby, lets them begin near it. The gradient
    is extrapolated from the last step's: a tangent makes steps short where eigenvalues are close. For many columns
    this takes far less time than proximal steps: no system in the r (r + 1) / 2 multipliers is solved. With many
    features, products are in single precision at first.

    With ``widen``, a point that has not settled gets more non-zeros, so that it is found fast and loses little.
    """
    fast = with_blas()
    if fast is not None:
        c = None if isinstance(linear, float) else linear
        single = _coarse(quadratic)
        found = compiled.settle(
            fast, quadratic, lam, start, steps=steps, tol=tol, linear=c, multiplier=multiplier, single=single
        )
    else:
        found = _settled(quadratic, lam, start, steps, tol, linear, multiplier)
    w, z, multiplier, stationary = found
    sparse = None if widen and not stationary else retract_with_signs(z)
    if sparse is not None:
        w = sparse
    elif widen:
        w = _widened(w, z)
    value = -float(np.vdot(w, _image(quadratic, w) + 2.0 * linear)) + float(np.abs(w).sum(axis=0) @ lam)
    return Settled(w, multiplier, value, stationary, sparse is not None)


def _coarse(quadratic: Quadratic) -> NDArray[np.float32] | None:
    """The same matrix in single precision, without its shift, if it is large and dense."""
    large = isinstance(quadratic, DenseQuadratic) and quadratic.n_rows >= _LARGE
    return quadratic.factor.astype(np.float32) if large else None


def _widened(w: Array, z: Array) -> Array:
    """The orthonormal matrix near w that has the support of z and the largest of the other entries of w.

    So many of them that there is such a matrix; w itself if there is none.
    """
    support = z != 0.0
    outside = np.sort(np.abs(w[~support]))[::-1]
    for share in _WIDER:
        more = int(share * np.count_nonzero(support))
        if more >= len(outside):
            break
        mask = (support | (np.abs(w) > outside[more])).astype(float)
        near = retract(w * mask, mask)
        if near is not None:
            return near
    return w


def _settled(
    quadratic: Quadratic,
    lam: Array,
    start: Array,
    steps: int,
    tol: float,
    linear: Array | float,
    multiplier: Array | None,
) -> tuple[Array, Array, Array, bool]:
    """The orthonormal and the sparse matrix of the last step, the multiplier, and whether the steps have settled."""
    w, z, stationary, last, single = start, start, False, np.inf, _coarse(quadratic)
    gradient = 2.0 * (_image(quadratic, w) + linear)
    dual = np.zeros_like(start) if multiplier is None else _first_dual(w, gradient - w @ multiplier, lam)
    rho, dual = _penalties(w, gradient, lam, np.ones((1, start.shape[1])), dual)
    before, lately, most, ahead = gradient, np.inf, _AHEAD, 0.0
    for step in range(steps):
        if step % _REFRESH == 0 and step:
            distance = _distance(w, z, gradient, dual * rho)
            stationary = distance <= tol and single is None
            if stationary:
                break
            if distance <= _COARSE or step > _ADAPTED:
                single = None
            if ahead and distance > _NO_HELP * lately:
                most = ahead = 0.0
            if distance <= _NEAR and distance > _SLOW * lately:
                ahead = most
            lately = distance
            if step % _PATIENCE == 0:
                if step > _PATIENCE and _needed(last, distance, tol) > steps - step:
                    break
                last = distance
            if step <= _ADAPTED:
                rho, dual = _penalties(w, gradient, lam, rho, dual)
        w, before = orthonormal(gradient + ahead * (gradient - before) + (z - dual) * rho), gradient
        moved = _SETTLING * w + (1.0 - _SETTLING) * z + dual
        threshold = lam / rho
        dual = np.minimum(np.maximum(moved, -threshold), threshold)
        z = moved - dual
        gradient = 2.0 * (_image(quadratic, w, single) + linear)
    return w, z, _multiplier(w, gradient - dual * rho), stationary


def _first_dual(w: Array, slope: Array, lam: Array) -> Array:
    """The subgradient of ``lam ||w||_1`` that is nearest to the slope."""
    return np.where(w == 0.0, np.minimum(np.maximum(slope, -lam), lam), lam * np.sign(w))


def _multiplier(w: Array, slope: Array) -> Array:
    """The symmetric L for which ``w L`` is nearest to the slope."""
    pull = np.swapaxes(w, -1, -2) @ slope
    return np.asarray(0.5 * (pull + np.swapaxes(pull, -1, -2)))


def _distance(w: Array, z: Array, gradient: Array, subgradient: Array) -> float:
    """How far from a stationary point: how far w and z differ, and ``gradient - subgradient`` from ``w L``.

    Both are relative to the norms: a single entry that is slow to leave zero does not count for more than it changes.
    """
    slope = gradient - subgradient
    left = slope - w @ _multiplier(w, slope)
    size, apart = float(np.vdot(gradient, gradient)) or 1.0, w - z
    return float(np.sqrt(max(np.vdot(apart, apart) / w.shape[1], np.vdot(left, left) / size)))


def _needed(before: float, now: float, tol: float) -> float:
    """How many more steps it takes from ``now`` to ``tol``, if it took so many from ``before`` to ``now``."""
    return _PATIENCE * np.log(now / tol) / np.log(before / now) if now < before else np.inf


def _image(quadratic: Quadratic, w: Array, single: NDArray[np.float32] | None = None) -> Array:
    """``Q w`` with the shift; by the matrix in single precision, if that is given."""
    product = quadratic @ w if single is None else single @ w.astype(np.float32)
    return np.asarray(product + quadratic.shift * w if quadratic.shift else product, dtype=np.float64)


def objectives(quadratic: Quadratic, lam: Array, w: Array) -> Array:
    """``-tr(w' Q w) + lam ||w||_1`` at each of (n, d, r)."""
    fast = with_blas()
    if fast is not None:
        return compiled.objectives(fast, quadratic, lam, w)
    return _values(lam, w, 2.0 * _images(quadratic, w))


def _values(lam: Array, w: Array, gradient: Array) -> Array:
    return np.asarray(np.abs(w).sum(axis=1) @ lam - 0.5 * np.einsum("nij,nij->n", w, gradient))


def _penalties(w: Array, gradient: Array, lam: Array, rho: Array, dual: Array) -> tuple[Array, Array]:
    """One penalty parameter per column, its curvature ``2 w_j' Q w_j``; the scaled dual is rescaled with it.

    The parameter is so large that no step sets a whole unit column to zero.
    """
    curvature = np.einsum("...ij,...ij->...j", w, gradient)[..., None, :]
    largest = np.maximum(curvature.max(axis=-1, keepdims=True), _ORIGIN)
    new = np.maximum(np.maximum(curvature, _LEAST * largest), _STIFF * lam)
    return new, dual * (rho / new)


def _images(quadratic: Quadratic, w: Array) -> Array:
    """``Q w`` of every start by one product, with the shift, which makes Q positive semidefinite."""
    n, d, r = w.shape
    if n == 1:
        product = (quadratic @ w[0])[None]
    else:
        product = (quadratic @ w.transpose(1, 0, 2).reshape(d, n * r)).reshape(d, n, r).transpose(1, 0, 2)
    return np.asarray(product + quadratic.shift * w if quadratic.shift else product)


def nearest(x: Array) -> Array:
    """The orthonormal matrix nearest to each of a stack (n, d, r); compiled, if that is possible."""
    fast = with_blas()
    return orthonormal(x) if fast is None else compiled.orthonormal(fast, x)


def orthonormal(x: Array) -> Array:
    """The orthonormal matrix nearest to x, or to each of a stack."""
    gram = np.swapaxes(x, -1, -2) @ x
    if x.shape[-1] == 2:
        return _orthonormal_pair(x, gram)
    values, vectors = np.linalg.eigh(gram)
    if not float((values[..., 0] - _DEPENDENT * values[..., -1]).min()) > 0.0:
        return _by_svd(x)
    return np.asarray(x @ ((vectors / np.sqrt(values)[..., None, :]) @ np.swapaxes(vectors, -1, -2)))


def _orthonormal_pair(x: Array, gram: Array) -> Array:
    """The same for two columns: the root of a 2 x 2 matrix G is ``(G + s I) / t``, s² = det G, t² = tr G + 2 s."""
    a, b, c = gram[..., 0, 0], gram[..., 0, 1], gram[..., 1, 1]
    total, determinant = a + c, a * c - b * b
    if not (float((determinant - _DEPENDENT * total * total).min()) > 0.0 and float(determinant.max()) < np.inf):
        return _by_svd(x)
    s = np.sqrt(determinant)
    t = np.sqrt(total + 2.0 * s)
    scale = 1.0 / (s * t)  # the determinant of G + s I is s t²
    inverse = np.empty_like(gram)
    inverse[..., 0, 0], inverse[..., 1, 1] = (c + s) * scale, (a + s) * scale
    inverse[..., 0, 1] = inverse[..., 1, 0] = -b * scale
    return np.asarray(x @ inverse)


def _by_svd(x: Array) -> Array:
    """The same by an SVD, which completes a basis if x has too low a rank."""
    left, _, right = np.linalg.svd(x, full_matrices=False)
    return np.asarray(left @ right)
