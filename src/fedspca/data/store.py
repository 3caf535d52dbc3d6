"""Where blocks of rows are gathered: in memory, or in ``.npy`` files that are mapped afterwards."""

from pathlib import Path
from typing import IO, Any, Protocol

import numpy as np
import scipy.sparse as sp
from numpy.typing import DTypeLike, NDArray

from fedspca.linalg.row_blocks import Rows


class Sink(Protocol):
    """Takes blocks of rows one after another, and gives them back as one matrix."""

    def add(self, block: Rows) -> None:
        """Take some rows."""

    def finish(self) -> Rows:
        """Return all rows."""


class MemorySink:
    """Rows gathered in memory."""

    def __init__(self) -> None:
        self._blocks: list[Any] = []

    def add(self, block: Rows) -> None:
        """Take some rows."""
        self._blocks.append(block)

    def finish(self) -> Rows:
        """Return all rows."""
        if isinstance(self._blocks[0], np.ndarray):
            return np.concatenate(self._blocks)
        return sp.csr_array(sp.vstack(self._blocks, format="csr"))


class FileSink:
    """Rows gathered in files: one for dense rows, three for CSR."""

    def __init__(self, stem: Path) -> None:
        self._stem = stem
        self._writers: dict[str, ArrayWriter] = {}
        self._n_columns = 0
        self._stored = 0

    def add(self, block: Rows) -> None:
        """Take some rows."""
        self._n_columns = block.shape[1]
        if isinstance(block, np.ndarray):
            self._writer("rows", block.dtype, (block.shape[1],)).append(block)
            return
        if "indptr" not in self._writers:
            self._writer("indptr", np.int64).append(np.zeros(1, dtype=np.int64))
        self._writer("data", block.data.dtype).append(block.data)
        self._writer("indices", np.int32).append(block.indices)
        self._writer("indptr", np.int64).append(self._stored + block.indptr[1:])
        self._stored += int(block.nnz)

    def _writer(self, part: str, dtype: DTypeLike, shape: tuple[int, ...] = ()) -> "ArrayWriter":
        if part not in self._writers:
            self._writers[part] = ArrayWriter(part_of(self._stem, part), dtype, shape)
        return self._writers[part]

    def finish(self) -> Rows:
        """Return all rows, mapped."""
        for writer in self._writers.values():
            writer.close()
        return mapped_rows(self._stem, self._n_columns)


class ArrayWriter:
    """A ``.npy`` file that grows row by row; its header, with the number of rows, is written again at the end."""

    def __init__(self, path: Path, dtype: DTypeLike, shape: tuple[int, ...]) -> None:
        self._dtype = np.dtype(dtype)
        self._shape = shape
        self._length = 0
        self._file: IO[bytes] = path.open("wb")
        self._write_header()
        self._header_size = self._file.tell()

    def append(self, block: NDArray[Any]) -> None:
        """Write more rows."""
        self._file.write(np.ascontiguousarray(block, dtype=self._dtype).data)
        self._length += len(block)

    def close(self) -> None:
        """Write the number of rows, and close."""
        self._file.seek(0)
        self._write_header()
        if self._file.tell() != self._header_size:
            raise RuntimeError("The header of a .npy file outgrew its room.")
        self._file.close()

    def _write_header(self) -> None:
        header = {
            "descr": np.lib.format.dtype_to_descr(self._dtype),
            "fortran_order": False,
            "shape": (self._length, *self._shape),
        }
        np.lib.format.write_array_header_1_0(self._file, header)


def part_of(stem: Path, part: str) -> Path:
    """Return the path of one of the arrays that rows are stored in."""
    return stem.with_name(f"{stem.name}.{part}.npy")


def mapped_rows(stem: Path, n_columns: int) -> Rows:
    """Map rows that a :class:`FileSink` wrote."""
    if part_of(stem, "rows").exists():
        return _mapped(part_of(stem, "rows"))
    parts = (_mapped(part_of(stem, part)) for part in ("data", "indices", "indptr"))
    data, indices, indptr = parts
    return sp.csr_array((data, indices, indptr), shape=(len(indptr) - 1, n_columns), copy=False)


def _mapped(path: Path) -> NDArray[Any]:
    array: NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False)
    return array
