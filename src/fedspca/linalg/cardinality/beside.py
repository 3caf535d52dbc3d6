"""One column beside the span of the others: the exact variance that the best x on a support adds."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from fedspca.linalg.small import eigenpairs, largest_eigenpairs, powered, stacked_eigenpairs

Array = NDArray[np.float64]
Index = NDArray[np.intp]
Exactly = Callable[[Index], tuple[Array, Array]]  # gains and weights of some of the blocks

_STACKED = 48  # size up to which eigenproblems are solved many at a time
_SPARSE = 20  # per entry, a dense product is about this many times as fast as a sparse one
_SMALL = 50  # with at most this many features, P S P is formed: its parts are then found by one call each
_NONE, _WITHIN = 1e-12, 1e-9  # a part of a basis vector is zero, or in the span of others, up to rounding
_MANY = 600  # entries of all blocks together: with fewer, LAPACK is as fast as powers
_CONVERGED = 1e-7  # relative residual of an eigenvector: its eigenvalue is then off by the square of it
_NEARLY_HELD = 1e6  # entries of the inverse of a metric: with larger ones too many digits are lost
_HELD = 1e-8  # a direction lies in the span if the squared sine of its angle with the span is below this


class Column(NamedTuple):
    """A sparse unit vector, stored as its support and the weights there, and the variance that it adds to a span."""

    support: Index
    weights: Array
    gain: float


@dataclass(frozen=True)
class Beside:
    """max of the variance that a k-sparse unit x adds to the span of an orthonormal basis B.

    With P the projection off the span the gain is ``x' P S P x / x' P x``. If loadings have to be orthogonal, the gain
    is ``x' S x``, and x has to satisfy ``B' x = 0``.

    The basis may be a stack of m bases (m, d, q), of which each support belongs to one: small eigenproblems cost more
    calls than arithmetic, so many are solved at a time. A column of a basis may be zero.
    """

    s: Array
    basis: Array
    orthogonal: bool

    @property
    def alone(self) -> bool:
        """Whether there is no other column."""
        return not self.basis.size

    @cached_property
    def stack(self) -> Array:
        """The bases as a stack (m, d, q)."""
        return self.basis if self.basis.ndim == 3 else self.basis[None]

    @property
    def owners(self) -> Index:
        """One number for each basis."""
        return np.arange(len(self.stack))

    @cached_property
    def each(self) -> Array:
        """``P S P`` for each basis (m, d, d)."""
        if self.alone:
            return np.broadcast_to(self.s, (len(self.stack), *self.s.shape))
        cross = self.rest @ self.stack.transpose(0, 2, 1)
        return np.asarray(self.s - (cross + cross.transpose(0, 2, 1)))

    @property
    def formed(self) -> bool:
        """Whether ``P S P`` is formed as a whole. With many features, its parts are computed from S as needed."""
        return self.alone or len(self.s) <= _SMALL or "each" in self.__dict__

    @cached_property
    def image(self) -> Array:
        """``S B`` for each basis (m, d, q)."""
        m, d, q = self.stack.shape
        if np.count_nonzero(self.stack) * _SPARSE > self.stack.size:
            return np.asarray(self.s @ self.stack)
        rows = sp.csr_array(self.stack.transpose(0, 2, 1).reshape(m * q, d))
        return np.ascontiguousarray(np.asarray(rows @ self.s).reshape(m, q, d).transpose(0, 2, 1))

    @cached_property
    def rest(self) -> Array:
        """The R with ``P S P = S - R B' - B R'``, for each basis (m, d, q)."""
        return np.asarray(self.image - self.stack @ (0.5 * (self.stack.transpose(0, 2, 1) @ self.image)))

    def blocks(self, supports: Index, of: Index) -> Array:
        """``P S P`` on each of m supports: (m, k, k)."""
        if self.alone:
            return np.asarray(self.s[supports[:, :, None], supports[:, None, :]])
        if "each" in self.__dict__:  # computed before
            return np.asarray(self.each[of[:, None, None], supports[:, :, None], supports[:, None, :]])
        cross = self.rest[of[:, None], supports] @ self.stack[of[:, None], supports].transpose(0, 2, 1)
        return np.asarray(self.s[supports[:, :, None], supports[:, None, :]] - (cross + cross.transpose(0, 2, 1)))

    @cached_property
    def diagonals(self) -> Array:
        """The diagonal of ``P S P`` for each basis (m, d)."""
        if self.formed:
            return np.ascontiguousarray(self.each.diagonal(axis1=1, axis2=2))
        return np.asarray(self.s.diagonal() - 2.0 * np.einsum("mdq,mdq->md", self.rest, self.stack))

    @cached_property
    def size(self) -> float:
        """The heaviest feature's variance: the scale of S."""
        return float(self.s.diagonal().max()) or 1.0

    @cached_property
    def captured(self) -> Array:
        """The variance that each basis captures (m,)."""
        return np.asarray(np.einsum("mij,mij->m", self.stack, self.image))

    def rows(self, supports: Index, of: Index) -> Array:
        """The rows of ``P S P`` of each of m supports: (m, k, d)."""
        if self.formed:
            return np.asarray(self.each[of[:, None], supports])
        rest, basis = self._whose(self.rest, of), self._whose(self.stack, of)
        left = self.rest[of[:, None], supports] @ basis + self.stack[of[:, None], supports] @ rest
        return np.asarray(self.s[supports] - left)

    def _whose(self, stack: Array, of: Index) -> Array:
        """The transposed matrices of some owners (m, q, d); if there is only one owner, its matrix once."""
        return (stack if len(stack) == 1 else stack[of]).transpose(0, 2, 1)

    def images(self, supports: Index, weights: Array, of: Index) -> Array:
        """``P S P x`` for each of m sparse x, given by their supports and weights: (m, d)."""
        if self.formed:
            return np.asarray((weights[:, None, :] @ self.each[of[:, None], supports])[:, 0])
        images = (weights[:, None, :] @ self.s[supports])[:, 0]
        along = weights[:, None, :] @ self.rest[of[:, None], supports]
        inside = weights[:, None, :] @ self.stack[of[:, None], supports]
        left = along @ self._whose(self.stack, of) + inside @ self._whose(self.rest, of)
        return np.asarray(images - left[:, 0])

    def refit(self, supports: Index, of: Index | None = None) -> tuple[Array, Array]:
        """Argmax of the gain on each of m supports of k features: gains (m,) and unit weights (m, k).

        ``of`` says to which basis a support belongs; by default, to the first. If the span contains every vector on a
        support, the gain of that support is minus infinity.
        """
        if of is None:
            of = np.zeros(len(supports), dtype=np.intp)
        blocks = self.blocks(supports, of)
        if self.alone:
            return self._apart(blocks)
        inside = self.inside(supports, of)
        touched = inside.any(axis=(1, 2))
        if touched.all():
            return self._beside(blocks, inside)
        if not touched.any():
            return self._apart(blocks)
        gains, weights = np.empty(len(blocks)), np.empty(supports.shape)
        gains[touched], weights[touched] = self._beside(blocks[touched], inside[touched])
        gains[~touched], weights[~touched] = self._apart(blocks[~touched])
        return gains, weights

    def inside(self, supports: Index, of: Index) -> Array:
        """The rows of the basis on each of m supports: (m, k, q)."""
        return np.asarray(self.stack[of[:, None], supports])

    def _apart(self, blocks: Array) -> tuple[Array, Array]:
        """Argmax of ``x' C x`` over unit x."""
        return self._leading(blocks, lambda at: _eigenpairs(blocks[at]))

    def _beside(self, blocks: Array, inside: Array) -> tuple[Array, Array]:
        return self._orthogonal(blocks, inside) if self.orthogonal else self._free(blocks, inside)

    def _orthogonal(self, blocks: Array, inside: Array) -> tuple[Array, Array]:
        """Argmax of ``x' C x`` over unit x with ``u' x = 0``, for u the rows of the basis on the support."""
        k = blocks.shape[1]
        left = np.eye(k) - _projections(inside)

        def exactly(at: Index) -> tuple[Array, Array]:
            # the projection turns u into zero eigenvalues; the shift lifts the x orthogonal to u above these
            gains, weights = _eigenpairs(left[at] @ (blocks[at] + self.size * np.eye(k)) @ left[at])
            return np.where(gains > 0.5 * self.size, gains - self.size, -np.inf), weights

        return self._leading(left @ blocks @ left, exactly)

    def _free(self, blocks: Array, inside: Array) -> tuple[Array, Array]:
        """Argmax of ``x' C x / x' (I - u u') x``: an eigenproblem once ``I - u u'`` is whitened."""
        left = np.eye(blocks.shape[1]) - inside @ inside.transpose(0, 2, 1)
        return self._leading(blocks, lambda at: _whitened(blocks[at], left[at]), left)

    def _leading(self, blocks: Array, exactly: Exactly, metric: Array | None = None) -> tuple[Array, Array]:
        """Argmax of ``x' C x / x' M x`` over unit x, for m blocks C: by powers, or ``exactly`` where these fail.

        Weights by powers have seven digits. One block alone has all of them.
        """
        m, k = blocks.shape[:2]
        if m == 1 or m * k * k < _MANY or k > _STACKED:
            return exactly(np.arange(m))
        if metric is None:
            x = powered(blocks)
        else:
            inverse = np.linalg.inv(metric + _NONE * np.eye(k))
            x = powered(inverse @ blocks)
        x = x / np.maximum(np.sqrt(np.einsum("mk,mk->m", x, x)), 1e-300)[:, None]
        image = (blocks @ x[:, :, None])[:, :, 0]
        scaled = x if metric is None else (metric @ x[:, :, None])[:, :, 0]
        # x that is nearly held is not sure below; its gain must not overflow
        gains = np.einsum("mk,mk->m", x, image) / np.maximum(np.einsum("mk,mk->m", x, scaled), _HELD)
        error = image - gains[:, None] * scaled
        sure = np.sqrt(np.einsum("mk,mk->m", error, error)) <= _CONVERGED * np.abs(gains)
        sure &= gains > _WITHIN * self.size
        if metric is not None:
            sure &= np.abs(inverse).max(axis=(1, 2)) < _NEARLY_HELD
        others = np.flatnonzero(~sure)
        if len(others):
            gains[others], x[others] = exactly(others)
        return gains, x

    def column(self, support: Index) -> Column:
        """Refit one support."""
        gains, weights = self.refit(support[None, :])
        return Column(support, weights[0], float(gains[0]))

    def scores(self, supports: Index, weights: Array, gains: Array, of: Index) -> Array:
        """For each of m columns, a power step on its gain: a long step along the gradient. Shape (m, d)."""
        y = self.images(supports, weights, of)
        if self.alone or self.orthogonal:
            return y
        inside = (weights[:, None, :] @ self.stack[of[:, None], supports])[:, 0]
        left = np.maximum(1.0 - np.einsum("mq,mq->m", inside, inside), _HELD)
        along = (np.maximum(gains, 0.0)[:, None] * inside)[:, None, :] @ self._whose(self.stack, of)
        return np.asarray(y / left[:, None] + along[:, 0])


