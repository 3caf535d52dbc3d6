"""Retraction and Newton steps on the sparse Stiefel manifold."""

import ctypes
from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedspca.linalg.compiled.factors import lapack
from fedspca.linalg.compiled.library import Doubles, checked

Array = NDArray[np.float64]

MOST_COLUMNS = 20  # with more, their equations are solved by iterations, in numpy
MOST_ENTRIES = 700  # with more, products by BLAS are faster

_DOUBLE, _INT, _ADDRESS = ctypes.c_double, ctypes.c_int64, ctypes.c_void_p


class Effort(NamedTuple):
    """The first-order residual to reach, the most steps, whether signs stay, and the trust radius in the beginning."""

    tol: float
    max_newton: int
    keep_signs: bool
    radius: float


class Result(NamedTuple):
    """A point, half its gradient, its value, its multiplier if one was computed, and the trust radius in the end."""

    w: Array
    half: Array
    value: float
    multiplier: Array | None
    radius: float


def fits(w: Array) -> bool:
    """Whether compiled code is the faster one for these loadings."""
    return w.shape[1] <= MOST_COLUMNS and (w.size <= MOST_ENTRIES or int(np.count_nonzero(w)) <= MOST_ENTRIES)


def retract(kernels: ctypes.CDLL, z: Array, mask: Array | None, tol: float, max_iter: int) -> Array | None:
    """Orthonormal w near z that vanishes where ``mask`` (by default z) is zero; None if there is none."""
    z = np.ascontiguousarray(z, dtype=np.float64)
    within = None if mask is None else np.ascontiguousarray(mask, dtype=np.float64)
    if within is not None and within.shape != z.shape:
        raise ValueError(f"A mask of shape {within.shape} does not suit loadings of shape {z.shape}.")
    w = np.empty_like(z)
    found = _functions(kernels).retract(lapack(), *z.shape, z, within, tol, max_iter, w)
    return w if checked(found) else None


def polish(
    kernels: ctypes.CDLL,
    q: Array,
    linear: Array | None,
    lam: Array | None,
    w: Array,
    half: Array,
    value: float,
    how: Effort,
) -> Result:
    """Newton steps for ``-tr(w' q w) - 2 <linear, w> + <lam, |w|>`` on the support of w."""
    n, r = w.shape
    if q.shape != (n, n) or half.shape != w.shape or (linear is not None and linear.shape != w.shape):
        raise ValueError(f"Loadings of shape {w.shape} need a matrix of order {n}, not {q.shape}.")
    if lam is not None and lam.shape != (r,):
        raise ValueError(f"There must be one lam for each of {r} columns, not {lam.shape}.")
    q = np.ascontiguousarray(q, dtype=np.float64)
    tied = None if linear is None else np.ascontiguousarray(linear, dtype=np.float64)
    sizes = None if lam is None else np.ascontiguousarray(lam, dtype=np.float64)
    point, slope = np.array(w, dtype=np.float64, order="C"), np.array(half, dtype=np.float64, order="C")
    numbers, multiplier = np.array([value, how.radius]), np.empty((r, r))
    status = checked(
        _functions(kernels).polish(
            lapack(),
            n,
            r,
            q,
            tied,
            sizes,
            how.tol,
            how.max_newton,
            how.keep_signs,
            point,
            slope,
            numbers[:1],
            numbers[1:],
            multiplier,
        )
    )
    reached, radius = numbers.tolist()
    found = multiplier if status else None
    return Result(w, half, value, found, radius) if status < 2 else Result(point, slope, reached, found, radius)


class _Functions(NamedTuple):
    retract: Callable[..., int]
    polish: Callable[..., int]


@cache
def _functions(kernels: ctypes.CDLL) -> _Functions:
    """The functions, with the types of their arguments."""
    found = _Functions(kernels.fedspca_retract, kernels.fedspca_polish)
    kernels.fedspca_retract.argtypes = [_ADDRESS, _INT, _INT, Doubles, Doubles, _DOUBLE, _INT, Doubles]
    kernels.fedspca_polish.argtypes = [_ADDRESS, _INT, _INT, *[Doubles] * 3, _DOUBLE, _INT, _INT, *[Doubles] * 5]
    kernels.fedspca_retract.restype = kernels.fedspca_polish.restype = _INT
    return found
