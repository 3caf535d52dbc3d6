"""``fedspca score``."""

from collections.abc import Iterable
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from fedspca.cli.options import AsJson, Force, Model
from fedspca.cli.output import console, print_json, visible
from fedspca.cli.rows import Decimal, Encoding, Id, RowBlock, Separator, SiteRows, row_blocks_for
from fedspca.data.formats import TextOptions
from fedspca.site.errors import count

if TYPE_CHECKING:
    from fedspca.model.model import Array, SparsePCAModel

LISTED = 10  # of the most anomalous rows
LEVEL = 0.99  # share of ordinary rows that are not to be marked
BLAMED = 3  # features that are named for each


def score(
    model: Model,
    rows: Annotated[Path, typer.Argument(help="The file with rows.", metavar="FILE")],
    anomaly: Annotated[bool, typer.Option("--anomaly", help="Mark rows that do not fit the others.")] = False,
    level: Annotated[
        float | None,
        typer.Option(
            "--level", help="With --anomaly: share of ordinary rows that are not to be marked. \\[default: 0.99]"
        ),
    ] = None,
    threshold: Annotated[
        float | None,
        typer.Option("--threshold", help="With --anomaly: mark rows by their error instead, those above this number."),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Where to write each row's error, T² and Q: .csv, .parquet or .npy."),
    ] = None,
    id: Id = None,
    encoding: Encoding = None,
    separator: Separator = None,
    decimal: Decimal = None,
    site_rows: SiteRows = None,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Say how well a model explains rows, and which of them it does not.

    The error of a row is the squared distance, in standardised units, between the row and its reconstruction.
    With --anomaly, rows are marked if T² + Q is above a threshold: T² says how unusual a row's scores are, and Q how
    badly they predict its features. The most anomalous rows are listed, each with the features to blame. The threshold
    follows Box: T² + Q is taken as a scaled chi-square variable, and its quantile at --level is the threshold. With
    --threshold, rows are marked by their error instead.

    For example:

      fedspca score model new.csv

      fedspca score model new.csv --anomaly --id patient -o errors.csv
    """
    from fedspca.cli.write import check_output
    from fedspca.model import SparsePCAModel

    _check_marks(threshold, level, anomaly=anomaly)
    loaded = SparsePCAModel.load(model)
    marks = _marks(loaded, threshold, LEVEL if level is None else level) if anomaly else None
    if output is not None:
        check_output(output, force=force, read=[rows, *([site_rows] if site_rows else [])])
    blocks = row_blocks_for(loaded, rows, id, TextOptions(encoding, separator, decimal), site_rows)
    result = _score(loaded, blocks, marks, output, id)
    if as_json:
        print_json(result)
        return
    rows_read = count(result["rows"], "row")
    console().print(f"{rows_read}: the components explain {result['explained']:.1%} of their variance.")
    if marks is not None:
        console().print(f"{result['anomalies']:,} of them have {marks.what} above {marks.limit:.6g}.")
        for (name, size), blamed in zip(result["largest"], result["blamed"], strict=True):
            most = ", ".join(f"{feature} ({share:.0%})" for feature, share in blamed.items())
            console().print(visible(f"  {name}: {size:.6g}, most of it from {most}"), soft_wrap=True)


class _Marks(NamedTuple):
    """Which rows are marked: those whose error, or T² + Q, is above a limit."""

    limit: float
    by_error: bool

    @property
    def what(self) -> str:
        return "an error" if self.by_error else "T² + Q"

    @property
    def columns(self) -> list[str]:
        return ["error", "anomaly"] if self.by_error else ["error", "t2", "q", "anomaly"]


def _check_marks(threshold: float | None, level: float | None, *, anomaly: bool) -> None:
    """Refuse options that would do nothing."""
    given = [name for name, value in (("--threshold", threshold), ("--level", level)) if value is not None]
    if given and not anomaly:
        raise ValueError(f"{' and '.join(given)}: this says which rows to mark. Add --anomaly to mark any.")
    if threshold is not None and not threshold >= 0:
        raise ValueError(f"--threshold is compared with errors, which are 0 or more. Got {threshold:g} instead.")
    if len(given) > 1:
        raise ValueError("--level is for T² + Q, and --threshold is for the error of a row. Give only one of them.")


def _marks(model: "SparsePCAModel", threshold: float | None, level: float) -> _Marks:
    if threshold is not None:
        return _Marks(threshold, by_error=True)
    if model.facts.get("row_errors") is None:
        raise ValueError("This model does not say how large errors are. Name a threshold with --threshold.")
    if not 0 < level < 1:
        raise ValueError(f"--level must be between 0 and 1. Got {level} instead.")
    return _Marks(-model.threshold(level), by_error=False)


def _score(
    model: "SparsePCAModel", blocks: Iterable[RowBlock], marks: _Marks | None, output: Path | None, id: str | None
) -> dict[str, Any]:
    import numpy as np

    from fedspca.cli.write import TableWriter

    errors, sizes, total = [np.zeros(0)], [np.zeros(0)], 0.0
    blamed: dict[int, dict[str, float]] = {}
    names: list[str | None] = []
    columns = ["error"] if marks is None else marks.columns
    with nullcontext() if output is None else TableWriter(output, columns, id, {"anomaly": bool}) as writer:
        for block in blocks:
            squares = model.residuals(block.rows, **block.beside) ** 2
            told = [squares.sum(axis=1)]
            if marks is not None:
                by_feature = squares if marks.by_error else model.contributions(block.rows, **block.beside)
                told += [] if marks.by_error else model.anomaly_parts(block.rows, **block.beside)
                sizes.append(by_feature.sum(axis=1))
                blamed |= {len(names) + j: _blamed(model, by_feature[j]) for j in _worst(sizes[-1], marks.limit)}
                told.append((sizes[-1] > marks.limit).astype(np.float64))
            if writer is not None:
                writer.add(np.column_stack(told), block.ids)
            here = len(squares)
            names += [f"row {len(names) + j + 1}" for j in range(here)] if block.ids is None else list(block.ids)
            errors.append(told[0])
            total += float(np.sum(model.standardised(block.rows, **block.beside) ** 2))
    every = np.concatenate(errors)
    explained = 1.0 - float(every.sum()) / total if total > 0 else 0.0
    result = {"rows": len(every), "explained": explained, "mean_error": float(every.mean())}
    if marks is None:
        return result
    size = np.concatenate(sizes)
    worst = _worst(size, marks.limit)
    return result | {
        "threshold": marks.limit,
        "anomalies": int((size > marks.limit).sum()),
        "largest": [(str(names[j]), float(size[j])) for j in worst],
        "blamed": [blamed[j] for j in worst],
    }


def _worst(sizes: "Array", limit: float) -> list[int]:
    """Return the largest above the limit; those of all rows are among those of each block."""
    return [int(j) for j in (-sizes).argsort(kind="stable")[:LISTED] if sizes[j] > limit]


def _blamed(model: "SparsePCAModel", parts: "Array") -> dict[str, float]:
    """Return the features that make up most of a row's error or anomaly, each with its share of it."""
    most = (-parts).argsort(kind="stable")[:BLAMED]
    return {model.feature_names[j]: float(parts[j] / parts.sum()) for j in most if parts[j] > 0}
