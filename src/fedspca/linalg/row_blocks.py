"""Rows in blocks, wherever they are: every result is a sum over blocks, in double precision.

Rows are dense or CSR, in memory or in a mapped file, on a cluster, or packed. Blocks are visited in turn, or on the
cluster that stores them.
"""

import mmap
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from functools import partial, wraps
from typing import Any, Concatenate, ParamSpec, TypeAlias, cast

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from fedspca.linalg.beside import Beside

Array = NDArray[np.float64]

Rows: TypeAlias = NDArray[np.floating] | sp.csr_array | sp.csr_matrix
Sums: TypeAlias = tuple[Array, ...]
Labels: TypeAlias = NDArray[np.int16]
P = ParamSpec("P")
BLOCK_BYTES = 2 << 20  # size of a block in double precision, so that it stays in the cache for the next operation
BLOCK_ROWS = 256  # rows of a block in a product: each block updates all of AᵀAx, and fewer rows would not pay for it
COPY_BYTES = 64 << 20  # the largest size of a block that has to be converted


class RemoteRows(ABC):
    """Rows that are no array here: on a cluster, or packed. The function to be summed goes there; sums come back."""

    shape: tuple[int, int]
    dtype: np.dtype[Any]
    dense: bool
    in_order: bool = False  # whether parts are visited one after another, as covariates and weights need it

    @property
    def tallies(self) -> tuple[Array, Array] | None:
        """Where rows hold a few values only: these (k, NaN among them), and how often each feature has each (k × d)."""
        return None

    @abstractmethod
    def total(self, of: Callable[[Rows], Sums]) -> Sums:
        """Σ of(part) over the parts in which the rows are stored."""

    def filled_total(self, of: Callable[[Any], Sums], fill: Array, least: int) -> Sums:
        """Σ of(block) over blocks of the parts, with each missing value replaced by its feature's fill."""
        return self.total(partial(total, of=of, fill=fill, least=least))

    @abstractmethod
    def labelled_total(self, of: Callable[[Rows, Labels], Sums], labels: Labels) -> Sums:
        """Σ of(part, labels of its rows) over the parts, where every row has a label."""


AnyRows: TypeAlias = Rows | RemoteRows


def total(rows: AnyRows, of: Callable[[Any], Sums], fill: Array | None = None, *, least: int = 1) -> Sums:
    """Σ of(block) over blocks of the rows, wherever these are; see :func:`row_blocks` for the blocks."""
    if isinstance(rows, RemoteRows):
        if fill is not None:
            return rows.filled_total(of, fill, least)
        return rows.total(partial(total, of=of, least=least))
    sums: Sums | None = None
    for block in row_blocks(rows, fill, least=least):
        terms = of(block)
        if sums is None:
            sums = terms
        else:
            for whole, term in zip(sums, terms, strict=True):
                np.add(whole, term, out=whole)
    return of(rows) if sums is None else sums  # a part of a table may have no rows


def summed_anywhere(sum_over: Callable[Concatenate[Rows, P], Array]) -> Callable[Concatenate[AnyRows, P], Array]:
    """Extend a sum over local rows to rows stored anywhere: it is computed part by part, where the rows are."""

    @wraps(sum_over)
    def anywhere(rows: AnyRows, *args: P.args, **kwargs: P.kwargs) -> Array:
        if isinstance(rows, RemoteRows):
            return rows.total(lambda part: (sum_over(part, *args, **kwargs),))[0]
        return sum_over(rows, *args, **kwargs)

    return cast(Callable[Concatenate[AnyRows, P], Array], anywhere)  # wraps() declares the type of the wrapped function


def row_blocks(rows: Rows, fill: Array | None = None, *, least: int = 1) -> Iterator[Rows]:
    """Split the rows into consecutive blocks, dense ones in double precision, that fit the cache.

    If ``fill`` is given, it replaces missing values (NaN), feature by feature. A block has at least ``least`` rows,
    even if they do not fit the cache, unless they would have to be copied and are very large.
    """
    n, d = rows.shape
    dense = isinstance(rows, np.ndarray)
    per_row = max(1, 8 * d if isinstance(rows, np.ndarray) else 16 * (rows.nnz // max(n, 1)))
    if dense and (rows.dtype != np.float64 or fill is not None):
        least = min(least, COPY_BYTES // per_row)
    step = max(1, BLOCK_BYTES // per_row, least)
    for start in range(0, n, step):
        block = rows[start : start + step] if step < n else rows
        block = block.astype(np.float64, copy=False)
        yield block if fill is None else filled(block, fill)
        forget_mapped(rows)


def filled(block: Any, fill: Array) -> Any:
    """Return the rows with each missing value replaced by its feature's fill."""
    if isinstance(block, np.ndarray):
        return np.where(np.isnan(block), fill, block)
    values = np.where(np.isnan(block.data), fill[block.indices], block.data)
    return type(block)((values, block.indices, block.indptr), shape=block.shape)


def unmasked(rows: Any) -> Any:
    """Return a masked array with NaN, which is a missing value, where it is masked; anything else as it is."""
    if not isinstance(rows, np.ma.MaskedArray):
        return rows
    return np.ma.filled(rows if rows.dtype.kind == "f" else rows.astype(np.float64), np.nan)


def forget_mapped(rows: Any) -> None:
    """Give back the pages of a mapped file, so that one larger than memory is never resident as a whole.

    This is done for read-only maps only: a private map would lose what was written to it.
    """
    for array in (rows,) if isinstance(rows, np.ndarray) else (rows.data, rows.indices):
        owner: Any = array
        while isinstance(owner, np.ndarray) and not isinstance(owner.base, mmap.mmap):
            owner = owner.base
        if isinstance(owner, np.memmap) and owner.mode == "r" and hasattr(mmap, "MADV_DONTNEED"):  # not on Windows
            mapped: Any = owner.base
            mapped.madvise(mmap.MADV_DONTNEED)


def is_dense(rows: AnyRows) -> bool:
    """Whether the rows are stored with every value, also if they are elsewhere."""
    return rows.dense if isinstance(rows, RemoteRows) else isinstance(rows, np.ndarray)


def dense_parts(block: Any) -> Iterator[Array]:
    """Yield a block of rows as dense arrays, a few rows at a time.

    Many sparse rows would take much memory as dense ones.
    """
    if isinstance(block, np.ndarray):
        yield block
        return
    step = max(1, BLOCK_BYTES // (8 * block.shape[1]))
    for start in range(0, max(block.shape[0], 1), step):
        yield block[start : start + step].toarray()


def dense_parts_beside(block: Any, part: Beside) -> Iterator[tuple[Array, Beside]]:
    """Yield a block of rows as dense arrays, with their covariates and weights."""
    start = 0
    for dense in dense_parts(block):
        stop = start + dense.shape[0]
        yield dense, part.part(start, stop)
        start = stop
