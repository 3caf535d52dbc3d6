"""What the library says of its parameters, in the words of the command line."""

import re
from types import TracebackType

OPTIONS = {
    "n_components": "--components",
    "n_nonzero": "--nonzero",
    "variance_kept": "--variance-kept",
    "lam": "--lam",
    "lam1": "--lam1",
    "lam2": "--lam",
    "rho": "--rho",
    "mu": "--mu",
    "block_sizes": "--block-sizes",
    "deflation": "--deflation",
    "finish": "--finish",
    "init": "--init",
    "line_search": "--line-search",
    "direction": "--direction",
    "retraction": "--retraction",
    "local_steps": "--local-steps",
    "local_tol": "--local-tol",
    "local_start": "--local-start",
    "scale": "--scale",
    "max_missing": "--max-missing",
    "tol": "--tol",
    "max_rounds": "--max-rounds",
    "random_state": "--seed",
    "folds": "--folds",
    "sample": "--sample",
    "missing": "--missing",
}
LIBRARY = ("fedspca.estimators", "fedspca.solvers", "fedspca.model", "sklearn.")
_PARAMETER = re.compile(rf"[Tt]he '({'|'.join(OPTIONS)})' parameter of \w+")
# Parameter names that are not ordinary English words. In quotes, they may be the name of a column.
_NAME = re.compile(
    r"(?<!['\w-])(n_components|n_nonzero|variance_kept|max_missing|max_rounds|random_state|block_sizes)(?!['\w])"
)
_SOLVER = re.compile(r"\bExactSPCA\b")


def in_options(text: str) -> str:
    """Return a sentence of the library with the options that a person typed in the place of Python's parameters."""
    text = _PARAMETER.sub(lambda found: OPTIONS[found[1]], text)
    text = _NAME.sub(lambda found: OPTIONS[found[1]], text)
    return _SOLVER.sub("--solver exact", text)


def told_by_the_library(error: BaseException) -> bool:
    """Whether an error was raised where parameters have Python's names, rather than by a command or a settings file."""
    last: TracebackType | None = error.__traceback__
    while last is not None and last.tb_next is not None:
        last = last.tb_next
    return last is not None and str(last.tb_frame.f_globals.get("__name__", "")).startswith(LIBRARY)
