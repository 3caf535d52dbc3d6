"""Geometry of the sparse Stiefel manifold: orthonormal matrices that vanish outside a fixed support.

For a support ``T`` (a 0/1 matrix of shape (d, r)) the set is ``{w : w.T @ w = I, w = T * w}``.
The normal space at ``w`` is ``{T * (w @ L) : L symmetric}``; every projection below solves one linear
system in the entries of ``L`` that belong to columns with a common feature, independently of d. A factorisation solves
it. For many columns whose supports overlap much, conjugate gradients do, whose cost per step grows as r^2.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from fedspca.linalg.compiled import stiefel
from fedspca.linalg.compiled.library import library
from fedspca.linalg.small import positive_factor, solve_factored

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]
Index = NDArray[np.intp]

_FEW = 4  # with at most this many columns, one product assembles the normal matrix faster than indexing
_RIDGE = 1e-14  # disjoint supports make a constraint vacuous: its row of the normal matrix is zero
_UNSEEN = 1e-15  # share of the largest diagonal entry below which a constraint counts as vacuous
_CHORD = 0.05  # if a step leaves less than this share of the excess, the next step reuses its factorisation
_HALTING, _PATIENCE = 0.5, 2  # a step that leaves more of the excess failed; too many failures end a retraction
_DIRECT = 20  # with at most this many columns, the normal matrix is assembled from dense products
_TRIPLES = 20_000  # non-zeros of the constraint gradients: with more, iterating is faster than a factorisation
_EXACT = 1e-12  # relative residual at which iterations are as accurate as a factorisation
_STEPS = 100  # of conjugate gradients, at most
_NOTHING = np.zeros(0)


class _Pairs(NamedTuple):
    """Tables for the pairs i <= j of r columns."""

    first: Index
    second: Index
    upper: Index  # where the pairs are in a flattened r x r matrix
    full: Index  # r x r: which pair an entry of a symmetric matrix belongs to
    double: Array  # r x r: 2 on the diagonal, 1 off it
    shared: Index  # r x r x r: where pairs (g, j) and (g, m) meet in the flattened normal matrix
    assemble: Array | None  # from r Gram matrices to the normal matrix, as one product, where r is small


@lru_cache(maxsize=64)
def _pair_tables(r: int) -> _Pairs:
    """Indices of the upper triangle, and what assembles the normal matrix from r Gram matrices."""
    i, j = np.triu_indices(r)
    index = np.zeros((r, r), dtype=np.intp)
    index[i, j] = index[j, i] = np.arange(len(i))
    shared = index[:, :, None] * len(i) + index[:, None, :]
    tables = _Pairs(i, j, i * r + j, index, 1.0 + np.eye(r), shared, None)
    if r > _FEW:
        return tables
    single = np.eye(len(i) * r).reshape(-1, len(i), r)
    return tables._replace(assemble=np.array([_assembled(grams, tables).ravel() for grams in single]))


def normal_matrix(w: Array, mask: Array, pairs: Index) -> Array:
    """Gram matrix of the constraint gradients ``mask * (w_j e_i' + w_i e_j')`` of some of the pairs i <= j.

    ``mask`` may carry positive column weights: the Gram is then that of the weighted inner product.
    """
    tables = _pair_tables(w.shape[1])
    columns = w.T
    # entry (p, q), g: the inner product of w_p and w_q over column g's support
    grams = (columns[tables.first] * columns[tables.second]) @ mask
    if tables.assemble is not None:
        normal = (grams.ravel() @ tables.assemble).reshape(len(tables.first), -1)
    else:
        normal = _assembled(grams, tables)
    return normal if len(pairs) == len(tables.first) else normal[pairs[:, None], pairs]


def _assembled(grams: Array, tables: _Pairs) -> Array:
    """The normal matrix from ``grams`` (pairs, r).

    Two pairs have a common term for each column g of both, the inner product of their other columns over the support of
    g. Two different pairs have at most one column in common. So every entry is written once, except on the diagonal.
    """
    n, r = grams.shape
    inner = grams.T[:, tables.full] * (tables.double[:, :, None] * tables.double[:, None, :])
    normal = np.zeros((n, n))
    normal.ravel()[tables.shared] = inner
    own = np.einsum("gjj->gj", inner)  # of pair (g, j), over the support of g
    both = own + own.T
    both.flat[:: r + 1] *= 0.5  # a column beside itself is one term, not two
    normal.flat[:: n + 1] = both.take(tables.upper)
    return normal


def _sparse_normal_matrix(w: Array, mask: Array, pairs: Index) -> Array | None:
    """The same from the sparse constraint gradients themselves; None if supports overlap too much for that.

    The gradient of the pair (i, j) has entries only at features that both columns use. With more pairs than entries the
    matrix is singular.
    """
    feature, column = np.nonzero(mask)
    here = np.bincount(feature, minlength=len(w))  # how many columns use a feature
    if len(pairs) > len(feature) or int((here * here).sum()) > _TRIPLES:
        return None
    # each entry of the support meets all entries of its feature
    times = here[feature]
    entry = np.repeat(np.arange(len(feature)), times)
    first = np.repeat((np.cumsum(here) - here)[feature], times)
    other = first + np.arange(len(entry)) - np.repeat(np.cumsum(times) - times, times)
    own, met = column[entry], column[other]
    r = w.shape[1]
    place = np.full(r * (r + 1) // 2, -1)
    place[pairs] = np.arange(len(pairs))
    row = place[_pair_tables(r).full[own, met]]
    value = w[feature, column][other] * np.sqrt(mask[feature, column])[entry] * np.where(own == met, 2.0, 1.0)
    kept = row >= 0
    gradients = sp.csr_array((value[kept], (row[kept], entry[kept])), shape=(len(pairs), len(feature)))
    return np.asarray((gradients @ gradients.T).toarray())


@dataclass(frozen=True)
class NormalEquations:
    """The symmetric L with ``Z + Z' + damping * L = rhs`` for ``Z = w' (mask * (w L))``: least-norm corrections.

    A pair of columns with disjoint supports has no equation, and its entry of L is zero. The others are solved for by a
    factorisation. If there are many columns, and their supports overlap much, that would cost O(r^6). Conjugate
    gradients then cost two products with w per step, and w is so near to orthonormal that few steps are enough.
    """

    w: Array
    mask: Array
    damping: float
    pairs: Index | None  # the pairs that have an equation, if the normal matrix is formed; then its factor
    factor: Array
    scaling: Array  # r x r: the inverse of the diagonal, zero where there is no equation

    @classmethod
    def at(cls, w: Array, mask: Array, *, damping: float = 0.0) -> "NormalEquations":
        """Set up at a point; ``damping`` is a share of the mean diagonal, added to it."""
        r = w.shape[1]
        overlap = (w * w).T @ mask
        diagonal = overlap + overlap.T
        mean = float(diagonal.sum()) / (r * r)
        largest = float(diagonal.max())
        seen = diagonal > _UNSEEN * largest
        tables = _pair_tables(r)
        pairs = np.flatnonzero(seen.take(tables.upper))
        normal = normal_matrix(w, mask, pairs) if r <= _DIRECT else _sparse_normal_matrix(w, mask, pairs)
        if normal is None:
            ridge = damping * mean
            scaling = np.divide(1.0, diagonal + ridge, out=np.zeros_like(diagonal), where=seen)
            return cls(w, mask, ridge, None, _NOTHING, scaling)
        # the unknowns are the entries of L above the diagonal, and half of those on it
        normal.flat[:: len(normal) + 1] += (damping * mean + _RIDGE * largest) * tables.double.take(tables.upper[pairs])
        return cls(w, mask, 0.0, pairs, positive_factor(normal), _NOTHING)

    def solve(self, rhs: Array, *, rtol: float = _EXACT) -> Array:
        """L for a symmetric right-hand side; ``rtol`` is the relative residual of an iterative solution."""
        if self.pairs is None:
            return self._by_steps(rhs, rtol)
        if not len(self.pairs):
            return np.zeros_like(rhs)
        tables = _pair_tables(len(rhs))
        solution = np.zeros(len(tables.upper))
        solution[self.pairs] = solve_factored(self.factor, rhs.take(tables.upper[self.pairs]))
        return np.asarray(solution.take(tables.full) * tables.double)

    def _apply(self, x: Array) -> Array:
        half = self.w.T @ (self.mask * (self.w @ x))
        half += half.T
        if self.damping:
            half += self.damping * x
        return half

    def _by_steps(self, rhs: Array, rtol: float) -> Array:
        """Conjugate gradients, scaled by the diagonal."""
        solution, left = np.zeros_like(rhs), np.where(self.scaling > 0.0, rhs, 0.0)
        stop = rtol * float(np.sqrt(np.vdot(left, left)))
        scaled = self.scaling * left
        direction, size = scaled, float(np.vdot(left, scaled))
        for _ in range(_STEPS):
            if size <= 0.0:
                break
            image = self._apply(direction)
            curvature = float(np.vdot(direction, image))
            if curvature <= 0.0:
                break
            length = size / curvature
            solution = solution + length * direction
            left = left - length * image
            if float(np.sqrt(np.vdot(left, left))) <= stop:
                break
            scaled = self.scaling * left
            size, last = float(np.vdot(left, scaled)), size
            direction = scaled + (size / last) * direction
        return solution


@dataclass(frozen=True)
class Tangent:
    """Orthogonal projection onto the tangent space at ``w`` of the sparse Stiefel manifold with support ``mask``."""

    w: Array
    mask: Array
    normal: NormalEquations

    @classmethod
    def at(cls, w: Array, mask: Array) -> "Tangent":
        """Set the projection up at a point."""
        return cls(w, mask, NormalEquations.at(w, mask))

    def multiplier(self, y: Array) -> Array:
        """Argmin over symmetric L of ``||mask * (y - w L)||_F``; ``y`` must vanish off the support."""
        z = self.w.T @ y
        return self.normal.solve(z + z.T)

    def project(self, y: Array) -> Array:
        """Argmin over tangent D of ``||D - y||_F``; ``y`` must vanish off the support."""
        return y - self.mask * (self.w @ self.multiplier(y))


def retract(z: Array, mask: Array | None = None, *, tol: float = 1e-13, max_iter: int = 24) -> Array | None:
    """Argmin ``||w - z||_F`` (to second order) over orthonormal w with the support of z.

    Gauss-Newton on ``w.T w = I`` with least-norm corrections ``mask * (w L)``: it converges fast, and an exact zero
    stays an exact zero. A QR or polar factor does not guarantee that. Returns None if the support admits no orthonormal
    matrix near z. ``mask``, if given, has ones where w may be non-zero; z vanishes elsewhere.
    """
    kernels = library()
    if kernels is not None and stiefel.fits(z if mask is None else mask):
        return stiefel.retract(kernels, z, mask, tol, max_iter)
    norms = np.sqrt(np.einsum("ij,ij->j", z, z))
    if not float(norms.min()) > 0.0:
        return None
    w = np.asarray(z / norms)
    if w.shape[1] == 2:
        return _retract_pair(w, (w != 0.0) if mask is None else mask)
    support = (z != 0.0).astype(float) if mask is None else mask
    eye = np.eye(z.shape[1])
    previous, stuck, equations = np.inf, 0, None
    for _ in range(max_iter):
        excess = w.T @ w - eye
        size = float(np.abs(excess).max())
        if size <= tol or (size <= 1e3 * tol and size >= 0.5 * previous):
            return w
        stuck = stuck + 1 if size > _HALTING * previous else 0
        if not size <= 1e3 or stuck > _PATIENCE:  # NaN, divergence, or no such matrix exists
            return None
        if equations is None or size > _CHORD * previous:
            equations = NormalEquations.at(w, support)
        previous = size
        # the next step starts at about the square of this excess: more accuracy than that is not needed
        w = w - support * (w @ equations.solve(excess, rtol=max(0.1 * min(size, 0.1), 0.1 * tol / size)))
    return w if float(np.abs(w.T @ w - eye).max()) <= 1e-10 else None


def retract_with_signs(z: Array, *, tries: int = 6) -> Array | None:
    """The same, where an entry that would change its sign becomes zero: its subgradient would jump by twice lam."""
    for _ in range(tries):
        w = retract(z)
        if w is None:
            return None
        kept = w * z >= 0.0
        if kept.all():
            return w
        z = np.where(kept, w, 0.0)
    return retract(z)


def _retract_pair(w: Array, support: Array | Mask) -> Array | None:
    """The same for two unit columns u and v, in closed form.

    On the features c that both may use, ``u - a c v`` and ``v - a c u`` are orthogonal at the smaller root of
    ``s a^2 - (c'u^2 + c'v^2) a + s = 0`` with ``s = u'v``.
    """
    for _ in range(3):  # if the columns are nearly parallel, rounding errors make another pass necessary
        overlap = float(w[:, 0] @ w[:, 1])
        if abs(overlap) <= 1e-15:
            return w
        other = w[:, ::-1] * (support[:, :1] * support[:, 1:])
        shared = float(np.vdot(other, other))
        root = np.sqrt(max(shared * shared - 4.0 * overlap * overlap, 0.0))
        w = w - (2.0 * overlap / (shared + root)) * other
        sizes = np.sqrt(np.einsum("ij,ij->j", w, w))
        if not float(sizes.min()) > 1e-6:
            return None
        w = np.asarray(w / sizes)
        if float(sizes.min()) > 0.1:
            return w
    return w


def sparse_orthonormalise(
    w: Array, support: Mask, removed: Array, *, tol: float = 1e-13, max_steps: int = 50
) -> Array | None:
    """Find v near w with vᵀv = I and Zᵀv = 0 that is zero outside ``support``; None if there is none nearby.

    A QR or a polar factor would make the zeros non-zero. Each Newton step instead takes the least-norm Δ on the support
    that satisfies the linearised constraints, Δ = support ∘ (vΛ + ZΓ) with Λ symmetric, so only r(r + 1)/2 + qr
    unknowns are solved for and convergence is quadratic.
    """
    v = np.where(support, w, 0.0)
    if not removed.shape[1]:
        return retract(v, support.astype(float))
    norms = np.linalg.norm(v, axis=0)
    if not np.all(norms > 0):
        return None
    v /= norms
    for _ in range(max_steps):
        gap = np.hstack([v, removed]).T @ v
        gap[: v.shape[1]] -= np.eye(v.shape[1])
        error = np.abs(gap).max(initial=0.0)
        if error <= tol:
            return v
        v = v - support * (np.hstack([v, removed]) @ _least_norm_multipliers(v, removed, support, gap))
        if not np.isfinite(v).all():
            return None
    return v if error <= 1e-10 else None


def _least_norm_multipliers(v: Array, removed: Array, support: Mask, gap: Array) -> Array:
    """Solve for [Λ; Γ] such that the step support ∘ (vΛ + ZΓ) closes ``gap`` = [vᵀv − I; Zᵀv] to first order."""
    r, q = v.shape[1], removed.shape[1]
    frame = np.hstack([v, removed])
    # what column a of the step contributes to the constraints, as a function of column a of [Λ; Γ]
    columns = np.stack([(frame * support[:, [a]]).T @ frame for a in range(r)])
    rows, cols = np.triu_indices(r)
    basis = np.zeros((len(rows) + q * r, r + q, r))
    for p, (a, b) in enumerate(zip(rows, cols, strict=True)):
        basis[p, a, b] = basis[p, b, a] = 1.0
    for p in range(q * r):
        basis[len(rows) + p, r + p // r, p % r] = 1.0
    moved = np.einsum("aij,pja->pia", columns, basis)
    change = moved.copy()
    change[:, :r] += moved[:, :r].transpose(0, 2, 1)

    def constraints(x: Array) -> Array:
        return np.concatenate([x[..., rows, cols], x[..., r:, :].reshape(*x.shape[:-2], q * r)], axis=-1)

    solution, *_ = np.linalg.lstsq(constraints(change).T, constraints(gap), rcond=1e-12)
    return np.asarray(np.tensordot(solution, basis, axes=1))
