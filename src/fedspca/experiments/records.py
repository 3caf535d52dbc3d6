"""Select and summarise records for the figures and the page."""

from collections.abc import Iterable, Sequence
from typing import Any

from fedspca.experiments.runner import Record

SETTINGS = {"paper": "paper's settings", "ours": "our defaults"}


def figure(name: str, caption: str) -> str:
    """Show a figure with its caption."""
    return f"![{caption}](reproduction/{name}.svg)\n\n*{caption}*"


def select(records: Iterable[Record], **wanted: Any) -> list[Record]:
    """Select the records that have all these values."""
    return [record for record in records if all(record.get(name) == value for name, value in wanted.items())]


def values_of(records: Iterable[Record], name: str) -> list[Any]:
    """The distinct values under a key, in the order of their first appearance."""
    return list(dict.fromkeys(record[name] for record in records))


def column(records: Iterable[Record], name: str) -> list[Any]:
    """One value of each record."""
    return [record[name] for record in records]


def spread(values: Sequence[float], form: str = ".4f") -> str:
    """The mean, with the smallest and the largest value if they differ.

    Examples
    --------
    >>> spread([1.0, 2.0, 6.0], ".1f")
    '3.0 (1.0 to 6.0)'
    >>> spread([2.0], ".1f")
    '2.0'
    """
    if not values:
        return "–"
    mean, low, high = (f"{x:{form}}" for x in (sum(values) / len(values), min(values), max(values)))
    return mean if low == high else f"{mean} ({low} to {high})"


def n_rounds(count: int) -> str:
    """Say how many rounds."""
    return f"{count} round" if count == 1 else f"{count} rounds"


def converged(records: Sequence[Record]) -> str:
    """How many of the runs converged, in words."""
    count = sum(bool(record["converged"]) for record in records)
    return "all converged" if count == len(records) else f"{count} of {len(records)} converged"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Lay out a Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
