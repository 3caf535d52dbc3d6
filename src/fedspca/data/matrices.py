"""Files that hold a matrix: ``.npy``, ``.npz`` (CSR), and AnnData as ``.h5ad`` or ``.zarr``."""

import zipfile
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from fedspca.data.columns import Column
from fedspca.data.tables import Block, as_texts, rows_a_block
from fedspca.linalg.row_blocks import Rows, forget_mapped
from fedspca.site.errors import InvalidData


class MatrixTable:
    """A matrix with named columns, in memory or mapped."""

    def __init__(
        self, where: str, matrix: Any, names: Sequence[str] | None = None, *, fixed_layout: bool = False
    ) -> None:
        if matrix.ndim != 2:
            raise InvalidData(f"{where}: expected a table of rows and columns, got {matrix.ndim} dimension(s).")
        if matrix.dtype.kind not in "fiub":
            raise InvalidData(f"{where}: expected real numbers, got values of type {matrix.dtype}.")
        self.where = where
        self.fixed_layout = fixed_layout  # whether rows and columns cannot be mistaken for each other
        self.matrix = matrix
        names = names if names is not None else [f"x{j}" for j in range(matrix.shape[1])]
        self.columns = tuple(Column(str(name), "number", str(matrix.dtype)) for name in names)

    def blocks(self, numbers: Sequence[str], texts: Sequence[str]) -> Iterator[Block]:
        """Go through the rows, with these columns as numbers and those as text."""
        at = {column.name: j for j, column in enumerate(self.columns)}
        wanted = [at[name] for name in numbers]
        step = rows_a_block(len(self.columns))
        for start in range(0, self.matrix.shape[0], step):
            block = self.matrix[start : start + step]
            beside = {name: as_texts(_dense_column(block, at[name])) for name in texts}
            yield Block(_floating(_selected(block, wanted)), beside)
            forget_mapped(self.matrix)


def numpy_table(path: Path) -> MatrixTable:
    """Return a ``.npy`` file, mapped, or a CSR matrix that scipy saved, as a table."""
    try:
        if path.suffix.lower() == ".npy":
            return MatrixTable(str(path), np.load(path, mmap_mode="r", allow_pickle=False))
        with np.load(path, allow_pickle=False) as arrays:
            names = arrays["feature_names"].tolist() if "feature_names" in arrays else None
        return MatrixTable(str(path), sp.csr_array(sp.load_npz(path)), names)
    except InvalidData:
        raise
    except (ValueError, OSError, EOFError, KeyError, zipfile.BadZipFile) as error:
        first = str(error).strip().splitlines()[0].rstrip(".") if str(error).strip() else type(error).__name__
        raise InvalidData(
            f"{path}: it is not a matrix that numpy (.npy) or scipy.sparse.save_npz (.npz) wrote, or it is damaged. "
            f"({first}.)"
        ) from None


OLD = (
    "it was written by an anndata older than 0.7, in a layout that is no longer in use. Write it again: "
    'anndata.read_h5ad("old.h5ad").write_h5ad("new.h5ad").'
)
CATEGORIES = "__categories"  # where anndata 0.7 kept the categories of all columns


