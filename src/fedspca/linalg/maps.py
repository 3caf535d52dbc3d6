"""Transforms of features whose parameters come from the rows of all sites, and rows that are seen through one.

Transformed rows are formed block by block, where they are used, and never as a whole: a file larger than memory stays
on disk. A missing value stays missing.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedspca.linalg.row_blocks import Labels, RemoteRows, Rows, Sums, dense_parts, row_blocks

Array = NDArray[np.float64]

OVERDISPERSION = 100.0  # θ of the negative binomial model of counts, as Lause et al. (2021) recommend


@dataclass(frozen=True, eq=False)
class Curves:
    """A rising, piecewise linear function of each feature, constant beyond its outer knots.

    Attributes
    ----------
    knots, images : ndarray of shape (k, d)
        Values of each feature, rising, and what they become.
    """

    knots: Array
    images: Array

    def __call__(self, rows: Array) -> Array:
        """Return the transformed rows."""
        columns = zip(rows.T, self.knots.T, self.images.T, strict=True)
        return np.column_stack([np.interp(x, knots, images) for x, knots, images in columns])

    @property
    def arrays(self) -> dict[str, Array]:
        """The parameters by name."""
        return {"knots": self.knots, "images": self.images}


@dataclass(frozen=True, eq=False)
class CountModel:
    """Pearson residuals of counts: (x − μ)/√(μ + μ²/θ), with μ the row's sum times the feature's share of all counts.

    Attributes
    ----------
    shares : ndarray of shape (d,)
        Each feature's share of the counts of all rows.
    clip : ndarray of shape (1,)
        The largest absolute residual that is kept; larger ones become this.

    References
    ----------
    J. Lause, P. Berens, D. Kobak: Analytic Pearson residuals for normalization of single-cell RNA-seq UMI data. Genome
    Biology 22 (2021), 258.
    """

    shares: Array
    clip: Array

    def __call__(self, rows: Array) -> Array:
        """Return the residuals. A feature without counts has residuals of zero."""
        expected = np.nansum(rows, axis=1)[:, None] * self.shares
        spread = np.sqrt(expected + expected**2 / OVERDISPERSION)
        left = np.divide(rows - expected, spread, out=np.where(np.isnan(rows), np.nan, 0.0), where=spread > 0)
        return np.asarray(np.clip(left, -self.clip, self.clip))

    @property
    def arrays(self) -> dict[str, Array]:
        """The parameters by name."""
        return {"count_shares": self.shares, "clip": self.clip}


FeatureMap = Curves | CountModel


@dataclass(frozen=True, eq=False)
class Learnt:
    """A transform, and the most by which a value can differ from that of the same transform on the pooled rows.

    ``error`` is the share of rows within which a rank is known for ``normal``; it is in standard deviations of the
    feature for ``winsorise``, and 0 for ``pearson``. In a private study deviations are those stated, and the error
    holds with a probability of 95 %.
    """

    seen: FeatureMap
    error: float


def map_of(arrays: Mapping[str, NDArray[Any]]) -> FeatureMap | None:
    """Return the transform that named arrays describe; None if there is none among them."""
    if "knots" in arrays:
        return Curves(arrays["knots"], arrays["images"])
    return CountModel(arrays["count_shares"], arrays["clip"]) if "count_shares" in arrays else None


class MappedRows(RemoteRows):
    """Rows seen through a transform, which are not stored: each block is transformed when it is summed over."""

    dense = True
    in_order = True

    def __init__(self, rows: Rows, seen: FeatureMap) -> None:
        self.rows, self.seen = rows, seen
        self.shape = (rows.shape[0], rows.shape[1])
        self.dtype = np.dtype(np.float64)

    def total(self, of: Callable[[Rows], Sums]) -> Sums:
        """Σ of(block) over transformed blocks, in the order of the rows."""
        sums: Sums | None = None
        for block in row_blocks(self.rows):
            for dense in dense_parts(block):
                terms = of(self.seen(dense))
                sums = terms if sums is None else tuple(a + b for a, b in zip(sums, terms, strict=True))
        return of(np.zeros((0, self.shape[1]))) if sums is None else sums

    def labelled_total(self, of: Callable[[Rows, Labels], Sums], labels: Labels) -> Sums:
        """Σ of(block, labels of its rows)."""
        at = 0

        def labelled(block: Rows) -> Sums:
            nonlocal at
            start, at = at, at + block.shape[0]
            return of(block, labels[start:at])

        return self.total(labelled)
