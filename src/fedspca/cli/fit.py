"""``fedspca fit``."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedspca.cli.options import AsJson, Force, with_settings
from fedspca.cli.output import console, notes, print_json, sentence, short, visible
from fedspca.cli.show import print_loadings, summary
from fedspca.cli.warnings import shown_warnings
from fedspca.fit.settings import FitSettings

if TYPE_CHECKING:  # numpy and scikit-learn are imported only for a fit, so that help is fast
    from fedspca.fit import Inputs
    from fedspca.model import SparsePCAModel

INTERRUPTED = 130  # the exit code that shells expect from a command ended by Ctrl-C


@with_settings("data", "columns", "adjust", "fit", "policy", files_needed=False)
def fit(
    settings: FitSettings,
    output: Annotated[Path, typer.Option("--output", "-o", help="The folder to write the model to.")] = Path("model"),
    resume: Annotated[bool, typer.Option("--resume", help="Go on from the checkpoint of an interrupted fit.")] = False,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Fit sparse components to the rows of several sites, without pooling them.

    For example:

      fedspca fit north.csv south.parquet west.h5ad -r 5 --nonzero 10 -o model

      fedspca fit all.parquet --site-column hospital --exclude age -o model

      fedspca fit fit.toml -o model

      fedspca fit --covariance S.csv --covariance-rows 180 --nonzero 5 -o model
    """
    from fedspca.fit import open_inputs
    from fedspca.model.folder import check_free

    check_free(output, overwrite=force)
    with shown_warnings():
        if settings.covariance is not None:
            model = _fit_covariance(settings)
        else:
            inputs = open_inputs(settings)
            for told in inputs.told:
                notes().print(f"Note: {told}.", soft_wrap=True)
            for odd in inputs.oddities:
                notes().print(f"CAUTION: {visible(sentence(odd))}", soft_wrap=True)
            model = _fit(settings, inputs, output, resume=resume, as_json=as_json)
    model.save(output, overwrite=force)
    if as_json:
        print_json({**summary(model), "model": str(output)})
        return
    print_loadings(model, top=8, told=model.facts.get("oddities", []))
    console().print(
        f"\nThe model is in {short(str(output), 500)}. See all of it: fedspca show {output}. "
        f"Write a report: fedspca report {output}.",
        soft_wrap=True,
    )


def _fit_covariance(settings: FitSettings) -> "SparsePCAModel":
    from fedspca.cli.progress import FitProgress
    from fedspca.fit import fit_covariance_file

    with FitProgress(settings) as progress:
        model = fit_covariance_file(settings, callback=progress)
    for told in model.facts["told"]:
        notes().print(f"Note: {visible(told)}.", soft_wrap=True)
    return model


def _fit(settings: FitSettings, inputs: "Inputs", output: Path, *, resume: bool, as_json: bool) -> "SparsePCAModel":
    from fedspca.cli.progress import FitProgress
    from fedspca.fit import fit_files

    checkpoint = output.with_name(f"{output.name}.checkpoint")
    with FitProgress(settings) as progress:
        try:
            return fit_files(settings, callback=progress, checkpoint=checkpoint, resume=resume, inputs=inputs)
        except KeyboardInterrupt:
            progress.stop()
            kept = f"The rounds so far are in {checkpoint}; go on with the same command and --resume."
            told = kept if checkpoint.exists() else "Nothing is kept yet; begin again."
            notes().print(f"\nInterrupted. {told}", soft_wrap=True)
            if as_json:
                print_json({"error": f"Interrupted. {told}"})
            raise typer.Exit(INTERRUPTED) from None
