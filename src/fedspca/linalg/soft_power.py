"""One sparse column from many starts at once: soft-thresholded power steps, given the columns already found."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedspca.linalg.quadratic import Quadratic
from fedspca.linalg.shrinkage import soft_threshold

Array = NDArray[np.float64]
Index = NDArray[np.intp]

_SAME = 1e-9  # two columns count as the same if their objectives differ by less, relative to the larger
_SIZES = (2, 3, 5, 8, 13, 21, 34)  # of the clusters from which columns start
_AFTER, _KEPT = 2, 40  # after _AFTER steps, only the best _KEPT columns continue
_ORIGIN = 1e-300


class Columns(NamedTuple):
    """Unit columns x (d, n) and their objectives ``-x' Q x + lam ||x||_1``, best first."""

    x: Array
    values: Array


def soft_power(quadratic: Quadratic, lam: float, features: Index, beside: Array, *, steps: int) -> Columns:
    """Argmin over unit x of ``-x' P Q P x + lam ||x||_1``, started from each feature; P projects off ``beside``.

    The quadratic is concave, so its tangent lies above it, and the minimiser of tangent plus norm on the sphere is the
    normalised ``soft(Q x, lam / 2)`` (Journée, Nesterov, Richtárik, Sepulchre 2010): the objective never rises. Where
    the threshold leaves nothing, the minimiser is the coordinate of largest magnitude. ``beside`` is orthonormal.

    A single feature may be a stationary point although a cluster of similar features is better. So each start is the
    best cluster of a feature.
    """
    x, image = _clusters(quadratic, lam, features, beside)
    for step in range(steps):
        if step == _AFTER and x.shape[1] > _KEPT:
            best = _distinct(_objectives(lam, x, image))[:_KEPT]
            x, image = x[:, best], image[:, best]
        x = _tangent_minimiser(image, 0.5 * lam)
        image = _image(quadratic, x, beside)
    values = _objectives(lam, x, image)
    best = _distinct(values)
    return Columns(x[:, best], values[best])


def _clusters(quadratic: Quadratic, lam: float, features: Index, beside: Array) -> tuple[Array, Array]:
    """For each feature the best of: its column of ``P Q P`` truncated to m entries, for several m. Also its image."""
    d, n = quadratic.n_rows, len(features)
    single = np.zeros((d, n))
    single[features, np.arange(n)] = 1.0
    column = _image(quadratic, single, beside)
    rank = np.empty((d, n), dtype=np.intp)
    np.put_along_axis(rank, np.argsort(-np.abs(column), axis=0, kind="stable"), np.arange(d)[:, None], axis=0)
    best, image = single, column
    least = lam - column[features, np.arange(n)]
    for m in _SIZES:
        if m > d:
            break
        x = np.where(rank < m, column, 0.0)
        x /= np.maximum(np.sqrt(np.einsum("ij,ij->j", x, x)), _ORIGIN)
        its = _image(quadratic, x, beside)
        values = _objectives(lam, x, its)
        better = values < least
        best, image = np.where(better, x, best), np.where(better, its, image)
        least = np.minimum(least, values)
    return best, image


def _objectives(lam: float, x: Array, image: Array) -> Array:
    return np.asarray(lam * np.abs(x).sum(axis=0) - np.einsum("ij,ij->j", x, image))


def _tangent_minimiser(image: Array, threshold: float) -> Array:
    """Argmin over unit x of ``-<image, x> + threshold ||x||_1``, column by column."""
    x = soft_threshold(image, threshold)
    norms = np.sqrt(np.einsum("ij,ij->j", x, x))
    empty = np.flatnonzero(norms == 0.0)
    if len(empty):
        peaks = np.abs(image[:, empty]).argmax(axis=0)
        x[peaks, empty] = np.where(image[peaks, empty] < 0.0, -1.0, 1.0)
        norms[empty] = 1.0
    return np.asarray(x / norms)


def _image(quadratic: Quadratic, x: Array, beside: Array) -> Array:
    """``P Q P x``."""
    x = _off(beside, x)
    image = quadratic @ x
    if quadratic.shift:
        image = image + quadratic.shift * x
    return _off(beside, image)


def _off(beside: Array, x: Array) -> Array:
    return x - beside @ (beside.T @ x) if beside.shape[1] else x


def _distinct(values: Array) -> Index:
    """Indices by increasing value, each value once: ties go to the earlier feature."""
    order = np.argsort(values, kind="stable")
    ranked = values[order]
    scale = _SAME * float(np.abs(ranked).max(initial=0.0))
    first = np.ones(len(ranked), dtype=bool)
    first[1:] = np.diff(ranked) > scale
    return np.asarray(order[first])
