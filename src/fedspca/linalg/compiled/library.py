"""The shared library of compiled functions: found, loaded once, and switched off."""

import ctypes
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np
from numpy.typing import NDArray

_NAME = "_kernels.dll" if sys.platform == "win32" else "_kernels.so"
_PATH = f"{__file__.rpartition(os.sep)[0]}{os.sep}{_NAME}"
_INTERFACE = 3  # the version of all signatures together; an older library that was left behind is not used


def _load() -> ctypes.CDLL | None:
    if os.environ.get("FEDSPCA_COMPILED") == "0":
        return None
    try:
        found = ctypes.CDLL(_PATH)
    except OSError:  # not built: there was no compiler
        return None
    return found if int(found.fedspca_interface()) == _INTERFACE else None


_FOUND: list[ctypes.CDLL | None] = []  # looked for when it is first needed
_OFF: ContextVar[bool] = ContextVar("numpy only", default=False)


def library() -> ctypes.CDLL | None:
    """Return the compiled functions, or None where numpy has to do their work."""
    if _OFF.get():
        return None
    if not _FOUND:
        _FOUND.append(_load())
    return _FOUND[0]


@contextmanager
def numpy_only() -> Iterator[None]:
    """Within it, numpy does all the work of this thread, so that machines with and without a compiler do the same."""
    token = _OFF.set(True)
    try:
        yield
    finally:
        _OFF.reset(token)


def doubles(array: NDArray[Any]) -> ctypes.c_void_p:
    """The address of an array in C order, of type float64."""
    return _address(array, np.float64)


def integers(array: NDArray[Any]) -> ctypes.c_void_p:
    """The address of an array in C order, of type int64."""
    return _address(array, np.int64)


def _address(array: NDArray[Any], dtype: type[np.generic]) -> ctypes.c_void_p:
    if array.dtype != dtype or not array.flags.c_contiguous:
        raise TypeError(f"A compiled function needs an array of {dtype.__name__} in C order, not {array.dtype}.")
    return ctypes.c_void_p(array.ctypes.data)


def checked(status: int) -> int:
    """Return what a compiled function returned; negative means that there was no memory."""
    if status < 0:
        raise MemoryError("A compiled function could not allocate its working memory.")
    return status
