"""Symmetric matrices as the vectors of their upper triangles, row by row."""

import math

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def packed_size(d: int) -> int:
    """The number of entries in the upper triangle of a d x d matrix."""
    return d * (d + 1) // 2


def pack(matrix: NDArray[np.floating]) -> NDArray[np.floating]:
    """The upper triangle of a symmetric matrix as a vector."""
    return np.asarray(matrix[np.triu(np.ones(matrix.shape, dtype=bool))])


def unpack(vector: Array) -> Array:
    """The symmetric matrix from its vector: the inverse of :func:`pack`."""
    d = (math.isqrt(8 * len(vector) + 1) - 1) // 2
    if packed_size(d) != len(vector):
        raise ValueError(f"{len(vector)} numbers are not the upper triangle of a square matrix.")
    matrix = np.zeros((d, d))
    upper = np.triu(np.ones((d, d), dtype=bool))
    matrix[upper] = vector
    matrix.T[upper] = vector
    return matrix
