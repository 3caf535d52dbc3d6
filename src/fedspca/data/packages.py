"""Files of spreadsheets and statistical packages: .xlsx, .xls and .ods; SPSS, Stata and SAS; R.

A column with value labels holds numbers where numbers are asked for, and its labels where a category is.
"""

import datetime
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow.csv import ConvertOptions

from fedspca.data.arrow import BatchTable, frame_table, kind_of
from fedspca.data.columns import LABELLED, Column, Kind, listed, shown
from fedspca.data.formats import catalog_of
from fedspca.data.tables import Block, as_texts, rows_a_block
from fedspca.data.unpacked import check_declared, check_packed, check_workbook
from fedspca.site.errors import InvalidData

NO_VALUE = frozenset(ConvertOptions().null_values)  # empty, NA, NaN, #N/A and the like, as in text tables
LOOKED_AT = 1000  # rows from which the kind of a column is detected
READERS = {
    ".sav": "read_sav",
    ".zsav": "read_sav",
    ".dta": "read_dta",
    ".sas7bdat": "read_sas7bdat",
    ".xpt": "read_xport",
}
# Formats with which SAS shows a count of days or seconds as a date, and which its reader leaves as numbers.
DATES_OF_SAS = re.compile(
    r"(MONYY|MMYY[CDNPS]?|YYMM[CDNPS]?|YYMON|YYQR?[CDNPS]?|QTRR?|YEAR|MONTH|MONNAME|DAY|DOWNAME|WEEKDAY|WEEK[UVW]|JULIAN|JULDAY|"
    r"WORDDAT[EX]|NENGO|MINGUO|HEBDATE|EURDF\w*|NLDAT\w*|DTMONYY|DTWKDATX|DTYEAR|DTYYQC|[BE]8601(DN|DX|DZ|LX)|DATEAMPM)\d*(\.\d*)?",
    re.IGNORECASE,
)


class SheetTable(BatchTable):
    """One sheet of a workbook, with the column names in its first row."""

    def __init__(self, path: Path, sheet: str | None) -> None:
        from python_calamine import CalamineError, CalamineWorkbook

        with _understood(path, (CalamineError, OSError, ValueError)):
            check_workbook(path)
            book = CalamineWorkbook.from_path(path)
            names = list(book.sheet_names)
        if sheet is not None and sheet not in names:
            raise InvalidData(f"{path}: there is no sheet {sheet!r}; there are {listed(names)}. Name one with --sheet.")
        chosen = sheet if sheet is not None else names[0]
        with _understood(path, (CalamineError, OSError, ValueError)):
            sheet_read = book.get_sheet_by_name(chosen)
            rows = sheet_read.to_python()
        above = sheet_read.start[0] if sheet_read.start else 0  # empty rows above the header are left out
        self._chosen = chosen
        self._numbers = [above + at for at, row in enumerate(rows, 1) if _holds_value(row)][1:]
        self.told = () if len(names) == 1 or sheet is not None else (_other_sheets(path, names),)
        table = _sheet(path, rows)

        def batches(wanted: list[str], _texts: Sequence[str]) -> Iterator[Any]:
            yield from table.select(wanted).to_batches(max_chunksize=rows_a_block(max(len(wanted), 1)))

        super().__init__(str(path), table.schema, batches)

    def place_of(self, row: int) -> str:
        """Return the row of the sheet that has a row of values; both count from 1."""
        return f"row {self._numbers[row - 1]} of the sheet {shown(self._chosen)}"


def _holds_value(row: Sequence[Any]) -> bool:
    return any(value not in ("", None) for value in row)


def _other_sheets(path: Path, names: Sequence[str]) -> str:
    others = f"{names[0]!r} is read, and not {listed(names[1:])}"
    return f"{path.name}: it has several sheets; {others}: name another with --sheet"


def _sheet(path: Path, rows: list[list[Any]]) -> Any:
    if not rows:
        raise InvalidData(f"{path}: the sheet is empty.")
    header, *body = rows
    names = [str(name).strip() for name in header]
    body = [row for row in body if _holds_value(row)]
    columns = [[_cell(row[j]) for row in body] for j in range(len(names))]
    used = [j for j, name in enumerate(names) if name or any(value is not None for value in columns[j])]
    if gone := [j + 1 for j in used if not names[j]]:
        raise InvalidData(
            f"{path}: column {gone[0]} of the sheet has no name in the first row. Give it one; if lines stand above "
            "the names of the columns, delete them."
        )
    return pa.Table.from_arrays([_array(columns[j]) for j in used], [names[j] for j in used])


def _cell(value: Any) -> Any:
    """Return the value of a cell; None where it is empty, or holds what programs write for no value."""
    return None if isinstance(value, str) and value.strip() in NO_VALUE else value


def _array(values: list[Any]) -> Any:
    """Return values of one kind as an Arrow array; values of several kinds are texts."""
    if all(value is None or isinstance(value, bool | int | float) for value in values):
        return pa.array([None if value is None else float(value) for value in values], pa.float64())
    if all(value is None or isinstance(value, datetime.datetime | datetime.date) for value in values):
        return pa.array(values)
    return pa.array([None if value is None else str(value) for value in values], pa.string())