def _projections(u: Array) -> Array:
    """The projections on the column spaces of m matrices (m, k, q): Gram and Schmidt, the longest column first."""
    zero = ~u.any(axis=1)
    most = u.shape[2] - int(np.count_nonzero(zero, axis=1).min(initial=u.shape[2]))
    if most < u.shape[2]:  # the columns that are not zero, which differ from matrix to matrix
        u = np.take_along_axis(u, np.argsort(zero, axis=1, kind="stable")[:, None, :most], axis=2)
    m, k, q = u.shape
    sizes = np.sqrt(np.einsum("mkq,mkq->mq", u, u))
    left = u * np.divide(1.0, sizes, out=np.zeros_like(sizes), where=sizes > _NONE)[:, None, :]
    found, rows = np.zeros((m, k, min(k, q))), np.arange(m)
    for step in range(min(k, q)):
        sizes = np.einsum("mkq,mkq->mq", left, left)
        at = np.argmax(sizes, axis=1)
        if not (sizes[rows, at] > _WITHIN * _WITHIN).any():
            break
        column = left[rows, :, at]
        if step:
            before = found[:, :, :step]
            column = column - (before @ (before.transpose(0, 2, 1) @ column[:, :, None]))[:, :, 0]
        size = np.sqrt(np.einsum("mk,mk->m", column, column))
        column *= np.divide(1.0, size, out=np.zeros_like(size), where=size > _WITHIN)[:, None]
        found[:, :, step] = column
        if step + 1 < q:
            left = left - column[:, :, None] * (column[:, None, :] @ left)
    return np.asarray(found @ found.transpose(0, 2, 1))


