"""The ``fedspca`` command and the way its errors are shown."""

import sys
from typing import Annotated, NoReturn

import click
import typer
from rich.console import Console

from fedspca._version import __version__
from fedspca.cli import (
    cache,
    check,
    compare,
    demo,
    fit,
    init,
    partition,
    path,
    report,
    reproduce,
    score,
    show,
    site,
    study,
    transform,
)
from fedspca.cli.output import print_json, visible
from fedspca.federation import FederationError
from fedspca.flower.relay import RelayError
from fedspca.site.errors import SiteError

app = typer.Typer(
    name="fedspca",
    help="Interpretable principal components of data that may not be pooled.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)
app.command("init")(init.init)
app.command("check")(check.check)
app.command("fit")(fit.fit)
app.command("path")(path.path)
app.command("show")(show.show)
app.command("report")(report.report)
app.command("transform")(transform.transform)
app.command("score")(score.score)
app.command("compare")(compare.compare)
app.command("cache")(cache.cache)
app.command("demo")(demo.demo)
app.command("partition")(partition.partition)
app.command("reproduce")(reproduce.reproduce)
app.add_typer(study.app, name="study")
app.add_typer(site.app, name="site")

USER_ERRORS = (ValueError, OSError, FederationError, SiteError, RelayError)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"fedspca {__version__}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Interpretable principal components of data that may not be pooled."""


def run(arguments: list[str] | None = None) -> None:
    """Run the command; a user's mistake ends in one paragraph and exit code 2, never in a traceback.

    With ``--json`` it is printed as JSON too, so that a script always has something to read.
    """
    as_json = "--json" in (sys.argv[1:] if arguments is None else arguments)
    try:
        if as_json:
            sys.exit(app(arguments, standalone_mode=False))  # so that a wrong option is told here, and not by click
        app(arguments)
    except USER_ERRORS as error:
        _fail(_in_words(error), as_json=as_json)
    except click.ClickException as error:
        _fail(error.format_message(), as_json=as_json)
    except click.Abort:
        _fail("Interrupted.", as_json=as_json)


def _in_words(error: Exception) -> str:
    """Return what is wrong; where the system said it, the file comes first and its number is left out."""
    if isinstance(error, OSError) and error.filename is not None and error.strerror:
        what = "there is no such file" if isinstance(error, FileNotFoundError) else error.strerror.lower()
        return f"{error.filename}: {what}."
    return str(error)


def _fail(told: str, *, as_json: bool) -> NoReturn:
    message = " ".join(visible(told).split())  # one paragraph, whatever a file's names contain
    Console(stderr=True, highlight=False).print(f"Error: {message}", markup=False, soft_wrap=True)
    if as_json:
        print_json({"error": message})
    sys.exit(2)
