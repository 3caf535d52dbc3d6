"""CSV and its relatives, also compressed, as a stream of record batches."""

import codecs
import csv
import io
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.csv as pc

from fedspca.data.arrow import BatchTable, kind_of, nothing_kept, readable
from fedspca.data.cells import wrong_cells
from fedspca.data.columns import shown
from fedspca.data.tables import BLOCK_BYTES
from fedspca.site.errors import InvalidData

if TYPE_CHECKING:
    from fedspca.data.formats import TextOptions

SEPARATORS = ",;\t|"
CALLED = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars", " ": "spaces"}
USUAL = {"csv": ",", "tsv": "\t"}  # what stands between values in files with these endings
HEADER = re.compile(r'(?:[^"\r\n]+|"[^"]*")*(?=[\r\n]|$)')  # up to the first new line that is in no quotes
LINE = re.compile(r"[^\r\n]+")
MARKS = {b"\xef\xbb\xbf": "utf-8", b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16"}
LOOKED_AT = 1 << 20
ROWS_LOOKED_AT = 200
LOOKED_FOR_ZEROS = 1 << 12
DECIMALS = {",": re.compile(r"[-+]?\d+,\d+([eE][-+]?\d+)?"), ".": re.compile(r"[-+]?\d+\.\d+([eE][-+]?\d+)?")}
READ_BYTES = 1 << 20  # a block, once the types are known; Arrow reads dozens of them ahead
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


class Cells(NamedTuple):
    """A whole text file as texts: its lines, each split into values, its decimal sign, and what was detected."""

    lines: list[list[str]]
    decimal: str
    told: tuple[str, ...]


class _Written(NamedTuple):
    """How a text table is written: also how many lines are above its header, and the header.

    ``other_sign`` is a value with the other decimal sign, where the one that was given is in none.
    """

    encoding: str
    separator: str
    decimal: str
    above: int
    header: str
    told: tuple[str, ...]
    other_sign: str | None


def read_cells(path: Path, options: "TextOptions") -> Cells:
    """Read a small text file as it is, for what is no table of rows; its format is found as a table's.

    Parameters
    ----------
    path : Path
        The file.
    options : TextOptions
        How it is written, as far as that is known.
    """
    written = _how_written(path, options)
    with readable(str(path)), _stream(path) as stream:
        content = stream.read()
    try:
        text = content.decode(written.encoding).lstrip("\ufeff\r\n")
    except UnicodeError:
        raise InvalidData(f"{path}: {_not_decoded(written.encoding)}") from None
    try:
        lines = [line for line in csv.reader(io.StringIO(text, newline=""), delimiter=written.separator) if line]
    except csv.Error as error:
        raise InvalidData(f"{path}: it cannot be read as a text table. ({error}.)") from None
    return Cells(lines[written.above :], written.decimal, written.told)


def _how_written(path: Path, options: "TextOptions") -> _Written:
    """Find out how a text table is written, as far as the options do not say it."""
    start = _start(path)
    encoding = options.encoding or _likeliest_encoding(start)
    _refuse_wrong_signs(options)
    header, *lines = _decoded(path, start, encoding)
    named = re.fullmatch(r"sep=(.)\s*", header)  # a line for Excel, above the names of the columns
    if named is not None and lines:
        header, *lines = lines
    separator = options.separator or (named[1] if named else _likeliest_separator(path, header, lines))
    values = _values(lines, separator)
    likeliest = _likeliest_decimal(values, separator)
    decimal = options.decimal or likeliest
    wrong = decimal != likeliest and not any(map(DECIMALS[decimal].fullmatch, values))
    other = next(filter(DECIMALS[likeliest].fullmatch, values), None) if wrong else None
    told = _told(path, options, encoding, separator, decimal)
    return _Written(encoding, separator, decimal, 0 if named is None else 1, header, told, other)


def _stream(path: Path) -> Any:
    return _Unpacked(path) if path.suffix.lower() in COMPRESSED else pa.input_stream(str(path))


class TextTable(BatchTable):
    """A text table with one row of column names.

    Types are found from the first block. After that a column of numbers must hold numbers to the end.
    """

    def __init__(self, path: Path, options: "TextOptions") -> None:
        self._path = path
        written = _how_written(path, options)
        self._encoding, self._separator, self.decimal, self._above, header, self.told, self.other_sign = written
        if header.count(self._separator) >= MOST_COLUMNS:
            raise InvalidData(f"{path}: it has more than {MOST_COLUMNS} columns. Are rows and columns swapped?")
        self._longest_row = 16 * len(header)  # a row must fit into a block
        with nothing_kept(), self._explained(()), self._open(self._beginning(), None) as reader:
            schema = _without_line_ends(reader.schema)
        if len(schema) < len(reader.schema):
            ends = "a separator at the end of each line makes a column without a name and without values"
            self.told += (f"{path.name}: {ends}, which is left out",)
        self._types = {f.name: _reading_type(f.type) for f in schema}
        super().__init__(str(path), schema, self._stream)

    def _stream(self, names: list[str], texts: Sequence[str]) -> Iterator[Any]:
        order = tuple(column.name for column in self.columns)
        types = {name: pa.string() if name in texts else self._types[name] for name in names}
        with self._explained(order), self._open(_stream(self._path), types) as reader:
            yield from reader

    def place_of(self, row: int) -> str:
        """Return the line of the file in which a row of values begins; both count from 1."""
        begins, record = 1, -self._above  # record 0 has the names
        with readable(self.where), _stream(self._path) as stream:
            lines = csv.reader(io.TextIOWrapper(stream, self._encoding, newline=""), delimiter=self._separator)
            for values in lines:
                if values and record == row:
                    return f"line {begins}"
                record += bool(values)  # a line without anything is no row
                begins = lines.line_num + 1
        return f"row {row}"

    def _beginning(self) -> Any:
        """Return the first block, to find types in, and more: what is cut off must not be in that block.

        Arrow's own threads would read dozens of blocks ahead, so the block is read here. It is copied into memory of
        Arrow: those threads may let go of it while the program ends, and giving back memory of Python would then end
        the program by an abort.
        """
        with _stream(self._path) as stream:
            start = stream.read(2 * self._block_size(None))
        if self._encoding != "utf-8":
            start = codecs.getincrementaldecoder(self._encoding)().decode(start).encode()
        copy = pa.BufferOutputStream()
        copy.write(start)
        return pa.BufferReader(copy.getvalue())

    def _block_size(self, types: dict[str, Any] | None) -> int:
        return max(BLOCK_BYTES if types is None else READ_BYTES, self._longest_row)

    def _open(self, stream: Any, types: dict[str, Any] | None) -> Any:
        convert = pc.ConvertOptions(
            column_types=types,
            include_columns=None if types is None else list(types),
            decimal_point=self.decimal,
            strings_can_be_null=True,
        )
        read = pc.ReadOptions(
            block_size=self._block_size(types),
            encoding="utf-8" if types is None else self._encoding,
            use_threads=False,
            skip_rows=self._above,
        )
        return pc.open_csv(stream, read, pc.ParseOptions(delimiter=self._separator), convert)

    @contextmanager
    def _explained(self, order: tuple[str, ...]) -> Iterator[None]:
        try:
            yield
        except (pa.ArrowInvalid, UnicodeError) as error:
            raise InvalidData(f"{self._path}: {self._explain(str(error), order)}") from None

    def _explain(self, message: str, order: tuple[str, ...]) -> str:
        if "UTF8" in message or "codec" in message:
            return _not_decoded(self._encoding)
        if "Empty CSV file" in message:  # a header without an end of line, or empty lines only
            return "there is no row of values below the names of the columns."
        if ragged := re.search(r"Expected (\d+) columns, got (\d+)(?:: (.*))?", message, flags=re.DOTALL):
            expected, got, line = ragged.groups()
            text = f" ({shown(line.strip())})" if line else ""
            hint = (
                " If lines stand above the names of the columns, delete them; if R wrote names of rows, write the "
                "table with row.names = FALSE."
            )
            more = hint if int(got) > int(expected) else ""
            return f"a row has {got} values where the header has {expected}{text}. Correct that row.{more}"
        if wrong := re.search(r"column #(\d+).*error to .*?: (?:invalid value '(.*)')?", message, flags=re.DOTALL):
            name = order[int(wrong[1])]
            if (cell := wrong_cells(self, [name]).get(name)) is not None:
                return cell.in_words(self, name)
            return (
                f"column {shown(name)} begins with numbers and then holds {shown(wrong[2] or '')}. Correct it, or "
                "exclude the column."
            )
        return f"it cannot be read as a text table. ({message.strip().splitlines()[0].rstrip('.')}.)"


def _without_line_ends(schema: Any) -> Any:
    """Return a schema without the last columns that have no name and no value: they are separators at lines' ends."""
    columns = list(schema)
    while columns and not columns[-1].name.strip() and pa.types.is_null(columns[-1].type):
        columns.pop()
    return pa.schema(columns)


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
    zeros = [start[at:LOOKED_FOR_ZEROS:2].count(0) for at in (0, 1)]
    if max(zeros) > len(start[:LOOKED_FOR_ZEROS]) / 4:  # most letters of a table take one of two bytes
        return "utf-16-be" if zeros[0] > zeros[1] else "utf-16-le"
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
    text = text.lstrip("\ufeff\r\n")
    whole = HEADER.match(text)  # None where a quote has no end
    header = whole[0] if whole else text.split("\n", 1)[0]
    return [header, *islice((found[0] for found in LINE.finditer(text, len(header))), ROWS_LOOKED_AT)]


def _refuse_wrong_signs(options: "TextOptions") -> None:
    sign = options.separator
    if sign is not None and (len(sign) != 1 or sign.isalnum() or sign in '"\r\n'):
        raise InvalidData(f"--separator is one sign, such as ';' or ','. Got {sign!r} instead.")
    if options.decimal is not None and options.decimal not in DECIMALS:
        raise InvalidData(f"--decimal is one sign, '.' or ','. Got {options.decimal!r} instead.")


def _values(lines: list[str], separator: str) -> list[str]:
    """Return the values in these lines; none where a value is a megabyte, since the reader says what is wrong."""
    try:
        return [value.strip() for row in csv.reader(lines, delimiter=separator) for value in row]
    except csv.Error:
        return []


def _likeliest_decimal(values: list[str], separator: str) -> str:
    """Return a comma where there are values such as 1,5 and none such as 1.5.

    Between commas such values stand in quotes, and may have a comma for thousands: then one of them must show that it
    is none.
    """
    commas = list(filter(DECIMALS[","].fullmatch, values))
    if separator == "," and all(re.fullmatch(r"[-+]?\d{1,3},\d{3}", value) for value in commas):
        return "."
    return "," if commas and not any(map(DECIMALS["."].fullmatch, values)) else "."


def _told(path: Path, options: "TextOptions", encoding: str, separator: str, decimal: str) -> tuple[str, ...]:
    """Say what was detected in the file, if it is not the usual format."""
    found = []
    if options.separator is None and separator not in USUAL.get(path.name.lower().split(".")[-1], ",\t"):
        found.append(f"{CALLED.get(separator, repr(separator))} between values (--separator)")
    if options.encoding is None and encoding != "utf-8":
        found.append(f"letters in {encoding} (--encoding)")
    if options.decimal is None and decimal != ".":
        found.append("decimal commas (--decimal)")
    return (
        (f"{path.name}: read with {', '.join(found[:-1])}{' and ' if found[1:] else ''}{found[-1]}",) if found else ()
    )


def _not_decoded(encoding: str) -> str:
    return (
        f"it is not text in the encoding {encoding}. Save it as UTF-8, or name its own with --encoding, "
        "for example latin-1 or cp1252."
    )


def _likeliest_separator(path: Path, header: str, lines: list[str]) -> str:
    """Return the sign that is most frequent between names; single spaces, where there is none and rows have as many."""
    outside, *rows = (re.sub(r'"[^"]*"', "", line).strip(" ") for line in (header, *lines))
    if any(sign in outside for sign in SEPARATORS) or " " not in outside:
        return max(SEPARATORS, key=outside.count)
    if "  " in outside and rows and "  " in rows[0]:
        raise InvalidData(
            f"{path}: several spaces stand between values. Save it with one sign between them, a comma or a tab."
        )
    return " " if {row.count(" ") for row in rows} == {outside.count(" ")} else ","
