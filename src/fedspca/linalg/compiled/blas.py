"""Functions of SciPy's BLAS and LAPACK as pointers, for compiled functions; and matrices as those take them."""

import ctypes
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cython_blas, cython_lapack

from fedspca.linalg.quadratic import DenseQuadratic, Quadratic

Array = NDArray[np.float64]


class _Blas(ctypes.Structure):
    _fields_ = (("dgemm", ctypes.c_void_p), ("dsyevd", ctypes.c_void_p), ("dgesdd", ctypes.c_void_p))


class _Quadratic(ctypes.Structure):
    _fields_ = (
        ("d", ctypes.c_int64),
        ("m", ctypes.c_int64),
        ("factor", ctypes.c_void_p),
        ("signs", ctypes.c_void_p),
        ("shift", ctypes.c_double),
        ("dense", ctypes.c_int),
    )


@lru_cache(maxsize=1)
def blas() -> int:
    """The address of the table of pointers."""
    _TABLE.append(_Blas(*(_pointer(*each) for each in _FUNCTIONS)))
    return ctypes.addressof(_TABLE[-1])


_TABLE: list[_Blas] = []  # held as long as the process lives
_FUNCTIONS = ((cython_blas, "dgemm"), (cython_lapack, "dsyevd"), (cython_lapack, "dgesdd"))


def _pointer(module: object, name: str) -> int:
    """The function in the capsule by which Cython modules import it; its name is its signature."""
    capsule = module.__pyx_capi__[name]  # type: ignore[attr-defined]
    api = ctypes.pythonapi
    api.PyCapsule_GetName.restype, api.PyCapsule_GetName.argtypes = ctypes.c_char_p, [ctypes.py_object]
    api.PyCapsule_GetPointer.restype = ctypes.c_void_p
    api.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
    return int(api.PyCapsule_GetPointer(capsule, api.PyCapsule_GetName(capsule)))


class Handed:
    """A quadratic as compiled functions take it: ``address`` is valid as long as this object is."""

    __slots__ = ("_arrays", "_struct", "address")

    def __init__(self, quadratic: Quadratic) -> None:
        dense = isinstance(quadratic, DenseQuadratic)
        factor = quadratic.factor
        if dense and factor.flags.f_contiguous:
            factor = factor.T  # symmetric
        factor = np.ascontiguousarray(factor, dtype=np.float64)
        d, m = factor.shape
        if dense and d != m:
            raise ValueError(f"A dense quadratic must be square, not {factor.shape}.")
        signs = None if quadratic.signs is None or dense else np.ascontiguousarray(quadratic.signs, dtype=np.float64)
        self._arrays = (factor, signs)
        at = 0 if signs is None else signs.ctypes.data
        self._struct = _Quadratic(d, m, factor.ctypes.data, at, quadratic.shift, int(dense))
        self.address = ctypes.addressof(self._struct)
