"""A site whose rows are a ``dask.array``: sums over the rows are formed on the cluster."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp

from fedspca.linalg.row_blocks import Labels, RemoteRows, Rows, Sums

FAN_IN = 8  # how many sums one task adds, so the most that a worker holds at a time


def is_dask(x: object) -> bool:
    """Whether this is a Dask array. Dask is not imported for this check."""
    return type(x).__module__.partition(".")[0] == "dask" and hasattr(x, "to_delayed") and hasattr(x, "chunks")


class DaskRows(RemoteRows):
    """Rows of a two-dimensional ``dask.array``, dense or of CSR chunks.

    Chunks are never fetched: the function is sent to the workers, and only a sum of the size of the answer comes
    back. Every question reads the chunks once, so ``persist()`` an array that is costly to load.
    """

    def __init__(self, array: Any) -> None:
        if any(np.isnan(size) for size in array.shape):
            array = array.compute_chunk_sizes()
        if array.ndim == 2 and array.numblocks[1] > 1:
            array = array.rechunk({1: -1})  # a row stays in one piece
        self.array = array
        self.shape = array.shape
        self.ndim = array.ndim
        self.dtype = array.dtype
        self.dense = not sp.issparse(array._meta)

    def astype(self, dtype: Any) -> "DaskRows":
        """Return the same rows in another precision."""
        return DaskRows(self.array.astype(dtype))

    def total(self, of: Callable[[Rows], Sums]) -> Sums:
        """Σ of(chunk), added up by a tree of tasks whose order is fixed: the same bits each time."""
        return self._summed(of, [() for _ in self.array.chunks[0]])

    def labelled_total(self, of: Callable[[Rows, Labels], Sums], labels: Labels) -> Sums:
        """Σ of(chunk, labels of its rows), in the same way."""
        return self._summed(of, [(part,) for part in np.split(labels, np.cumsum(self.array.chunks[0])[:-1])])

    def _summed(self, of: Callable[..., Sums], beside: Sequence[tuple[Labels, ...]]) -> Sums:
        from dask.delayed import delayed

        shared = delayed(partial(_of_chunk, of), pure=False)  # one node of the graph: what it carries is sent once
        add = delayed(_add, pure=False)
        parts = [shared(chunk, *more) for chunk, more in zip(self.array.to_delayed().ravel(), beside, strict=True)]
        while len(parts) > 1:
            parts = [add(parts[first : first + FAN_IN]) for first in range(0, len(parts), FAN_IN)]
        sums: Sums = parts[0].compute()
        return tuple(np.require(array, requirements="W") for array in sums)


def _of_chunk(of: Callable[..., Sums], chunk: Any, *labels: Labels) -> Sums:
    if sp.issparse(chunk):
        rows: Any = chunk
        rows = rows.tocsr()
        if not rows.has_canonical_format:  # an entry stored in several parts would be counted several times
            rows = rows.copy()
            rows.sum_duplicates()
        return of(rows, *labels)
    return of(chunk, *labels)


def _add(parts: list[Sums]) -> Sums:
    return tuple(np.sum(terms, axis=0) for terms in zip(*parts, strict=True))
