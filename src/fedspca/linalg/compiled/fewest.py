"""The search for the fewest non-zeros that keep a share of the variance."""

import ctypes
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedspca.linalg.compiled.factors import lapack
from fedspca.linalg.compiled.library import Doubles, checked
from fedspca.linalg.compiled.stiefel import MOST_COLUMNS

Array = NDArray[np.float64]
Late = Callable[[], bool]  # whether time is up

_MOST = 2000  # non-zeros of a start: with more, products by BLAS are faster
_DOUBLE, _INT, _ADDRESS = ctypes.c_double, ctypes.c_int64, ctypes.c_void_p
_ASK = ctypes.CFUNCTYPE(ctypes.c_int64)


class _Clock:
    """Tells C whether time is up. An error on the way, such as an interruption by the user, ends the search too."""

    def __init__(self, late: Late | None) -> None:
        self._late = late
        self._error: BaseException | None = None
        self.ask = _ASK() if late is None else _ASK(self._asked)

    def _asked(self) -> int:
        assert self._late is not None
        try:
            return int(self._late())
        except BaseException as error:  # C cannot pass it on
            self._error = error
            return 1

    def checked(self, status: int) -> int:
        """Return what a compiled function returned, or raise what went wrong meanwhile."""
        if self._error is not None:
            raise self._error
        return checked(status)


def fits(starts: Sequence[Array]) -> bool:
    """Whether compiled code is the faster one from these loadings."""
    return all(w.shape[1] <= MOST_COLUMNS and (w.size <= _MOST or np.count_nonzero(w) <= _MOST) for w in starts)


def fewest(
    kernels: ctypes.CDLL, s: Array, target: float, starts: Sequence[Array], late: Late | None
) -> tuple[Array, float] | None:
    """Orthonormal loadings with few non-zeros that capture the target, and what they capture; None if no start does."""
    many = np.array(starts, dtype=np.float64)
    s = _matrix(s, many[0])
    w, variance = np.empty(many.shape[1:]), ctypes.c_double()
    clock = _Clock(late)
    found = _functions(kernels).fewest(
        lapack(),
        *w.shape,
        s,
        target,
        clock.ask,
        len(many),
        many,
        w,
        ctypes.byref(variance),
    )
    return (w, variance.value) if clock.checked(found) else None


def fewer(
    kernels: ctypes.CDLL, s: Array, target: float, w: Array, variance: float, late: Late | None
) -> tuple[Array, float]:
    """Loadings that capture the target with entries exchanged and left out."""
    s, z, reached = _matrix(s, w), np.array(w, dtype=np.float64, order="C"), ctypes.c_double(variance)
    clock = _Clock(late)
    call = _functions(kernels).fewer
    clock.checked(call(lapack(), *z.shape, s, target, clock.ask, z, ctypes.byref(reached)))
    return z, reached.value


def cut_alike(kernels: ctypes.CDLL, s: Array, w: Array, k: int) -> float:
    """The variance of the k largest entries in each column of a gradient step, refitted; 0 if they admit no refit."""
    s, z, reached = _matrix(s, w), np.ascontiguousarray(w, dtype=np.float64), ctypes.c_double()
    call = _functions(kernels).cut_alike
    checked(call(lapack(), *z.shape, s, z, k, ctypes.byref(reached)))
    return reached.value


def refit(
    kernels: ctypes.CDLL, s: Array, w: Array, *, rough: bool, retracted: bool = False
) -> tuple[Array, float] | None:
    """The best orthonormal loadings on the supports of w, and what they capture; None if these admit none.

    With ``retracted``, w is made orthonormal first.
    """
    s, start, reached = _matrix(s, w), np.ascontiguousarray(w, dtype=np.float64), ctypes.c_double()
    z = np.empty_like(start)
    call, at = _functions(kernels).refit, ctypes.byref(reached)
    found = call(lapack(), *z.shape, s, start, retracted, rough, z, at)
    return (z, reached.value) if checked(found) else None


def partition(kernels: ctypes.CDLL, s: Array, w: Array) -> Array | None:
    """Loadings near w that share no feature; None if an eigenproblem failed."""
    s, z = _matrix(s, w), np.array(w, dtype=np.float64, order="C")
    found = _functions(kernels).partition(lapack(), *z.shape, s, z)
    return z if checked(found) else None


def _matrix(s: Array, w: Array) -> Array:
    """S as C reads it, if it suits these loadings."""
    if w.ndim != 2 or s.shape != (len(w), len(w)):
        raise ValueError(f"Loadings of shape {w.shape} need a square matrix of that order, not {s.shape}.")
    return np.ascontiguousarray(s, dtype=np.float64)


class _Functions(NamedTuple):
    fewest: Callable[..., int]
    fewer: Callable[..., int]
    cut_alike: Callable[..., int]
    refit: Callable[..., int]
    partition: Callable[..., int]


@cache
def _functions(kernels: ctypes.CDLL) -> _Functions:
    """The functions, with the types of their arguments: LAPACK, d, r and S come first."""
    number = ctypes.POINTER(_DOUBLE)
    takes: dict[str, list[Any]] = {
        "fewest": [_DOUBLE, _ASK, _INT, Doubles, Doubles, number],
        "fewer": [_DOUBLE, _ASK, Doubles, number],
        "cut_alike": [Doubles, _INT, number],
        "refit": [Doubles, _INT, _INT, Doubles, number],
        "partition": [Doubles],
    }
    found = {name: kernels[f"fedspca_{name}"] for name in takes}
    for name, call in found.items():
        call.argtypes, call.restype = [_ADDRESS, _INT, _INT, Doubles, *takes[name]], _INT
    return _Functions(**found)
