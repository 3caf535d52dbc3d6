"""Mackey (2008), Deflation methods for sparse PCA, NIPS 21: how to remove a loading from S.

A sparse loading v is not an eigenvector, so Hotelling's deflation may give a matrix that is not positive semidefinite.
The coordinator computes products with the deflated matrix from products with S. The queries to sites stay the same.
"""

from collections.abc import Callable
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from fedspca.literature.base import Covariance, sphere

Array = NDArray[np.float64]
Deflation = Literal["hotelling", "projection", "schur", "orthogonalised", "generalised"]
DEFLATIONS: tuple[Deflation, ...] = ("hotelling", "projection", "schur", "orthogonalised", "generalised")


class Deflated:
    """S_t, the matrix S after t loadings have been removed; S_0 = S.

    - hotelling: S − (vᵀSv) vvᵀ
    - projection: (I − vvᵀ) S (I − vvᵀ)
    - schur: S − Svvᵀ S/(vᵀSv)
    - orthogonalised: the projection with q in place of v; q is the part of v orthogonal to all earlier q
    - generalised: the same, but the method constrains ‖Bv‖ with B = Π(I − qqᵀ), not ‖v‖
    """

    def __init__(self, s: Covariance, kind: Deflation) -> None:
        self._s, self.kind, self.rounds = s, kind, s.rounds
        self._removed: list[tuple[Array, Array, float]] = []  # v (or q), S_t v, and vᵀS_t v
        self.variances = s.variances()
        self.d = s.d

    def product(self, x: Array) -> Array:
        """S_t x."""
        return self._after(len(self._removed), x)

    def _after(self, t: int, x: Array) -> Array:
        if t == 0:
            return self._s.product(x)
        v, image, size = self._removed[t - 1]
        if self.kind == "hotelling":
            return np.asarray(self._after(t - 1, x) - size * np.multiply.outer(v, v @ x))
        if self.kind == "schur":
            return np.asarray(self._after(t - 1, x) - np.multiply.outer(image, image @ x) / size)
        return off(v, self._after(t - 1, off(v, x)))

    def metric(self, x: Array) -> Array:
        """Bx for the generalised deflation, and x for the others."""
        if self.kind == "generalised":
            for q, _, _ in self._removed:
                x = off(q, x)
        return x

    def remove(self, v: Array) -> None:
        """Remove a loading, at the cost of one product."""
        if self.kind in ("orthogonalised", "generalised"):
            for q, _, _ in self._removed:
                v = off(q, v)
            v = sphere(v)
        image = self.product(v)
        size = float(v @ image)
        self._removed.append((v, image, size))
        if self.kind == "hotelling":
            self.variances = self.variances - size * v**2
        elif self.kind == "schur":
            self.variances = self.variances - image**2 / size
        else:
            self.variances = self.variances - 2 * v * image + size * v**2


def off(v: Array, x: Array) -> Array:
    """(I − vvᵀ)x."""
    return np.asarray(x - np.multiply.outer(v, v @ x))


def one_by_one_of(matrix: Array, r: int, solve: Callable[[Array], Array]) -> Array:
    """Find r loadings one by one if the whole S is known, by orthogonalised deflation of the matrix itself."""
    found: list[Array] = []
    basis: list[Array] = []
    for _ in range(r):
        found.append(sphere(solve(matrix)))
        q = found[-1]
        for before in basis:
            q = off(before, q)
        basis.append(sphere(q))
        matrix = off(basis[-1], off(basis[-1], matrix).T)
    return np.column_stack(found)


def one_by_one(s: Covariance, r: int, kind: Deflation, solve: Callable[[Deflated], Array]) -> Array:
    """Find r loadings one by one: ``solve`` finds each on S after the earlier ones have been removed."""
    left, found = Deflated(s, kind), []
    for stage in range(r):
        s.rounds.stage = stage
        found.append(sphere(solve(left)))
        if stage < r - 1:
            left.remove(found[-1])
    return np.column_stack(found)
