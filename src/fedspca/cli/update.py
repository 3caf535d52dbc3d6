"""``fedspca update``."""

from pathlib import Path
from typing import Annotated

import typer

from fedspca.cli.options import AsJson, Model
from fedspca.cli.output import console, notes, print_json, sentence, short, visible
from fedspca.cli.show import print_loadings, summary
from fedspca.cli.warnings import shown_warnings


def update(
    model: Model,
    files: Annotated[list[str], typer.Argument(help="Files with new rows, or with a new site.", metavar="FILES...")],
    data: Annotated[Path, typer.Option("--data", help="The folder with the model's own files.")] = Path(),
    site: Annotated[
        str | None,
        typer.Option("--site", help="The site of the model that the new rows belong to; else each file is a new site."),
    ] = None,
    min_rows: Annotated[
        int | None, typer.Option("--min-rows", help="The fewest rows that a site may add; else as in the fit.", min=1)
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Where the new model goes; else it replaces the old one.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Fit a model again to its rows and new ones, from where it ended: few rounds are left.

    The model holds no rows, so its own files are read again. A new file with the name of one of them takes its place.

    For example:

      fedspca update model west.csv

      fedspca update model more.csv --site north --data /data/study -o model-2
    """
    from fedspca.cli.progress import FitProgress
    from fedspca.fit.update import fit_update, open_update
    from fedspca.model import SparsePCAModel
    from fedspca.model.folder import check_free

    place = output or model
    before = SparsePCAModel.load(model)
    check_free(place, overwrite=output is None)
    with shown_warnings():
        found = open_update(before, files, folder=data, site=site, min_rows=min_rows)
        for told in (*found.inputs.told, *found.told()):
            notes().print(f"Note: {visible(told)}.", soft_wrap=True)
        for odd in found.inputs.oddities:
            notes().print(f"CAUTION: {visible(sentence(odd))}", soft_wrap=True)
        with FitProgress(found.settings) as progress:
            made = fit_update(found, callback=progress)
    made.save(place, overwrite=output is None)
    if as_json:
        print_json({**summary(made), "model": str(place)})
        return
    print_loadings(made, top=8, told=made.facts.get("oddities", []))
    rounds = f"{len(made.facts['history'])} rounds, and {len(before.facts['history'])} for the model before."
    console().print(f"\n{rounds} The model is in {short(str(place), 500)}.", soft_wrap=True)