class PackageTable:
    """A file of SPSS, Stata or SAS, read in pieces, with its value labels; SAS keeps those in a catalog beside it."""

    def __init__(self, path: Path, encoding: str | None = None) -> None:
        import pyreadstat

        self.where, self._path = str(path), path
        self._of_sas = path.suffix.lower() in {".sas7bdat", ".xpt"}
        reader = getattr(pyreadstat, READERS[path.suffix.lower()])
        self._reader: Callable[..., Any] = partial(reader, str(path), encoding=encoding)
        self._errors = (pyreadstat.ReadstatError, pyreadstat.PyreadstatError, OSError, ValueError)
        with _understood(path, self._errors):
            _, about = self._reader(metadataonly=True)
            check_declared(path, about.number_rows, about.number_columns)
            first = self._reader(row_limit=LOOKED_AT, output_format="dict")[0]
        self._labels: Mapping[str, Mapping[Any, str]] = about.variable_value_labels
        self.told: tuple[str, ...] = ()
        if (catalog := catalog_of(path)) is not None:
            with _understood(catalog, self._errors):
                _, labelled = self._reader(metadataonly=True, catalog_file=str(catalog))
            self._labels = labelled.variable_value_labels
            self.told = (f"{path.name}: value labels are those of {catalog.name}",)
        self.columns = tuple(self._column(name, first[name], about) for name in about.column_names)

    def _column(self, name: str, values: list[Any], about: Any) -> Column:
        kind: Kind = kind_of(_array(values).type)
        if self._of_sas and DATES_OF_SAS.fullmatch(about.original_variable_types[name] or ""):
            kind = "date"
        return Column(name, kind, LABELLED if name in self._labels else kind)

    def blocks(self, numbers: Sequence[str], texts: Sequence[str]) -> Iterator[Block]:
        """Go through the rows, with these columns as numbers and those as text."""
        wanted = list(dict.fromkeys([*numbers, *texts]))
        with _understood(self._path, self._errors):
            for piece in self._pieces(wanted):
                yield self._block(piece, numbers, texts)

    def _pieces(self, wanted: list[str]) -> Iterator[Mapping[str, list[Any]]]:
        about: dict[str, Any] = {"usecols": wanted, "output_format": "dict"}
        if self._path.suffix.lower() == ".xpt":  # its reader cannot read in pieces
            yield self._reader(**about)[0]
            return
        step, start, n = rows_a_block(len(wanted)), 0, -1
        while n in (-1, step):
            piece = self._reader(row_offset=start, row_limit=step, **about)[0]
            n = len(next(iter(piece.values()), ()))
            start += n
            yield piece

    def _block(self, piece: Mapping[str, list[Any]], numbers: Sequence[str], texts: Sequence[str]) -> Block:
        n = len(next(iter(piece.values())))
        rows = np.empty((n, len(numbers)))
        for j, name in enumerate(numbers):
            try:
                rows[:, j] = [np.nan if value is None else value for value in piece[name]]
            except TypeError:
                raise InvalidData(
                    f"{self.where}: column {shown(name)} begins without values and then holds dates. Leave it out with "
                    "--exclude."
                ) from None
        return Block(rows, {name: as_texts(self._texts(name, piece[name])) for name in texts})

    def _texts(self, name: str, values: list[Any]) -> list[Any]:
        labels = self._labels.get(name, {})
        return [None if value is None or value == "" else labels.get(value, _plain(value)) for value in values]


def _plain(value: Any) -> Any:
    return int(value) if isinstance(value, float) and value.is_integer() else value


def r_table(path: Path) -> BatchTable:
    """Return the data frame of an R file; one with several objects is refused."""
    import pyreadr

    with _understood(path, (pyreadr.LibrdataError, pyreadr.PyreadrError, OSError, ValueError)):
        check_packed(path)
        found = pyreadr.read_r(str(path))
    if not found:
        raise InvalidData(
            f"{path}: it holds no data frame that can be read. Save one with saveRDS(as.data.frame(...))."
        )
    if len(found) != 1:
        raise InvalidData(
            f"{path}: it holds {len(found)} objects, and a table is one data frame. Save it with saveRDS()."
        )
    (frame,) = found.values()
    if not hasattr(frame, "columns"):
        raise InvalidData(f"{path}: what it holds is no data frame.")
    table = frame_table(frame)
    table.where = str(path)
    return table


@contextmanager
def _understood(path: Path, errors: tuple[type[Exception], ...]) -> Iterator[None]:
    """Turn what a reader says of a broken file into one sentence that names the file."""
    try:
        yield
    except InvalidData:
        raise
    except errors as error:
        first = (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")
        if "character set" in first or "convert string" in first:
            raise InvalidData(
                f"{path}: its letters cannot be read. ({first}.) Name their encoding with --encoding, for example "
                "utf-8 or cp1252."
            ) from None
        raise InvalidData(
            f"{path}: it cannot be read; it may be damaged, or another kind of file. ({first}.)"
        ) from None
