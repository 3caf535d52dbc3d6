"""Tables of results, written block by block under a temporary name."""

import csv
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from fedspca.data.store import ArrayWriter
from fedspca.data.tables import Texts
from fedspca.files import new_file, spreadsheet_safe

KINDS = (".csv", ".parquet", ".npy")
TEXT_OF: Mapping[type, Callable[[float], str]] = {
    float: repr,
    int: lambda value: str(int(value)),
    bool: lambda value: "true" if value else "false",
}


def check_output(path: Path, *, force: bool, read: Sequence[str | Path] = ()) -> None:
    """Refuse, before anything is computed, a file that cannot or must not be written; never over what is read."""
    if path.suffix.lower() not in KINDS:
        raise ValueError(f"{path}: the name must end in one of {', '.join(KINDS)}.")
    if path.is_dir():
        raise ValueError(f"{path}: it is a directory. Name a file.")
    if path.exists() and any(Path(source).exists() and path.samefile(source) for source in read):
        raise FileExistsError(f"{path}: its rows are read, and would be lost. Choose another name.")
    if path.exists() and not force:
        raise FileExistsError(f"{path}: it is there already. Choose another name, or replace it with --force.")


class TableWriter:
    """Columns of numbers with names, and optionally one that names rows; it appears only when it is whole.

    Parameters
    ----------
    path : Path
        ``.csv``, ``.parquet`` or ``.npy``; the last holds the numbers alone.
    names : list of str
        The columns of numbers.
    id : str, optional
        The column that names rows.
    kinds : mapping of str to type, optional
        Columns that hold counts (``int``) or yes and no (``bool``, written as true and false) rather than numbers.
        A ``.npy`` file has one type for all.
    """

    def __init__(
        self, path: Path, names: list[str], id: str | None, kinds: Mapping[str, type] = MappingProxyType({})
    ) -> None:
        self._path, self._names, self._id = path, names, id
        self._kinds = [kinds.get(name, float) for name in names]
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        draft = self._stack.enter_context(new_file(self._path))
        kind = self._path.suffix.lower()
        if kind == ".csv":
            self._file = self._stack.enter_context(draft.open("w", encoding="utf-8", newline=""))
            self._csv = csv.writer(self._file)
            self._csv.writerow(map(spreadsheet_safe, [*([self._id] if self._id else []), *self._names]))
            self._add: Any = self._add_csv
        elif kind == ".npy":
            self._array = ArrayWriter(draft, np.float64, (len(self._names),))
            self._stack.callback(self._array.close)
            self._add = lambda numbers, _ids: self._array.append(numbers)
        else:
            self._add = self._parquet(draft)
        return self

    def add(self, numbers: NDArray[np.float64], ids: Texts | None) -> None:
        """Write more rows."""
        self._add(numbers, ids)

    def _add_csv(self, numbers: NDArray[np.float64], ids: Texts | None) -> None:
        for j, row in enumerate(numbers.tolist()):
            values = (TEXT_OF[kind](value) for kind, value in zip(self._kinds, row, strict=True))
            self._csv.writerow([*([spreadsheet_safe(str(ids[j]))] if ids is not None else []), *values])

    def _parquet(self, draft: Path) -> Any:
        import pyarrow as pa
        import pyarrow.parquet as pq

        ids = [pa.field(self._id, pa.string())] if self._id else []
        arrow = {float: pa.float64(), int: pa.int64(), bool: pa.bool_()}
        named = zip(self._names, self._kinds, strict=True)
        schema = pa.schema([*ids, *(pa.field(name, arrow[kind]) for name, kind in named)])
        writer = self._stack.enter_context(pq.ParquetWriter(draft, schema))

        def add(numbers: NDArray[np.float64], texts: Texts | None) -> None:
            columns = [pa.array(texts.tolist(), pa.string())] if texts is not None else []
            typed = (values.astype(kind) for kind, values in zip(self._kinds, numbers.T, strict=True))
            writer.write_batch(pa.record_batch([*columns, *map(pa.array, typed)], schema=schema))

        return add

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.__exit__(kind, error, trace)
