"""Refit of all columns together, on fixed supports."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedspca.linalg.cardinality.beside import Beside
from fedspca.linalg.newton import Surrogate, polish
from fedspca.linalg.quadratic import DenseQuadratic
from fedspca.linalg.small import eigenpairs, largest_eigenpairs
from fedspca.linalg.sparse_stiefel import retract

Array = NDArray[np.float64]
Index = NDArray[np.intp]

_NEWTON_TOL, _NEWTON_STEPS = 1e-11, 40
_ROUGH_TOL, _ROUGH_STEPS = 1e-4, 3
_ORTHONORMAL = 1e-15  # rounding error of w' w - I if supports are disjoint
_STILL, _SWEEPS = 1e-14, 300  # a sweep that gains less than this share of the variance is the last
_ROUGH_STILL, _ROUGH_SWEEPS = 1e-5, 4  # the same, if points are only to be ranked


class Fit(NamedTuple):
    """Loadings w (d x r) and the variance that their span captures."""

    w: Array
    variance: float

    @property
    def supports(self) -> tuple[Index, ...]:
        """The features of each column."""
        return tuple(np.flatnonzero(column) for column in self.w.T)


def orthonormal_basis(w: Array) -> Array:
    """An orthonormal basis of span(w). It has as many columns as w has rank."""
    w = w[:, w.any(axis=0)]
    if w.shape[1] == 0:
        return w
    if w.shape[1] == 1:
        return np.asarray(w / np.linalg.norm(w))
    gram = w.T @ w
    if float(np.abs(gram - np.eye(len(gram))).max()) < _ORTHONORMAL:
        return w
    values, vectors = eigenpairs(gram)
    keep = values > 1e-12 * values[-1]
    return np.asarray(np.linalg.qr(w @ (vectors[:, keep] / np.sqrt(values[keep])))[0])


def captured(s: Array, w: Array) -> float:
    """``tr((w' w)^+ w' S w)``, the variance that span(w) captures."""
    basis = orthonormal_basis(w)
    return float(np.vdot(basis, s @ basis))


def refit_apart(s: Array, w: Array) -> Fit | None:
    """Argmax of the variance of span(w) on disjoint supports, one eigenproblem each. None if supports overlap."""
    named = w != 0.0
    if not named.any(axis=0).all() or int(named.sum(axis=1).max()) > 1:
        return None
    z, variance = np.zeros_like(w), 0.0
    for j, column in enumerate(named.T):
        support = np.flatnonzero(column)
        values, vectors = largest_eigenpairs(s[np.ix_(support, support)], 1)
        z[support, j] = vectors[:, 0]
        variance += float(values[0])
    return Fit(z, variance)


def refit_orthogonal(s: Array, w: Array, *, rough: bool = False) -> Fit:
    """Argmax of ``tr(w' S w)`` over orthonormal w on the supports of w: Newton steps on the sparse Stiefel manifold."""
    apart = refit_apart(s, w)
    if apart is not None:
        return apart
    tol, steps = (_ROUGH_TOL, _ROUGH_STEPS) if rough else (_NEWTON_TOL, _NEWTON_STEPS)
    rows = np.flatnonzero(w.any(axis=1))
    part, z = s[np.ix_(rows, rows)], w[rows]
    problem = Surrogate(DenseQuadratic(part), np.zeros_like(z), np.zeros(z.shape[1]))
    half = part @ z
    z, _, value, *_ = polish(problem, z, half, -float(np.vdot(z, half)), tol, max_newton=steps, keep_signs=False)
    return Fit(_apart(_scattered(z, rows, len(s)), s), -value)


def groups(w: Array) -> list[Index]:
    """The columns of w, in groups that share features: the columns of different groups do not constrain each other."""
    named = (w != 0.0).astype(float)
    if int(named.sum(axis=1).max(initial=0.0)) <= 1:
        return list(np.arange(w.shape[1])[:, None])
    reach = named.T @ named > 0.0
    while True:
        further = reach.astype(float) @ reach > 0.0
        if (further == reach).all():
            break
        reach = further
    first = np.argmax(reach, axis=1)
    return [np.flatnonzero(first == j) for j in np.unique(first)]


def refit_free(s: Array, w: Array, *, rough: bool = False) -> Fit:
    """Argmax of the variance of span(w) over w on the supports of w: exact updates of each column in turn."""
    apart = refit_apart(s, w)
    if apart is not None:
        return apart
    still, sweeps = (_ROUGH_STILL, _ROUGH_SWEEPS) if rough else (_STILL, _SWEEPS)
    rows = np.flatnonzero(w.any(axis=1))
    part, z = s[np.ix_(rows, rows)], w[rows]
    supports = [np.flatnonzero(column) for column in z.T]
    value = captured(part, z)
    for _ in range(sweeps if z.shape[1] > 1 else 1):
        before = value
        for j, support in enumerate(supports):
            if not len(support):  # S has too low a rank for so many columns
                continue
            basis = orthonormal_basis(np.delete(z, j, axis=1))
            column = Beside(part, basis, orthogonal=False).column(support)
            if np.isfinite(column.gain):
                z[:, j] = 0.0
                z[support, j] = column.weights
        value = captured(part, z)
        if value <= before * (1.0 + still):
            break
    return Fit(_apart(_scattered(z, rows, len(s)), s), value)


def nearest_orthogonal(s: Array, w: Array, *, rough: bool = False) -> Fit | None:
    """Orthonormal columns on the same supports, refitted; None if these supports admit none."""
    apart = refit_apart(s, w)
    if apart is not None:
        return apart
    near = retract(w)
    return None if near is None else refit_orthogonal(s, near, rough=rough)


def _scattered(part: Array, rows: Index, d: int) -> Array:
    w = np.zeros((d, part.shape[1]))
    w[rows] = part
    return w


def _apart(w: Array, s: Array) -> Array:
    """The same span, with the columns that share a support rotated to be uncorrelated. The variance does not change."""
    groups: dict[bytes, list[int]] = {}
    for j, column in enumerate((w != 0.0).T):
        groups.setdefault(column.tobytes(), []).append(j)
    for group in groups.values():
        if len(group) > 1:
            basis = orthonormal_basis(w[:, group])
            if basis.shape[1] == len(group):
                vectors = eigenpairs(basis.T @ s @ basis)[1]
                w[:, group] = np.where(w[:, group] != 0.0, basis @ vectors[:, ::-1], 0.0)
    return w
