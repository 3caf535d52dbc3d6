"""``fedspca score``."""

from collections.abc import Iterable
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedspca.cli.options import AsJson, Force, Model
from fedspca.cli.output import console, print_json, visible
from fedspca.cli.rows import Decimal, Encoding, Id, RowBlock, Separator, SiteRows, row_blocks_for
from fedspca.data.formats import TextOptions

if TYPE_CHECKING:
    from fedspca.model import Array, SparsePCAModel

LISTED = 10  # rows with the largest errors that are listed
BLAMED = 3  # features that are named for each


def score(
    model: Model,
    rows: Annotated[Path, typer.Argument(help="The file with rows.", metavar="FILE")],
    anomaly: Annotated[bool, typer.Option("--anomaly", help="Mark rows that the components explain badly.")] = False,
    level: Annotated[float, typer.Option("--level", help="Share of ordinary rows that are not to be marked.")] = 0.99,
    threshold: Annotated[
        float | None, typer.Option("--threshold", help="Mark errors above this number instead of using --level.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Where to write each row's error: .csv, .parquet or .npy.")
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
    With --anomaly, rows above a threshold are marked, and those with the largest errors are listed, each with the
    features that make up most of its error. The threshold follows Box: the errors of the rows that the model
    was fitted to have a known mean m and variance v, so they are taken as g times a chi-square variable with h degrees
    of freedom, g = v/2m and h = 2m²/v, and its quantile at --level is the threshold.

    For example:

      fedspca score model new.csv

      fedspca score model new.csv --anomaly --id patient -o errors.csv
    """
    from fedspca.cli.write import check_output
    from fedspca.model import SparsePCAModel

    loaded = SparsePCAModel.load(model)
    limit = _limit(loaded, threshold, level) if anomaly else None
    if output is not None:
        check_output(output, force=force)
    blocks = row_blocks_for(loaded, rows, id, TextOptions(encoding, separator, decimal), site_rows)
    result = _score(loaded, blocks, limit, output, id)
    if as_json:
        print_json(result)
        return
    console().print(f"{result['rows']:,} rows: the components explain {result['explained']:.1%} of their variance.")
    if limit is not None:
        console().print(f"{result['anomalies']:,} of them have an error above {limit:.6g}.")
        for (name, error), blamed in zip(result["largest"], result["blamed"], strict=True):
            most = ", ".join(f"{feature} ({share:.0%})" for feature, share in blamed.items())
            console().print(visible(f"  {name}: {error:.6g}, most of it from {most}"), soft_wrap=True)


def _limit(model: "SparsePCAModel", threshold: float | None, level: float) -> float:
    if threshold is not None:
        return threshold
    errors = model.facts.get("row_errors")
    if errors is None:
        raise ValueError("This model does not say how large errors are. Name a threshold with --threshold.")
    from fedspca.anomaly import box_threshold

    if not 0 < level < 1:
        raise ValueError(f"--level must be between 0 and 1. Got {level} instead.")
    return box_threshold(float(errors["mean"]), float(errors["variance"]), level)


def _score(
    model: "SparsePCAModel", blocks: Iterable[RowBlock], limit: float | None, output: Path | None, id: str | None
) -> dict[str, Any]:
    import numpy as np

    from fedspca.cli.write import TableWriter

    errors, total = [np.zeros(0)], 0.0
    blamed: dict[int, dict[str, float]] = {}
    names: list[str | None] = []
    columns = ["error", *(["anomaly"] if limit is not None else [])]
    with nullcontext() if output is None else TableWriter(output, columns, id, {"anomaly": bool}) as writer:
        for block in blocks:
            left = model.residuals(block.rows, **block.beside) ** 2
            here = left.sum(axis=1)
            blamed |= {len(names) + j: _blamed(model, left[j]) for j in _worst(here, limit)}
            marked = [] if limit is None else [(here > limit).astype(np.float64)]
            if writer is not None:
                writer.add(np.column_stack([here, *marked]), block.ids)
            names += [f"row {len(names) + j + 1}" for j in range(len(here))] if block.ids is None else list(block.ids)
            errors.append(here)
            total += float(np.sum(model.standardised(block.rows, **block.beside) ** 2))
    every = np.concatenate(errors)
    explained = 1.0 - float(every.sum()) / total if total > 0 else 0.0
    result = {"rows": len(every), "explained": explained, "mean_error": float(every.mean())}
    if limit is None:
        return result
    worst = _worst(every, limit)
    return result | {
        "threshold": limit,
        "anomalies": int((every > limit).sum()),
        "largest": [(str(names[j]), float(every[j])) for j in worst],
        "blamed": [blamed[j] for j in worst],
    }


def _worst(errors: "Array", limit: float | None) -> list[int]:
    """Return the rows with the largest errors above the threshold; those of all rows are among those of each block."""
    return [] if limit is None else [int(j) for j in (-errors).argsort(kind="stable")[:LISTED] if errors[j] > limit]


def _blamed(model: "SparsePCAModel", squares: "Array") -> dict[str, float]:
    """Return the features that make up most of a row's error, each with its share of it."""
    most = (-squares).argsort(kind="stable")[:BLAMED]
    return {model.feature_names[j]: float(squares[j] / squares.sum()) for j in most if squares[j] > 0}
