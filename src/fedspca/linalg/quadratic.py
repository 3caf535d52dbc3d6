"""Symmetric matrices that replace S: a thin factor over all features, or a dense block over a few of them."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Index = NDArray[np.intp]
HalfWay = Array

_MOST = 0.85  # share of the rows from which on all are taken
_DENSE_ANYWAY = 64  # with at most this many rows, calls cost more than arithmetic: one product is faster than two


def nearly_all(rows: Index, d: int) -> Index:
    """The rows; all of them if few are missing: a copy of the others would take longer than it saves."""
    return rows if len(rows) < _MOST * d else np.arange(d)


@dataclass(frozen=True)
class Quadratic:
    """The symmetric matrix ``factor @ diag(signs) @ factor.T``, never formed; without ``signs``, all signs are +1.

    It represents this matrix plus ``shift * I``. The shift adds a constant on the Stiefel manifold, so products leave
    it out.
    """

    factor: Array
    signs: Array | None = None
    shift: float = 0.0

    @classmethod
    def difference(cls, plus: Array, minus: Array, shift: float) -> "Quadratic":
        """``plus @ plus.T - shift * minus @ minus.T``, as one factor, so that a product reads one array and not two."""
        seen = plus.shape[1]
        factor = np.empty((len(plus), seen + minus.shape[1]))
        factor[:, :seen] = plus
        np.multiply(minus, np.sqrt(shift), out=factor[:, seen:])
        signs = np.ones(factor.shape[1])
        signs[seen:] = -1.0
        return cls(factor, signs, shift)

    @property
    def n_rows(self) -> int:
        """Number of features."""
        return len(self.factor)

    def _signed(self, seen: Array) -> Array:
        if self.signs is None:
            return seen
        return seen * (self.signs if seen.ndim == 1 else self.signs[:, None])

    def __matmul__(self, w: Array) -> Array:
        return self.factor @ self._signed(self.factor.T @ w)

    def inner(self, w: Array) -> tuple[float, HalfWay]:
        """``tr(w' Q w)``, and the half-way product from which ``outer`` completes ``Q w``."""
        seen = self.factor.T @ w
        signed = self._signed(seen)
        return float(np.vdot(seen, signed)), signed

    def outer(self, half_way: HalfWay, rows: Index | None = None) -> Array:
        """``Q w``, or some rows of it, from the half-way product."""
        return (self.factor if rows is None else self.factor[rows]) @ half_way

    def form(self, w: Array) -> tuple[Array, HalfWay]:
        """``w' Q w``, and the half-way product."""
        seen = self.factor.T @ w
        signed = self._signed(seen)
        return np.asarray(seen.T @ signed), signed

    def energy(self, w: Array) -> float:
        """``tr(w' Q w)``."""
        return self.inner(w)[0]

    def diagonal(self) -> Array:
        """The diagonal of Q."""
        if self.signs is None:
            return np.asarray(np.einsum("ij,ij->i", self.factor, self.factor))
        return np.asarray((self.factor * self.factor) @ self.signs)

    def block(self, index: Index) -> Array:
        """The principal submatrix on the given features, formed."""
        part = self.factor[index]
        return np.asarray((part if self.signs is None else part * self.signs) @ part.T)

    def rows(self, index: Index, *, often: bool = True) -> "Quadratic":
        """The principal submatrix on the given features: formed if that saves time in later products."""
        if self._forming_pays(len(index), often=often):
            return DenseQuadratic(self.block(index), shift=self.shift)
        return Quadratic(self.factor[index], self.signs, self.shift)

    def compact(self) -> "Quadratic":
        """The same matrix, formed if that saves time."""
        if self._forming_pays(self.n_rows, often=True):
            return DenseQuadratic(self._signed(self.factor.T).T @ self.factor.T, shift=self.shift)
        return self

    def _forming_pays(self, n_rows: int, *, often: bool) -> bool:
        columns = int(self.factor.shape[1])
        return n_rows <= max(columns if often else columns // 2, _DENSE_ANYWAY)


@dataclass(frozen=True)
class DenseQuadratic(Quadratic):
    """The same as one dense matrix over few features; the matrix is stored in ``factor``."""

    def __matmul__(self, w: Array) -> Array:
        return self.factor @ w

    def inner(self, w: Array) -> tuple[float, HalfWay]:
        """``tr(w' Q w)``, and ``Q w``."""
        product = self.factor @ w
        return float(np.vdot(w, product)), product

    def outer(self, half_way: HalfWay, rows: Index | None = None) -> Array:
        """``Q w``, or some rows of it. For a dense matrix :meth:`inner` has computed all of it already."""
        return half_way if rows is None else half_way[rows]

    def form(self, w: Array) -> tuple[Array, HalfWay]:
        """``w' Q w``, and ``Q w``."""
        product = self.factor @ w
        return np.asarray(w.T @ product), product

    def diagonal(self) -> Array:
        """The diagonal of Q."""
        return self.factor.diagonal()

    def block(self, index: Index) -> Array:
        """The principal submatrix on the given features."""
        # whole rows first: entry by entry takes more than twice as long
        return self.factor.take(index, axis=0).take(index, axis=1)

    def rows(self, index: Index, *, often: bool = True) -> "Quadratic":
        """The principal submatrix on the given features; on all of them in their order, the same object."""
        if len(index) == self.n_rows and np.array_equal(index, np.arange(self.n_rows)):
            return self
        return DenseQuadratic(self.block(index), shift=self.shift)

    def compact(self) -> "Quadratic":
        """The same."""
        return self
