"""One column beside the span of the others: the exact variance that the best x on a support adds."""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedspca.linalg.small import largest_eigenpairs

Array = NDArray[np.float64]
Index = NDArray[np.intp]

_STACKED = 48  # size up to which eigenproblems are solved many at a time
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
    """

    s: Array
    basis: Array
    orthogonal: bool

    @property
    def alone(self) -> bool:
        """Whether there is no other column."""
        return not self.basis.size

    @cached_property
    def deflated(self) -> Array:
        """``P S P``."""
        if self.alone:
            return self.s
        image = self.s @ self.basis
        rest = image - self.basis @ (0.5 * (self.basis.T @ image))
        touched = np.flatnonzero(self.basis.any(axis=1))  # few: the others are sparse
        cross = rest @ self.basis[touched].T
        left = self.s.copy()
        left[:, touched] -= cross
        left[touched, :] -= cross.T
        return left

    @cached_property
    def size(self) -> float:
        """The heaviest feature's variance: the scale of S."""
        return float(self.s.diagonal().max()) or 1.0

    def refit(self, supports: Index) -> tuple[Array, Array]:
        """Argmax of the gain on each of m supports of k features: gains (m,) and unit weights (m, k).

        If the span contains every vector on a support, the gain of that support is minus infinity.
        """
        blocks = self.deflated[supports[:, :, None], supports[:, None, :]]
        if self.alone:
            return _leading(blocks)
        inside = self.basis[supports]
        touched = inside.any(axis=(1, 2))
        if not touched.any():
            return _leading(blocks)
        gains, weights = np.empty(len(supports)), np.empty(supports.shape)
        if not touched.all():
            gains[~touched], weights[~touched] = _leading(blocks[~touched])
        constrained = self._orthogonal if self.orthogonal else self._free
        gains[touched], weights[touched] = constrained(blocks[touched], inside[touched])
        return gains, weights

    def _orthogonal(self, blocks: Array, inside: Array) -> tuple[Array, Array]:
        """Argmax of ``x' C x`` over unit x with ``u' x = 0``, for u the rows of the basis on the support."""
        k = blocks.shape[1]
        left = np.eye(k) - _projections(inside)
        # the projection turns u into zero eigenvalues; the shift lifts the x orthogonal to u above these
        gains, weights = _leading(left @ (blocks + self.size * np.eye(k)) @ left)
        gains = np.where(gains > 0.5 * self.size, gains - self.size, -np.inf)
        return gains, weights

    def _free(self, blocks: Array, inside: Array) -> tuple[Array, Array]:
        """Argmax of ``x' C x / x' (I - u u') x``: an eigenproblem once ``I - u u'`` is whitened."""
        k = blocks.shape[1]
        values, vectors = np.linalg.eigh(np.eye(k) - inside @ inside.transpose(0, 2, 1))
        scale = np.where(values > _HELD, 1.0 / np.sqrt(np.maximum(values, _HELD)), 0.0)
        white = vectors * scale[:, None, :]
        gains, inner = _leading(white.transpose(0, 2, 1) @ blocks @ white)
        weights = np.einsum("mij,mj->mi", white, inner)
        sizes = np.linalg.norm(weights, axis=1, keepdims=True)
        nothing = ~(values > _HELD).any(axis=1)
        return np.where(nothing, -np.inf, gains), weights / np.maximum(sizes, 1e-300)

    def column(self, support: Index) -> Column:
        """Refit one support."""
        gains, weights = self.refit(support[None, :])
        return Column(support, weights[0], float(gains[0]))

    def scores(self, supports: Index, weights: Array, gains: Array) -> Array:
        """For each of m columns, a power step on its gain: a long step along the gradient. Shape (m, d)."""
        y = (weights[:, None, :] @ self.deflated[supports])[:, 0]
        if self.alone or self.orthogonal:
            return np.asarray(y)
        inside = np.einsum("mk,mkq->mq", weights, self.basis[supports])
        left = np.maximum(1.0 - np.einsum("mq,mq->m", inside, inside), _HELD)
        return np.asarray(y / left[:, None] + (np.maximum(gains, 0.0)[:, None] * inside) @ self.basis.T)


def _projections(u: Array) -> Array:
    """The projections on the column spaces of m matrices (m, k, q)."""
    if u.shape[2] > 1:
        return np.asarray(u @ np.linalg.pinv(u, rcond=1e-9))
    sizes = np.einsum("mkq,mkq->m", u, u)[:, None, None]
    return np.asarray((u @ u.transpose(0, 2, 1)) / np.maximum(sizes, 1e-300))


def _leading(blocks: Array) -> tuple[Array, Array]:
    """The largest eigenvalue of each symmetric block, and its eigenvector."""
    if blocks.shape[1] > _STACKED:
        pairs = [largest_eigenpairs(block, 1) for block in blocks]
        return np.array([values[0] for values, _ in pairs]), np.array([vectors[:, 0] for _, vectors in pairs])
    values, vectors = np.linalg.eigh(blocks)
    return values[:, -1], vectors[:, :, -1]
