"""What was released, in place of the rows: the questions' own functions answer from it."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedspca.federation.base import FederationError
from fedspca.linalg.operators import COLUMNS_OF_A_FIT, DeflatedRows, Frame
from fedspca.site.question import SiteData

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Release:
    """What was released: the number of rows, their mean, and their second moments about it, in the stated units."""

    rows: float
    mean: Array
    trace: float
    vectors: Array  # S = VΛVᵀ without its negative part, which is only noise
    values: Array

    def product(self, x: Array) -> Array:
        """S times x."""
        return np.asarray(self.vectors @ (self.values[:, None] * (self.vectors.T @ x)))


class ReleasedData(SiteData):
    """A release in place of a site's data, so that the questions' own functions can use it."""

    def __init__(self, release: Release, mean: Array, scale: Array) -> None:
        super().__init__("released", np.zeros((0, len(mean))))  # there are no rows to look at
        self._release, self._mean, self._scale = release, mean, scale

    def seen_in(self, frame: Frame, expected: int | None = None) -> DeflatedRows:
        """Return the released matrix in this frame, as an operator in place of rows."""
        return DeflatedRows(self.gram_in(frame), frame.removed)

    def gram_in(self, frame: Frame) -> "ReleasedGram":
        """Return the released second moments about the frame's mean and in its units."""
        return ReleasedGram(self._release, (self._mean - frame.mean) / frame.scale, self._scale / frame.scale)


@dataclass(frozen=True)
class ReleasedGram:
    """D(S + n δδᵀ)D: the released second moments, about another mean and in other units."""

    release: Release
    shift: Array
    ratio: Array

    @property
    def n_features(self) -> int:
        """The number of features."""
        return len(self.shift)

    def gram_product(self, x: Array, expected: int = COLUMNS_OF_A_FIT) -> Array:
        """Return this matrix times x; ``expected`` does not matter, since there are no rows to pass over."""
        inner = self.release.product(self.ratio[:, None] * x)
        return np.asarray(self.ratio[:, None] * inner + self.release.rows * np.outer(self.shift, self.shift @ x))

    def gram_matrix(self) -> Array:
        """Return this matrix, formed."""
        return self.gram_product(np.eye(self.n_features))

    def root(self) -> Array:
        """Return a square root of this matrix: this matrix is its product with its own transpose."""
        scaled = self.ratio[:, None] * (self.release.vectors * np.sqrt(self.release.values))
        return np.hstack([scaled, math.sqrt(self.release.rows) * self.shift[:, None]])


def about_mean(gram: Array, rows: float, offset: float) -> tuple[Array, Array]:
    """Return the mean, and the second moments about it, that a released matrix contains."""
    mean = gram[:-1, -1] / (offset * rows)
    return mean, gram[:-1, :-1] - rows * np.outer(mean, mean)


def release_of(rows: float, mean: Array, s: Array) -> Release:
    """Return the release of a matrix of second moments, without its negative part."""
    values, vectors = np.linalg.eigh(s)
    return release_in(rows, mean, float(np.trace(s)), vectors, values)


def release_in(rows: float, mean: Array, trace: float, vectors: Array, values: Array) -> Release:
    """Return the release of second moments known by eigenvectors and eigenvalues; refuse if all is noise."""
    kept = values > 0
    if not kept.any() or trace <= 0:
        raise FederationError(
            "The noise is larger than all that there is to see: there are too few rows for this budget and clip."
        )
    return Release(rows, mean, trace, vectors[:, kept], values[kept])


def symmetric_model(block: Array, product: Array) -> tuple[Array, Array]:
    """Return the leading eigenvectors and eigenvalues of the smallest symmetric M with MQ = Y, up to Y's asymmetry."""
    inner = block.T @ product
    outside = product - block @ inner
    basis, factor = np.linalg.qr(outside - block @ (block.T @ outside))
    core = np.block([[(inner + inner.T) / 2, factor.T], [factor, np.zeros_like(factor)]])
    values, vectors = np.linalg.eigh(core)
    leading = slice(-block.shape[1], None)
    return np.hstack([block, basis]) @ vectors[:, leading], values[leading]


def row_count(noised: float) -> float:
    """Return the number of rows that a noised one stands for: whole, and enough for a covariance."""
    return float(max(2, round(noised)))
