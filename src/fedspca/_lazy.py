"""Packages that name what they export and import it only when it is asked for.

Some commands must start fast, without the time to import numpy and scikit-learn: a command that only prints its help,
or the relay of a site, which starts again for every message. Each package therefore lists which module defines each of
its names. Type checkers read the ordinary imports beside that list.
"""

from collections.abc import Callable, Mapping
from importlib import import_module
from sys import modules


def lazy_exports(
    package: str, homes: Mapping[str, tuple[str, ...]]
) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """Return ``__getattr__`` and ``__dir__`` of a package whose names are imported when they are first used.

    Parameters
    ----------
    package : str
        The package: its ``__name__``.
    homes : mapping of str to tuple of str
        The names that each module defines.
    """
    home_of = {name: home for home, names in homes.items() for name in names}

    def get(name: str) -> object:
        if name not in home_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(home_of[name]), name)
        setattr(modules[package], name, value)  # so that the next use costs nothing
        return value

    def names() -> list[str]:
        return sorted({*vars(modules[package]), *home_of})

    return get, names
