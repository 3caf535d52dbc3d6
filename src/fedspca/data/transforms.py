"""What is done to each row by itself before a fit: counts to a common library size, logarithms, centred log-ratios.

A row's new values depend on that row alone, so nothing has to be asked of any site. Transforms that need all sites are
in :mod:`fedspca.solvers.mapping`.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from fedspca.linalg.row_blocks import Rows
from fedspca.site.errors import InvalidData
from fedspca.site.preparation import JOINT, joint_transform

LIBRARY = 10_000.0  # what the counts of a row sum to: the same at every site


def transformed(where: str, rows: Rows, names: Sequence[str]) -> Rows:
    """Return rows after these transforms, in their order; sparse rows stay sparse.

    Parameters
    ----------
    where : str
        Whose rows they are, for errors.
    rows : ndarray or CSR matrix
        The rows, over the features that are analysed.
    names : sequence of str
        Some of :data:`TRANSFORMS`; transforms that need all sites are left for later.
    """
    for name in check_transforms(names):
        if name in TRANSFORMS:  # the others need all sites, and come later
            rows = TRANSFORMS[name](where, rows)
    return rows


def check_transforms(names: Sequence[str]) -> Sequence[str]:
    """Return the names; refuse an unknown transform, or one that makes no sense with another."""
    for name in names:
        if name not in TRANSFORMS and joint_transform(name) is None:
            raise InvalidData(f"There is no transform {name!r}; there are {', '.join((*TRANSFORMS, *JOINT))}.")
    if any(joint_transform(name) is not None for name in names[:-1]):
        raise InvalidData(
            f"A transform that needs all sites ({', '.join(JOINT)}) must be the last, and there can be only one."
        )
    if "pearson" in names and len(names) > 1:
        raise InvalidData(
            "Pearson residuals are of raw counts. Use the transform pearson without others: leave out "
            f"{_others('pearson', names)}."
        )
    if "clr" in names and len(names) > 1:
        raise InvalidData(
            "The transform clr takes logarithms itself, and removes the size of each row. Use it without others: "
            f"leave out {_others('clr', names)}."
        )
    if list(names) == ["log1p", "library"]:
        raise InvalidData("The transform library must come before log1p. Write library,log1p.")
    return names


def _others(one: str, names: Sequence[str]) -> str:
    return " and ".join(name for name in names if name != one) or "one of the two"


def library(where: str, rows: Rows) -> Rows:
    """Return counts divided by their row's sum, times 10,000; missing values count nothing."""
    _refuse(where, rows, "library", "negative", lambda values: values < 0)
    sums = np.array([np.nansum(row) for row in (rows if isinstance(rows, np.ndarray) else _by_row(rows))])
    if not (sums > 0).all():
        raise InvalidData(f"{where}: row {int(np.argmax(~(sums > 0)))} has no counts, so it has no library size.")
    factors = LIBRARY / sums
    if isinstance(rows, np.ndarray):
        return np.asarray(rows * factors[:, None])
    return sp.csr_array(sp.diags_array(factors) @ rows)


def log1p(where: str, rows: Rows) -> Rows:
    """Return ln(1 + x)."""
    _refuse(where, rows, "log1p", "-1 or less", lambda values: values <= -1)
    if isinstance(rows, np.ndarray):
        return np.asarray(np.log1p(rows))
    return type(rows)((np.log1p(rows.data), rows.indices, rows.indptr), shape=rows.shape)


def clr(where: str, rows: Rows) -> Rows:
    """Return ln x less its mean over the row: parts of a whole, compared with each other."""
    if not isinstance(rows, np.ndarray):
        raise InvalidData(f"{where}: clr needs every value positive, and sparse rows have zeros. Use library,log1p.")
    _refuse(where, rows, "clr", "zero or negative", lambda values: values <= 0)
    logs = np.log(rows)
    return np.asarray(logs - np.nanmean(logs, axis=1, keepdims=True))


TRANSFORMS: Mapping[str, Callable[[str, Rows], Rows]] = {"library": library, "log1p": log1p, "clr": clr}


def _by_row(rows: Any) -> list[Any]:
    return np.split(rows.data, rows.indptr[1:-1])


def _refuse(where: str, rows: Any, name: str, what: str, bad: Callable[[Any], Any]) -> None:
    values = rows if isinstance(rows, np.ndarray) else rows.data
    if bad(values).any():
        raise InvalidData(f"{where}: the transform {name} cannot take values that are {what}, and there are some.")
