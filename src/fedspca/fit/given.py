"""A covariance in a file, in place of rows: the matrix, the features' names, and the settings that go with it."""

import re
from collections.abc import Sequence
from dataclasses import MISSING, Field, fields
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedspca.data.columns import Column, choose, listed, shown
from fedspca.data.formats import open_cells
from fedspca.federation.covariance import CovarianceFederation
from fedspca.fit.inputs import idle_renames
from fedspca.fit.settings import FitSettings
from fedspca.fit.solvers import as_option
from fedspca.site.errors import InvalidData

Array = NDArray[np.float64]

# settings that have a meaning for a covariance, of the sections whose other settings are for tables of rows
TAKEN = frozenset(
    {
        "covariance",
        "covariance_rows",
        "encoding",
        "separator",
        "decimal",
        "features",
        "exclude",
        "rename",
        "max_features",
    }
)
OF_ROWS = ("data", "columns", "adjust", "policy")
ALSO_OF_ROWS = ("max_missing",)  # of another section
NUMBERS = re.compile(r"\s*[-+.]?\d[-+.,;|\s\deE]*")
NOTHING = frozenset({"", "na", "n/a", "nan", "null", "#n/a", "none", "."})  # what stands where there is no value


class Given(NamedTuple):
    """A covariance as a federation, with remarks on how its file was read."""

    federation: CovarianceFederation
    told: tuple[str, ...]


def check_settings(settings: FitSettings) -> None:
    """Refuse settings that a fit to a covariance would ignore.

    Parameters
    ----------
    settings : FitSettings
        Every setting.
    """
    if settings.files:
        raise ValueError("Give either tables or --covariance, not both.")
    if settings.solver != "exact":
        raise ValueError(f"The solver {settings.solver!r} needs rows; a covariance is for --solver exact.")
    if settings.covariance_rows is not None and settings.covariance_rows < 2:
        raise ValueError(f"--covariance-rows must be at least 2. Got {settings.covariance_rows} instead.")
    ignored = [about for about in fields(settings) if _ignored(about, settings)]
    if ignored:
        names = ", ".join(as_option(about.name) for about in ignored)
        what = f"{names} {'needs' if len(ignored) == 1 else 'need'} rows, and there is only a covariance"
        adjusting = any(about.metadata["section"] == "adjust" for about in ignored)
        more = " Adjust the rows before you form it." if adjusting else ""
        raise ValueError(f"{what}: leave {'it' if len(ignored) == 1 else 'them'} out.{more}")


def _ignored(about: Field[Any], settings: FitSettings) -> bool:
    if about.name not in ALSO_OF_ROWS and (about.name in TAKEN or about.metadata["section"] not in OF_ROWS):
        return False
    usual = about.default if about.default_factory is MISSING else about.default_factory()
    value = getattr(settings, about.name)
    return bool(value != usual and value not in ([], ()))


def read_covariance(path: Path, settings: FitSettings) -> Given:
    """Read a square table, with the features' names in its first row and, if it has them, in its first column.

    Parameters
    ----------
    path : Path
        The file: a text table, whose signs and encoding are found as a table's.
    settings : FitSettings
        How text tables are written, which features to take, and how many rows the covariance is of.
    """
    cells = open_cells(path, settings.text_options())
    names, lines = _square(path, cells.lines)
    columns = [Column(name, "number", "double") for name in names]
    features = choose(str(path), columns, settings.columns())
    at = {name: j for j, name in enumerate(names)}
    matrix = _numbers(path, names, lines, [at[feature.column] for feature in features], cells.decimal)
    try:
        federation = CovarianceFederation(matrix, settings.covariance_rows, [feature.name for feature in features])
    except InvalidData as error:
        raise InvalidData(f"{path}: {error}") from None
    return Given(federation, (*cells.told, *idle_renames(settings, {str(path): features})))


