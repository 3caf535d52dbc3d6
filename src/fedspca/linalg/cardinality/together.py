"""All columns of several orthonormal loadings refitted together, on fixed supports that may overlap."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedspca.linalg.small import stacked_eigenpairs

Array = NDArray[np.float64]
Index = NDArray[np.intp]

_LENGTHS = (1.0, 0.3, 0.09)  # of a Newton step
_RADIUS = 0.7  # the longest step, per column
_RIDGE = 1e-9  # share of the largest entry, added: constraints that depend on others must not amplify rounding errors
_VACUOUS = 1e-14  # share of the largest entry: a constraint between disjoint supports has no gradient
_FLAT = 1e-3  # share of the largest curvature: flatter directions are not followed further than this allows
_RETRACTIONS, _ORTHONORMAL = 12, 1e-13


def linked(supports: list[Index], d: int) -> NDArray[np.bool_]:
    """Whether each column of m loadings shares a feature with another of them: (m, r)."""
    m = len(supports[0])
    named = np.zeros((m, d), dtype=np.intp)
    for support in supports:
        named[np.arange(m)[:, None], support] += 1
    return np.stack([(np.take_along_axis(named, support, axis=1) > 1).any(axis=1) for support in supports], axis=1)


class _Frame(NamedTuple):
    """Where the n entries of each of m loadings are: features (m, n), columns (n,), and the pairs p <= q of columns.

    A column that shares no feature with another is the best on its support already. Its entries do not move (m, n).
    """

    features: Index
    columns: Index
    pairs: tuple[Index, Index]
    moving: Array

    @classmethod
    def on(cls, supports: list[Index], d: int) -> "_Frame":
        columns = np.repeat(np.arange(len(supports)), [support.shape[1] for support in supports])
        moving = linked(supports, d)[:, columns].astype(float)
        return cls(np.concatenate(supports, axis=1), columns, np.triu_indices(len(supports)), moving)

    def at(self, chosen: Index) -> "_Frame":
        return self._replace(features=self.features[chosen], moving=self.moving[chosen])

    def flat(self, w: Array) -> Array:
        """The entries of loadings (m, d, r) as vectors (m, n)."""
        return np.asarray(w[np.arange(len(w))[:, None], self.features, self.columns])

    def blocks(self, s: Array) -> Array:
        """S between the entries of the same column (m, n, n): the variance of x is ``x' blocks x``."""
        same_column = self.columns[:, None] == self.columns
        return np.asarray(s[self.features[:, :, None], self.features[:, None, :]] * same_column)

    def scattered(self, x: Array, d: int) -> Array:
        w = np.zeros((len(x), d, int(self.columns[-1]) + 1))
        w[np.arange(len(x))[:, None], self.features, self.columns] = x
        return w

    def constraints(self, w: Array) -> tuple[Array, Array]:
        """``w_p' w_q`` minus one or zero, and its gradient: (m, P) and (m, P, n)."""
        p, q = self.pairs
        gram = w.transpose(0, 2, 1) @ w
        error = gram[:, p, q] - (p == q)
        rows = np.arange(len(w))[:, None]
        across = w[rows, self.features]  # (m, n, r): the weights that the feature of an entry has in every column
        gradient = across.transpose(0, 2, 1)[:, q] * (self.columns == p[:, None])
        gradient += across.transpose(0, 2, 1)[:, p] * (self.columns == q[:, None])
        return np.asarray(error), np.asarray(gradient)


def refitted(s: Array, w: Array, supports: list[Index], steps: int) -> tuple[Array, Array]:
    """Argmax of ``tr(w' S w)`` over orthonormal w on given supports, from orthonormal w: Newton steps, all at once.

    A step divides the gradient by the absolute curvature in every direction of the tangent space. It so climbs away
    from saddle points, which are common: columns that were fitted one after another often are one. Columns that share
    no feature with another do not move: each has to be the best on its support.

    Parameters
    ----------
    s : ndarray of shape (d, d)
        Symmetric, positive semidefinite.
    w : ndarray of shape (m, d, r)
        Orthonormal loadings that vanish outside their supports.
    supports : list of ndarray of shape (m, k_j)
        The features of each column.
    steps : int
        The most steps.

    Returns
    -------
    tuple of ndarray
        The loadings (m, d, r), and the variances that they capture (m,).
    """
    frame = _Frame.on(supports, len(s))
    w, blocks = w.copy(), frame.blocks(s)
    values = _captured(blocks, frame.flat(w))
    moving = np.arange(len(w))
    for _ in range(steps):
        if not len(moving):
            break
        here = frame.at(moving)
        step = _step(blocks[moving], w[moving], here)
        gained = np.zeros(len(moving), dtype=bool)
        for length in _LENGTHS:
            left = np.flatnonzero(~gained)
            if not len(left):
                break
            frame_left = here.at(left)
            trial, feasible = _retracted(frame_left.flat(w[moving[left]]) + length * step[left], frame_left, len(s))
            after = _captured(blocks[moving[left]], frame_left.flat(trial))
            better = feasible & (after > values[moving[left]] * (1.0 + 1e-10))
            to = moving[left[better]]
            w[to], values[to] = trial[better], after[better]
            gained[left[better]] = True
        moving = moving[gained]
    return w, values


