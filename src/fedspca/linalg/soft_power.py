"""One sparse column from many starts at once: power steps with soft thresholds, beside columns already there."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedspca.linalg.quadratic import Quadratic
from fedspca.linalg.shrinkage import soft_threshold

Array = NDArray[np.float64]
Index = NDArray[np.intp]

_SAME = 1e-9  # two columns whose objectives differ by less, relative to the larger, are taken for one


class Columns(NamedTuple):
    """Unit columns x (d, n) and their objectives ``-x' Q x + lam ||x||_1``, best first."""

    x: Array
    values: Array


def soft_power(quadratic: Quadratic, lam: float, features: Index, beside: Array, *, steps: int) -> Columns:
    """Argmin over unit x of ``-x' P Q P x + lam ||x||_1``, from each of some features; P projects off ``beside``.

    The quadratic is concave, so its tangent lies above it, and the minimiser of tangent plus norm on the sphere is the
    normalised ``soft(Q x, lam / 2)`` (Journée, Nesterov, Richtárik, Sepulchre 2010): the objective never rises. Where
    the threshold leaves nothing, the minimiser is the coordinate of largest magnitude. ``beside`` is orthonormal.
    """
    x = np.zeros((quadratic.n_rows, len(features)))
    x[features, np.arange(len(features))] = 1.0
    image = _image(quadratic, x, beside)
    for _ in range(steps):
        x = _tangent_minimiser(image, 0.5 * lam)
        image = _image(quadratic, x, beside)
    values = lam * np.abs(x).sum(axis=0) - np.einsum("ij,ij->j", x, image)
    return _distinct(x, values)


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


def _distinct(x: Array, values: Array) -> Columns:
    """Best first, each value once: ties go to the earlier feature."""
    order = np.argsort(values, kind="stable")
    ranked = values[order]
    scale = _SAME * float(np.abs(ranked).max(initial=0.0))
    first = np.ones(len(ranked), dtype=bool)
    first[1:] = np.diff(ranked) > scale
    kept = order[first]
    return Columns(x[:, kept], values[kept])
