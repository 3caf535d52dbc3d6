"""Genotypes at two bits each, decoded a few rows at a time inside every sum: 100,000 × 100,000 of them take 2.5 GB.

Four genotypes stand in a byte, the first in its lowest bits. Codes are those of a PLINK ``.bed`` file: 0 is two copies
of the counted allele, 2 is one, 3 is none, and 1 is a missing value.
"""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedspca.linalg.row_blocks import Labels, RemoteRows, Rows, Sums, forget_mapped

Bytes = NDArray[np.uint8]

COPIES = np.array([2.0, np.nan, 1.0, 0.0])  # of the counted allele, by code
DECODED_BYTES = 32 << 20  # size of a decoded block of rows
_SHIFTS = np.array([0, 2, 4, 6], dtype=np.uint8)
_OF_A_BYTE = COPIES[(np.arange(256, dtype=np.uint8)[:, None] >> _SHIFTS) & 3]


class PackedRows(RemoteRows):
    """Rows of genotypes, packed, in memory or mapped; only sums over decoded blocks are formed.

    Parameters
    ----------
    packed : ndarray of uint8 of shape (n, ceil(d / 4))
        The codes of each row.
    n_features : int
        How many genotypes a row has.
    """

    in_order = True  # blocks are visited one after another, so covariates and weights can go along

    def __init__(self, packed: Bytes, n_features: int) -> None:
        self.packed = packed
        self.shape = (len(packed), n_features)
        self.ndim = 2
        self.dtype = np.dtype(np.float64)
        self.dense = True

    def blocks(self) -> Iterator[NDArray[np.float64]]:
        """Yield the rows decoded, a few at a time."""
        step = max(1, DECODED_BYTES // (8 * self.shape[1]))
        for start in range(0, len(self.packed), step):
            yield decoded(self.packed[start : start + step], self.shape[1])
            forget_mapped(self.packed)

    def total(self, of: Callable[[Rows], Sums]) -> Sums:
        """Σ of(block) over decoded blocks."""
        return _summed(of(block) for block in self.blocks())

    def labelled_total(self, of: Callable[[Rows, Labels], Sums], labels: Labels) -> Sums:
        """Σ of(block, labels of its rows) over decoded blocks."""

        def terms() -> Iterator[Sums]:
            start = 0
            for block in self.blocks():
                yield of(block, labels[start : start + len(block)])
                start += len(block)

        return _summed(terms())


def _summed(terms: Iterator[Sums]) -> Sums:
    sums = next(terms)
    for more in terms:
        for whole, term in zip(sums, more, strict=True):
            np.add(whole, term, out=whole)
    return sums


def decoded(packed: Bytes, n_features: int) -> NDArray[np.float64]:
    """Copies of the counted allele, NaN where the genotype is missing."""
    return np.asarray(_OF_A_BYTE[packed].reshape(len(packed), -1)[:, :n_features])


def codes(packed: Bytes, n: int) -> Bytes:
    """The n codes of each row, one a byte."""
    apart: Any = (packed[:, :, None] >> _SHIFTS) & 3
    return np.asarray(apart.reshape(len(packed), -1)[:, :n])


def pack(apart: Bytes) -> Bytes:
    """Four codes to a byte; what is beyond the last one is zero."""
    n, d = apart.shape
    room = np.zeros((n, -(-d // 4) * 4), dtype=np.uint8)
    room[:, :d] = apart
    four = room.reshape(n, -1, 4)
    return np.asarray(np.bitwise_or.reduce(four << _SHIFTS, axis=2), dtype=np.uint8)


def transposed(packed: Bytes, n: int) -> Bytes:
    """Rows of n codes each become columns: a ``.bed`` file has one line a variant, and a table one a person."""
    return pack(np.ascontiguousarray(codes(packed, n).T))
