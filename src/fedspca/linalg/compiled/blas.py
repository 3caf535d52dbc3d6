"""Matrices as compiled functions take them that multiply by SciPy's BLAS."""

import ctypes

import numpy as np

from fedspca.linalg.compiled.factors import lapack
from fedspca.linalg.compiled.library import address, library
from fedspca.linalg.quadratic import DenseQuadratic, Quadratic


def with_blas() -> ctypes.CDLL | None:
    """Return the compiled functions, or None where there are none, or no BLAS that they could call."""
    return None if lapack() is None else library()


class _Quadratic(ctypes.Structure):
    _fields_ = (
        ("d", ctypes.c_int64),
        ("m", ctypes.c_int64),
        ("factor", ctypes.c_void_p),
        ("signs", ctypes.c_void_p),
        ("shift", ctypes.c_double),
        ("dense", ctypes.c_int),
    )


class Handed:
    """A quadratic as compiled functions take it, with its shift or without: valid as long as this object is."""

    __slots__ = ("_arrays", "_struct", "address")

    def __init__(self, quadratic: Quadratic, *, shifted: bool = True) -> None:
        dense = isinstance(quadratic, DenseQuadratic)
        factor = quadratic.factor
        if dense and factor.flags.f_contiguous:
            factor = factor.T  # symmetric
        factor = np.ascontiguousarray(factor, dtype=np.float64)
        d, m = factor.shape
        if dense and d != m:
            raise ValueError(f"A dense quadratic must be square, not {factor.shape}.")
        signs = None if quadratic.signs is None or dense else np.ascontiguousarray(quadratic.signs, dtype=np.float64)
        if signs is not None and signs.shape != (m,):
            raise ValueError(f"There must be {m} signs, not {signs.shape}.")
        self._arrays = (factor, signs)
        at = 0 if signs is None else address(signs)
        self._struct = _Quadratic(d, m, address(factor), at, quadratic.shift if shifted else 0.0, int(dense))
        self.address = ctypes.addressof(self._struct)
