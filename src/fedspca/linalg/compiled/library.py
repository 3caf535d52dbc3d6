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
_PLACE = ctypes.c_char * 0  # nothing of a buffer: the place where it begins
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


class Doubles(ctypes.c_void_p):
    """The type of an argument of a compiled function: an array of float64 in C order, or None."""

    dtype: np.dtype[Any] = np.dtype(np.float64)

    @classmethod
    def from_param(cls, array: Any, /) -> Any:
        """What ctypes hands over: the place of the first entry."""
        if array is None:
            return None
        if array.dtype != cls.dtype:
            raise TypeError(f"A compiled function needs an array of {cls.dtype} in C order, not {array.dtype}.")
        try:
            return _PLACE.from_buffer(array)  # `array.ctypes` takes eight times as long, in a small fit 160 times
        except (TypeError, ValueError):  # it is read-only
            if not array.flags.c_contiguous:
                raise TypeError("A compiled function needs an array in C order.") from None
            return ctypes.c_void_p(array.ctypes.data)


class Integers(Doubles):
    """The same for int64."""

    dtype = np.dtype(np.int64)


class Singles(Doubles):
    """The same for float32."""

    dtype = np.dtype(np.float32)


def address(array: NDArray[Any]) -> int:
    """The address of an array of float64 in C order: valid as long as the array is."""
    place = Doubles.from_param(array)
    return int(place.value or 0) if isinstance(place, ctypes.c_void_p) else ctypes.addressof(place)


def checked(status: int) -> int:
    """Return what a compiled function returned; negative means that there was no memory."""
    if status < 0:
        raise MemoryError("A compiled function could not allocate its working memory.")
    return status
