"""Steps of ADMM, compiled: see ``splitting.c``.

Twins: ``split``, ``settle``, ``orthonormal`` and ``objectives`` of linalg/splitting.
"""

import ctypes
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedspca.linalg.compiled.blas import Handed
from fedspca.linalg.compiled.factors import lapack
from fedspca.linalg.compiled.library import Doubles, Integers, Singles, checked
from fedspca.linalg.quadratic import Quadratic

Array = NDArray[np.float64]
Index = NDArray[np.intp]

_WHOLE, _REAL, _AT = ctypes.c_int64, ctypes.c_double, ctypes.c_void_p
_FAILED = -2


class _Functions(NamedTuple):
    split: Callable[..., int]
    settle: Callable[..., int]
    nearest: Callable[..., int]
    objectives: Callable[..., int]


@cache
def _functions(kernels: ctypes.CDLL) -> _Functions:
    """The functions, with the types of their arguments."""
    found = _Functions(
        kernels.fedspca_split, kernels.fedspca_settle, kernels.fedspca_nearest, kernels.fedspca_objectives
    )
    of_starts: list[Any] = [_AT, _AT, _WHOLE, _WHOLE, Doubles, Doubles, Doubles, Doubles, _WHOLE, _REAL]
    of_cuts: list[Any] = [_WHOLE, Integers, Integers, _REAL]
    kernels.fedspca_split.argtypes = [*of_starts, *of_cuts, Doubles, Integers, Doubles]
    kernels.fedspca_settle.argtypes = [_AT, _AT, _WHOLE, *[Doubles] * 5, Singles, _WHOLE, _REAL, Doubles]
    kernels.fedspca_nearest.argtypes = [_AT, _WHOLE, _WHOLE, _WHOLE, Doubles, Doubles]
    kernels.fedspca_objectives.argtypes = [_AT, _AT, _WHOLE, _WHOLE, Doubles, Doubles, Doubles]
    for name in found._fields:
        getattr(kernels, f"fedspca_{name}").restype = _WHOLE
    return found


def _converged(status: int) -> int:
    if status == _FAILED:
        raise np.linalg.LinAlgError("A decomposition did not converge: a matrix has entries that are not finite.")
    return checked(status)


def _along(x: Array) -> Array:
    """A copy of a matrix, or of a stack of them, whose columns are rows."""
    return np.array(np.swapaxes(x, -1, -2), dtype=np.float64, order="C")


def _weights(lam: Array, r: int) -> Array:
    lam = np.ascontiguousarray(lam, dtype=np.float64)
    if lam.shape != (r,):
        raise ValueError(f"There must be one lam for each of {r} columns, not {lam.shape}.")
    return lam


def split(
    library: ctypes.CDLL,
    quadratic: Quadratic,
    lam: Array,
    starts: Array,
    *,
    steps: int,
    tol: float,
    keep: Mapping[int, int],
    multipliers: Array | None,
    aim: float,
) -> tuple[Array, Array, Array, Index, Array]:
    """``w``, ``z``, ``values``, ``start`` and ``multipliers`` of the starts (n, d, r) that are left."""
    n, d, r = starts.shape
    if not n:
        raise ValueError("There must be a start.")
    if d != quadratic.n_rows:
        raise ValueError(f"The starts have {d} features, the matrix {quadratic.n_rows}.")
    lam, handed = _weights(lam, r), Handed(quadratic)
    cuts = np.array(sorted(keep.items()), dtype=np.int64).reshape(-1, 2).T.copy()
    w, z = _along(starts), np.empty((n, r, d))
    given = None
    if multipliers is not None:
        given = np.ascontiguousarray(np.broadcast_to(multipliers, (n, r, r)), dtype=np.float64)
    values, start, found = np.empty(n), np.empty(n, dtype=np.int64), np.empty((n, r, r))
    left = _converged(
        _functions(library).split(
            lapack(),
            handed.address,
            n,
            r,
            lam,
            w,
            z,
            given,
            steps,
            tol,
            cuts.shape[1],
            cuts[0],
            cuts[1],
            aim,
            values,
            start,
            found,
        )
    )
    return np.swapaxes(w[:left], 1, 2), np.swapaxes(z[:left], 1, 2), values[:left], start[:left], found[:left]


def settle(
    library: ctypes.CDLL,
    quadratic: Quadratic,
    lam: Array,
    start: Array,
    *,
    steps: int,
    tol: float,
    linear: Array | None,
    multiplier: Array | None,
    single: NDArray[np.float32] | None,
) -> tuple[Array, Array, Array, bool]:
    """``w``, ``z``, the multiplier, and whether the steps have settled."""
    d, r = start.shape
    if d != quadratic.n_rows:
        raise ValueError(f"The start has {d} features, the matrix {quadratic.n_rows}.")
    lam, handed = _weights(lam, r), Handed(quadratic)
    w, z, found = _along(start), np.empty((r, d)), np.empty((r, r))
    extra = None if linear is None else _along(np.broadcast_to(linear, (d, r)))
    given = None if multiplier is None else np.ascontiguousarray(multiplier, dtype=np.float64)
    if given is not None and given.shape != (r, r):
        raise ValueError(f"A multiplier must be {r} x {r}, not {given.shape}.")
    if single is not None and (single.shape != (d, d) or single.dtype != np.float32):
        raise ValueError(f"The matrix in single precision must be {d} x {d}, not {single.shape}.")
    single = None if single is None else np.ascontiguousarray(single)
    settled = _converged(
        _functions(library).settle(
            lapack(),
            handed.address,
            r,
            lam,
            w,
            z,
            extra,
            given,
            single,
            steps,
            tol,
            found,
        )
    )
    return np.ascontiguousarray(w.T), np.ascontiguousarray(z.T), found, bool(settled)


def orthonormal(library: ctypes.CDLL, x: Array) -> Array:
    """The orthonormal matrix nearest to each of a stack (n, d, r)."""
    n, d, r = x.shape
    x = _along(x)
    out = np.empty_like(x)
    _converged(_functions(library).nearest(lapack(), n, d, r, x, out))
    return np.ascontiguousarray(np.swapaxes(out, 1, 2))


def objectives(library: ctypes.CDLL, quadratic: Quadratic, lam: Array, w: Array) -> Array:
    """``-tr(w' Q w) + lam ||w||_1`` at each of (n, d, r)."""
    n, d, r = w.shape
    if d != quadratic.n_rows:
        raise ValueError(f"The points have {d} features, the matrix {quadratic.n_rows}.")
    lam, handed, w, values = _weights(lam, r), Handed(quadratic), _along(w), np.empty(n)
    checked(_functions(library).objectives(lapack(), handed.address, n, r, lam, w, values))
    return values
