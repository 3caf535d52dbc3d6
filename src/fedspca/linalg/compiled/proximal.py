"""Proximal and Newton steps, compiled: see ``proximal.c``. Twin: ``_solve`` in linalg/proximal.py."""

import ctypes
from collections.abc import Callable
from functools import cache

import numpy as np
from numpy.typing import NDArray

from fedspca.linalg.compiled.blas import Handed
from fedspca.linalg.compiled.factors import lapack
from fedspca.linalg.compiled.library import Doubles, Integers, checked
from fedspca.linalg.quadratic import DenseQuadratic, Quadratic

Array = NDArray[np.float64]

_WHOLE, _REAL, _AT = ctypes.c_int64, ctypes.c_double, ctypes.c_void_p


@cache
def _function(kernels: ctypes.CDLL) -> Callable[..., int]:
    """The function, with the types of its arguments."""
    found = kernels.fedspca_minimise
    found.argtypes = [*(_AT, _AT, _WHOLE, Doubles, Doubles, _REAL, _WHOLE, _WHOLE), *[Doubles] * 3, Integers]
    found.restype = _WHOLE
    return found


def solve(
    library: ctypes.CDLL,
    quadratic: Quadratic,
    linear: Array | None,
    lam: Array,
    w: Array,
    tol: float,
    max_iter: int,
    multiplier: Array | None,
) -> tuple[Array, Array, float, float, int, bool]:
    """The point, its multiplier, its value, its residual, the steps taken, and whether they converged."""
    n, r = w.shape
    lam, handed = np.ascontiguousarray(lam, dtype=np.float64), Handed(quadratic, shifted=False)
    if not isinstance(quadratic, DenseQuadratic):  # Newton steps read its entries
        raise TypeError("Proximal steps need a dense matrix.")
    if lam.shape != (r,) or quadratic.factor.shape != (n, n) or (linear is not None and linear.shape != w.shape):
        raise ValueError(f"Loadings of shape {w.shape} do not fit a matrix of shape {quadratic.factor.shape}.")
    w = np.array(w, dtype=np.float64, order="C")
    tied = None if linear is None else np.ascontiguousarray(linear, dtype=np.float64)
    found = np.empty((r, r)) if multiplier is None else np.array(multiplier, dtype=np.float64, order="C")
    if found.shape != (r, r):
        raise ValueError(f"A multiplier must be {r} x {r}, not {found.shape}.")
    numbers, taken = np.empty(2), np.zeros(1, dtype=np.int64)
    converged = checked(
        _function(library)(
            lapack(),
            handed.address,
            r,
            lam,
            tied,
            tol,
            max_iter,
            multiplier is not None,
            w,
            found,
            numbers,
            taken,
        )
    )
    value, residual = numbers.tolist()
    return w, found, value, residual, int(taken[0]), bool(converged)
