"""The functions of LAPACK that compiled code calls for larger matrices: those that scipy was built with."""

import ctypes
from functools import cache
from typing import Any

from scipy.linalg import cython_blas, cython_lapack

# in the order of `Lapack` in factors.h. The kinds of the arguments: characters, integers, doubles, single precision
_WANTED: tuple[tuple[Any, str, str], ...] = (
    (cython_lapack, "dpotrf", "cidii"),
    (cython_lapack, "dtrtri", "ccidii"),
    (cython_lapack, "dlauum", "cidii"),
    (cython_blas, "dtrsm", "cccciiddidi"),
    (cython_blas, "dsyrk", "cciiddiddi"),
    (cython_blas, "dgemm", "cciiiddididdi"),
    (cython_blas, "dsymv", "ciddididdi"),
    (cython_lapack, "dsyevr", "cccididdiididdiidiiii"),
    (cython_lapack, "dsyevd", "ccididdiiii"),
    (cython_lapack, "dgesdd", "ciididdididiii"),
    (cython_blas, "sgemm", "cciiissisissi"),
)
_KINDS = {"char *": "c", "int *": "i"}
_REAL = {"_d *": "d", "_s *": "s"}


@cache
def lapack() -> int | None:
    """The address of a table of functions, for C; None if scipy has them with other types."""
    table = (ctypes.c_void_p * len(_WANTED))()
    for at, (module, name, kinds) in enumerate(_WANTED):
        address = _address(module.__pyx_capi__.get(name), kinds)
        if address is None:
            return None
        table[at] = address
    _KEPT.append(table)
    return ctypes.addressof(table)


_KEPT: list[ctypes.Array[ctypes.c_void_p]] = []  # the table lives as long as the process


def _address(capsule: object, kinds: str) -> int | None:
    """The address of a function that takes arguments of these kinds."""
    if capsule is None:
        return None
    name_of = ctypes.pythonapi.PyCapsule_GetName
    name_of.restype, name_of.argtypes = ctypes.c_char_p, [ctypes.py_object]
    signature = name_of(capsule)
    takes = signature.decode().removeprefix("void (").removesuffix(")").split(", ")
    if "".join(_KINDS.get(each, _REAL.get(each[-4:], "?")) for each in takes) != kinds:
        return None
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    return int(pointer(capsule, signature))
