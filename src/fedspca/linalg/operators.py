"""A site's rows, centred, scaled and deflated, as an operator that is applied and never formed.

With raw rows X (n × d, dense or CSR), mean μ, scale s and removed directions Z, the matrix of the paper is
A = (X − 1μᵀ) diag(1/s) (I − ZZᵀ). If there are covariates, the part of X − 1μᵀ that they explain is subtracted; if
there are weights, a row of weight w counts w times (:mod:`fedspca.linalg.beside`). X is neither changed nor moved.
Every result is a sum over blocks of rows (:mod:`fedspca.linalg.row_blocks`).
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol
from zlib import crc32

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.linalg import blas
from scipy.sparse.linalg import ArpackError, ArpackNoConvergence, LinearOperator, eigsh

from fedspca.linalg.beside import NOTHING, Adjustment, Beside, Reference
from fedspca.linalg.feature_sums import deviations_from
from fedspca.linalg.row_blocks import (
    BLOCK_BYTES,
    BLOCK_ROWS,
    COPY_BYTES,
    AnyRows,
    RemoteRows,
    Sums,
    dense_parts,
    dense_parts_beside,
    filled,
    is_dense,
    total,
)
from fedspca.linalg.stiefel import project_out
from fedspca.linalg.symmetric import mirrored

Array = NDArray[np.float64]

NARROW = 5  # a product with at most this many columns is computed column by column
NARROW_ROWS = 16  # rows of a block in such a product: here it matters more that the block stays in the cache
CSR_ROWS = 1 << 16  # rows of a block in a product with sparse rows, which have few values each
COLUMNS_OF_A_FIT = 100  # ExactSPCA multiplies about this many columns in one fit
COLUMNS_OF_CONSENSUS = 1000  # the same for consensus ADMM, with its hundreds of rounds
CACHE_BYTES = 32 << 20  # rows that take more than this are read from memory at every pass
GRAM_MAX_FEATURES = 4096  # a Gram matrix of this many features takes 128 MB


def thin_product(block: Any, x: Array) -> Array:
    """Multiply a block by a few columns. For few columns, one product per column is faster than a matrix product.

    For more, the product of the transposes is faster, by up to a half: BLAS copies its second factor piece by piece.
    """
    if not isinstance(block, np.ndarray):
        return np.asarray(block @ x)
    if x.shape[1] > NARROW:
        return np.asarray((x.T @ block.T).T)
    columns = np.empty((x.shape[1], block.shape[0]))
    for column, product in zip(np.ascontiguousarray(x.T), columns, strict=True):
        np.dot(block, column, out=product)
    return np.ascontiguousarray(columns.T)


def less_outer(product: Array, left: Array, right: Array) -> Array:
    """``product - left @ right.T``, in place: with many features, a copy of the product is as large as the model."""
    return np.asarray(blas.dger(-1.0, right, left, a=np.ascontiguousarray(product).T, overwrite_a=1).T)


def all_finite(x: NDArray[Any]) -> bool:
    """Whether no entry is NaN or infinite.

    A finite sum of squares proves it at once. If the sum is not finite, the squares may only have overflowed.
    """
    return math.isfinite(np.vdot(x, x)) or bool(np.isfinite(x).all())


def small_gram_product(a: Array, x: Array) -> Array:
    """AᵀAx for a matrix in the cache: there one matrix product is faster than a product per column."""
    return np.asarray(a.T @ (a @ x))


@dataclass(frozen=True)
class Frame:
    """The coordinates of the rows: what is subtracted, what features are divided by, which directions are removed.

    An infinite scale leaves a feature out: the feature is then exactly zero in every row. An adjustment, the part that
    covariates explain, is subtracted too. With a reference, each site first takes its own shift and spread out
    (ComBat), and the adjustment is protected instead: it stays in the rows.
    """

    mean: Array
    scale: Array
    removed: Array
    adjustment: Adjustment | None = None
    reference: Reference | None = None

    def without(self, directions: Array) -> "Frame":
        """Return the same frame with further orthonormal directions removed."""
        removed = np.hstack([self.removed, directions])
        return Frame(self.mean, self.scale, removed, self.adjustment, self.reference)


class StandardisedRows:
    """(X − 1μᵀ − (C − 1γᵀ)B) diag(1/s) as an operator; it uses the Gram matrix where that is cheaper.

    Missing values, if there may be any, are replaced by the mean: they are zero after centring.
    """

    def __init__(
        self,
        rows: AnyRows,
        mean: Array,
        scale: Array,
        *,
        missing: bool = False,
        beside: Beside = NOTHING,
        adjustment: Adjustment | None = None,
        squares: Array | None = None,
    ) -> None:
        self.rows = rows
        self.mean = mean
        self.scale = scale
        self.beside = beside
        self.adjustment = adjustment
        self.squares = squares  # Σ(x − μ)² by feature, if they are known
        self._fill = mean if missing else None
        self._unscaled = bool((scale == 1.0).all())
        self._gram: Array | None = None
        self._copy: Array | None = None
        self.kept_single: Array | None = None  # AᵀA as single precision gives it, once it was formed
        self.held_single: bool | None = None  # whether single precision holds the squares, once it was tried

    @property
    def plainly_single(self) -> bool:
        """Whether these are rows in single precision here, with no missing values, covariates or weights."""
        plain = self._fill is None and self.adjustment is None and not self.beside
        return plain and isinstance(self.rows, np.ndarray) and self.rows.dtype == np.float32

    @property
    def n_features(self) -> int:
        """The number of features."""
        return len(self.mean)

    def gram_product(self, x: Array, expected: int = COLUMNS_OF_A_FIT) -> Array:
        """AᵀAx, in one pass over the rows; ``expected`` columns are multiplied in all, here and in later questions."""
        if not x.shape[1]:
            return np.zeros(x.shape)
        if self.gram_pays(expected):
            return np.asarray(self._gram_matrix() @ x)
        if self._copy_pays(expected):
            return small_gram_product(self._standardised_copy(), x)
        scaled = x if self._unscaled else x / self.scale[:, None]
        shift = self.mean @ scaled

        adjustment, along = self.adjustment, self.beside.along

        def of(block: Any, part: Beside) -> Sums:
            scores = thin_product(block, scaled)
            scores -= shift
            if adjustment is None:
                scores = part.weighted(scores)
                return thin_product(block.T, scores), scores.sum(axis=0)
            about = part.about(adjustment)
            scores -= about @ (adjustment.coefficients @ scaled)
            scores = part.weighted(scores)
            return thin_product(block.T, scores), scores.sum(axis=0), about.T @ scores

        least = CSR_ROWS if not is_dense(self.rows) else BLOCK_ROWS if x.shape[1] > NARROW else NARROW_ROWS
        product, score_sums, *explained = total(self.rows, along(of), self._fill, least=least)
        product = less_outer(product, self.mean, score_sums)
        if adjustment is not None:
            product -= adjustment.coefficients.T @ explained[0]
        if not self._unscaled:
            product /= self.scale[:, None]
        return product

    def error_sums(self, basis: Array) -> tuple[float, float]:
        """Σe and Σe² of the rows' squared errors e = ‖a − (aQ)Qᵀ‖², for orthonormal directions Q.

        Each error is a sum of squares of the residual of a row. The difference ‖a‖² − ‖aQ‖² would lose digits, and
        would have to be set to zero where it is negative. With a Q that is not orthonormal, the sender of Q could then
        choose which rows count.
        """

        def of(block: Any, part: Beside) -> Sums:
            errors = np.concatenate([self._left_of(*both, basis) for both in dense_parts_beside(block, part)])
            weighted = part.weighted(errors)
            return np.array([weighted.sum()]), np.array([weighted @ errors])

        errors, squares = total(self.rows, self.beside.along(of), self._fill)
        return float(errors[0]), float(squares[0])

    def row_sums(self) -> Array:
        """Σa over the rows, by feature."""
        offsets, _ = deviations_from(
            self.rows, self.mean, missing=self._fill is not None, beside=self.beside, adjustment=self.adjustment
        )
        return offsets / self.scale

    def _left_of(self, dense: Array, part: Beside, basis: Array) -> Array:
        """Return the squared norm of each row's residual off the directions."""
        rows = self._standardised(dense, part)
        rows -= (rows @ basis) @ basis.T
        return np.asarray(np.einsum("ij,ij->i", rows, rows))

    def gram_pays(self, columns: int) -> bool:
        """Whether it is cheaper to form the d × d Gram matrix, for this many columns in all.

        A pass with m columns costs 4ndm operations. The Gram matrix costs about nd², at a higher speed. If the rows do
        not fit the cache, a pass with few columns also waits for memory. Earlier questions do not matter: a site that
        restarts returns the same bits. CSR rows are never made dense, and with many features the Gram matrix never
        pays.
        """
        if not is_dense(self.rows):
            return False
        n, d = self.rows.shape
        worth = (6 if 8 * n * d > CACHE_BYTES else 4) * columns
        return bool(n >= d and d <= min(worth, GRAM_MAX_FEATURES))

    def _copy_pays(self, columns: int) -> bool:
        """Whether the rows are few and used so often that a centred and scaled copy is worth its memory."""
        few = isinstance(self.rows, np.ndarray) and 8 * self.rows.size <= BLOCK_BYTES
        return few and columns >= COLUMNS_OF_CONSENSUS

    def _standardised_copy(self) -> Array:
        if self._copy is None:
            rows: Any = self.rows
            whole = rows if self._fill is None else filled(rows, self._fill)
            self._copy = self.beside.rooted(self._standardised(whole, self.beside))
        return self._copy

    def _standardised(self, dense: Array, part: Beside) -> Array:
        return np.asarray((dense - self.mean - part.explained(self.adjustment)) / self.scale)

    def gram_matrix(self) -> Array:
        """AᵀA itself, d × d, in one pass over the rows. Sparse rows stay sparse."""
        return self._gram_matrix() if is_dense(self.rows) else self._sparse_gram_matrix()

    def _gram_matrix(self) -> Array:
        if self._gram is None:

            def standardised(block: Any, part: Beside) -> Array:
                centred = block - self.mean
                if self.adjustment is not None:
                    centred -= part.explained(self.adjustment)
                if not self._unscaled:
                    centred /= self.scale
                return part.rooted(centred)

            # one triangle only: numpy would fill in the other one each time
            if isinstance(self.rows, RemoteRows):
                along = self.beside.along(lambda block, part: (blas.dsyrk(1.0, standardised(block, part).T),))
                upper = np.triu(total(self.rows, along, self._fill)[0])
            else:
                upper = self._added_up(standardised)
            self._gram = mirrored(upper)
        return self._gram

    def _added_up(self, standardised: Callable[[Any, Beside], Array]) -> Array:
        """Return the upper triangle of AᵀA. BLAS adds each block to it, which saves a pass over the matrix."""
        upper = np.zeros((self.n_features, self.n_features), order="F")

        def add(block: Any, part: Beside) -> Sums:
            blas.dsyrk(1.0, standardised(block, part).T, beta=1.0, c=upper, overwrite_c=1)
            return ()

        total(self.rows, self.beside.along(add), self._fill, least=BLOCK_ROWS)
        return upper

    def permuted_gram_matrix(self, seed: Sequence[int]) -> Array:
        """AᵀA after a random permutation of each column, by a seeded generator, within large blocks of rows."""
        stretch = max(1, COPY_BYTES // (8 * self.n_features))
        mean, scale = self.mean, self.scale

        def of(block: Any) -> Sums:
            columns = np.concatenate([(dense - mean) / scale for dense in dense_parts(block)]).T
            # the seed also depends on the content of the block: parts of a cluster are visited in no fixed order
            rng = np.random.default_rng([*seed, crc32(np.ascontiguousarray(columns[:, :1]).tobytes())])
            return (mirrored(np.triu(blas.dsyrk(1.0, rng.permuted(columns, axis=1)))),)

        return total(self.rows, of, self._fill, least=stretch)[0]

    def _sparse_gram_matrix(self) -> Array:
        """Σ(x − m)(x − m)ᵀ as Σxxᵀ − GᵀM − MᵀG + MᵀHM, divided by the scales.

        From each row its prediction m = Mᵀd is subtracted, with d = (1, c − γ) and M = (μ, B). G = Σdxᵀ and H = Σddᵀ.
        """
        known = self.mean[None] if self.adjustment is None else np.vstack([self.mean, self.adjustment.coefficients])

        def of(block: Any, part: Beside) -> Sums:
            ones = np.ones((block.shape[0], 1))
            lines = ones if self.adjustment is None else np.hstack([ones, part.about(self.adjustment)])
            weighted = part.weighted(lines)
            left = block if part.weights is None else sp.diags_array(part.weights) @ block
            return (block.T @ left).toarray(), np.asarray(block.T @ weighted).T, weighted.T @ lines

        gram, cross, inner = total(self.rows, self.beside.along(of), self._fill, least=CSR_ROWS)
        rest = (cross - 0.5 * inner @ known).T @ known
        gram -= rest + rest.T
        gram /= self.scale[:, None]
        gram /= self.scale
        return np.asarray(gram)


class GramOperator(Protocol):
    """S = AᵀA as an operator: multiplied by passes over the rows, or given as a matrix."""

    @property
    def n_features(self) -> int:
        """The order of S."""

    def gram_product(self, x: Array, expected: int = COLUMNS_OF_A_FIT) -> Array:
        """Sx; ``expected`` columns are multiplied in all, here and in later questions."""

    def gram_matrix(self) -> Array:
        """S itself, formed."""


@dataclass(frozen=True)
class DeflatedRows:
    """A(I − ZZᵀ) as an operator, for standardised rows A given by their Gram operator."""

    standardised: GramOperator
    removed: Array
    expected: int = COLUMNS_OF_A_FIT

    def gram_product(self, x: Array) -> Array:
        """GAᵀAGx with G = I − ZZᵀ."""
        return project_out(self.removed, self.standardised.gram_product(project_out(self.removed, x), self.expected))

    def gram_matrix(self) -> Array:
        """GAᵀAG, formed."""
        gram = self.standardised.gram_matrix()
        return project_out(self.removed, project_out(self.removed, gram).T) if self.removed.shape[1] else gram

    def largest_eigenvalue(self) -> float:
        """σ_max(A)², to a few per cent, by Lanczos iterations from a fixed start."""
        d = self.standardised.n_features
        if d <= 2:  # too small for Lanczos
            return float(np.linalg.norm(self.gram_product(np.eye(d)), 2))
        # fixed, so that a site always gives the same answer; irregular, so that no data are orthogonal to it by design
        start = np.cos(0.7 * np.arange(1, d + 1)[:, None] ** 2)
        image = self.gram_product(start)
        if not np.any(image):
            return 0.0
        operator = LinearOperator((d, d), matvec=lambda v: self.gram_product(v.reshape(d, 1)), dtype=np.float64)
        try:
            return float(eigsh(operator, k=1, v0=image.ravel(), tol=1e-2, return_eigenvectors=False)[0])
        except (ArpackError, ArpackNoConvergence):
            return float(np.linalg.norm(image) / np.linalg.norm(start))
