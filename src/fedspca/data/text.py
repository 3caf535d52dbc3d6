"""CSV and its relatives, also compressed, as a stream of record batches."""

import codecs
import io
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.csv as pc

from fedspca.data.arrow import BatchTable, kind_of, readable
from fedspca.data.columns import shown
from fedspca.data.tables import BLOCK_BYTES
from fedspca.site.errors import InvalidData

if TYPE_CHECKING:
    from fedspca.data.formats import TextOptions

SEPARATORS = ",;\t|"
MARKS = {b"\xef\xbb\xbf": "utf-8", b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16"}
LOOKED_AT = 1 << 20
ROWS_LOOKED_AT = 200
LONGEST_HEADER = 64 << 20
MOST_COLUMNS = 250_000
COMPRESSED = (".gz", ".bz2", ".zst", ".lz4")
UNPACKED = 1 << 30  # any compressed file may unpack to this many bytes
RATIO = 100  # a large one to this many times its size; tables usually shrink to a tenth


class _Unpacked(io.RawIOBase):
    """A compressed file; reading stops if it unpacks to far more than a table would hold."""

    def __init__(self, path: Path) -> None:
        self._path, self._stream = path, pa.input_stream(str(path))
        self._left = max(UNPACKED, RATIO * path.stat().st_size)

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        more = bytes(self._stream.read(size if size >= 0 else self._left + 1))
        self._left -= len(more)
        if self._left < 0:
            raise InvalidData(
                f"{self._path}: unpacked, it is more than {RATIO} times as large as it is. If it is a table all the "
                "same, unpack it yourself and name the unpacked file."
            )
        return more

    def close(self) -> None:
        self._stream.close()
        super().close()


def _stream(path: Path) -> Any:
    return _Unpacked(path) if path.suffix.lower() in COMPRESSED else pa.input_stream(str(path))


class TextTable(BatchTable):
    """A text table with one row of column names.

    Types are found from the first block. After that a column of numbers must hold numbers to the end.
    """

    def __init__(self, path: Path, options: "TextOptions") -> None:
        self._path = path
        start = _start(path)
        self._encoding = options.encoding or _likeliest_encoding(start)
        header, *lines = _decoded(path, start, self._encoding)
        self._separator = options.separator or _likeliest_separator(header)
        self._decimal = options.decimal or _likeliest_decimal(lines, self._separator)
        self.told = _told(path, options, self._encoding, self._decimal)
        if header.count(self._separator) >= MOST_COLUMNS:
            raise InvalidData(f"{path}: it has more than {MOST_COLUMNS} columns. Are rows and columns swapped?")
        # a row must fit into a block
        self._block_size = max(BLOCK_BYTES, 16 * len(header))
        with self._explained(()), self._open(None) as reader:
            schema = reader.schema
        self._types = {f.name: _reading_type(f.type) for f in schema}
        super().__init__(str(path), schema, self._stream)

    def _stream(self, names: list[str], texts: Sequence[str]) -> Iterator[Any]:
        order = tuple(column.name for column in self.columns)
        types = {name: pa.string() if name in texts else self._types[name] for name in names}
        with self._explained(order), self._open(types) as reader:
            yield from reader

    def _open(self, types: dict[str, Any] | None) -> Any:
        convert = pc.ConvertOptions(
            column_types=types,
            include_columns=None if types is None else list(types),
            decimal_point=self._decimal,
            strings_can_be_null=True,
        )
        read = pc.ReadOptions(block_size=self._block_size, encoding=self._encoding, use_threads=False)
        parse = pc.ParseOptions(delimiter=self._separator)
        return pc.open_csv(_stream(self._path), read, parse, convert)

    @contextmanager
    def _explained(self, order: tuple[str, ...]) -> Iterator[None]:
        try:
            yield
        except (pa.ArrowInvalid, UnicodeError) as error:
            raise InvalidData(f"{self._path}: {self._explain(str(error), order)}") from None

    def _explain(self, message: str, order: tuple[str, ...]) -> str:
        if "UTF8" in message or "codec" in message:
            return _not_decoded(self._encoding)
        if ragged := re.search(r"Expected (\d+) columns, got (\d+)(?:: (.*))?", message, flags=re.DOTALL):
            expected, got, line = ragged.groups()
            text = f" ({shown(line.strip())})" if line else ""
            return f"a row has {got} values where the header has {expected}{text}. Correct that row."
        if wrong := re.search(r"column #(\d+).*error to .*?: (?:invalid value '(.*)')?", message, flags=re.DOTALL):
            name = order[int(wrong[1])] if int(wrong[1]) < len(order) else f"no. {wrong[1]}"
            comma = wrong[2] and self._decimal == "." and re.fullmatch(r"-?\d+,\d+", wrong[2].strip())
            hint = (
                "If the comma is a decimal sign, pass --decimal ','." if comma else "Correct it, or exclude the column."
            )
            return f"column {shown(name)} begins with numbers and then holds {shown(wrong[2] or '')}. {hint}"
        return f"it cannot be read as a text table. ({message.strip().splitlines()[0].rstrip('.')}.)"


def _reading_type(found: Any) -> Any:
    """Return the type to read a column as: any number as a double, so that 1 and later 1.5 are one column."""
    if kind_of(found) == "number" and not pa.types.is_boolean(found):
        return pa.float64()
    return found if pa.types.is_boolean(found) else pa.string()


def _start(path: Path) -> bytes:
    """Return the beginning of a file: its header, and some rows."""
    with readable(str(path)), _stream(path) as stream:
        start = b""
        while (b"\n" not in start and len(start) < LONGEST_HEADER) or not start:
            more = stream.read(LOOKED_AT)
            if not more:
                break
            start += more
    return start


def _likeliest_encoding(start: bytes) -> str:
    """Return what the first bytes say, UTF-8 where they are that, and else the usual one of Windows."""
    for mark, encoding in MARKS.items():
        if start.startswith(mark):
            return encoding
    try:
        codecs.getincrementaldecoder("utf-8")().decode(start)  # a letter that is cut at the end is no error
    except UnicodeError:
        return "cp1252"
    return "utf-8"


def _decoded(path: Path, start: bytes, encoding: str) -> list[str]:
    """Return the header and the lines after it that are whole."""
    try:
        text = codecs.getincrementaldecoder(encoding)().decode(start)
    except UnicodeError:
        raise InvalidData(f"{path}: {_not_decoded(encoding)}") from None
    except LookupError:
        raise InvalidData(f"There is no encoding called {encoding!r}. Try 'latin-1' or 'cp1252'.") from None
    return text.split("\n")[:ROWS_LOOKED_AT]


def _likeliest_decimal(lines: list[str], separator: str) -> str:
    """Return a comma where values such as 1,5 stand between other signs, and none such as 1.5."""
    if separator == ",":
        return "."
    values = [value.strip().strip('"') for line in lines for value in line.split(separator)]
    commas = any(re.fullmatch(r"[-+]?\d+,\d+([eE][-+]?\d+)?", value) for value in values)
    points = any(re.fullmatch(r"[-+]?\d+\.\d+([eE][-+]?\d+)?", value) for value in values)
    return "," if commas and not points else "."


def _told(path: Path, options: "TextOptions", encoding: str, decimal: str) -> tuple[str, ...]:
    """Say what was detected in the file, if it is not the usual format."""
    found = []
    if options.encoding is None and encoding != "utf-8":
        found.append(f"letters in {encoding} (--encoding)")
    if options.decimal is None and decimal != ".":
        found.append("decimal commas (--decimal)")
    return (f"{path.name}: read with {' and '.join(found)}",) if found else ()


def _not_decoded(encoding: str) -> str:
    return (
        f"it is not text in the encoding {encoding}. Save it as UTF-8, or name its own with --encoding, "
        "for example latin-1 or cp1252."
    )


def _likeliest_separator(header: str) -> str:
    outside = re.sub(r'"[^"]*"', "", header)
    return max(SEPARATORS, key=outside.count)
