"""One sparse column from many starts at once: soft-thresholded power steps, given the columns already found."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedspca.linalg.compiled import soft_power as compiled
from fedspca.linalg.compiled.blas import with_blas
from fedspca.linalg.quadratic import Quadratic

Array = NDArray[np.float64]
Index = NDArray[np.intp]

_SAME = 1e-9  # two columns count as the same if their objectives differ by less, relative to the larger
_SIZES = (2, 3, 5, 8, 13, 21, 34)  # of the clusters from which columns start
_CROWD = {0: 80, 2: 40, 6: 16, 14: 6}  # after so many steps, only the best so many columns continue
_TIED = 1.0 - 1e-9
_ORIGIN = 1e-300


class Columns(NamedTuple):
    """Unit columns x (m, d, n) and their objectives (m, n), best first.

    Objectives are inf for repetitions, which come last.
    """

    x: Array
    values: Array


def soft_power(
    quadratic: Quadratic, lam: Array, features: Index, beside: Array, *, steps: int, starts: Array | None = None
) -> Columns:
    """Argmin over unit x of ``-x' P Q P x + lam ||x||_1``, started from each feature; P projects off ``beside``.

    The quadratic is concave, so its tangent lies above it, and the minimiser of tangent plus norm on the sphere is the
    normalised ``soft(Q x, lam / 2)`` (Journée, Nesterov, Richtárik, Sepulchre 2010): the objective never rises. Where
    the threshold leaves nothing, the minimiser is the coordinate of largest magnitude.

    A single feature may be a stationary point although a cluster of similar features is better. So each start is the
    best cluster of a feature.

    Parameters
    ----------
    quadratic : Quadratic
        Q (d, d).
    lam : ndarray of shape (m,)
        One for each problem.
    features : ndarray of shape (n,)
        Where columns start.
    beside : ndarray of shape (m, d, q)
        What the column of each problem must be orthogonal to: orthonormal columns.
    starts : ndarray of shape (d, e), optional
        Further unit columns to start from.
    """
    fast = with_blas()
    if fast is not None:
        return Columns(*compiled.soft_power(fast, quadratic, lam, features, beside, steps=steps, starts=starts))
    weights = np.asarray(lam, dtype=float)[:, None]
    x, image = _clusters(quadratic, weights, features, beside)
    if starts is not None:
        further = np.broadcast_to(starts, (len(beside), *starts.shape))
        x = np.concatenate([further, x], axis=2)
        image = np.concatenate([_image(quadratic, further, beside), image], axis=2)
    threshold = 0.5 * weights[:, :, None]
    for step in range(steps):
        if step in _CROWD and x.shape[2] > _CROWD[step]:
            x, image = _best(x, image, _objectives(weights, x, image), _CROWD[step])
        x = _tangent_minimiser(image, threshold)
        image = _image(quadratic, x, beside)
    values = _objectives(weights, x, image)
    order, ranked = _distinct(values)
    return Columns(np.take_along_axis(x, order[:, None, :], 2), ranked)


def _best(x: Array, image: Array, values: Array, most: int) -> tuple[Array, Array]:
    """The best columns of each problem, and their images."""
    order, ranked = _distinct(values)
    kept = order[:, None, : max(1, min(most, int(np.isfinite(ranked).sum(axis=1).max())))]
    return np.take_along_axis(x, kept, 2), np.take_along_axis(image, kept, 2)


def _clusters(quadratic: Quadratic, lam: Array, features: Index, beside: Array) -> tuple[Array, Array]:
    """For each feature the best of: roots of the m largest entries of its column of ``P Q P``. Also its image.

    The column itself would be best if one factor explained Q. It gives a feature too much weight beside those that are
    weakly correlated with it: a pair of them then looks worse than one alone. Equal weights would be best there.
    """
    d, n = quadratic.n_rows, len(features)
    single = np.zeros((1, d, n))
    single[0, features, np.arange(n)] = 1.0
    column = _image(quadratic, np.broadcast_to(single, (len(beside), d, n)), beside)
    size = np.abs(column)
    roots = np.copysign(np.sqrt(size), column)
    ranked = -np.sort(-size, axis=1)
    best, image = np.broadcast_to(single, column.shape), column
    least = lam - column[:, features, np.arange(n)]
    for m in _SIZES:
        if m > d:
            break
        x = np.where(size >= _TIED * ranked[:, m - 1 : m], roots, 0.0)  # a tie is not left to rounding
        x /= np.maximum(np.sqrt(np.einsum("mij,mij->mj", x, x)), _ORIGIN)[:, None, :]
        its = _image(quadratic, x, beside)
        values = _objectives(lam, x, its)
        better = (values < least)[:, None, :]
        best, image = np.where(better, x, best), np.where(better, its, image)
        least = np.minimum(least, values)
    return best, image


def _objectives(lam: Array, x: Array, image: Array) -> Array:
    return np.asarray(lam * np.abs(x).sum(axis=1) - np.einsum("mij,mij->mj", x, image))


def _tangent_minimiser(image: Array, threshold: Array) -> Array:
    """Argmin over unit x of ``-<image, x> + threshold ||x||_1``, column by column."""
    x = image - np.minimum(np.maximum(image, -threshold), threshold)
    norms = np.sqrt(np.einsum("mij,mij->mj", x, x))
    if not norms.all():
        problem, empty = np.nonzero(norms == 0.0)
        left = image[problem, :, empty]
        peaks = np.abs(left).argmax(axis=1)
        x[problem, peaks, empty] = np.where(left[np.arange(len(left)), peaks] < 0.0, -1.0, 1.0)
        norms[problem, empty] = 1.0
    x /= norms[:, None, :]
    return x


def _image(quadratic: Quadratic, x: Array, beside: Array) -> Array:
    """``P Q P x``."""
    x = _off(beside, x)
    m, d, n = x.shape
    if m == 1:
        image = (quadratic @ x[0])[None]
    else:
        flat = x.transpose(1, 0, 2).reshape(d, m * n)
        image = (quadratic @ flat).reshape(d, m, n).transpose(1, 0, 2)
    if quadratic.shift:
        image = image + quadratic.shift * x
    return _off(beside, image)


def _off(beside: Array, x: Array) -> Array:
    return x - beside @ (beside.transpose(0, 2, 1) @ x) if beside.shape[2] else x


def _distinct(values: Array) -> tuple[Index, Array]:
    """Order by increasing value, each value once, then the rest. Among equals, the earlier feature comes first.

    Also the values in that order, inf for the rest.
    """
    n = values.shape[1]
    order = np.argsort(values, axis=1)
    ranked = np.take_along_axis(values, order, 1)
    apart = np.ones(ranked.shape, dtype=bool)
    apart[:, 1:] = np.diff(ranked, axis=1) > _SAME * np.abs(ranked).max(axis=1, keepdims=True, initial=0.0)
    if apart.all():
        return order, ranked
    order = np.sort(np.cumsum(apart, axis=1) * n + order, axis=1) % n  # within each group, by feature
    ranked = np.where(apart, np.take_along_axis(values, order, 1), np.inf)
    last = np.argsort(~apart, axis=1, kind="stable")
    return np.take_along_axis(order, last, 1), np.take_along_axis(ranked, last, 1)
