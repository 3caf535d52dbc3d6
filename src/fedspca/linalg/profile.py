"""Figures of a site's columns that show no row: mean, spread, and the share of values that are missing."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedspca.linalg.feature_sums import column_sums, deviations_from, missing_counts
from fedspca.linalg.row_blocks import AnyRows

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Profile:
    """Per feature of one site: the mean, the standard deviation, and the share of values that are missing."""

    n_rows: int
    mean: Array
    spread: Array
    missing: Array

    @classmethod
    def of(cls, rows: AnyRows) -> "Profile":
        """Profile rows, block by block."""
        n = rows.shape[0]
        counts = n - missing_counts(rows)
        mean = column_sums(rows, missing=True) / np.maximum(counts, 1)
        squares = deviations_from(rows, mean, missing=True)[1]
        return cls(n, mean, np.sqrt(squares / np.maximum(counts - 1, 1)), 1 - counts / n)

    @classmethod
    def of_sums(cls, counts: Array, mean: Array, spread: Array) -> "Profile":
        """Return the profile of rows of which only figures are known: each feature's count of values, mean and SD."""
        n = max(float(counts.max()), 1.0)
        return cls(round(n), mean, spread, 1 - counts / n)

    @classmethod
    def joint(cls, parts: Sequence["Profile"]) -> "Profile":
        """Return the profile of the rows of several sites together."""
        counts = np.array([part.counts for part in parts])
        n, filled = sum(part.n_rows for part in parts), np.maximum(counts.sum(axis=0), 1)
        mean = sum(part.counts * part.mean for part in parts) / filled
        squares = sum(part.squares + part.counts * (part.mean - mean) ** 2 for part in parts)
        return cls(n, mean, np.sqrt(squares / np.maximum(filled - 1, 1)), 1 - counts.sum(axis=0) / n)

    def without(self, part: "Profile") -> "Profile":
        """Return the profile of the rows that are in this one and not in a part of it."""
        counts = np.maximum(self.counts - part.counts, 1)
        mean = (self.counts * self.mean - part.counts * part.mean) / counts
        apart = counts * (mean - self.mean) ** 2 + part.counts * (part.mean - self.mean) ** 2
        squares = np.maximum(self.squares - part.squares - apart, 0.0)
        n = self.n_rows - part.n_rows
        return Profile(n, mean, np.sqrt(squares / np.maximum(counts - 1, 1)), 1 - counts / max(n, 1))

    @property
    def counts(self) -> Array:
        """Values that are there, feature by feature."""
        return np.asarray(self.n_rows * (1 - self.missing))

    @property
    def squares(self) -> Array:
        """Sums of squares about the mean."""
        return np.asarray(self.spread**2 * np.maximum(self.counts - 1, 0))

    @property
    def constant(self) -> NDArray[np.bool_]:
        """Features that have one value at this site, or none."""
        return np.asarray(self.spread <= 1e-12 * np.abs(self.mean))
