"""Mackey (2008), Deflation methods for sparse PCA, NIPS 21: what is left of S once a loading was found.

A sparse loading v is no eigenvector, so Hotelling's deflation may leave a matrix that is not positive semidefinite.
Each deflation here turns products with S into products with what is left, at the coordinator: no question changes.
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
    """S_t, where S_0 = S and each loading that is removed makes the next.

    - hotelling: S − (vᵀSv) vvᵀ
    - projection: (I − vvᵀ) S (I − vvᵀ)
    - schur: S − Svvᵀ S/(vᵀSv)
    - orthogonalised: the projection for q, the part of v that is orthogonal to the q before
    - generalised: the same, for a v that is measured by ‖Bv‖ with B = Π(I − qqᵀ), not by ‖v‖
    """

    def __init__(self, s: Covariance, kind: Deflation) -> None:
        self._s, self.kind, self.rounds = s, kind, s.rounds
        self._removed: list[tuple[Array, Array, float]] = []  # v or q, S_t of it, and their inner product
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
        """Bx, which is x itself unless the deflation is the generalised one."""
        if self.kind == "generalised":
            for q, _, _ in self._removed:
                x = off(q, x)
        return x

    def remove(self, v: Array) -> None:
        """Take a loading out, at one product."""
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
    """The same where S is had whole: orthogonalised deflation of the matrix itself."""
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
    """Find r loadings, each by ``solve`` on what the ones before it left."""
    left, found = Deflated(s, kind), []
    for stage in range(r):
        s.rounds.stage = stage
        found.append(sphere(solve(left)))
        if stage < r - 1:
            left.remove(found[-1])
    return np.column_stack(found)
