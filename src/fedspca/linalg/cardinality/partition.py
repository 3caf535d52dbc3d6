"""Loadings that share no feature: features divided among the components around which they cluster."""

import numpy as np
from numpy.typing import NDArray

from fedspca.linalg.compiled import fewest
from fedspca.linalg.compiled.library import library
from fedspca.linalg.small import largest_eigenpairs

Array = NDArray[np.float64]
Index = NDArray[np.intp]

_TURNS = 30  # most divisions settle in ten


def partitioned(s: Array, w: Array) -> Array:
    """Orthonormal loadings (d x r) near w, each feature in at most one of them: k-means of features.

    Each feature joins the component that explains most of it, each component becomes the leading eigenvector of its
    features, in turn, until nothing changes (Vigneau and Qannari 2003). A component without a feature gets the one that
    is explained worst.
    """
    kernels = library()
    found = None if kernels is None else fewest.partition(kernels, s, w)
    return _partitioned(s, w) if found is None else found


def _partitioned(s: Array, w: Array) -> Array:
    image = s @ w
    explained = np.square(w) * np.maximum(np.einsum("ij,ij->j", w, image), 0.0)
    owner = _nonempty(s, explained)
    for _ in range(_TURNS):
        w = _leading(s, owner, w.shape[1])
        image = s @ w
        variances = np.maximum(np.einsum("ij,ij->j", w, image), 1e-300)
        before, owner = owner, _nonempty(s, np.square(image) / variances)
        if (owner == before).all():
            break
    return w


def _nonempty(s: Array, explained: Array) -> Index:
    """The component that explains most of each feature; no component is left without one."""
    d, r = explained.shape
    owner = np.argmax(explained, axis=1)
    for j in range(r):
        size = np.bincount(owner, minlength=r)
        if not size[j]:
            rest = s.diagonal() - explained[np.arange(d), owner]
            owner[np.argmax(np.where(size[owner] > 1, rest, -np.inf))] = j
    return np.asarray(owner)


def _leading(s: Array, owner: Index, r: int) -> Array:
    w = np.zeros((len(s), r))
    for j in range(r):
        own = np.flatnonzero(owner == j)
        w[own, j] = largest_eigenpairs(s[np.ix_(own, own)], 1)[1][:, 0]
    return w
