"""Shamir's scheme over GF(2¹²⁸), for all shares at once: any ``threshold`` shares restore the secret.

A secret of 16 bytes is the value at 0 of a polynomial of degree ``threshold`` − 1 whose other coefficients come from
the operating system; share k is its value at k + 1. Fewer than ``threshold`` values reveal nothing about the value
at 0, even with unlimited computing power. The field polynomial is x¹²⁸ + x⁷ + x² + x + 1, as in pycryptodome, so the
shares are compatible. But pycryptodome computes each product in a Python loop, and a round needs of the order of n³
products for n sites.

An element is two words of 64 bits, the upper first. The code never branches on a secret and never uses it as
an index. It does so only with the numbers of the shares, which are public.
"""

import secrets
from collections.abc import Mapping, Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

Words = NDArray[np.uint64]

BYTES = 16
LOW = 0x87  # x⁷ + x² + x + 1, which equals x¹²⁸ in the field
FIELD = (1 << 128) | LOW
TOP, ONE = np.uint64(63), np.uint64(1)


def shares_of(secrets_of: Sequence[bytes], threshold: int, parts: int) -> list[list[bytes]]:
    """Return ``parts`` shares of each secret, by Horner's rule at all points at once."""
    drawn = np.frombuffer(secrets.token_bytes(BYTES * (threshold - 1) * len(secrets_of)), ">u8")
    last = np.frombuffer(b"".join(secrets_of), ">u8")
    coefficients = np.append(drawn, last).astype(np.uint64).reshape(threshold, len(secrets_of), 2)
    points = np.arange(1, parts + 1, dtype=np.uint64)
    places = [_mask(points, bit) for bit in range(parts.bit_length())]
    high = low = np.zeros((len(secrets_of), parts), np.uint64)
    for coefficient in coefficients:  # the highest power first
        high, low = _times(high, low, places)
        high, low = high ^ coefficient[:, :1], low ^ coefficient[:, 1:]
    values = np.stack([high, low], axis=-1).astype(">u8")
    return [[share.tobytes() for share in of_one] for of_one in values]


def secret_of(shares: Mapping[int, bytes]) -> bytes:
    """Return the value at 0 of the polynomial through these shares, which are numbered from 0."""
    numbers = tuple(sorted(shares))
    values = np.frombuffer(b"".join(shares[number] for number in numbers), ">u8").astype(np.uint64).reshape(-1, 2)
    product = np.stack(_times(values[:, 0], values[:, 1], _places(numbers)))
    return bytes(np.bitwise_xor.reduce(product, axis=1).astype(">u8").tobytes())


def _mask(words: Words, bit: int) -> Words:
    """Return all ones where a bit is set, and zero elsewhere."""
    return np.uint64(0) - ((words >> np.uint64(bit)) & ONE)


def _times(high: Words, low: Words, places: Sequence[Words]) -> tuple[Words, Words]:
    """Return the products with elements that are given as one mask per bit, the lowest bit first."""
    product_high, product_low = np.zeros_like(high), np.zeros_like(low)
    for number, place in enumerate(places):
        if number:  # x·a: an overflow beyond x¹²⁷ is reduced to x⁷ + x² + x + 1
            carry = (high >> TOP) * np.uint64(LOW)
            high, low = (high << ONE) | (low >> TOP), (low << ONE) ^ carry
        product_high ^= high & place
        product_low ^= low & place
    return product_high, product_low


@lru_cache(maxsize=8)
def _places(numbers: tuple[int, ...]) -> list[Words]:
    """Return the masks of Lagrange's weights: the same for every secret of a round."""
    high, low = _weights(numbers)
    return [_mask(word, bit) for word in (low, high) for bit in range(64)]


def _weights(numbers: tuple[int, ...]) -> Words:
    """Return Lagrange's weights for the value at 0, Π_j x_j / (x_j − x_i)."""
    points = [number + 1 for number in numbers]
    weights = []
    for one in points:
        above = below = 1
        for other in points:
            if other != one:
                above, below = _product(above, other), _product(below, other ^ one)
        weights.append(_product(above, _inverse(below)))
    return np.array([[weight >> 64, weight & (1 << 64) - 1] for weight in weights], np.uint64).T


def _product(a: int, b: int) -> int:
    """Return the product of two public elements; fast if the second is small."""
    product = 0
    while b:
        if b & 1:
            product ^= a
        b >>= 1
        a <<= 1
        a ^= FIELD if a >> 128 else 0
    return product


def _inverse(a: int) -> int:
    """Return 1/a, by Euclid's algorithm for polynomials."""
    low, high, one, other = a, FIELD, 1, 0
    while low != 1:
        shift = high.bit_length() - low.bit_length()  # low never has the higher degree
        high ^= low << shift
        other ^= one << shift
        low, high, one, other = (
            (high, low, other, one) if high.bit_length() < low.bit_length() else (low, high, one, other)
        )
    return one
