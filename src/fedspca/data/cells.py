"""Cells that keep a column from being one of numbers, and where in the file they are."""

import re
from collections.abc import Sequence
from typing import NamedTuple

from fedspca.data.columns import listed, shown
from fedspca.data.tables import Table

LOOKED_AT = 5  # columns: no more of them are named in an error


class WrongCell(NamedTuple):
    """A column of so many values, of which some are numbers; the first value that is none, and its row from 1 on."""

    values: int
    numbers: int
    first: str
    row: int

    def in_words(self, table: Table, column: str) -> str:
        """Say which cell to correct."""
        decimal = _decimal_of(table)
        comma = decimal == "." and re.fullmatch(r"-?\d+,\d+", self.first.strip())
        return (
            f"column {shown(column)}: {self.numbers:,} of {self.values:,} values are numbers; the first that is not is "
            f"{shown(self.first)} in {place_of(table, self.row)}. "
            + (
                "If the comma is a decimal sign, pass --decimal ','."
                if comma
                else "Correct it, or leave the cell empty."
            )
        )


def wrong_cells(table: Table, columns: Sequence[str]) -> dict[str, WrongCell]:
    """Return the first wrong cell of each column in which most values are numbers and some are not.

    Parameters
    ----------
    table : Table
        The table; it is read once.
    columns : sequence of str
        Columns that hold text; the first few are looked at.
    """
    columns, decimal = list(columns)[:LOOKED_AT], _decimal_of(table)
    values, numbers = dict.fromkeys(columns, 0), dict.fromkeys(columns, 0)
    first: dict[str, tuple[str, int]] = {}
    above = 0
    for block in table.blocks((), columns):
        for name in columns:
            for row, text in enumerate(block.texts[name], above + 1):
                if text is None:
                    continue
                values[name] += 1
                if _is_number(text, decimal):
                    numbers[name] += 1
                else:
                    first.setdefault(name, (text, row))
        above += block.numbers.shape[0]
    return {
        name: WrongCell(values[name], numbers[name], *first[name])
        for name in columns
        if name in first and 2 * numbers[name] > values[name]
    }


def _is_number(text: str, decimal: str) -> bool:
    try:
        float(text if decimal == "." else text.replace(decimal, "."))
    except ValueError:
        return False
    return "_" not in text  # Python reads 1_000 as a number


def told_of_cells(table: Table, columns: Sequence[str]) -> dict[str, str]:
    """Say of each such column which cell to correct; for :func:`~fedspca.data.columns.choose`."""
    if (other := getattr(table, "other_sign", None)) is not None:
        sign, name = (",", "point") if _decimal_of(table) == "," else (".", "comma")
        told = (
            f"{listed(columns)} cannot be read as numbers: --decimal is {sign!r}, and values such as {shown(other)} "
            f"have a decimal {name}. Correct --decimal, or leave it out."
        )
        return dict.fromkeys(columns, told)
    return {name: cell.in_words(table, name) for name, cell in wrong_cells(table, columns).items()}


def _decimal_of(table: Table) -> str:
    """Return the decimal sign of a table; one that is no text has a point."""
    return str(getattr(table, "decimal", "."))


def place_of(table: Table, row: int) -> str:
    """Say where a row of values is: the line of a text file, the row of a sheet, else its number from 1 on."""
    place = getattr(table, "place_of", None)
    return f"row {row}" if place is None else str(place(row))
