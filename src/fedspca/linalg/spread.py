"""Sums and squares of a site's features by one pass over its rows, which shows at once whether all values are numbers.

Squares are about a shift near the mean. Those about any other mean follow from them without a further pass, and no
digits are lost: Σ(x − μ)² = Σ(x − c)² + 2(c − μ)Σ(x − c) + n(c − μ)².
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedspca.linalg.row_blocks import BLOCK_BYTES, forget_mapped

Array = NDArray[np.float64]

ROWS = 64  # rows that are summed in single precision; sums beyond that are in double precision
SINGLE_PAYS = 1 << 22  # with fewer numbers, even rows in single precision are summed in double precision
LOOKED_AT = 512  # rows whose mean is the shift: from all over the table, since rows may be sorted
FEW = 16  # no more than one row in so many is looked at, unless there are hardly any
AT_ONCE = 32  # rows are read before the pages around them are given back
SMALLEST = 1e-25  # smaller sums of squares may have lost squares that single precision cannot hold


@dataclass(frozen=True, eq=False)
class Spread:
    """Σ(x − c) and Σ(x − c)² by feature, over n rows without missing values.

    Attributes
    ----------
    n_rows : int
        The number of rows.
    shift : ndarray of shape (d,)
        What is subtracted from each feature, c.
    sums, squares : ndarray of shape (d,)
        The two sums.
    """

    n_rows: int
    shift: Array
    sums: Array
    squares: Array

    @property
    def totals(self) -> Array:
        """Σx by feature."""
        return self.n_rows * self.shift + self.sums

    def about(self, mean: Array) -> tuple[Array, Array]:
        """Σ(x − μ) and Σ(x − μ)² by feature."""
        apart = self.shift - mean
        return self.sums + self.n_rows * apart, self.squares + apart * (2.0 * self.sums + self.n_rows * apart)


@np.errstate(over="ignore", invalid="ignore")  # NaN and infinity are looked for in the sums
def spread_of(rows: NDArray[np.floating], most: float) -> Spread | None:
    """Return the sums of dense rows; None if a value is missing, infinite or above ``most``, or squares may be lost."""
    n, d = rows.shape
    single = rows.dtype == np.float32 and rows.size >= SINGLE_PAYS
    kind = np.dtype(np.float32 if single else np.float64)
    some = _from_all_over(rows)
    shift = (some[0] + (some - some[0]).mean(axis=0)).astype(kind)  # exactly the value of a constant feature
    step = max(ROWS, BLOCK_BYTES // (8 * d))
    summed = ROWS if single else step
    ones = np.ones(summed, dtype=kind)
    sums, squares, place = np.zeros(d), np.zeros(d), np.empty((min(n, step), d), dtype=kind)
    for start in range(0, n, step):
        block = rows[start : start + step]
        away = np.subtract(block, shift, out=place[: len(block)])
        for at in range(0, len(away), summed):
            part = away[at : at + summed]
            sums += ones[: len(part)] @ part
            part *= part
            squares += ones[: len(part)] @ part
        forget_mapped(rows)
    # a finite sum of squares proves that every value is finite
    good = bool((squares < (0.5 * most) ** 2).all() and (np.abs(shift) < 0.5 * most).all())
    if not good or (single and bool((squares < SMALLEST).any())):
        return None
    return Spread(n, shift.astype(np.float64), sums, squares)


def _from_all_over(rows: NDArray[np.floating]) -> Array:
    """Return some rows, evenly spaced. Of a mapped file each brings many pages along, so they are given back early."""
    stride = max(1, len(rows) // min(LOOKED_AT, max(AT_ONCE, len(rows) // FEW)))
    pieces = []
    for start in range(0, len(rows), stride * AT_ONCE):
        pieces.append(rows[start : start + stride * AT_ONCE : stride].astype(np.float64))
        forget_mapped(rows)
    return np.concatenate(pieces)