def best_beside(s: Array, inside: Array, out: Array, inner: Array) -> tuple[float, Array]:
    """Argmax of the gain on one support beside one orthonormal basis B of q columns.

    Given are S on the support (k, k), the rows u of B and of ``S B`` there (k, q), and ``B' S B`` (q, q). The metric
    ``I - u u'`` is whitened by ``W = I + u T u'``, so that for few columns only one eigenproblem has k rows.
    """
    turn = _whitening(inside)
    block = _around(s, inside, 0.5 * inside @ inner - out)
    image = block @ turn
    gains, inner_weights = _eigenpairs(_around(block, inside, image + 0.5 * inside @ (turn.T @ image))[None])
    weights = inner_weights[0] + turn @ (inside.T @ inner_weights[0])
    size = float(np.sqrt(weights @ weights))
    return (float(gains[0]), weights / size) if size > _HELD else (-np.inf, weights)


def _around(a: Array, u: Array, z: Array) -> Array:
    """``a + u z' + z u'``."""
    cross = u @ z.T
    return np.asarray(a + (cross + cross.T))


def _whitening(u: Array) -> Array:
    """The ``u T`` with ``W (I - u u') W = I`` for ``W = I + u T u'``; W is zero on directions in the span."""
    values, vectors = eigenpairs(u.T @ u)
    sines = np.sqrt(np.maximum(1.0 - values, 0.0))
    held = sines * sines <= _HELD
    sizes = np.where(held, -1.0 / np.where(held, values, 1.0), 1.0 / np.where(held, 1.0, sines * (1.0 + sines)))
    return np.asarray(u @ ((vectors * sizes) @ vectors.T))


