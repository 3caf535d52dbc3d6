"""Rows of each site, from a file: in memory where they are few, else from a prepared copy that is mapped."""

import atexit
import hashlib
import json
import os
import secrets
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedspca.data.beside import GatheredColumn, KeptColumns
from fedspca.data.columns import Columns, Feature, listed, shown
from fedspca.data.formats import TextOptions, catalog_of, open_table, suffix_of
from fedspca.data.matrices import MatrixTable
from fedspca.data.plink import PackedTable
from fedspca.data.store import ArrayWriter, FileSink, MemorySink, Sink, mapped_rows, part_of
from fedspca.data.tables import Block, Table, Texts, feature_blocks
from fedspca.data.transforms import transformed
from fedspca.data.urls import is_url
from fedspca.files import new_folder
from fedspca.linalg.packed import PackedRows
from fedspca.linalg.row_blocks import Rows
from fedspca.site.errors import InvalidData

IN_MEMORY = 64 << 20
GROWTH = 8  # in memory, a compressed file takes about this many times its size
MOST_SITES = 1000
CACHE_VERSION = 2


class SiteRows(NamedTuple):
    """One site's rows, over the features asked for."""

    site: str
    rows: Rows | PackedRows
    beside: Mapping[str, NDArray[Any]] = MappingProxyType({})  # columns about rows, by name


def default_cache() -> Path:
    """Return where prepared copies are kept: ``FEDSPCA_CACHE``, or the user's cache folder."""
    if "FEDSPCA_CACHE" in os.environ:
        return Path(os.environ["FEDSPCA_CACHE"])
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "fedspca"


def read_sites(
    source: Any,
    features: Sequence[Feature],
    columns: Columns,
    *,
    name: str,
    options: TextOptions | None = None,
    cache: Path | None = None,
    in_memory: int | None = None,
) -> list[SiteRows]:
    """Read a file, or a DataFrame, as one site, or as one for each value of the site column.

    Parameters
    ----------
    source : path or DataFrame
        The table.
    features : sequence of Feature
        The columns of the matrix, in order.
    columns : Columns
        What other columns are for.
    name : str
        The site's name, where there is no site column.
    options : TextOptions, optional
        How a text table is written.
    cache : Path, optional
        Where the prepared copy of a large file is kept.
    in_memory : int, optional
        Files that need more bytes than this, by default 64 MB, are prepared on disk.
    """
    most = IN_MEMORY if in_memory is None else in_memory
    table = open_table(source, options)
    if isinstance(table, PackedTable) and columns.site is None and not columns.transform:
        return [_genotypes(table, Path(source), features, columns, name=name, cache=cache, most=most)]
    if isinstance(table, MatrixTable) and _usable_as_it_is(table, features, columns):
        return [SiteRows(name, table.matrix)]
    if hasattr(source, "columns") or _size_when_read(source, options, len(features)) <= most:
        sinks = _gather(table, features, columns, name, lambda _: MemorySink())
        return [SiteRows(site, sink.rows.finish(), sink.columns()) for site, sink in sinks.items()]
    folder = (cache or default_cache()) / _key(source, features, columns, options, name)
    if is_url(source):  # its rows may change, so a copy is for this process only
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
    if not (folder / "sites.json").exists():
        _prepare(folder, table, features, columns, name)
    sites = json.loads((folder / "sites.json").read_text(encoding="utf-8"))
    return [
        SiteRows(
            site, mapped_rows(folder / str(number), len(features)), KeptColumns(folder, number, columns.about_rows)
        )
        for number, site in enumerate(sites)
    ]


