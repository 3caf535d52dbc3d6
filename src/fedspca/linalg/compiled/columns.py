"""The search for all columns of a known S, in C: the twin of ``cardinality.joint`` and of what it calls."""

import ctypes
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedspca.linalg.cardinality.tuning import Tuning, at_once
from fedspca.linalg.compiled.factors import lapack
from fedspca.linalg.compiled.library import Doubles, Integers, checked, library

Array = NDArray[np.float64]

_COLUMNS = 64  # the most columns; C keeps lists of them on its stack
_MANY = 512  # non-zeros in all: up to 500, C took a tenth to a half of the time of numpy; more were not measured
_FIRST, _SWEEPS, _MOVES, _SINGLE, _SINGLES = 1, 2, 4, 8, 16  # stages of a search
_INT, _DOUBLE, _ADDRESS = ctypes.c_int64, ctypes.c_double, ctypes.c_void_p
_SEARCH = (
    *(_ADDRESS, _INT, _INT, Doubles, Integers, _INT),  # LAPACK, d, r, S, k, orthogonal
    *(Integers, _DOUBLE, _INT, Doubles),  # effort, dense starts
    *(_INT, _INT, Doubles, Doubles),  # stages, points
)
_LOWEST = (_INT, _INT, Doubles, Integers, _INT, Doubles)


class _Functions(NamedTuple):
    columns: Callable[..., int]
    lowest: Callable[..., int]


@cache
def _functions(kernels: ctypes.CDLL) -> _Functions:
    """The functions, with the types of their arguments."""
    found = _Functions(kernels.fedspca_columns, kernels.fedspca_lowest)
    kernels.fedspca_columns.argtypes, kernels.fedspca_lowest.argtypes = _SEARCH, _LOWEST
    kernels.fedspca_columns.restype = kernels.fedspca_lowest.restype = _INT
    return found


def suits(k: Sequence[int], tuning: Tuning) -> bool:
    """Whether C can search for all columns: there is a library, and the problem is not too large for it.

    Many columns of a single solution are swept at once, by numpy.
    """
    if at_once(len(k), tuning):
        return False
    return library() is not None and len(k) <= _COLUMNS and sum(k) <= _MANY


def available(w: Array) -> bool:
    """Whether C can treat these loadings."""
    return library() is not None and w.shape[1] <= _COLUMNS and int(np.count_nonzero(w)) <= _MANY


def searched(
    s: Array, k: Sequence[int], orthogonal: bool, tuning: Tuning, dense: Sequence[Array]
) -> tuple[Array, float] | None:
    """The best loadings found, and their variance; None where numpy has to search.

    Time is looked at between stages only: each takes milliseconds.
    """
    call = _Search(s, k, orthogonal, tuning, dense)
    if math.isinf(tuning.deadline):
        return call.best() if call.run(_FIRST | _SWEEPS | _MOVES) else None
    if not call.run(_FIRST):
        return None
    for stage in (_SWEEPS, _MOVES):
        if not tuning.late:
            call.run(stage)
    return call.best()


def swept(
    s: Array, w: Array, variance: float, k: Sequence[int], orthogonal: bool, tuning: Tuning, *, moves: bool = False
) -> tuple[Array, float]:
    """Loadings (d, r) swept until nothing gains, and their variance; then features move between columns, if asked."""
    call = _Search(s, k, orthogonal, tuning, [])
    if (np.count_nonzero(w, axis=0) > call.k).any():  # C has room for k features
        raise ValueError(f"Loadings of {np.count_nonzero(w, axis=0)} features have more than {list(k)}.")
    call.w[0], call.variances[0], call.n = w.T, variance, 1
    if not tuning.late:
        call.run(_SWEEPS | _MOVES if moves else _SWEEPS)
    return call.best()


def single(s: Array, k: int, tuning: Tuning, dense: Sequence[Array]) -> NDArray[np.intp] | None:
    """The support of the best column, the lowest of equal features selected; None where numpy has to search."""
    call = _Search(s, (k,), True, tuning, dense)
    return np.flatnonzero(call.w[0, 0]) if call.run(_SINGLE) else None


def singles(s: Array, k: int, tuning: Tuning) -> list[NDArray[np.intp]]:
    """The supports of the ``tuning.beam`` best single columns; none where numpy has to search."""
    call = _Search(s, (k,), True, replace(tuning, finalists=tuning.beam), [])
    return [np.flatnonzero(w[0]) for w in call.w[: call.run(_SINGLES)]]


def lowest(s: Array, w: Array, orthogonal: bool) -> Array | None:
    """Loadings with the lowest index selected among equal features; None where nothing changes.

    The twin of ``column.lowest``, for one column after the other.
    """
    loaded = library()
    if loaded is None:
        raise RuntimeError("There is no compiled library.")
    call = _functions(loaded).lowest
    s, z = np.ascontiguousarray(s, dtype=np.float64), np.array(w.T, dtype=np.float64, order="C")
    k = np.count_nonzero(z, axis=1).astype(np.int64)
    r, d = z.shape
    if s.shape != (d, d) or r > _COLUMNS:
        raise ValueError(f"S of shape {s.shape} does not suit {r} columns of {d} features.")
    changed = checked(call(d, r, s, k, int(orthogonal), z))
    return np.ascontiguousarray(z.T) if changed else None


class _Search:
    """The arguments of one search, and its points: loadings (m, r, d) and variances (m,), best first."""

    def __init__(self, s: Array, k: Sequence[int], orthogonal: bool, tuning: Tuning, dense: Sequence[Array]) -> None:
        d, r = len(s), len(k)
        self.s = np.ascontiguousarray(s, dtype=np.float64)
        self.k = np.array(k, dtype=np.int64)
        self.numbers = np.array(_numbers(tuning), dtype=np.int64)
        self.given = np.array([w.T for w in dense], dtype=np.float64).reshape(-1, r, d)
        self.w, self.variances, self.n = np.empty((tuning.finalists, r, d)), np.empty(tuning.finalists), 0
        if self.s.shape != (d, d) or not 1 <= int(self.k.min()) <= int(self.k.max()) <= d:
            raise ValueError(f"S of shape {self.s.shape} has no columns of {list(k)} features.")
        if r > _COLUMNS:
            raise ValueError(f"There are {r} columns, more than {_COLUMNS}.")
        self.orthogonal, self.near = int(orthogonal), tuning.near

    def run(self, stages: int) -> int:
        loaded = library()
        if loaded is None:
            return 0
        asked = lapack(), len(self.s), len(self.k), self.s, self.k, self.orthogonal, self.numbers, self.near
        starts, points = (len(self.given), self.given), (self.n, self.w, self.variances)
        self.n = checked(_functions(loaded).columns(*asked, *starts, stages, *points))
        return self.n

    def best(self) -> tuple[Array, float]:
        return np.ascontiguousarray(self.w[0].T), float(self.variances[0])


def _numbers(tuning: Tuning) -> tuple[int, ...]:
    """The numbers of a tuning in the order of ``Effort`` in ``columns.h``."""
    return (
        tuning.small,
        tuning.first_wave,
        tuning.starts,
        tuning.short,
        tuning.power_steps,
        tuning.refits,
        tuning.climbs,
        tuning.swaps,
        tuning.steps,
        tuning.beam,
        tuning.points,
        tuning.branches,
        tuning.pool,
        tuning.sweeps,
        tuning.finalists,
        tuning.pairs,
        int(tuning.handovers),
        tuning.few,
    )
