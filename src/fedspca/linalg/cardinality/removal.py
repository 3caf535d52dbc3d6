"""What it costs to leave entries out of orthonormal loadings, once the others are refitted: to second order, for all.

At the best loadings on their supports, a change D of the weights that keeps them orthonormal costs ``<D, H D> / 2`` of
the variance, with H the Hessian of the Lagrangian. If the entry x_e has to become zero, the cheapest such change costs
``x_e^2 / (2 C_ee)``, with C the inverse of H on the tangent space. Both x and C after the removal are known too, so a
whole order of removals follows from one inverse (optimal brain surgeon: Hassibi and Stork 1993). It is a pivoted
Cholesky factorisation of C, whose columns are computed when they are needed.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lapack

from fedspca.linalg.cardinality.polish import groups
from fedspca.linalg.sparse_stiefel import Tangent

Array = NDArray[np.float64]
Index = NDArray[np.intp]

_LARGE = 800  # entries: with more, their inverse takes longer than it saves
_STIFF = 1e4  # curvature off the tangent space, relative to the largest on it
_FLAT = 1e-3  # the least curvature, relative to the largest: loadings refitted roughly may be near a saddle point
_TIE = 1e-9  # share of the largest eigenvalue: costs that differ by less count as equal


class Removals(NamedTuple):
    """Entries in the order in which they are left out: what the first 1, 2, … of them cost, and what changes by each.

    A change has the features and columns of some entries, and their weights after it.
    """

    costs: Array
    changes: list[tuple[Index, Index, Array]]

    def without(self, w: Array, n: int) -> Array:
        """The loadings without the first n entries: orthonormal and refitted to first order."""
        z = w.copy()
        for features, columns, weights in self.changes[:n]:
            z[features, columns] = weights
        return z


class _Part(NamedTuple):
    """The entries of columns that share features: their features and columns, and C between them."""

    features: Index
    columns: Index
    inverse: Array


def cheapest_removals(s: Array, w: Array, spare: float) -> Removals:
    """The entries that cost least to leave out, each given those before it, until they cost more than ``spare``.

    The last one may cost more. No column loses its last entry.
    """
    parts = [part for columns in groups(w) for part in _parts(s, w, columns)]
    columns = np.concatenate([part.columns for part in parts])
    features = np.concatenate([part.features for part in parts])
    places = np.split(np.arange(len(columns)), np.cumsum([len(part.columns) for part in parts])[:-1])
    of = np.repeat(np.arange(len(parts)), [len(place) for place in places])
    x, room = w[features, columns], np.concatenate([part.inverse.diagonal() for part in parts])
    pulls = [np.empty_like(part.inverse) for part in parts]
    steps = [0] * len(parts)
    gone = np.zeros(len(x), dtype=bool)
    left, tie = np.count_nonzero(w, axis=0), _TIE * float(s.diagonal().max())
    costs: list[float] = []
    changes: list[tuple[Index, Index, Array]] = []
    total = 0.0
    while total <= spare:
        cost = np.where(~gone & (left[columns] > 1), 0.5 * x * x / np.maximum(room, 1e-300), np.inf)
        least = float(cost.min())
        if not np.isfinite(least):
            break
        at = int(np.argmax(cost <= least + tie))
        part, place = int(of[at]), places[of[at]]
        here, before, root = at - int(place[0]), pulls[part][: steps[part]], np.sqrt(max(float(room[at]), 1e-300))
        pull = (parts[part].inverse[here] - before[:, here] @ before) / root
        pulls[part][steps[part]] = pull
        steps[part] += 1
        gone[at] = True
        x[place] = np.where(gone[place], 0.0, x[place] - pull * (x[at] / root))
        room[place] -= pull * pull
        left[columns[at]] -= 1
        total += float(cost[at])
        costs.append(total)
        changes.append((features[place], columns[place], x[place]))
    return Removals(np.array(costs), changes)


def single_removals(s: Array, w: Array, spare: float) -> Iterator[Array]:
    """The loadings without one entry that costs at most ``spare``, the cheapest first: refitted to first order."""
    parts = [part for columns in groups(w) for part in _parts(s, w, columns)]
    left = np.count_nonzero(w, axis=0)
    found = []
    for part in parts:
        x, room = w[part.features, part.columns], np.maximum(part.inverse.diagonal(), 1e-300)
        cost = np.where(left[part.columns] > 1, 0.5 * x * x / room, np.inf)
        found += [(float(cost[at]), part, int(at)) for at in np.flatnonzero(cost <= spare)]
    for _, part, at in sorted(found, key=lambda each: each[0]):
        z = w.copy()
        x = w[part.features, part.columns]
        z[part.features, part.columns] = x - part.inverse[:, at] * (x[at] / part.inverse[at, at])
        z[part.features[at], part.columns[at]] = 0.0
        yield z


def _parts(s: Array, w: Array, columns: Index) -> Iterator[_Part]:
    """The entries of columns that share features: together or, if there are many, each of them alone."""
    rows = np.flatnonzero(w[:, columns].any(axis=1))
    part, z = s[np.ix_(rows, rows)], w[np.ix_(rows, columns)]
    row, column = np.nonzero(z)
    if len(row) <= _LARGE:
        yield _Part(rows[row], columns[column], _inverse(part, z, row, column))
    else:
        for i, j, room in zip(rows[row], columns[column], _rescaled(part, z)[row, column], strict=True):
            yield _Part(np.array([i]), np.array([j]), np.array([[room]]))


def _inverse(s: Array, w: Array, row: Index, column: Index) -> Array:
    """The inverse of the Hessian between the entries of w, on the tangent space."""
    mask = (w != 0.0).astype(float)
    multiplier = Tangent.at(w, mask).multiplier(mask * (2.0 * (s @ w)))
    hessian = np.where(row[:, None] == row, multiplier[column[:, None], column], 0.0)
    hessian -= np.where(column[:, None] == column, 2.0 * s[row[:, None], row], 0.0)
    largest = float(np.abs(hessian).max()) or 1.0
    normal = _normals(w, row, column)
    hessian += (_STIFF * largest * normal) @ normal.T
    factor, info = lapack.dpotrf(hessian)
    if info:  # a saddle point: the curvature is lifted until it is positive everywhere
        hessian.flat[:: len(row) + 1] += _FLAT * largest - float(np.linalg.eigvalsh(hessian)[0])
        factor, _ = lapack.dpotrf(hessian)
    inverse = np.triu(lapack.dpotri(factor)[0])
    return np.asarray(inverse + np.triu(inverse, 1).T)


def _normals(w: Array, row: Index, column: Index) -> Array:
    """The gradients of the constraints ``w_p' w_q = 0 or 1`` with respect to the entries: one column each."""
    inside, weights = column[:, None] == np.arange(w.shape[1]), w[row]
    first, second = np.triu_indices(w.shape[1])
    normal = weights[:, second] * inside[:, first] + weights[:, first] * inside[:, second]
    return np.asarray(normal[:, normal.any(axis=0)])


def _rescaled(s: Array, w: Array) -> Array:
    """The diagonal of C at each entry of w, if the others of its column only keep their proportions."""
    own = np.einsum("ij,ij->j", w, s @ w)
    room = np.maximum(own - s.diagonal()[:, None], _FLAT * own) / np.maximum(1.0 - w * w, 1e-12)
    return np.asarray(0.5 / np.maximum(room, 1e-300))