class AnnDataTable:
    """An AnnData file or folder: X by rows (dense or CSR), features named by ``var``, other columns from ``obs``."""

    def __init__(self, path: Path) -> None:
        self.where = str(path)
        self._path = path
        with self._open() as file:
            if (problem := _layout_problem(file)) is not None:
                raise InvalidData(f"{path}: {problem}")
            try:
                names = _index(file["var"])
                self._sparse = not hasattr(file["X"], "shape")
                kind = file["X"].attrs.get("encoding-type", "array")
                self._n_rows = len(_index(file["obs"]))
                dtype = (file["X"]["data"] if self._sparse else file["X"]).dtype
                apart = {file["obs"].attrs["_index"], CATEGORIES}
                beside = sorted(str(name) for name in file["obs"] if name not in apart)
            except (KeyError, AttributeError, TypeError):
                raise InvalidData(
                    f"{path}: its X, obs or var is not as anndata writes it: it is not AnnData, or it is damaged."
                ) from None
        if self._sparse and kind != "csr_matrix":
            raise InvalidData(f"{path}: X is stored as {kind}. Store it by rows: adata.X = adata.X.tocsr().")
        self._n_features = len(names)
        self.columns = (
            *(Column(str(name), "number", str(dtype)) for name in names),
            *(Column(name, "beside", "obs") for name in beside if name not in set(names)),
        )

    def _open(self) -> AbstractContextManager[Any]:
        """Open the groups: HDF5, or a folder of Zarr, which has the same layout."""
        return _zarr(self._path) if self._path.is_dir() else _hdf5(self._path)

    def blocks(self, numbers: Sequence[str], texts: Sequence[str]) -> Iterator[Block]:
        """Go through the rows, with these columns as numbers and those as text."""
        at = {column.name: j for j, column in enumerate(self.columns[: self._n_features])}
        wanted = [at[name] for name in numbers]
        with self._open() as file:
            beside = {name: as_texts(_obs_column(file["obs"][name])) for name in texts}
            step = rows_a_block(self._n_features)
            for start in range(0, self._n_rows, step):
                stop = min(start + step, self._n_rows)
                block = _csr_rows(file["X"], start, stop, self._n_features) if self._sparse else file["X"][start:stop]
                texts_here = {name: values[start:stop] for name, values in beside.items()}
                yield Block(_floating(_selected(block, wanted)), texts_here)


def _layout_problem(file: Any) -> str | None:
    """Return why a file has no table of rows and features, or None."""
    if missing := [name for name in ("X", "obs", "var") if name not in file]:
        return f"it lacks {' and '.join(missing)}, so it is not an AnnData file with a matrix."
    return OLD if any(getattr(file[name], "dtype", None) is not None for name in ("obs", "var")) else None


@contextmanager
def _hdf5(path: Path) -> Iterator[Any]:
    import h5py

    try:
        file = h5py.File(path, "r")
    except OSError as error:
        first = str(error).strip().splitlines()[0].rstrip(".")
        raise InvalidData(f"{path}: it is not an HDF5 file, or it is damaged. ({first}.)") from None
    with file:
        yield file


@contextmanager
def _zarr(path: Path) -> Iterator[Any]:
    import zarr

    try:
        group = zarr.open_group(str(path), mode="r")
    except (FileNotFoundError, ValueError, KeyError, TypeError) as error:
        kind = type(error).__name__
        raise InvalidData(f"{path}: it is not AnnData in Zarr, or it is damaged. ({kind}.)") from None
    yield group


def _index(group: Any) -> list[str]:
    return [str(name) for name in _strings(group[group.attrs["_index"]])]


def _strings(column: Any) -> Any:
    """Return a column of texts; HDF5 has them as bytes."""
    return column.asstr()[:] if hasattr(column, "asstr") else column[:]


def _obs_column(column: Any) -> Any:
    """Return the values of a column as anndata keeps it: plain, with a mask of missing values, or as categories."""
    if hasattr(column, "shape"):
        if "categories" not in column.attrs:
            return _values(column).tolist()
        names, codes = _values(column.file[column.attrs["categories"]]), column[:]
    elif "mask" in column:
        pairs = zip(_values(column["values"]).tolist(), column["mask"][:], strict=True)
        return [None if missing else value for value, missing in pairs]
    else:
        names, codes = _values(column["categories"]), column["codes"][:]
    return [None if code < 0 else names[code] for code in codes]


def _values(column: Any) -> Any:
    return _strings(column) if column.dtype.kind in "OSTU" else column[:]


def _csr_rows(group: Any, start: int, stop: int, n_features: int) -> sp.csr_array:
    bounds = group["indptr"][start : stop + 1]
    inside = slice(int(bounds[0]), int(bounds[-1]))
    parts = (group["data"][inside], group["indices"][inside], bounds - bounds[0])
    return sp.csr_array(parts, shape=(stop - start, n_features))


def _selected(block: Any, wanted: list[int]) -> Any:
    return block if wanted == list(range(block.shape[1])) else block[:, wanted]


def _floating(block: Any) -> Rows:
    kind: Any = block.dtype if block.dtype in (np.float32, np.float64) else np.float64
    floating: Rows = block.astype(kind, copy=False)
    return floating


def _dense_column(block: Any, j: int) -> NDArray[Any]:
    column: Any = block[:, [j]]
    return np.asarray(column.toarray() if hasattr(column, "toarray") else column).ravel()