def _square(path: Path, cells: Sequence[list[str]]) -> tuple[list[str], list[list[str]]]:
    """Return the features' names, and as many lines of as many values, or say why the table is no such."""
    if len(cells) < 2:
        raise InvalidData(f"{path}: there is no matrix in this file.")
    names, lines = list(cells[0]), list(cells[1:])
    if len(names) == len(lines) + 1:  # the first column may have names, as the first row has
        if all(map(_is_number, names)):  # a symmetric matrix without names looks just so
            raise InvalidData(_without_names(path, names))
        counted = names[0].strip() and all(_is_number(line[0]) for line in lines)  # no names of rows, but a column
        names = names if counted and not _is_number(names[1]) else names[1:]
    d = len(lines)
    if len(names) != d:
        if len(names) > 1 and all(map(_is_number, names[1:])):
            raise InvalidData(_without_names(path, names[1:]))
        raise InvalidData(
            f"{path}: a covariance is square. The number of names in the first row is {len(names)}, and the number of "
            f"rows below it is {d}. If lines stand above the names, delete them."
        )
    widths = [len(line) for line in lines]
    triangles = [list(range(1, d + 1)), list(range(d, 0, -1))]
    if [line[0] for line in lines] == names:
        triangles.append(list(range(2, d + 2)))
    if widths in triangles and d > 1:
        raise InvalidData(_one_triangle(path))
    apart = [line[0] for line in lines] if widths[0] == d + 1 else []
    for number, (line, name) in enumerate(zip(lines, names, strict=True), 1):
        if len(line) != d + bool(apart):
            has = len(line) - bool(apart)
            raise InvalidData(
                f"{path}: row {number} of the matrix ({shown(name)}) has {has} values where there are {d} features. "
                "Correct that row."
            )
    if apart and apart != names:
        j = next(j for j in range(d) if apart[j] != names[j])
        raise InvalidData(
            f"{path}: the names in the first column are not those of the first row, in the same order: row {j + 1} is "
            f"called {shown(apart[j])} and column {j + 1} {shown(names[j])}. Put both in one order."
        )
    return names, [line[1:] for line in lines] if apart else lines


def _is_number(text: str) -> bool:
    """Whether a text is a number, or several with signs between them that were not found."""
    return NUMBERS.fullmatch(text) is not None


def _without_names(path: Path, found: Sequence[str]) -> str:
    return (
        f"{path}: the first row must have the features' names, and it has numbers ({listed(found, 3, quote=False)}). "
        "Write a row with the names above the matrix. If the names are numbers, write them in the first column too, "
        "below an empty field."
    )


def _one_triangle(path: Path) -> str:
    return f"{path}: only one triangle of the matrix is filled. Fill in the other one: the matrix is symmetric."


def _numbers(
    path: Path, names: Sequence[str], lines: Sequence[Sequence[str]], kept: Sequence[int], decimal: str
) -> Array:
    """Return the values of some features as numbers, or name the first one that is none."""
    matrix = np.array([[_number(path, lines[i][j], decimal, (i, j), names) for j in kept] for i in kept])
    gone = np.isnan(matrix)
    if not gone.any():
        return matrix
    upper = np.triu(np.ones(gone.shape, dtype=bool), 1)
    if len(kept) > 1 and any(np.array_equal(gone, side) for side in (upper, upper.T)):
        raise InvalidData(_one_triangle(path))
    i, j = (kept[k] for k in np.argwhere(gone)[0])
    raise InvalidData(
        f"{path}: there is no value {_place(names, i, j)} (NaN or empty), and {int(gone.sum())} of {gone.size} values "
        "are missing. Compute them, or leave these features out with --exclude."
    )


def _number(path: Path, text: str, decimal: str, at: tuple[int, int], names: Sequence[str]) -> float:
    try:
        return float(text if decimal == "." else text.replace(decimal, "."))
    except ValueError:
        text = text.strip()
        if text.lower() in NOTHING:
            return float("nan")
    comma = decimal == "." and re.fullmatch(r"[-+]?\d+,\d+", text)
    hint = " If the comma is a decimal sign, pass --decimal ','." if comma else " Correct it."
    raise InvalidData(f"{path}: {shown(text)} {_place(names, *at)} is no number.{hint}")


def _place(names: Sequence[str], i: int, j: int) -> str:
    return f"in row {i + 1} ({shown(names[i])}), column {j + 1} ({shown(names[j])})"
