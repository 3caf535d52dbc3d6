"""The ``fedspca`` command and the way its errors are shown."""

import sys
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, ClassVar, NoReturn

import typer

from fedspca._version import __version__
from fedspca.cli.lazy import LazyGroup


class Commands(LazyGroup):
    """The commands, in the order in which a person needs them, with the sentence that opens each one's docstring."""

    sentences: ClassVar[Mapping[str, str]] = {
        "init": "Write a fit.toml that holds every setting, with comments.",
        "check": "Compare sites before anything is computed: names, types, units and gaps.",
        "fit": "Fit sparse components to the rows of several sites, without pooling them.",
        "update": "Fit a model again to its rows and new ones, from where it ended: few rounds are left.",
        "choose": "Say how many components there are and how sparse to make them, and how sure that is.",
        "path": "Show the variance captured against the number of non-zeros, with a choice marked.",
        "show": "Show the loadings of a model.",
        "report": "Write a report of a model: one HTML file that opens offline.",
        "transform": "Write the scores of new rows on the components of a model.",
        "score": "Say how well a model explains rows, and which of them it does not.",
        "compare": "Compare the loadings of two models: which components match, and how well.",
        "cache": "Show, or delete, the prepared copies of large files. They hold the sites' rows.",
        "demo": "Fit embedded data held by ten sites, print the loadings, and write a report.",
        "partition": "Deal the rows of a CSV file out to sites: one file each, rows unchanged.",
        "reproduce": "Run the paper's experiments, and write figures, numbers and a page.",
        "study": "Lead a study between institutions: data stay where they are.",
        "verify": "Check a finished study offline: agreement, signatures, questions, sums, ledger, model and logs.",
        "site": "Take part in a study between institutions with data that stay here.",
    }


app = typer.Typer(
    name="fedspca",
    cls=Commands,
    help="Interpretable principal components of data that may not be pooled.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)

# The base class of the errors that typer raises for a wrong command line. It is taken from typer, because newer
# versions of typer contain their own copy of click, with classes that differ from those of the package click.
WRONG_USE: type[Any] = typer.BadParameter.__mro__[2]


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


def _with_values(arguments: list[str]) -> list[str]:
    """Return the arguments with ``--scale site`` as ``--scale-by site``.

    ``--scale`` is a switch, and takes no value: a file that follows it must stay a file. No table is called just
    "site" or "joint", so that these two words are told apart.
    """
    valued = [
        at for at, pair in enumerate(pairwise(arguments)) if pair[0] == "--scale" and pair[1] in ("site", "joint")
    ]
    return ["--scale-by" if at in valued else argument for at, argument in enumerate(arguments)]


def run(arguments: list[str] | None = None) -> None:
    """Run the command; a user's mistake ends in one paragraph and exit code 2, never in a traceback.

    With ``--json`` it is printed as JSON too, so that a script always has something to read.
    """
    arguments = _with_values(sys.argv[1:] if arguments is None else arguments)
    as_json = "--json" in arguments
    try:
        if as_json:
            sys.exit(app(arguments, standalone_mode=False))  # this function reports wrong options, not typer
        app(arguments)
    except WRONG_USE as error:
        _fail(error.format_message(), as_json=as_json)
    except typer.Abort:
        _fail("Interrupted.", as_json=as_json)
    except Exception as error:
        if not isinstance(error, _user_errors()):
            raise
        _fail(_in_words(error), as_json=as_json)


def _user_errors() -> tuple[type[Exception], ...]:
    """Return the errors that are a user's mistakes; they are imported only once something went wrong."""
    from fedspca.federation import FederationError
    from fedspca.flower.relay import RelayError
    from fedspca.site.errors import SiteError

    return (ValueError, OSError, FederationError, SiteError, RelayError)


def _in_words(error: Exception) -> str:
    """Return what is wrong. If the system said it, the file comes first and the error's number is left out."""
    from fedspca.files import disk_is_full, full_disk

    if disk_is_full(error):
        return f"{full_disk(getattr(error, 'filename', None) or Path())}: run the command again."
    if isinstance(error, OSError) and error.filename is not None and error.strerror:
        what = "there is no such file" if isinstance(error, FileNotFoundError) else error.strerror.lower()
        return f"{error.filename}: {what}."
    from fedspca.cli.words import in_options, told_by_the_library

    return in_options(str(error)) if told_by_the_library(error) else str(error)


def _fail(told: str, *, as_json: bool) -> NoReturn:
    from fedspca.cli.output import notes, print_json, visible

    message = " ".join(visible(told).split())  # one paragraph, even if names in a file contain line breaks
    notes().print(f"Error: {message}", soft_wrap=True)
    if as_json:
        print_json({"error": message})
    sys.exit(2)
