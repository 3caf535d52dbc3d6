"""What the library says of its parameters, in the words of the command line."""

import re
from functools import cache
from types import TracebackType

LIBRARY = ("fedspca.estimators", "fedspca.site.site", "fedspca.solvers", "fedspca.model", "sklearn.")
# Parameter names that are not ordinary English words. In quotes, they may be the name of a column.
_NAME = re.compile(
    r"(?<!['\w-])(n_components|n_nonzero|variance_kept|max_missing|max_rounds|random_state|block_sizes)(?!['\w])"
)
_SOLVER = re.compile(r"\bExactSPCA\b")


@cache
def options() -> dict[str, str]:
    """Return the option of each parameter of a solver."""
    from fedspca.fit.solvers import SOLVERS, as_option  # numpy and the like, only once something went wrong

    named = {theirs: as_option(ours) for solver in SOLVERS.values() for ours, theirs in solver.names.items()}
    return {**named, "n_components": "--components", "random_state": "--seed"}


def in_options(text: str) -> str:
    """Return a sentence of the library with the options that a person typed in the place of Python's parameters."""
    parameter = rf"[Tt]he '({'|'.join(options())})' parameter of \w+"
    text = re.sub(parameter, lambda found: options()[found[1]], text)
    text = _NAME.sub(lambda found: options()[found[1]], text)
    return _SOLVER.sub("--solver exact", text)


def told_by_the_library(error: BaseException) -> bool:
    """Whether an error was raised where parameters have Python's names, rather than by a command or a settings file."""
    last: TracebackType | None = error.__traceback__
    while last is not None and last.tb_next is not None:
        last = last.tb_next
    return last is not None and str(last.tb_frame.f_globals.get("__name__", "")).startswith(LIBRARY)
