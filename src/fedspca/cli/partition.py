"""``fedspca partition``: deal the rows of a CSV file out to sites that are unlike each other."""

import csv
import io
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedspca.cli.options import Force
from fedspca.site.errors import count

if TYPE_CHECKING:
    from fedspca.experiments.partitions import Array, Owners


class By(StrEnum):
    """The ways to deal rows out."""

    ORDER = "order"
    LABEL = "label"
    DIRICHLET = "dirichlet"
    QUANTITY = "quantity"
    FEATURE = "feature"
    SCORE = "score"


def partition(
    table: Annotated[Path, typer.Argument(help="A CSV file with a header.")],
    by: Annotated[By, typer.Option(help="How rows are dealt out.")],
    sites: Annotated[int, typer.Option(min=1, help="How many sites.")],
    out: Annotated[Path, typer.Option(help="Folder for one CSV file a site.")],
    column: Annotated[str | None, typer.Option(help="The label (label, dirichlet) or the feature (feature).")] = None,
    alpha: Annotated[float, typer.Option(help="Dirichlet's α: smaller is more unlike.")] = 0.5,
    strength: Annotated[float, typer.Option(help="For feature and score: 0 is chance, 1 is sorted.")] = 1.0,
    seed: Annotated[int, typer.Option(help="Seed of what is drawn.")] = 0,
    force: Force = False,
) -> None:
    """Deal the rows of a CSV file out to sites: one file each, rows unchanged."""
    import numpy as np

    from fedspca.experiments.reproduce import write_whole

    header, rows = _read(table)
    owners = _owners(header, rows, by, sites, column, alpha, strength, seed)
    files = {name: out / f"{name.replace(' ', '-')}.csv" for name in np.unique(owners)}
    there = [str(file) for file in files.values() if file.exists()]
    if there and not force:
        raise FileExistsError(f"{there[0]}: it is there already. Choose another folder, or replace it with --force.")
    out.mkdir(parents=True, exist_ok=True)
    for name, file in files.items():
        mine = [row for row, owner in zip(rows, owners, strict=True) if owner == name]
        write_whole(file, _csv([header, *mine]))
        typer.echo(f"{name}: {count(len(mine), 'row')}")


def _owners(
    header: list[str],
    rows: list[list[str]],
    by: By,
    sites: int,
    column: str | None,
    alpha: float,
    strength: float,
    seed: int,
) -> "Owners":
    import numpy as np

    from fedspca.experiments import partitions
    from fedspca.experiments.data import sites_in_order

    if by is By.ORDER:
        return sites_in_order(len(rows), sites)
    if by is By.QUANTITY:
        return partitions.by_quantity(len(rows), sites, alpha=alpha, seed=seed)
    if by is By.SCORE:
        values = np.column_stack([_numbers(header, rows, name) for name in header if name != column])
        return partitions.by_principal_score(values, sites, strength=strength, seed=seed)
    if column is None:
        raise ValueError(f"--by {by} needs --column, one of: {', '.join(header)}.")
    if by is By.FEATURE:
        return partitions.by_feature(_numbers(header, rows, column), sites, strength=strength, seed=seed)
    labels = [row[_position(header, column)] for row in rows]
    if by is By.LABEL:
        return partitions.by_label(labels, sites, seed=seed)
    return partitions.dirichlet(labels, sites, alpha=alpha, seed=seed)


def _read(path: Path) -> tuple[list[str], list[list[str]]]:
    try:
        with path.open(newline="", encoding="utf-8-sig") as stream:
            lines = [line for line in csv.reader(stream) if line]
    except (UnicodeDecodeError, csv.Error):
        raise ValueError(
            f"{path}: it is not a CSV file in UTF-8, and partition deals out the lines of one. Save the table as such "
            "a file first."
        ) from None
    if len(lines) < 2:
        raise ValueError(f"{path} has no rows below a header.")
    header, rows = lines[0], lines[1:]
    for number, row in enumerate(rows, start=2):
        if len(row) != len(header):
            raise ValueError(f"{path}, line {number}: {len(row)} values for {len(header)} columns.")
    return header, rows


def _position(header: list[str], column: str) -> int:
    if column not in header:
        raise ValueError(f"There is no column {column!r}; there are {', '.join(header)}.")
    return header.index(column)


def _numbers(header: list[str], rows: list[list[str]], column: str) -> "Array":
    import numpy as np

    at = _position(header, column)
    try:
        values = np.array([float(row[at]) for row in rows])
    except ValueError as error:
        raise ValueError(
            f"Column {column!r} is not all numbers ({error}). --column leaves one out of a score."
        ) from None
    if not np.isfinite(values).all():
        raise ValueError(f"Column {column!r} has values that are missing or infinite.")
    return values


def _csv(lines: list[list[str]]) -> bytes:
    stream = io.StringIO()
    csv.writer(stream, lineterminator="\n").writerows(lines)
    return stream.getvalue().encode()
