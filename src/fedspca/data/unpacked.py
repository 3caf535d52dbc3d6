"""How large a packed file of another program is, before its reader takes memory for all of it.

Workbooks are archives, and a sheet is read as the rectangle up to its last cell: two cells can need 17,000,000,000.
In OpenDocument a cell or row says how often it is repeated. R compresses its files. The readers of both load
everything at once, so the file is first scanned piece by piece. Files of SPSS, Stata and SAS say how large they are.
"""

import bz2
import gzip
import lzma
import re
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

from fedspca.data.text import RATIO, UNPACKED
from fedspca.site.errors import InvalidData

PIECE = 1 << 20
OVERLAP = 64  # a cell's address may stand across two pieces
EMPTY_CELLS = 10_000_000  # a rectangle with more of them is no table,
EMPTY_RATIO = 10  # if they are so many times those that hold something
ADDRESS = re.compile(rb"""\sr\s*=\s*["']([A-Za-z]{0,3})([0-9]{0,7})["']""")
TAG = re.compile(rb"<table:(table-row|table-cell|covered-table-cell|table)(?=[\s/>])([^>]*)>")
REPEATED = re.compile(rb"""table:number-(?:rows|columns)-repeated\s*=\s*["']([0-9]{1,9})["']""")
LONGEST_TAG = 1 << 16
PACKED: dict[bytes, Callable[[Path], Any]] = {b"\x1f\x8b": gzip.open, b"BZh": bz2.open, b"\xfd7zXZ": lzma.open}


def check_workbook(path: Path) -> None:
    """Refuse a workbook that unpacks to far more than a table, or whose sheets are nearly all empty cells.

    A file that is no archive is left to its reader: old workbooks have at most 16,000,000 cells.
    """
    if not zipfile.is_zipfile(path):
        return
    most = max(UNPACKED, RATIO * path.stat().st_size)
    try:
        with zipfile.ZipFile(path) as archive:
            if sum(member.file_size for member in archive.infolist()) > most:
                raise _swollen(path)
            for member in archive.infolist():
                with archive.open(member) as stream:  # to its end: it must be as long as it says
                    (_check_repeats if path.suffix.lower() == ".ods" else _check_cells)(path, stream)
    except (zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError, EOFError) as error:
        raise InvalidData(f"{path}: it cannot be read; it may be damaged, or have a password. ({error}.)") from None


def check_packed(path: Path) -> None:
    """Refuse a file of R that unpacks to far more than a table."""
    with path.open("rb") as file:
        start = file.read(8)
    unpack = next((unpack for mark, unpack in PACKED.items() if start.startswith(mark)), None)
    if unpack is None:
        return
    left = max(UNPACKED, RATIO * path.stat().st_size)
    try:
        with unpack(path) as stream:
            while piece := stream.read(PIECE):
                left -= len(piece)
                if left < 0:
                    raise _swollen(path)
    except (OSError, EOFError, zlib.error, lzma.LZMAError) as error:
        raise InvalidData(f"{path}: it cannot be unpacked; it may be damaged. ({error}.)") from None


def _check_cells(path: Path, stream: IO[bytes]) -> None:
    """Refuse a sheet whose last row and column are far from what it holds."""
    rows = columns = cells = 0
    rest = b""
    while piece := stream.read(PIECE):
        text = rest + piece
        end = 0
        for found in ADDRESS.finditer(text):
            cells, end = cells + 1, found.end()
            rows, columns = max(rows, int(found[2] or 0)), max(columns, _column(found[1]))
        rest = text[max(end, len(text) - OVERLAP) :]
    _check_filled(path, rows, columns, cells)


def _check_repeats(path: Path, stream: IO[bytes]) -> None:
    """Refuse a sheet of OpenDocument in which a few cells are repeated to a huge table, or stand far apart."""
    row = column = times = rows = columns = cells = 0
    rest = b""
    while piece := stream.read(PIECE):
        text = rest + piece
        end = text.rfind(b">") + 1
        rest = text[end:][-LONGEST_TAG:]
        for kind, about in TAG.findall(text[:end]):
            repeated = REPEATED.search(about)
            n = int(repeated[1]) if repeated else 1
            if kind == b"table":
                row = times = 0
            elif kind == b"table-row":
                row, times, column = row + times, n, 0
            else:
                column += n
                if b"value-type" in about:
                    cells, rows, columns = cells + 1, max(rows, row + times), max(columns, column)
    _check_filled(path, rows, columns, cells)


def _check_filled(path: Path, rows: int, columns: int, cells: int) -> None:
    if rows * columns > max(EMPTY_CELLS, EMPTY_RATIO * cells):
        raise InvalidData(
            f"{path}: a sheet has {rows} rows and {columns} columns, and nearly all cells are empty or repeated. "
            "Delete what stands far from the table, or save the table by itself."
        )


def check_declared(path: Path, rows: int | None, columns: int) -> None:
    """Refuse a file of SPSS, Stata or SAS that declares far more values than it can hold."""
    if rows is not None and 8 * rows * columns > max(UNPACKED, RATIO * path.stat().st_size):
        raise InvalidData(
            f"{path}: it declares {rows} rows and {columns} columns, more than {RATIO} times what its size can hold. "
            "If it is a table all the same, save it as a text table."
        )


def _column(letters: bytes) -> int:
    number = 0
    for letter in letters.upper():
        number = 26 * number + letter - ord("A") + 1
    return number


def _swollen(path: Path) -> InvalidData:
    return InvalidData(
        f"{path}: unpacked, it is more than {RATIO} times as large as it is. If it is a table all the same, save it as "
        "a text table."
    )
