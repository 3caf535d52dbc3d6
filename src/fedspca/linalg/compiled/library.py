"""The shared library of compiled functions: found, loaded once, and switched off."""

import ctypes
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

_NAME = "_kernels.dll" if sys.platform == "win32" else "_kernels.so"
_PATH = os.path.join(os.path.dirname(__file__), _NAME)  # noqa: PTH118, PTH120 - the mathematics does without pathlib
_INTERFACE = 1  # the version of all signatures together; an older library that was left behind is not used


def _load() -> ctypes.CDLL | None:
    if os.environ.get("FEDSPCA_COMPILED") == "0":
        return None
    try:
        found = ctypes.CDLL(_PATH)
    except OSError:  # not built: there was no compiler
        return None
    return found if int(found.fedspca_interface()) == _INTERFACE else None


class _Loaded:
    """The library, looked for when it is first needed."""

    def __init__(self) -> None:
        self.looked = False
        self.library: ctypes.CDLL | None = None
        self.off = 0


_LOADED = _Loaded()


def library() -> ctypes.CDLL | None:
    """Return the compiled functions, or None where numpy has to do their work."""
    if _LOADED.off:
        return None
    if not _LOADED.looked:
        _LOADED.library, _LOADED.looked = _load(), True
    return _LOADED.library


@contextmanager
def numpy_only() -> Iterator[None]:
    """Within it, numpy does all the work: for tests, and to see what compiled code changes."""
    _LOADED.off += 1
    try:
        yield
    finally:
        _LOADED.off -= 1


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
