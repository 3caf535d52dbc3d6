"""Warnings that point at the line of the user's own code, however deep in the package they arise."""

import sys
import warnings

PACKAGE = __name__.partition(".")[0]


def warn_caller(message: str, category: type[Warning]) -> None:
    """Warn as if from the first line outside this package.

    Parameters
    ----------
    message : str
        What is wrong, and what to try.
    category : type
        The kind of warning.
    """
    level, frame = 2, sys._getframe(1)  # level 1 would be this function
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == PACKAGE:
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)