def nearest(w: Array, supports: list[Index]) -> tuple[Array, NDArray[np.bool_]]:
    """Orthonormal loadings on given supports near others (m, d, r), and whether there are any."""
    frame = _Frame.on(supports, w.shape[1])
    x = frame.flat(w)
    sizes = np.sqrt(np.einsum("mn,nr->mr", x * x, np.eye(w.shape[2])[frame.columns]))
    return _retracted(x / np.maximum(sizes, 1e-300)[:, frame.columns], frame, w.shape[1])


def _captured(blocks: Array, x: Array) -> Array:
    return np.asarray(np.einsum("mn,mn->m", x, (blocks @ x[:, :, None])[:, :, 0]))


def _step(blocks: Array, w: Array, frame: _Frame) -> Array:
    """The Newton step (m, n) in the tangent space, with absolute curvatures."""
    _, jacobian = frame.constraints(w)
    gradient = 2.0 * (blocks @ frame.flat(w)[:, :, None])[:, :, 0]
    inverse = _inverse(jacobian)
    multiplier = (inverse @ (jacobian @ gradient[:, :, None]))[:, :, 0]
    n, r = gradient.shape[1], w.shape[2]
    tangent = np.eye(n) - jacobian.transpose(0, 2, 1) @ inverse @ jacobian
    tangent = tangent @ tangent  # twice: the ridge leaves 1e-6 of the normal space
    tangent *= frame.moving[:, :, None] * frame.moving[:, None, :]
    lagrange = np.zeros((len(w), r, r))
    p, q = frame.pairs
    lagrange[:, p, q] = multiplier
    lagrange = lagrange + lagrange.transpose(0, 2, 1)
    same_feature = frame.features[:, :, None] == frame.features[:, None, :]
    curvature = 2.0 * blocks - lagrange[:, frame.columns[:, None], frame.columns] * same_feature
    values, vectors = stacked_eigenpairs(tangent @ curvature @ tangent)
    size = np.abs(values)
    along = (vectors.transpose(0, 2, 1) @ (tangent @ gradient[:, :, None]))[:, :, 0]
    along /= np.maximum(size, _FLAT * size.max(axis=1, keepdims=True) + 1e-300)
    step = (vectors @ along[:, :, None])[:, :, 0]
    longest = np.sqrt(np.einsum("mn,mn->m", step, step))
    return np.asarray(step * np.minimum(1.0, _RADIUS * np.sqrt(r) / np.maximum(longest, 1e-300))[:, None])


def _inverse(jacobian: Array) -> Array:
    """The inverse of ``J J'``; a constraint without a gradient gets a one on the diagonal."""
    normal = jacobian @ jacobian.transpose(0, 2, 1)
    own = normal.diagonal(axis1=1, axis2=2)
    largest = own.max(axis=1, keepdims=True)
    at = np.arange(normal.shape[1])
    normal[:, at, at] += np.where(own <= _VACUOUS * largest, largest, _RIDGE * largest) + 1e-300
    return np.asarray(np.linalg.inv(normal))


def _retracted(x: Array, frame: _Frame, d: int) -> tuple[Array, NDArray[np.bool_]]:
    """The nearest orthonormal loadings, by least-norm corrections, and whether there are any near.

    Every correction must halve the error. Where one does not, the way to orthonormal loadings is long, and rounding
    errors would decide where it ends.
    """
    w = frame.scattered(x, d)
    near, before = np.ones(len(x), dtype=bool), np.full(len(x), np.inf)
    for _ in range(_RETRACTIONS):
        error, jacobian = frame.constraints(w)
        size = np.abs(error).max(axis=1)
        near &= (size <= 0.5 * before) | (size <= _ORTHONORMAL)
        if not (near & (size > _ORTHONORMAL)).any():
            break
        before = size
        change = (jacobian.transpose(0, 2, 1) @ (_inverse(jacobian) @ error[:, :, None]))[:, :, 0]
        x = np.where(near[:, None], x - change, x)
        w = frame.scattered(x, d)
    gram = w.transpose(0, 2, 1) @ w
    return w, near & (np.abs(gram - np.eye(w.shape[2])).max(axis=(1, 2)) <= 1e3 * _ORTHONORMAL)
