"""``fedspca report``."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

import typer

from fedspca.cli.options import AsJson, Force, Model
from fedspca.cli.output import console, notes, print_json
from fedspca.cli.rows import Decimal, Encoding, Separator, row_blocks_for
from fedspca.data.formats import TextOptions

if TYPE_CHECKING:
    from fedspca.model.model import Array, SparsePCAModel

DRAWN = 2000
MOST_CLASSES = 12


def report(
    model: Model,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Where; by default MODEL.html.")] = None,
    rows: Annotated[
        Path | None,
        typer.Option("--rows", help="A file whose rows are drawn in the biplot. Whoever opens the report sees them."),
    ] = None,
    classes: Annotated[
        str | None, typer.Option("--class", help="A column of that file, such as a diagnosis or a site, for colours.")
    ] = None,
    title: Annotated[str | None, typer.Option("--title", help="The title of the report.")] = None,
    figures: Annotated[
        Path | None, typer.Option("--figures", help="Also write each chart to this folder, for a paper.")
    ] = None,
    form: Annotated[Literal["svg", "png", "pdf"], typer.Option("--figure-format", help="As svg, png or pdf.")] = "svg",
    encoding: Encoding = None,
    separator: Separator = None,
    decimal: Decimal = None,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Write a report of a model: one HTML file that opens offline.

    For example:

      fedspca report model

      fedspca report model --rows north.csv --class diagnosis -o north.html

      fedspca report model --figures figures --figure-format pdf
    """
    from fedspca.model import SparsePCAModel
    from fedspca.report import write_report

    loaded = SparsePCAModel.load(model)
    path = output or model.with_name(f"{model.resolve().name}.html")
    if path.exists() and not force:
        raise FileExistsError(f"{path}: it is there already. Choose another name, or replace it with --force.")
    if figures is not None and figures.exists() and not figures.is_dir():
        raise FileExistsError(f"{figures}: it is a file. Name a folder for the charts.")
    if classes is not None and rows is None:
        raise ValueError("--class names a column of the file of rows. Give it with --rows.")
    options = TextOptions(encoding, separator, decimal)
    drawn = None if rows is None else _drawn(loaded, rows, classes, options)
    try:
        write_report(loaded, path, scores=drawn and drawn.scores, classes=drawn and drawn.classes, title=title)
        written = [] if figures is None else _write_figures(loaded, figures, form, drawn)
    except ModuleNotFoundError as error:
        raise ValueError(str(error)) from None
    if as_json:
        print_json({"output": str(path), "rows_drawn": 0 if drawn is None else len(drawn.scores), "figures": written})
        return
    console().print(f"The report is in {path}. Open it in any browser; it needs no network.", soft_wrap=True)


class Drawn(NamedTuple):
    """Rows that are drawn: their scores, and their classes where they are told apart."""

    scores: "Array"
    classes: list[str] | None


def _drawn(model: "SparsePCAModel", rows: Path, classes: str | None, options: TextOptions) -> Drawn:
    import numpy as np

    blocks = list(row_blocks_for(model, rows, classes, options))
    scores = np.vstack([model.transform(block.rows, **block.beside) for block in blocks])
    told = [str(name) for block in blocks if block.ids is not None for name in block.ids]
    names = told or None
    if names is not None and len(set(names)) > MOST_CLASSES:
        raise ValueError(f"--class {classes}: it has more than {MOST_CLASSES} values, too many for colours.")
    if len(scores) <= DRAWN:
        return Drawn(scores, names)
    notes().print(f"Note: {DRAWN:,} of {len(scores):,} rows are drawn, evenly spread over the file.")
    kept = np.linspace(0, len(scores) - 1, DRAWN).astype(int)
    return Drawn(scores[kept], None if names is None else [names[k] for k in kept])


def _write_figures(model: "SparsePCAModel", folder: Path, form: str, drawn: Drawn | None) -> list[str]:
    """Write every chart that this model has."""
    from fedspca.plots import plot_biplot, plot_correlation, save_chart

    charts: dict[str, Any] = {f"component-{k + 1}": model.plot_loadings(k + 1) for k in range(model.n_components)}
    charts["scree"] = model.plot_scree()
    if model.n_components > 1:
        scores, classes = (None, None) if drawn is None else drawn
        charts["biplot"], charts["correlation"] = plot_biplot(model, scores, classes=classes), plot_correlation(model)
    charts |= {"path": model.plot_path()} if model.facts.get("path") else {}
    charts |= {"sites": model.plot_sites()} if model.facts.get("sites") else {}
    folder.mkdir(parents=True, exist_ok=True)
    for name, chart in charts.items():
        save_chart(chart, folder / f"{name}.{form}")
    return [f"{name}.{form}" for name in charts]
