"""Symmetric matrices that stand for S: thin factors over all features, a dense block over a few of them."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Index = NDArray[np.intp]

_NO_BASIS = np.zeros((0, 0))
_DENSE_ANYWAY = 64  # rows up to which calls cost more than arithmetic, so that one product beats four


@dataclass(frozen=True)
class Quadratic:
    """The symmetric matrix ``factor @ factor.T - shift * basis @ basis.T``, never formed.

    It stands for itself plus ``shift * I``, which is a constant on the Stiefel manifold and is left out of products.
    """

    factor: Array
    basis: Array = field(default_factory=lambda: _NO_BASIS)
    shift: float = 0.0

    @property
    def n_rows(self) -> int:
        """Number of features."""
        return len(self.factor)

    def __matmul__(self, w: Array) -> Array:
        product = self.factor @ (self.factor.T @ w)
        if self.shift:
            product -= self.basis @ (self.shift * (self.basis.T @ w))
        return product

    def inner(self, w: Array) -> tuple[float, tuple[Array, ...]]:
        """``tr(w' Q w)``, and the half-way product from which ``outer`` completes ``Q w``."""
        seen = self.factor.T @ w
        energy = float(np.vdot(seen, seen))
        if not self.shift:
            return energy, (seen,)
        known = self.basis.T @ w
        return energy - self.shift * float(np.vdot(known, known)), (seen, known)

    def outer(self, half_way: tuple[Array, ...]) -> Array:
        """``Q w`` from the half-way product."""
        product = self.factor @ half_way[0]
        if self.shift:
            product -= self.basis @ (self.shift * half_way[1])
        return product

    def form(self, w: Array) -> Array:
        """``w' Q w``."""
        seen = self.factor.T @ w
        form = seen.T @ seen
        if self.shift:
            known = self.basis.T @ w
            form -= self.shift * (known.T @ known)
        return np.asarray(form)

    def energy(self, w: Array) -> float:
        """``tr(w' Q w)``."""
        return self.inner(w)[0]

    def diagonal(self) -> Array:
        """The diagonal of Q."""
        weight = np.einsum("ij,ij->i", self.factor, self.factor)
        if self.shift:
            weight -= self.shift * np.einsum("ij,ij->i", self.basis, self.basis)
        return np.asarray(weight)

    def block(self, index: Index) -> Array:
        """The principal submatrix on the given features, formed."""
        part = self.factor[index]
        block = part @ part.T
        if self.shift:
            known = self.basis[index]
            block -= self.shift * (known @ known.T)
        return block

    def rows(self, index: Index, *, often: bool = True) -> "Quadratic":
        """The principal submatrix on the given features: formed where that pays for the products to come."""
        columns = self.factor.shape[1] + (self.basis.shape[1] if self.shift else 0)
        if len(index) <= max(columns if often else columns // 2, _DENSE_ANYWAY):
            return DenseQuadratic(self.block(index), shift=self.shift)
        return Quadratic(self.factor[index], self.basis[index] if self.shift else _NO_BASIS, self.shift)


@dataclass(frozen=True)
class DenseQuadratic(Quadratic):
    """The same as one dense matrix, over few features; it takes the place of ``factor``."""

    def __matmul__(self, w: Array) -> Array:
        return self.factor @ w

    def inner(self, w: Array) -> tuple[float, tuple[Array, ...]]:
        """``tr(w' Q w)``, and ``Q w``."""
        product = self.factor @ w
        return float(np.vdot(w, product)), (product,)

    def outer(self, half_way: tuple[Array, ...]) -> Array:
        """``Q w``, which half the way already is."""
        return half_way[0]

    def form(self, w: Array) -> Array:
        """``w' Q w``."""
        return np.asarray(w.T @ (self.factor @ w))

    def diagonal(self) -> Array:
        """The diagonal of Q."""
        return self.factor.diagonal()

    def block(self, index: Index) -> Array:
        """The principal submatrix on the given features."""
        return self.factor[index[:, None], index]

    def rows(self, index: Index, *, often: bool = True) -> "Quadratic":  # noqa: ARG002 - there is one way
        """The principal submatrix on the given features."""
        return DenseQuadratic(self.block(index), shift=self.shift)