def _genotypes(
    table: PackedTable,
    path: Path,
    features: Sequence[Feature],
    columns: Columns,
    *,
    name: str,
    cache: Path | None,
    most: int,
) -> SiteRows:
    """Return genotypes at two bits each: in memory where they are few, else from a prepared copy that is mapped."""
    wanted = [feature.column for feature in features]
    beside = table.beside(columns.about_rows)
    if path.stat().st_size <= most:
        return SiteRows(name, table.packed_rows(wanted), beside)
    folder = (cache or default_cache()) / _key(path, features, columns, None, name)
    if not folder.exists():
        with new_folder(folder) as draft:  # made private, since it holds the site's rows
            writer = ArrayWriter(part_of(draft / "0", "rows"), np.uint8, (-(-len(wanted) // 4),))
            for block in table.packed_blocks(wanted):
                writer.append(block)
            writer.close()
            (draft / "sites.json").write_text(json.dumps([name]), encoding="utf-8")
    packed: Any = mapped_rows(folder / "0", len(wanted))
    return SiteRows(name, PackedRows(packed, len(wanted)), beside)


def _prepare(folder: Path, table: Table, features: Sequence[Feature], columns: Columns, name: str) -> None:
    with new_folder(folder) as draft:  # made private, since it holds the site's rows
        sinks = _gather(table, features, columns, name, lambda number: FileSink(draft / str(number)))
        for number, sink in enumerate(sinks.values()):
            sink.rows.finish()
            for about, column in sink.beside.items():
                column.keep(draft, number, about)
        (draft / "sites.json").write_text(json.dumps(list(sinks)), encoding="utf-8")


class _SiteSink:
    """One site's rows, with their covariates and weights."""

    def __init__(self, rows: Sink) -> None:
        self.rows = rows
        self.beside: dict[str, GatheredColumn] = {}

    def add(self, rows: Rows, beside: Mapping[str, NDArray[Any]]) -> None:
        self.rows.add(rows)
        for name, values in beside.items():
            self.beside.setdefault(name, GatheredColumn()).add(values)

    def columns(self) -> dict[str, NDArray[Any]]:
        return {name: column.values() for name, column in self.beside.items()}


def _gather(
    table: Table, features: Sequence[Feature], columns: Columns, name: str, new_sink: Any
) -> Mapping[str, _SiteSink]:
    sinks: dict[str, _SiteSink] = {}
    kinds = {column.name: column for column in table.columns}
    numbers = [about for about in columns.about_rows if kinds[about].measured]
    texts = [about for about in columns.about_rows if about not in numbers]
    read = [*features, *(Feature(about, about, None, kinds[about].dtype) for about in numbers)]
    for block in feature_blocks(table, read, (*texts, *(() if columns.site is None else (columns.site,)))):
        if not block.numbers.shape[0]:
            continue
        rows, beside = _apart(block, len(features), numbers, texts)
        rows = transformed(table.where, rows, columns.transform)
        if columns.site is None:
            if name not in sinks:
                sinks[name] = _SiteSink(new_sink(0))
            sinks[name].add(rows, beside)
            continue
        owners = _owners(table.where, columns.site, block.texts[columns.site])
        for owner in sorted(set(owners)):
            if owner not in sinks:
                sinks[owner] = _SiteSink(new_sink(len(sinks)))
            mine = np.flatnonzero(owners == owner)
            sinks[owner].add(rows[mine], {about: values[mine] for about, values in beside.items()})
        if len(sinks) > MOST_SITES:
            raise InvalidData(
                f"{table.where}: column {shown(columns.site)} names more than {MOST_SITES} sites, such as "
                f"{listed(list(sinks)[:3])}. Is it the right column?"
            )
    if not sinks:
        raise InvalidData(f"{table.where}: the table has a header and no rows.")
    return sinks


def _apart(
    block: Block, width: int, numbers: Sequence[str], texts: Sequence[str]
) -> tuple[Rows, dict[str, NDArray[Any]]]:
    """Return the features of a block, and the columns that stand beside them."""
    whole: Any = block.numbers
    if not numbers:
        return whole, {name: block.texts[name] for name in texts}
    last = whole[:, width:] if isinstance(whole, np.ndarray) else whole[:, width:].toarray()
    beside = {name: np.asarray(last[:, j], dtype=np.float64) for j, name in enumerate(numbers)}
    return whole[:, :width], beside | {name: block.texts[name] for name in texts}


def _owners(where: str, column: str, values: Texts) -> Texts:
    if any(value is None for value in values):
        raise InvalidData(f"{where}: column {shown(column)} must name the site of every row; some rows have no value.")
    return values


def _usable_as_it_is(table: MatrixTable, features: Sequence[Feature], columns: Columns) -> bool:
    """Whether a mapped matrix needs no copy: it has the features in order and nothing else."""
    return (
        columns.site is None
        and not columns.about_rows
        and not columns.transform
        and [feature.column for feature in features] == [column.name for column in table.columns]
        and table.matrix.dtype in (np.float32, np.float64)
        and bool(table.matrix.shape[0] > 0)
    )


def _size_when_read(source: Any, options: TextOptions | None, width: int) -> int:
    if is_url(source):
        from fedspca.data.sql import row_count

        return 8 * width * row_count(source, (options or TextOptions()).query or "")
    path = Path(source)
    size = sum(file.stat().st_size for file in _files(path))
    return size if suffix_of(path) in {".csv", ".tsv", ".txt", ".npy"} else GROWTH * size


def _files(path: Path) -> list[Path]:
    """Return a file, or all files in a folder."""
    return sorted(each for each in path.rglob("*") if each.is_file()) if path.is_dir() else [path]


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _key(source: Any, features: Sequence[Feature], columns: Columns, options: TextOptions | None, name: str) -> str:
    """Return the key of a prepared copy, from the file's bytes and how they were read; a new one for a database."""
    if is_url(source):
        return secrets.token_hex(16)
    catalog = catalog_of(Path(source))  # other labels are other categories
    content = "".join(_digest(file) for file in (*_files(Path(source)), *(() if catalog is None else (catalog,))))
    how = [CACHE_VERSION, content, features, columns.site, asdict(options or TextOptions()), name]
    how += [columns.about_rows] if columns.about_rows else []
    how += [{"transform": columns.transform}] if columns.transform else []
    return hashlib.sha256(json.dumps(how).encode()).hexdigest()[:32]
