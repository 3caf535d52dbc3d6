"""Symmetric matrices as the vectors of their upper triangles, row by row."""

import math

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

_TILE = 128  # rows and columns that are mirrored at a time: they fit the cache
_HALF = 13  # each of the two features of an entry gives half of its 26 binary digits
_UNLIKELY = 1.37  # so that no common variance, such as 1 or a number of rows, lies between two powers of two


def packed_size(d: int) -> int:
    """The number of entries in the upper triangle of a d x d matrix."""
    return d * (d + 1) // 2


def pack(matrix: NDArray[np.floating]) -> NDArray[np.floating]:
    """The upper triangle of a symmetric matrix as a vector."""
    return np.asarray(matrix[_upper(len(matrix))])


def unpack(vector: Array) -> Array:
    """The symmetric matrix from its vector: the inverse of :func:`pack`."""
    d = (math.isqrt(8 * len(vector) + 1) - 1) // 2
    if packed_size(d) != len(vector):
        raise ValueError(f"{len(vector)} numbers are not the upper triangle of a square matrix.")
    matrix = np.zeros((d, d))
    matrix[_upper(d)] = vector
    return mirrored(matrix)


def mirrored(upper: Array) -> Array:
    """The same array with its upper triangle mirrored below the diagonal, where it was zero.

    This is done in place, since new memory for a large matrix takes longer than to fill it.
    """
    d = len(upper)
    for begin in range(0, d, _TILE):
        tile = upper[begin : begin + _TILE, begin : begin + _TILE]
        tile += np.triu(tile, 1).T
        for below in range(begin + _TILE, d, _TILE):
            upper[below : below + _TILE, begin : begin + _TILE] = upper[begin : begin + _TILE, below : below + _TILE].T
    return upper


def coarse(s: Array) -> Array:
    """S to seven digits: each entry is rounded by at most 2⁻²⁴ √(s_ii s_jj), to a multiple of a power of two.

    Matrices that differ by rounding errors are then equal to the last bit, unless an entry is half way between two
    multiples. Such an entry is rare: rounding errors are millions of times smaller than the multiples.
    """
    _, exponents = np.frexp(_UNLIKELY * np.sqrt(s.diagonal()))
    units, inverse = np.ldexp(1.0, exponents - _HALF), np.ldexp(1.0, _HALF - exponents)  # products are not rounded
    rough: Array = s * inverse
    rough *= inverse[:, None]
    np.rint(rough, out=rough)
    rough *= units[:, None]
    rough *= units
    return rough


def _upper(d: int) -> NDArray[np.bool_]:
    """Which entries of a d x d matrix are in its upper triangle."""
    at = np.arange(d)
    return at[:, None] <= at
