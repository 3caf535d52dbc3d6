"""Options of the commands. Those that are settings are made from the fields of the settings."""

import csv
import inspect
import io
import shlex
from collections.abc import Callable, Collection, Mapping
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Annotated, Any

import typer

from fedspca.fit.settings import FitSettings, SolverSettings
from fedspca.fit.settings_file import (
    COUNT,
    COUNTS,
    EACH,
    LISTS,
    TEXTS,
    WEIGHTS,
    count_or_auto,
    counts,
    counts_or_auto,
    kind_of_setting,
    read_fit_settings,
    weights,
)

Files = Annotated[
    list[str],
    typer.Argument(help="One file a site, one file with --site-column, or a fit.toml.", metavar="FILES..."),
]
Model = Annotated[Path, typer.Argument(help="A model's folder.", metavar="MODEL")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for scripts.")]
Force = Annotated[bool, typer.Option("--force", help="Replace what is there.")]

SHORT = {"components": "-r"}  # options that have a short form
HOW = {
    TEXTS: " Names with commas between, or repeat it.",
    LISTS: " As NAME=A,B; repeat it.",
    COUNTS: " As 1,1.",
    EACH: " As 8, or as 8,4.",
    WEIGHTS: " As 60, or as 60,600.",
}
SECTION_TITLES = {
    "study": "Study",
    "data": "Data",
    "columns": "Columns",
    "adjust": "Adjusting",
    "fit": "Fit (in brackets: the solvers that take the option)",
    "federation": "Between sites",
    "privacy": "Differential privacy",
    "policy": "What sites allow",
}


def with_settings(
    *sections: str, without: Collection[str] = (), files_needed: bool = True
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command the settings of these sections as options, and call it with the settings that they make.

    Parameters
    ----------
    *sections : str
        The sections of ``fit.toml``.
    without : collection of str
        Settings of these sections that the command has no use for.
    files_needed : bool
        Whether at least one file must be named.
    """

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        own = [p for p in inspect.signature(command).parameters.values() if p.name != "settings"]
        left_out = {"files", *without}
        offered = [a for a in fields(FitSettings) if a.metadata["section"] in sections and a.name not in left_out]

        def run(files: list[str] | None = None, **given: Any) -> None:
            mine = {parameter.name: given.pop(parameter.name) for parameter in own}
            command(fit_settings(files or [], given), **mine)

        default = inspect.Parameter.empty if files_needed else None
        files = inspect.Parameter("files", inspect.Parameter.KEYWORD_ONLY, annotation=Files, default=default)
        _declare(run, command, [files, *own, *(_option(about) for about in offered)])
        return run

    return decorate


def settings_as_options(
    kind: type[SolverSettings], *sections: str
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command the settings of these sections as options, and call it with those that were given, by name."""

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        own = [p for p in inspect.signature(command).parameters.values() if p.name != "settings"]
        named = {parameter.name for parameter in own} | {"files"}
        settings = [a for a in fields(kind) if a.metadata["section"] in sections and a.name not in named]

        def run(**given: Any) -> None:
            mine = {parameter.name: given.pop(parameter.name) for parameter in own}
            command(_given(given, kind), **mine)

        _declare(run, command, [*own, *(_option(about, kind) for about in settings)])
        return run

    return decorate


def _declare(run: Any, command: Callable[..., None], parameters: list[inspect.Parameter]) -> None:
    """Give a function the signature from which typer makes its options."""
    named = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in parameters]
    run.__signature__ = inspect.Signature(named)
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in named}
    run.__doc__ = command.__doc__


