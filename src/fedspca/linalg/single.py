"""Rows that are stored in single precision, multiplied in single precision: half the time of double precision.

The rows are centred before they are multiplied, so that a large mean takes no digits from the products: with the mean μ
rounded to single precision, m, a value x near m leaves x − m exactly. What is missing, μ − m, is put right in double
precision. Where means are small beside the spread, m = 0 takes hardly a digit: a product with few columns then
multiplies the rows as they are stored, and saves a copy. Products are rounded within a few hundred rows or features
only. Sums beyond that are in double precision.

With u = 2⁻²⁴, an entry of AᵀA is then off by at most :data:`ROUNDING` √(s_ii s_jj), and a product AᵀAx by at most
``PRODUCT_ROUNDING`` ‖A‖²‖x‖; both are worst cases, and usual errors are a hundred times smaller.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import cast

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import blas

from fedspca.linalg.operators import COLUMNS_OF_A_FIT, DeflatedRows, StandardisedRows, less_outer
from fedspca.linalg.row_blocks import forget_mapped
from fedspca.linalg.symmetric import mirrored

Array = NDArray[np.float64]
Single = NDArray[np.float32]

ROWS = 256  # rows that are multiplied at once
GROUP = 16  # so many products of rows are added in single precision
FEATURES = 512  # features over which a score is summed in single precision
UNIT = 2.0**-24
ROUNDING = (ROWS + GROUP + 6) * UNIT  # one more for each rounding of a row: centring, scaling, and their product
SMALL_MEAN = 0.5  # if no mean is more than this share of its feature's spread, products need no centred rows
# without centring, sums of squares are larger by up to this factor, and so are roundings
PRODUCT_ROUNDING = (1.0 + SMALL_MEAN**2) * (ROWS + FEATURES + 6) * UNIT
SMALLEST, LARGEST = 1e-25, 1e32  # sums of squares within it come from squares that single precision can hold


@dataclass(frozen=True)
class SingleRows:
    """Standardised rows as an operator that multiplies in single precision.

    Values whose squares single precision cannot hold are multiplied in double precision after all.
    """

    double: StandardisedRows

    @property
    def n_features(self) -> int:
        """The number of features."""
        return self.double.n_features

    def gram_matrix(self) -> Array:
        """AᵀA itself, in one pass over the rows."""
        gram = self.double.kept_single
        if gram is None:
            formed = _gram_matrix(self.double)
            safe = _held(formed.diagonal(), self.double.scale)
            gram = self.double.kept_single = formed if safe else self.double.gram_matrix()
        return gram

    def gram_product(self, x: Array, expected: int = COLUMNS_OF_A_FIT) -> Array:
        """AᵀAx; ``expected`` columns are multiplied in all, here and in later questions."""
        if not x.shape[1]:
            return np.zeros(x.shape)
        if self.double.gram_pays(expected):
            return np.asarray(self.gram_matrix() @ x)
        if self.double.held_single is None:
            self.double.held_single = _held(_scaled_squares(self.double), self.double.scale)
        if not self.double.held_single:
            return self.double.gram_product(x, expected)
        return _gram_product(self.double, x)


def in_single(rows: DeflatedRows) -> DeflatedRows:
    """Return the operator that multiplies in single precision, if the rows are stored so; else the same operator.

    Rows with missing values, covariates or weights are multiplied in double precision.
    """
    seen = rows.standardised
    if not isinstance(seen, StandardisedRows) or not seen.plainly_single:
        return rows
    return DeflatedRows(SingleRows(seen), rows.removed, rows.expected)


def _held(squares: Array, scale: Array) -> bool:
    """Whether single precision holds the squares of every feature that counts."""
    counts = squares[np.isfinite(scale)]
    with np.errstate(invalid="ignore"):
        return bool(((counts > SMALLEST) & (counts < LARGEST)).all())


class _Centred:
    """Blocks of rows less the rounded mean, in units of the rounded scale, and what the rounding of the mean left.

    With ``as_stored`` nothing is subtracted, and the whole mean is left.
    """

    def __init__(self, seen: StandardisedRows, *, as_stored: bool = False) -> None:
        self.rows = cast("Single", seen.rows)  # as its caller has checked
        with np.errstate(over="ignore"):
            self.factor = (1.0 / seen.scale).astype(np.float32)
            self.scaled = not bool((self.factor == 1.0).all())
            self.as_stored = as_stored and not self.scaled
            self.shift = (0.0 * seen.mean if self.as_stored else seen.mean).astype(np.float32)
            self.left = (seen.mean - self.shift) * self.factor

    def blocks(self) -> Iterator[Single]:
        """Yield the rows, centred and scaled, a block at a time. Copies are in one place, which stays in the cache."""
        place = np.empty((ROWS, self.rows.shape[1]), dtype=np.float32)
        for start in range(0, len(self.rows), ROWS):
            rows = self.rows[start : start + ROWS]
            if not self.as_stored:
                rows = np.subtract(rows, self.shift, out=place[: len(rows)])
            if self.scaled:
                rows *= self.factor
            yield rows
            forget_mapped(self.rows)


def _small_means(seen: StandardisedRows) -> bool:
    """Whether it is known that every mean is small beside its feature's spread."""
    if seen.squares is None:
        return False
    return bool((seen.rows.shape[0] * seen.mean**2 <= SMALL_MEAN**2 * seen.squares).all())


@np.errstate(over="ignore", invalid="ignore")  # what overflows is noticed at the end
def _gram_matrix(seen: StandardisedRows) -> Array:
    """Σ(y − l)(y − l)ᵀ = Σyyᵀ − slᵀ − lsᵀ + nllᵀ, with y the centred rows, s their sum, and l what centring left."""
    centred, d = _Centred(seen), seen.n_features
    upper, part = np.zeros((d, d), order="F"), np.zeros((d, d), dtype=np.float32, order="F")
    sums, ones = np.zeros(d), np.ones(ROWS, dtype=np.float32)
    for number, block in enumerate(centred.blocks()):
        begins = number % GROUP == 0
        if begins:
            upper += part
        part = blas.ssyrk(1.0, block.T, beta=0.0 if begins else 1.0, c=part, overwrite_c=1)
        sums += ones[: len(block)] @ block
    upper += part
    gram = mirrored(upper)
    rest = np.outer(sums - 0.5 * len(centred.rows) * centred.left, centred.left)
    return np.asarray(gram - (rest + rest.T))


@np.errstate(over="ignore", invalid="ignore")
def _scaled_squares(seen: StandardisedRows) -> Array:
    """Σy² by feature."""
    if seen.squares is not None:
        return seen.squares / seen.scale**2
    centred, squares = _Centred(seen), np.zeros(seen.n_features)
    for block in centred.blocks():
        squares += np.einsum("ij,ij->j", block, block)
    return squares


def _gram_product(seen: StandardisedRows, x: Array) -> Array:
    """AᵀAx. A score is summed in double precision over blocks of features."""
    centred, d = _Centred(seen, as_stored=_small_means(seen)), seen.n_features
    rounded = x.astype(np.float32)
    score_sums, offset = np.zeros(x.shape[1]), centred.left @ x
    transposed = np.zeros((x.shape[1], d))
    for block in centred.blocks():
        scores = np.full((len(block), x.shape[1]), -offset)
        for start in range(0, d, FEATURES):
            scores += block[:, start : start + FEATURES] @ rounded[start : start + FEATURES]
        score_sums += scores.sum(axis=0)
        transposed += scores.T.astype(np.float32) @ block
    return less_outer(transposed.T, centred.left, score_sums)
