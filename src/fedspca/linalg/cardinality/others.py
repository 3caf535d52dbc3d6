"""Each column of one solution beside the others, all at once: many components cost few calls."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from fedspca.linalg.cardinality.beside import Beside

Array = NDArray[np.float64]
Index = NDArray[np.intp]

_FORMED = 1000  # features
_HELD = 1e-8  # as in `beside.py`


@dataclass(frozen=True)
class Others(Beside):
    """max of the variance that a k-sparse unit x adds to the span of all columns but one, for several such columns.

    ``basis`` (d, r) is an orthonormal basis B of the span of all columns, ``own`` (m, d) has for each of m columns the
    unit vector u of that span that is orthogonal to the other columns. With P the projection off the span, the
    projection off the others is ``P + u u'``. So ``P S P`` is formed once, and for each column it changes by the rank
    two of ``u v' + v u'`` with ``v = P S u + (u' S u) u / 2``.
    """

    own: Array

    @property
    def alone(self) -> bool:
        """False: there are other columns."""
        return False

    @property
    def owners(self) -> Index:
        """One number for each column."""
        return np.arange(len(self.own))

    @property
    def formed(self) -> bool:
        """Whether ``P S P`` for the projection off all columns is formed. Large matrices take long to write."""
        return len(self.s) <= _FORMED

    @cached_property
    def whole(self) -> Array:
        """``P S P`` for the projection off all columns (d, d)."""
        cross = self.rest @ self.basis.T
        return np.asarray(self.s - (cross + cross.T))

    @cached_property
    def rest(self) -> Array:
        """The R with ``P S P = S - R B' - B R'`` (d, r)."""
        return np.asarray(self._image - self.basis @ (0.5 * (self.basis.T @ self._image)))

    @cached_property
    def _image(self) -> Array:
        """``S B`` (d, r)."""
        return np.asarray(Beside(self.s, self.basis, self.orthogonal).image[0])

    @cached_property
    def _own_image(self) -> Array:
        """``S u`` for each column (m, d)."""
        return (self.own @ self.basis) @ self._image.T

    @cached_property
    def _own_variance(self) -> Array:
        """``u' S u`` for each column (m,)."""
        return np.asarray(np.einsum("md,md->m", self.own, self._own_image))

    @cached_property
    def turned(self) -> Array:
        """The v with ``(P + u u') S (P + u u') = P S P + u v' + v u'``, for each column (m, d)."""
        off = self._own_image - (self._own_image @ self.basis) @ self.basis.T
        return np.asarray(off + 0.5 * self._own_variance[:, None] * self.own)

    @cached_property
    def each(self) -> Array:
        """``P S P`` for the projection off the others (m, d, d)."""
        cross = self.own[:, :, None] * self.turned[:, None, :]
        return np.asarray(self.whole + (cross + cross.transpose(0, 2, 1)))

    @cached_property
    def diagonals(self) -> Array:
        """Its diagonal (m, d)."""
        if self.formed:
            whole = self.whole.diagonal()
        else:
            whole = self.s.diagonal() - 2.0 * np.einsum("dq,dq->d", self.rest, self.basis)
        return np.asarray(whole + 2.0 * self.own * self.turned)

    @cached_property
    def captured(self) -> Array:
        """The variance that the others capture (m,)."""
        return np.asarray(float(np.vdot(self.basis, self._image)) - self._own_variance)

    @cached_property
    def _mirrors(self) -> tuple[Array, Index]:
        """Unit h (m, r), and p (m,): column p of ``B (I - 2 h h')`` is u up to sign. The rest span the others."""
        h = self.own @ self.basis
        at = np.arange(len(h))
        p = np.argmax(np.abs(h), axis=1)
        h[at, p] += np.where(h[at, p] < 0.0, -1.0, 1.0)
        return h / np.linalg.norm(h, axis=1)[:, None], p

    def inside(self, supports: Index, of: Index) -> Array:
        """The rows of an orthonormal basis of the others on each of m supports: (m, k, r), one column of them zero."""
        h, p = (each[of] for each in self._mirrors)
        inside = self.basis[supports]
        inside = inside - 2.0 * (inside @ h[:, :, None]) * h[:, None, :]
        inside[np.arange(len(of)), :, p] = 0.0
        return np.asarray(inside)

    def blocks(self, supports: Index, of: Index) -> Array:
        """``P S P`` of the others on each of m supports: (m, k, k)."""
        u, v = self.own[of[:, None], supports], self.turned[of[:, None], supports]
        cross = u[:, :, None] * v[:, None, :]
        if self.formed:
            whole = self.whole[supports[:, :, None], supports[:, None, :]]
        else:
            cross -= self.rest[supports] @ self.basis[supports].transpose(0, 2, 1)
            whole = self.s[supports[:, :, None], supports[:, None, :]]
        return np.asarray(whole + (cross + cross.transpose(0, 2, 1)))

    def rows(self, supports: Index, of: Index) -> Array:
        """The rows of ``P S P`` of each of m supports: (m, k, d)."""
        u, v = self.own[of[:, None], supports], self.turned[of[:, None], supports]
        if self.formed:
            rows = self.whole[supports]
        else:
            rows = self.s[supports]
            rows -= self.rest[supports] @ self.basis.T
            rows -= self.basis[supports] @ self.rest.T
        rows += u[:, :, None] * self.turned[of][:, None, :]
        rows += v[:, :, None] * self.own[of][:, None, :]
        return np.asarray(rows)

    def images(self, supports: Index, weights: Array, of: Index) -> Array:
        """``P S P x`` for each of m sparse x, given by their supports and weights: (m, d)."""
        m, k = supports.shape
        x = sp.csr_array((weights.ravel(), supports.ravel(), np.arange(0, m * k + 1, k)), shape=(m, len(self.s)))
        if self.formed:
            images = x @ self.whole
        else:
            images = x @ self.s - (x @ self.rest) @ self.basis.T - (x @ self.basis) @ self.rest.T
        along = np.einsum("mk,mk->m", weights, self.own[of[:, None], supports])
        across = np.einsum("mk,mk->m", weights, self.turned[of[:, None], supports])
        return np.asarray(images + along[:, None] * self.turned[of] + across[:, None] * self.own[of])

    def scores(self, supports: Index, weights: Array, gains: Array, of: Index) -> Array:
        """For each of m columns, a power step on its gain: a long step along the gradient. Shape (m, d)."""
        y = self.images(supports, weights, of)
        if self.orthogonal:
            return y
        inside = (weights[:, None, :] @ self.basis[supports])[:, 0]
        own = np.einsum("mk,mk->m", weights, self.own[of[:, None], supports])
        left = np.maximum(1.0 - np.einsum("mq,mq->m", inside, inside) + own * own, _HELD)
        along = inside @ self.basis.T - own[:, None] * self.own[of]
        return np.asarray(y / left[:, None] + np.maximum(gains, 0.0)[:, None] * along)
