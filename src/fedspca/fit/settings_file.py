"""Settings from a file or from the command line: read, and checked against the types that they are declared with."""

import tomllib
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, TypeVar, get_args, get_type_hints

from fedspca.data.columns import listed
from fedspca.data.urls import is_url
from fedspca.fit.settings import AUTO, FitSettings, SolverSettings, by_section

Settings = TypeVar("Settings", bound=SolverSettings)


def read_fit_settings(path: Path) -> FitSettings:
    """Read ``fit.toml``. File names in it are relative to its folder.

    Parameters
    ----------
    path : Path
        The file.
    """
    settings = read_settings(path, FitSettings, "fedspca init")
    return replace(settings, files=tuple(f if is_url(f) else str(path.parent / f) for f in settings.files))


def read_settings(path: Path, kind: type[Settings], command: str) -> Settings:
    """Read a file of settings.

    Parameters
    ----------
    path : Path
        The file, in TOML.
    kind : type
        The class that holds them.
    command : str
        What writes such a file.
    """
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ValueError(f"{path}: there is no such file. Write one with: {command}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(f"{path}: it is not valid TOML. ({error})") from None
    sections = {section: [about.name for about in settings] for section, settings in by_section(kind).items()}
    given: dict[str, Any] = {}
    for section, settings in content.items():
        if section not in sections or not isinstance(settings, dict):
            raise ValueError(f"{path}: there is no section {section!r}; there are {listed(sections, most=9)}.")
        for name, value in settings.items():
            if name not in sections[section]:
                raise ValueError(
                    f"{path}: [{section}] has no setting {name!r}; it has {listed(sections[section], 20)}."
                )
            given[name] = _checked(path, kind, name, value)
    return kind(**given)


TEXTS: Any = tuple[str, ...]
COUNTS: Any = tuple[int, ...]
COUNT: Any = int | str
EACH: Any = int | str | tuple[int, ...]
WEIGHTS: Any = float | tuple[float, ...]
LISTS: Any = Mapping[str, tuple[str, ...]]
KINDS: Mapping[Any, tuple[type | tuple[type, ...], str]] = {
    bool: (bool, "true or false"),
    int: (int, "a whole number"),
    COUNT: ((int, str), "a whole number or auto"),
    EACH: ((int, str, list), "a whole number, one for each component, or auto"),
    float: ((int, float), "a number"),
    str: (str, "a text in quotes"),
    TEXTS: (list, "a list of texts"),
    COUNTS: (list, "a list of whole numbers"),
    WEIGHTS: ((int, float, list), "a number, or a list of numbers"),
    LISTS: (dict, "a table of lists of texts"),
}


@cache  # every option asks, and Python makes the hints of a class anew each time
def _hints(settings: Any) -> dict[str, Any]:
    return get_type_hints(settings)


def kind_of_setting(name: str, settings: type[SolverSettings] = FitSettings) -> Any:
    """Return the type of a setting, whether or not it may be left open."""
    kind: Any = settings
    hint = _hints(kind)[name]
    inner = [part for part in get_args(hint) if part is not type(None)]
    if inner == [int, str]:
        return COUNT
    if inner == [int, str, tuple[int, ...]]:
        return EACH
    if inner == [float, tuple[float, ...]]:
        return WEIGHTS
    return inner[0] if type(None) in get_args(hint) else hint


def _checked(path: Path, settings: type[SolverSettings], name: str, value: Any) -> Any:
    kind = kind_of_setting(name, settings)
    types: Any = KINDS[kind][0]
    words = KINDS[kind][1]
    if not isinstance(value, types) or (isinstance(value, bool) and kind is not bool):
        raise ValueError(f"{path}: {name} must be {words}. Got {value!r} instead.")
    if kind == TEXTS:
        return _texts(path, name, value)
    if kind == COUNT:
        return count_or_auto(f"{path}: {name}", value)
    if kind == EACH:
        return counts_or_auto(f"{path}: {name}", value)
    if kind == COUNTS:
        return counts(f"{path}: {name}", value)
    if kind == WEIGHTS:
        return weights(f"{path}: {name}", value)
    if kind == LISTS:
        return {key: _texts(path, f"{name}.{key}", items) for key, items in value.items()}
    return value


def count_or_auto(what: str, value: Any) -> int | str:
    """Return a whole number or "auto", from a file or from the command line, or say what is neither."""
    if value == AUTO:
        return AUTO
    try:
        return int(value)
    except ValueError:
        raise ValueError(f"{what} must be a whole number or auto. Got {value!r} instead.") from None


def counts_or_auto(what: str, value: Any) -> int | str | tuple[int, ...]:
    """Return the same, or a whole number for each component, or say what is neither."""
    try:
        return counts(what, value) if isinstance(value, list) else count_or_auto(what, value)
    except ValueError:
        told = f"{what} must be a whole number, one for each component, or auto. Got {value!r} instead."
        raise ValueError(told) from None


def counts(what: str, items: Any) -> tuple[int, ...]:
    """Return whole numbers, from a file or from the command line, or say what is none."""
    try:
        if isinstance(items, list) and not any(isinstance(item, bool | float) for item in items):
            return tuple(int(item) for item in items)
    except ValueError:
        pass
    raise ValueError(f"{what} must be a list of whole numbers. Got {items!r} instead.")


def weights(what: str, value: Any) -> float | tuple[float, ...]:
    """Return a number, or one for each component, from a file or from the command line, or say what is none."""
    items = value if isinstance(value, list) else [value]
    try:
        if items and not any(isinstance(item, bool) for item in items):
            numbers = tuple(float(item) for item in items)
            return numbers if isinstance(value, list) else numbers[0]
    except (TypeError, ValueError):
        pass
    raise ValueError(f"{what} must be a number, or one for each component. Got {value!r} instead.")


def _texts(path: Path, name: str, items: Any) -> tuple[str, ...]:
    if not isinstance(items, list) or not all(isinstance(item, str) for item in items):
        raise ValueError(f"{path}: {name} must be a list of texts. Got {items!r} instead.")
    return tuple(items)
