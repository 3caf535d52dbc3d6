"""Start values for consensus ADMM: a common warm start for the sites, and the curvature that determines ρ."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedspca.federation.base import Federation
from fedspca.linalg.operators import Frame
from fedspca.linalg.stiefel import project_out
from fedspca.site.answers.products import CURVATURE_POWER
from fedspca.site.question import Query
from fedspca.solvers.asking import frame_arrays, gram_product

Array = NDArray[np.float64]

OVERSAMPLING = 8
POWER_ROUNDS = 3


@dataclass(frozen=True)
class LeadingSubspace:
    """Approximate leading eigenvectors of S in decreasing order, their eigenvalues, and a few further eigenvalues."""

    vectors: Array
    values: Array
    beyond: Array


def leading_subspace(federation: Federation, frame: Frame, r: int, rng: np.random.Generator) -> LeadingSubspace:
    """Approximate the argmax over w of tr(wᵀSw) by block Krylov iterations, one sum each.

    Every product asked for is kept, and the Rayleigh–Ritz vectors of all of them together are returned.
    """
    d = len(frame.mean)
    columns = min(r + OVERSAMPLING, d - frame.removed.shape[1])
    block = np.linalg.qr(project_out(frame.removed, rng.standard_normal((d, columns))))[0]
    *_, last = islice(krylov(federation, frame, block), POWER_ROUNDS)
    values, vectors = last.ritz()
    return LeadingSubspace(vectors[:, :r], values[:r], np.maximum(values[r:columns], 0.0))


class Asked(NamedTuple):
    """Orthonormal directions Q that were asked for, SQ, and directions that SQ has beside them: the next to ask."""

    basis: Array
    products: Array
    beside: Array

    def ritz(self) -> tuple[Array, Array]:
        """Rayleigh–Ritz values in their span, descending, and vectors: the best that is known of S's eigenpairs."""
        captured = self.basis.T @ self.products
        values, vectors = np.linalg.eigh((captured + captured.T) / 2)
        return values[::-1], self.basis @ vectors[:, ::-1]


def krylov(federation: Federation, frame: Frame, block: Array) -> Iterator[Asked]:
    """Ask for S times an orthonormal block, then for S times what each answer adds: one sum a step.

    Yields all that was asked so far, after each sum. It ends when an answer adds nothing: S is then known exactly in
    the span.
    """
    basis, products = block[:, :0], block[:, :0]
    while block.shape[1]:
        product = gram_product(federation, frame, block)
        basis, products = np.hstack([basis, block]), np.hstack([products, product])
        block = _new_directions(basis, product)
        yield Asked(basis, products, block)


def _new_directions(basis: Array, products: Array) -> Array:
    """Orthonormal directions of the products outside the basis; directions as small as rounding are dropped."""
    left = products - basis @ (basis.T @ products)
    left -= basis @ (basis.T @ left)  # twice is enough
    vectors, sizes, _ = np.linalg.svd(left, full_matrices=False)
    return np.asarray(vectors[:, sizes > 1e-10 * np.linalg.norm(products)])


def largest_curvature(federation: Federation, frame: Frame, top: float) -> float:
    """Estimate L = max_i 2σ_max(A_i)² without revealing the value of any single site.

    A high power of the sites' values is summed. The 16th root of this sum exceeds the maximum by a factor of at most
    K^(1/16). ``top``, the largest eigenvalue of the joint S, is an upper bound for every site. The values are divided
    by it, so that the powers neither overflow nor vanish.
    """
    question = Query("curvature", frame_arrays(frame), {"reference": top})
    total = federation.sum(question).number("curvature")
    return float(2.0 * top * total ** (1.0 / CURVATURE_POWER))