def _option(about: Any, settings: type[SolverSettings] = FitSettings) -> inspect.Parameter:
    kind = kind_of_setting(about.name, settings)
    name = f"--{about.name.replace('_', '-')}"
    names = [f"{name}/--no-{name[2:]}" if kind is bool else name, *([SHORT[about.name]] if about.name in SHORT else [])]
    shown = "" if about.default in (None, ()) or kind == LISTS else f" \\[default: {about.default}]"
    panel = SECTION_TITLES[about.metadata["section"]]
    how = HOW.get(kind, "")
    choices = about.metadata["choices"]
    option = typer.Option(
        *names,
        help=f"{about.metadata['help']}{how}{shown}",
        rich_help_panel=panel,
        show_default=False,
        autocompletion=(lambda incomplete: [c for c in choices if c.startswith(incomplete)]) if choices else None,
    )
    value = list[str] if kind in (TEXTS, LISTS, COUNTS) else str if kind in (COUNT, EACH, WEIGHTS) else kind
    return inspect.Parameter(
        about.name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[value | None, option]
    )


def fit_settings(files: list[str], given: dict[str, Any]) -> FitSettings:
    """Return the settings that a ``fit.toml`` or a list of files and the options given make."""
    given = _given(given, FitSettings)
    if len(files) == 1 and files[0].endswith(".toml"):
        return read_fit_settings(Path(files[0])).with_given(given)
    if beside := [file for file in files if file.endswith(".toml")]:
        raise ValueError(
            f"{beside[0]}: a settings file stands alone. Name the tables in it, as files in its section [data], or "
            "leave the settings file out."
        )
    return FitSettings(files=tuple(files)).with_given(given)


def _given(options: dict[str, Any], kind: type[SolverSettings]) -> dict[str, Any]:
    """Return the settings that were given, each of its own type."""
    given = {name: value for name, value in options.items() if value is not None and value != []}
    return {name: _parsed(name, value, kind_of_setting(name, kind)) for name, value in given.items()}


def _parsed(name: str, value: Any, kind: Any) -> Any:
    if kind == COUNT:
        return count_or_auto(f"--{name.replace('_', '-')}", value)
    if kind == EACH:
        return counts_or_auto(f"--{name.replace('_', '-')}", value.split(",") if "," in value else value)
    if kind == COUNTS:
        return counts(f"--{name.replace('_', '-')}", [item for text in value for item in text.split(",")])
    if kind == WEIGHTS:
        return weights(f"--{name.replace('_', '-')}", value.split(",") if "," in value else value)
    if kind == TEXTS:
        return tuple(item for text in value for item in split_names(text))
    if kind == LISTS:
        return dict(_named_list(text) for text in value)
    return value


def as_typed(settings: FitSettings, without: Collection[str] = ()) -> str:
    """Return the files and options that make these settings, as a person types them; defaults are left out.

    Parameters
    ----------
    settings : FitSettings
        The settings.
    without : collection of str
        Settings to leave out.
    """
    typed = list(settings.files)
    for about in fields(settings):
        value = getattr(settings, about.name)
        usual = about.default if about.default_factory is MISSING else about.default_factory()
        if value != usual and about.name not in {"files", *without}:
            typed += _typed(f"--{about.name.replace('_', '-')}", value)
    return shlex.join(typed)


def _typed(option: str, value: Any) -> list[str]:
    """Return an option with its value: the inverse of what the command line reads."""
    if isinstance(value, bool):
        return [option if value else f"--no-{option[2:]}"]
    if isinstance(value, Mapping):
        return [word for name, items in value.items() for word in (option, f"{name}={joined_names(items)}")]
    return [option, joined_names(value) if isinstance(value, tuple) else str(value)]


def joined_names(names: Collection[Any]) -> str:
    """Join names with commas; the inverse of :func:`split_names`."""
    text = io.StringIO()
    csv.writer(text, lineterminator="").writerow(names)
    return text.getvalue()


def split_names(text: str) -> list[str]:
    """Split names at commas; a name that has one is put in double quotes."""
    return next(csv.reader([text], skipinitialspace=True, strict=False), [])


def _named_list(text: str) -> tuple[str, tuple[str, ...]]:
    column, sign, values = text.rpartition("=")
    if not sign or not column or not values:
        raise ValueError(
            f"--categories, --levels and --rename take NAME=A,B: a name, and what belongs to it. Got {text!r}."
        )
    return column, tuple(split_names(values))
