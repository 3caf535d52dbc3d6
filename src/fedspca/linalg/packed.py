"""Genotypes at two bits each, decoded a few rows at a time inside every sum: 100,000 × 100,000 of them take 2.5 GB.

Four genotypes stand in a byte, the first in its lowest bits. Codes are those of a PLINK ``.bed`` file: 0 is two copies
of the counted allele, 2 is one, 3 is none, and 1 is a missing value.
"""

from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedspca.linalg.row_blocks import Labels, RemoteRows, Rows, Sums, forget_mapped, total

Array = NDArray[np.float64]
Bytes = NDArray[np.uint8]

COPIES = np.array([2.0, np.nan, 1.0, 0.0])  # of the counted allele, by code
DECODED_BYTES = 32 << 20  # size of a decoded block of rows
IN_CACHE = 1 << 20  # size of what is decoded and filled in at once
_SHIFTS = np.array([0, 2, 4, 6], dtype=np.uint8)
_CODES = (np.arange(256, dtype=np.uint8)[:, None] >> _SHIFTS) & 3  # the four codes of each byte
_OF_A_BYTE = COPIES[_CODES]
_FOUND = [np.equal(_CODES, code).astype(np.uint8).view(np.uint32).ravel() for code in range(len(COPIES))]
MOST_IN_A_BYTE = 255  # rows that a counter of eight bits can count


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

    def blocks(self, fill: Array | None = None) -> Iterator[Array]:
        """Yield the rows decoded, a few at a time, in one place: a block is gone when the next one is asked for.

        Missing genotypes are NaN, or what ``fill`` has for their feature.
        """
        n, d = self.shape
        step, few = (max(1, size // (8 * d)) for size in (DECODED_BYTES, IN_CACHE))
        room = np.empty((min(step, n), self.packed.shape[1], 4))  # new memory for each block would double the time
        for start in range(0, n, step):
            packed = self.packed[start : start + step]
            here = room[: len(packed)]
            block = here.reshape(len(packed), -1)[:, :d]
            for at in range(0, len(packed), few):
                _decode(packed[at : at + few], here[at : at + few])
                if fill is not None:
                    part = block[at : at + few]
                    np.copyto(part, fill, where=np.isnan(part))
            yield block
            forget_mapped(self.packed)

    def total(self, of: Callable[[Rows], Sums]) -> Sums:
        """Σ of(block) over decoded blocks."""
        return _summed(of(block) for block in self.blocks())

    def filled_total(self, of: Callable[[Any], Sums], fill: Array, least: int) -> Sums:
        """Σ of(block) over decoded blocks, in which missing genotypes are replaced as they are decoded."""
        return _summed(total(block, of, least=least) for block in self.blocks(fill))

    @cached_property
    def tallies(self) -> tuple[Array, Array]:
        """The four values that a genotype has, and how often each variant has them: counted once, without decoding."""
        counts = np.zeros((len(COPIES), 4 * self.packed.shape[1]))
        for start in range(0, len(self.packed), MOST_IN_A_BYTE):
            packed = self.packed[start : start + MOST_IN_A_BYTE]
            for code, found in enumerate(_FOUND):
                four = np.zeros(self.packed.shape[1], dtype=np.uint32)  # counters of four variants in each number
                for row in packed:
                    four += np.take(found, row, mode="clip")
                counts[code] += four.view(np.uint8)
            forget_mapped(self.packed)
        return COPIES, counts[:, : self.shape[1]]

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


def decoded(packed: Bytes, n_features: int) -> Array:
    """Copies of the counted allele, NaN where the genotype is missing."""
    room = np.empty((*packed.shape, 4))
    _decode(packed, room)
    return room.reshape(len(packed), -1)[:, :n_features]


def _decode(packed: Bytes, room: Array) -> None:
    """Write the four numbers of each byte to ``room``. No byte is out of range: "clip" only saves the check."""
    np.take(_OF_A_BYTE, packed, axis=0, out=room, mode="clip")


def codes(packed: Bytes, n: int) -> Bytes:
    """The n codes of each row, one a byte."""
    apart: Any = (packed[:, :, None] >> _SHIFTS) & 3
    return np.asarray(apart.reshape(len(packed), -1)[:, :n])


def pack(apart: Bytes) -> Bytes:
    """Four codes to a byte; what is beyond the last one is zero."""
    n, d = apart.shape
    packed = np.zeros((n, -(-d // 4)), dtype=np.uint8)
    for place, shift in enumerate(_SHIFTS):
        here = apart[:, place::4]
        packed[:, : here.shape[1]] |= here << shift
    return packed


def transposed(packed: Bytes, n: int) -> Bytes:
    """Rows of n codes each become columns: a ``.bed`` file has one line a variant, and a table one a person.

    Four rows are turned at once: their bytes at one place hold sixteen codes, and become four bytes of four columns.
    """
    lines, width = packed.shape
    room = np.zeros((-(-lines // 4) * 4, width), dtype=np.uint8)
    room[:lines] = packed
    four = room.reshape(-1, 4, width)
    turned = np.empty((4 * width, len(four)), dtype=np.uint8)
    for column, shift in enumerate(_SHIFTS):
        turned[column::4] = np.bitwise_or.reduce(((four >> shift) & 3) << _SHIFTS[:, None], axis=1).T
    return turned[:n]
