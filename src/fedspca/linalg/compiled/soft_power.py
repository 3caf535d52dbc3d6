"""Thresholded power steps, compiled: see ``soft_power.c``. Twin: ``soft_power`` in linalg/soft_power.py."""

import ctypes
from collections.abc import Callable
from functools import cache

import numpy as np
from numpy.typing import NDArray

from fedspca.linalg.compiled.blas import Handed
from fedspca.linalg.compiled.factors import lapack
from fedspca.linalg.compiled.library import Doubles, Integers, checked
from fedspca.linalg.quadratic import Quadratic

Array = NDArray[np.float64]
Index = NDArray[np.intp]

_WHOLE, _AT = ctypes.c_int64, ctypes.c_void_p


@cache
def _function(kernels: ctypes.CDLL) -> Callable[..., int]:
    """The function, with the types of its arguments."""
    found = kernels.fedspca_soft_power
    found.argtypes = [
        *(_AT, _AT, _WHOLE, Doubles, _WHOLE, Integers, _WHOLE, Doubles, _WHOLE, Doubles),
        *(_WHOLE, Doubles, Doubles),
    ]
    found.restype = _WHOLE
    return found


def soft_power(
    library: ctypes.CDLL,
    quadratic: Quadratic,
    lam: Array,
    features: Index,
    beside: Array,
    *,
    steps: int,
    starts: Array | None,
) -> tuple[Array, Array]:
    """Unit columns (m, d, n) and their objectives (m, n), best first."""
    (m, d, q), n = beside.shape, len(features)
    lam, features = np.ascontiguousarray(lam, dtype=np.float64), np.ascontiguousarray(features, dtype=np.int64)
    if d != quadratic.n_rows or lam.shape != (m,) or not n or features.min() < 0 or features.max() >= d:
        raise ValueError(f"{m} problems over {d} features do not fit {lam.shape} lam and {quadratic.n_rows} rows.")
    others = np.ascontiguousarray(beside.transpose(0, 2, 1), dtype=np.float64)
    further = np.zeros((0, d)) if starts is None else np.ascontiguousarray(starts.T, dtype=np.float64)
    if further.shape[1] != d:
        raise ValueError(f"The starts have {further.shape[1]} features, the matrix {d}.")
    handed, e = Handed(quadratic), len(further)
    x, values = np.empty(m * (n + e) * d), np.empty(m * (n + e))
    left = checked(
        _function(library)(
            lapack(),
            handed.address,
            m,
            lam,
            n,
            features,
            q,
            others,
            e,
            further,
            steps,
            x,
            values,
        )
    )
    return x[: m * left * d].reshape(m, left, d).transpose(0, 2, 1), values[: m * left].reshape(m, left)
