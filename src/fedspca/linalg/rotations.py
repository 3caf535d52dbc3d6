"""Starts on the surrogate: rotations of the leading subspace. They cost no round."""

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from fedspca.linalg.splitting import nearest

Array = NDArray[np.float64]

_EQUAL = 1e-8  # relative: weights and variances that differ by less count as equal, and a rule decides
_FEATURES = 1500  # varimax looks only at features with the largest weights: the others hardly change its criterion


def varimax(w: Array, *, max_iter: int = 30, tol: float = 1e-4) -> Array:
    """Argmax over orthogonal R of the sum over columns of the variance of ``(w R)^2`` (Kaiser 1958)."""
    d, r = w.shape
    if r == 1:
        return np.eye(1)
    heavy = w
    if d > _FEATURES:
        heavy = w[np.argpartition(-np.einsum("ij,ij->i", w, w), _FEATURES)[:_FEATURES]]
    if r == 2:
        return _plane_varimax(heavy, d)
    rotation, last = np.eye(r), 0.0
    for _ in range(max_iter):
        x = heavy @ rotation
        cubic = x * (x * x - np.einsum("ij,ij->j", x, x) / d)
        slope = heavy.T @ cubic
        rotation = nearest(slope[None])[0]
        total = float(np.vdot(rotation, slope))  # the sum of its singular values
        if total <= last * (1.0 + tol):
            break
        last = total
    return rotation


def _plane_varimax(w: Array, d: int) -> Array:
    """Kaiser's angle for two columns, in closed form: the criterion is a cosine of four times the angle."""
    u, v = w[:, 0] ** 2 - w[:, 1] ** 2, 2.0 * w[:, 0] * w[:, 1]
    a, b = float(u.sum()), float(v.sum())
    angle = 0.25 * np.arctan2(2.0 * (float(u @ v) - a * b / d), float(u @ u) - float(v @ v) - (a * a - b * b) / d)
    c, s = float(np.cos(angle)), float(np.sin(angle))
    return np.array([[c, -s], [s, c]])


def random_rotations(n: int, r: int, rng: np.random.Generator) -> Array:
    """N orthogonal matrices, Haar distributed, shape (n, r, r)."""
    if not n:
        return np.zeros((0, r, r))
    q, upper = np.linalg.qr(rng.standard_normal((n, r, r)))
    return np.asarray(q * np.sign(np.einsum("nii->ni", upper))[:, None, :])


def rotated(basis: Array, rotations: Array) -> list[Array]:
    """The basis itself, its varimax rotation, and ``basis @ R`` for each given rotation."""
    if basis.shape[1] == 1:
        return [basis]
    return [basis, basis @ varimax(basis), *(basis @ rotation for rotation in rotations)]


def canonical_order(w: Array, variances: Array, *, reorder: bool = True) -> tuple[NDArray[np.intp], Array]:
    """Order of the columns by decreasing variance, and the signs that make the largest entry of each positive."""
    order = _by_size(w, variances) if reorder else np.arange(w.shape[1])
    sizes = np.abs(w)
    heaviest = np.argmax(sizes >= (1.0 - _EQUAL) * sizes.max(axis=0), axis=0)
    peaks = w[heaviest, np.arange(w.shape[1])]
    return order, np.where(peaks < 0.0, -1.0, 1.0)[order]


def _by_size(w: Array, variances: Array) -> NDArray[np.intp]:
    """Columns by decreasing variance. Ties up to rounding are ordered by the first features of the columns."""
    order = np.argsort(-variances, kind="stable")
    falls = variances[order[1:]] - variances[order[:-1]]
    steps = falls < -_EQUAL * float(np.abs(variances).max(initial=0.0))
    if steps.all():
        return order
    group = np.concatenate([[0], np.cumsum(steps)])
    features = [tuple(np.flatnonzero(w[:, j]).tolist()) for j in order]
    return order[sorted(range(len(order)), key=lambda at: (group[at], features[at]))]


@lru_cache(maxsize=64)
def pairs(r: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """The first and the second of every two columns."""
    return np.triu_indices(r, 1)


def turned_pairs(w: Array, n: int) -> list[Array]:
    """Points that differ from w in two columns, turned by 45 degrees: the n pairs whose supports overlap most.

    Another rotation could separate columns that share features.
    """
    size = np.abs(w)
    first, second = pairs(w.shape[1])
    order = np.argsort(-(size.T @ size)[first, second], kind="stable")[:n]
    points = []
    for a, b in zip(first[order], second[order], strict=True):
        turned = w.copy()
        turned[:, a], turned[:, b] = np.sqrt(0.5) * (w[:, a] + w[:, b]), np.sqrt(0.5) * (w[:, a] - w[:, b])
        points.append(turned)
    return points


def canonical(w: Array, variances: Array, *, reorder: bool = True) -> Array:
    """Put columns in order of decreasing variance, each with its largest entry positive.

    Starts that end in the same point, up to order and signs, then give the same answer.
    """
    order, signs = canonical_order(w, variances, reorder=reorder)
    return np.asarray(w[:, order] * signs)
