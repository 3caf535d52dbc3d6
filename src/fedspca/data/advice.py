"""Columns that are no measurements although they hold numbers: row numbers, identifiers, codes for a missing value.

The same for names that may be a row of values.

The owner is asked about each such column, and no column is dropped: only the owner knows what it holds.
"""

import hashlib
import re
import shlex
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from fedspca.data.columns import is_number, listed, shown
from fedspca.linalg.packed import PackedRows
from fedspca.linalg.row_blocks import Rows, forget_mapped
from fedspca.site.errors import count

Array = NDArray[np.float64]

IN_ORDER = 10  # from so many on, numbers in order are no row of values by chance
LOOKED_AT = 100_000  # rows from the top that are looked at: enough to know a column by,
LOOKED_BYTES = 64 << 20  # if they take no more than this in double precision
FEWEST = 1000  # of very many columns so many rows all the same
DISTINCT = 30  # from this many rows on, whole numbers that are all different look like row identifiers
WHOLE_BY_SIZE = 2.0**53  # from here on every double is a whole number, whatever was measured
BY_THEMSELVES = 3  # columns about which the same is asked; more share a sentence
CODES = frozenset(
    {-9999.0, -999.0, -99.0, -9.0, -1.0, 99.0, 999.0, 9999.0, 99999.0}
)  # what people write for a missing value
NAMED_AS_ID = re.compile(
    r"(unnamed[\s:_.]*\d*|index|row[\s_.-]?(number|no|nr|id|names?)?|(.*[\s_.-])?id|pid|mrn|ssn|"
    r"(patient|subject|sample|record|case|participant)[\s_.-]?(id|no|nr|number|code)?)",
    re.IGNORECASE,
)
NAMED_AS_PLACE = re.compile(r"(post[\s_.-]?(al)?[\s_.-]?code|zip([\s_.-]?code)?|plz)", re.IGNORECASE)


class Oddity(NamedTuple):
    """Why a column may be no measurement: the end of a sentence about it, and of one about each of several columns."""

    one: str
    each: str


@dataclass(frozen=True)
class ColumnFacts:
    """What is seen of one column: of how many rows, how many values, their range, and what looks odd."""

    name: str
    rows: int
    count: int
    least: float
    largest: float
    odd: Oddity | None


def column_facts(names: Sequence[str], rows: Rows | PackedRows) -> Iterator[ColumnFacts]:
    """Look at each column of a site.

    Parameters
    ----------
    names : sequence of str
        The features.
    rows : array, CSR matrix or packed genotypes
        The site's rows; the first are looked at, a hundred thousand at most, or as many genotypes as are decoded at
        once.
    """
    top: Any = next(rows.blocks()) if isinstance(rows, PackedRows) else _top(rows)
    columns = None if isinstance(top, np.ndarray) else top.tocsc()
    for j, name in enumerate(names):
        column = np.asarray(top[:, j] if columns is None else columns[:, [j]].toarray().ravel(), dtype=np.float64)
        values = column[~np.isnan(column)]
        ends = (float(values.min()), float(values.max())) if len(values) else (np.nan, np.nan)
        yield ColumnFacts(name, len(column), len(values), *ends, oddity(name, values))
    if not isinstance(rows, PackedRows):
        forget_mapped(rows)