def _whitened(blocks: Array, metric: Array) -> tuple[Array, Array]:
    """Argmax of ``x' C x / x' M x`` over unit x, for m blocks C and metrics M that may be singular."""
    values, vectors = stacked_eigenpairs(metric)
    scale = np.where(values > _HELD, 1.0 / np.sqrt(np.maximum(values, _HELD)), 0.0)
    white = vectors * scale[:, None, :]
    gains, inner = _eigenpairs(white.transpose(0, 2, 1) @ blocks @ white)
    weights = (white @ inner[:, :, None])[:, :, 0]
    sizes = np.sqrt(np.einsum("mk,mk->m", weights, weights))[:, None]
    nothing = ~(values > _HELD).any(axis=1)
    return np.where(nothing, -np.inf, gains), weights / np.maximum(sizes, 1e-300)


def _eigenpairs(blocks: Array) -> tuple[Array, Array]:
    """The largest eigenvalue of each symmetric block, and its eigenvector."""
    if blocks.shape[1] > _STACKED:
        pairs = [largest_eigenpairs(block, 1) for block in blocks]
        return np.array([values[0] for values, _ in pairs]), np.array([vectors[:, 0] for _, vectors in pairs])
    values, vectors = stacked_eigenpairs(blocks)
    return values[:, -1], vectors[:, :, -1]
