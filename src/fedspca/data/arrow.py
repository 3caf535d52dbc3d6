"""Parquet and Arrow files, and DataFrames, in record batches."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from fedspca.data.columns import Column, Kind
from fedspca.data.tables import Block, Texts, as_texts, rows_a_block
from fedspca.site.errors import InvalidData


class BatchTable:
    """Columns of an Arrow schema, and record batches of those that are asked for."""

    def __init__(self, where: str, schema: Any, batches: Callable[[list[str], Sequence[str]], Iterator[Any]]) -> None:
        self.where = where
        self.columns = tuple(Column(str(f.name), kind_of(f.type), str(f.type)) for f in schema)
        self._batches = batches

    def blocks(self, numbers: Sequence[str], texts: Sequence[str]) -> Iterator[Block]:
        """Go through the rows, with these columns as numbers and those as text."""
        with readable(self.where), nothing_kept():
            for batch in self._batches(list(dict.fromkeys([*numbers, *texts])), texts):
                yield block_of(batch, numbers, texts)


class ParquetTable(BatchTable):
    """A Parquet file."""

    def __init__(self, path: Path) -> None:
        with readable(str(path)):
            schema = pq.read_schema(path)

        def batches(names: list[str], _texts: Sequence[str]) -> Iterator[Any]:
            # pages are read as they are needed; buffering ahead would hold whole row groups
            with pq.ParquetFile(path, pre_buffer=False, buffer_size=1 << 20, page_checksum_verification=True) as file:
                yield from file.iter_batches(rows_a_block(len(names)), columns=names, use_threads=False)

        super().__init__(str(path), schema, batches)


class IpcTable(BatchTable):
    """An Arrow file (Feather 2), mapped into memory."""

    def __init__(self, path: Path) -> None:
        with readable(str(path)), pa.memory_map(str(path)) as source:
            schema = pa.ipc.open_file(source).schema

        def batches(names: list[str], _texts: Sequence[str]) -> Iterator[Any]:
            with pa.memory_map(str(path)) as source:
                file = pa.ipc.open_file(source)
                for number in range(file.num_record_batches):
                    yield from _slices(file.get_batch(number).select(names))

        super().__init__(str(path), schema, batches)


def frame_table(frame: Any) -> BatchTable:
    """Return a pandas or polars DataFrame as a table."""
    with readable("the DataFrame"):
        if hasattr(frame, "to_arrow"):
            table = frame.to_arrow()
        else:
            names = [str(name) for name in frame.columns]
            table = pa.Table.from_pandas(frame.set_axis(names, axis=1), preserve_index=False)

    def batches(names: list[str], _texts: Sequence[str]) -> Iterator[Any]:
        for batch in table.select(names).to_batches():
            yield from _slices(batch)

    return BatchTable("the DataFrame", table.schema, batches)


def _slices(batch: Any) -> Iterator[Any]:
    step = rows_a_block(batch.num_columns)
    for start in range(0, batch.num_rows, step):
        yield batch.slice(start, step)


def kind_of(kind: Any) -> Kind:
    """Say what a column of this Arrow type holds. One without any value yet may be a number."""
    types = pa.types
    if any(test(kind) for test in (types.is_integer, types.is_floating, types.is_boolean, types.is_decimal)):
        return "number"
    if types.is_null(kind):
        return "number"
    if types.is_temporal(kind):
        return "date"
    value = kind.value_type if types.is_dictionary(kind) else kind
    return "text" if types.is_string(value) or types.is_large_string(value) or types.is_string_view(value) else "other"


def block_of(batch: Any, numbers: Sequence[str], texts: Sequence[str]) -> Block:
    """Turn a record batch into a matrix and columns of text; a null is NaN, or None."""
    single = all(batch.schema.field(name).type in (pa.float32(), pa.float16()) for name in numbers)
    target, dtype = (pa.float32(), np.float32) if single and numbers else (pa.float64(), np.float64)
    rows = np.empty((batch.num_rows, len(numbers)), dtype=dtype)
    for j, name in enumerate(numbers):
        rows[:, j] = batch.column(name).cast(target).to_numpy(zero_copy_only=False)
    return Block(rows, {name: _texts(batch.column(name)) for name in texts})


def _texts(column: Any) -> Texts:
    return as_texts(column.to_pylist())


@contextmanager
def nothing_kept() -> Iterator[None]:
    """Give back the memory that Arrow keeps for its next allocations: after a text table it is a hundred megabytes."""
    try:
        yield
    finally:
        pa.default_memory_pool().release_unused()


@contextmanager
def readable(where: str) -> Iterator[None]:
    """Turn what Arrow says of a broken file into one sentence that names the file."""
    try:
        yield
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError, pa.ArrowKeyError) as error:
        first = str(error).strip().splitlines()[0].rstrip(".")
        raise InvalidData(f"{where}: it cannot be read; it may be damaged or cut short. ({first}.)") from None
    except OSError as error:
        first = str(error).strip().splitlines()[0].rstrip(".")
        raise InvalidData(
            f"{where}: it cannot be read; it may be damaged, cut short, or not yours. ({first}.)"
        ) from None