def _top(rows: Rows) -> Any:
    """Return the first rows, no more than memory has room for beside them."""
    return rows[: min(LOOKED_AT, max(FEWEST, LOOKED_BYTES // (8 * max(rows.shape[1], 1))))]


def oddity(name: str, values: Array) -> Oddity | None:
    """Say why a column may be no measurement; None if nothing speaks for it."""
    finite = values[np.isfinite(values)]
    if len(finite) < 2 or finite.min() == finite.max():
        return None
    if np.all(finite == np.round(finite)) and (said := _whole_numbers(name.strip(), finite)) is not None:
        return Oddity(f"{said} {_leave_out(name)}", f"{said} If so, leave it out with --exclude")
    if (code := missing_code(finite)) is not None:
        n = int(np.sum(finite == code))
        told = "far from all others: does it mean missing? Leave such cells empty"
        return Oddity(f"has the value {code:g} {count(n, 'time')}, {told}", f"has the value {code:g}, {told}")
    return None


def _whole_numbers(name: str, values: Array) -> str | None:
    """Say why a column of whole numbers may be no measurement; None if nothing speaks for it."""
    distinct = len(np.unique(values)) == len(values) and float(np.abs(values).max()) < WHOLE_BY_SIZE
    if distinct and len(values) >= 5 and _monotone(values):
        return "counts the rows: is it a row number?"
    if NAMED_AS_ID.fullmatch(name):
        return "has the name of an identifier."
    if NAMED_AS_PLACE.fullmatch(name):
        return "has the name of a postcode or place, which is not a quantity."
    counted = values.min() >= 0 and np.any(values % 10)  # 5.3e12 is whole as well, and is a measurement
    alike = distinct and counted and len(values) >= DISTINCT
    return "holds whole numbers, no two alike: is it an identifier?" if alike else None


def _leave_out(name: str) -> str:
    """Say which option leaves a column out, so that it can be copied."""
    typed = shlex.quote(f'"{name}"' if not name or "," in name else name)
    return f"If so, leave it out: --exclude {typed}"


def missing_code(values: Array) -> float | None:
    """Return a value that people write where there is none, if it stands far outside the others; else None."""
    for code in {float(values.min()), float(values.max())} & CODES:
        rest = values[values != code]
        if 0 < len(rest) < len(values) and _far_outside(code, rest):
            return code
    return None


def _far_outside(code: float, rest: Array) -> bool:
    """Whether a value lies outside the others by more than their own range, or is the only negative one."""
    low, high = float(rest.min()), float(rest.max())
    gap = max(low - code, code - high)
    lone_negative = code < 0 <= low and code <= -9 and bool(np.any(rest > 0))
    return gap > max(high - low, 0.0) > 0 or (lone_negative and gap > 0.25 * (high - low))


def _monotone(values: Array) -> bool:
    steps = np.diff(values)
    return bool(np.all(steps > 0) or np.all(steps < 0))


def row_hashes(rows: Rows) -> list[bytes]:
    """Return a hash of each row; none if there are few rows or few different values, which are alike by chance."""
    if sp.issparse(rows) or rows.shape[0] < 2:
        return []
    top = np.ascontiguousarray(_top(rows))
    if max(len(np.unique(top[:, j])) for j in range(min(top.shape[1], 50))) * 4 < len(top):
        return []
    hashes = [hashlib.sha256(row.data).digest() for row in top]  # the rows themselves would be a second copy
    forget_mapped(rows)
    return hashes


def told_of_copies(hashes: Mapping[str, Sequence[bytes]]) -> Iterator[str]:
    """Ask about rows that are there twice at one site, and about two sites with most of their rows in common.

    Parameters
    ----------
    hashes : mapping of str to sequence of bytes
        Those of each site's rows.
    """
    first: dict[bytes, str] = {}
    for site, mine in hashes.items():
        different = set(mine)
        if twice := len(mine) - len(different):
            are, were_they = ("is", "was it") if twice == 1 else ("are", "were they")
            rows = f"{count(twice, 'row')} of site {shown(site)}"
            yield f"{rows} {are} there twice, value by value: {were_they} appended again?"
        shared = Counter(first[each] for each in different if each in first)
        for other, same in shared.items():
            if 2 * same >= min(len(different), len(set(hashes[other]))):  # a few rows of two or three values are alike
                are = "is" if same == 1 else "are"
                yield (
                    f"{count(same, 'row')} of site {shown(site)} {are} also at site {shown(other)}, value by value: is "
                    "one table a copy of the other?"
                )
        first |= {each: site for each in different if each not in first}


def numbers_as_names(names: Sequence[str]) -> str | None:
    """Ask whether the first row holds values rather than names: all names are numbers, in no order; None if not.

    Names that rise or fall throughout are taken as names, such as wavelengths, if they are ten or more. So are the
    numbers from 0, which pandas writes where nobody named the columns.

    Parameters
    ----------
    names : sequence of str
        The features.
    """
    if not names or not all(map(is_number, names)) or list(names) == [str(j) for j in range(len(names))]:
        return None
    if len(names) >= IN_ORDER and _monotone(np.array([float(name.replace(",", ".")) for name in names])):
        return None
    return (
        f"The names of all features are numbers ({listed(names, 3, quote=False)}). Does the table lack its first row, "
        "the one with the names? Then its first row of values was taken for names: add a row with the names"
    )


def advice(names: Sequence[str], sites: Sequence[tuple[str, Rows]]) -> list[str]:
    """Ask about every column that may be no measurement, once for all sites, and about rows that are there twice.

    Parameters
    ----------
    names : sequence of str
        The features.
    sites : sequence of (str, rows)
        The sites and their rows.
    """
    asked: dict[tuple[str, Oddity], list[str]] = {}
    for site, rows in sites:
        for facts in column_facts(names, rows):
            if facts.odd is not None:
                asked.setdefault((facts.name, facts.odd), []).append(site)
    alike: dict[tuple[str, tuple[str, ...]], list[tuple[str, str]]] = {}
    for (name, odd), at in asked.items():
        alike.setdefault((odd.each, tuple(at)), []).append((name, odd.one))
    first = numbers_as_names(names)
    return [
        *([] if first is None else [first]),
        *(
            f"{sentence}{_place(at, len(sites))}"
            for (each, at), columns in alike.items()
            for sentence in _about(columns, each)
        ),
        *told_of_copies({site: row_hashes(rows) for site, rows in sites}),
    ]


def _about(columns: Sequence[tuple[str, str]], each: str) -> list[str]:
    """Return a sentence about each column, or one about all of them where they are many."""
    if len(columns) <= BY_THEMSELVES:
        return [f"{shown(name)} {one}" for name, one in columns]
    return [f"Each of {listed(name for name, _ in columns)} {each}"]


def _place(at: Sequence[str], n_sites: int) -> str:
    """Name the first sites at which something is so, unless it is so at all of them."""
    return "" if len(at) == n_sites else f" (at {', '.join(shown(site) for site in at[:3])})"
