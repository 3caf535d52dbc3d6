"""``fedspca report``."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedspca.cli.options import AsJson, Force, Model
from fedspca.cli.output import console, notes, print_json
from fedspca.cli.rows import Decimal, Delimiter, Encoding, row_blocks_for
from fedspca.data.formats import TextOptions

if TYPE_CHECKING:
    from fedspca.model import Array, SparsePCAModel

DRAWN = 2000


def report(
    model: Model,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Where; by default MODEL.html.")] = None,
    rows: Annotated[
        Path | None,
        typer.Option("--rows", help="A file whose rows are drawn in the biplot. Whoever opens the report sees them."),
    ] = None,
    encoding: Encoding = "utf-8",
    delimiter: Delimiter = None,
    decimal: Decimal = ".",
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Write a report of a model: one HTML file that opens offline.

    For example:

      fedspca report model

      fedspca report model --rows north.csv -o north.html
    """
    from fedspca.model import SparsePCAModel
    from fedspca.report import write_report

    loaded = SparsePCAModel.load(model)
    path = output or model.with_name(f"{model.resolve().name}.html")
    if path.exists() and not force:
        raise FileExistsError(f"{path}: it is there already. Choose another name, or replace it with --force.")
    scores = None if rows is None else _scores(loaded, rows, TextOptions(encoding, delimiter, decimal))
    write_report(loaded, path, scores=scores)
    if as_json:
        print_json({"output": str(path), "rows_drawn": 0 if scores is None else len(scores)})
        return
    console().print(f"The report is in {path}. Open it in any browser; it needs no network.", soft_wrap=True)


def _scores(model: "SparsePCAModel", rows: Path, options: TextOptions) -> "Array":
    import numpy as np

    scores = np.vstack(
        [model.transform(block.rows, **block.beside) for block in row_blocks_for(model, rows, None, options)]
    )
    if len(scores) > DRAWN:
        notes().print(f"Note: {DRAWN:,} of {len(scores):,} rows are drawn, evenly spread over the file.")
        scores = scores[np.linspace(0, len(scores) - 1, DRAWN).astype(int)]
    return scores
