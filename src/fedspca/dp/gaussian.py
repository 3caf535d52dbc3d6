"""Exact discrete Gaussian noise, drawn in blocks: integers y with probabilities proportional to exp(−y²/2σ²).

By rejection, after Canonne, Kamath and Steinke (2020). With t = 2ᵐ near σ, a candidate is |y| = U + tV, where U is
uniform on 0, …, t − 1 and V ≥ v has probability e⁻ᵛ. It is accepted with probability exp(−γ),

    γ = y²/2σ² − V + M,   M = max_v (v − v²t²/2σ²),

which is at most 1, since y ≥ tV. So accepted candidates have the wanted probabilities; −0 is rejected.

Why this is exact
-----------------
All bits are the operating system's, and y is an integer. U and the sign are bits. What is left are comparisons of a
uniform number with exp(−γ) or e⁻ᵛ. A uniform number is known to 64 bits at first. The table of e⁻ᵛ has the exact first
64 bits. exp(−γ) is computed in double precision with an error below 2⁻⁴⁵ (γ loses a few units of 2⁻⁵² times the
probability, and numpy's exponential is within a few units in the last place), and :data:`MARGIN` allows 2⁻⁴⁰. If the
known bits decide, the decision is that of exact arithmetic. If they do not, once in 2³⁹ comparisons, rational
arithmetic decides, with as many further bits of both numbers as it takes. No decision is ever rounded.
"""

import math
import secrets
from collections.abc import Iterator
from decimal import MAX_EMAX, MIN_EMIN, ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Words = NDArray[np.uint64]
Integers = NDArray[np.int64]

BLOCK = 1 << 15  # candidates at once: arrays that stay in the processor's cache
MARGIN = 2.0**-40
LARGEST = 2.0**50  # so that |y| is below 2⁵³, and a double holds it
LAST = 44  # the last v for which the first 64 bits of e⁻ᵛ are not all zero
WORD = 64


def discrete_gaussian(scale: float, size: int) -> Array:
    """Draw ``size`` integers y with probabilities proportional to exp(−y²/2scale²).

    Parameters
    ----------
    scale : float
        The standard deviation σ, at most 2⁵⁰.
    size : int
        How many.

    Returns
    -------
    ndarray of shape (size,)
        Whole numbers, as doubles.
    """
    if not 0 < scale <= LARGEST:
        raise ValueError(f"noise of standard deviation {scale} cannot be drawn; it must be above 0 and at most 2^50")
    drawn = np.empty(size)
    filled = 0
    while filled < size:
        accepted = _accepted(scale, min(BLOCK, 3 * (size - filled) + 16))[: size - filled]
        drawn[filled : filled + len(accepted)] = accepted
        filled += len(accepted)
    return drawn


def _accepted(scale: float, count: int) -> Integers:
    """Draw so many candidates and return those that are accepted, in their order."""
    place = max(0, round(math.log2(scale)))  # t = 2^place
    first, second, third = np.frombuffer(secrets.token_bytes(3 * 8 * count), np.uint64).reshape(3, count)
    levels = _levels(second)
    sizes = (first & np.uint64((1 << place) - 1)).astype(np.int64) + (levels << place)
    negative = first >> np.uint64(63) == 1
    peak = _peak(Fraction(scale), place)
    gamma = 0.5 * (sizes / scale) ** 2 - levels + float(peak)
    chance = np.exp(-gamma)
    uniform = third * 2.0**-WORD
    accepted = uniform < chance - MARGIN
    for index in np.flatnonzero(~accepted & (uniform <= chance + MARGIN)):
        size, level = int(sizes[index]), int(levels[index])
        exact = Fraction(size * size) / (2 * Fraction(scale) ** 2) - level + peak
        accepted[index] = _below(int(third[index]), exact)
    accepted &= ~(negative & (sizes == 0))
    return np.where(negative, -sizes, sizes)[accepted]


def _peak(scale: Fraction, place: int) -> Fraction:
    """Return max_v (v − v²t²/2σ²), a concave function of v whose maximum over the reals is at σ²/t²."""
    ratio = Fraction(1 << 2 * place) / (2 * scale**2)
    around = int(1 / (2 * ratio))
    return max(v - v * v * ratio for v in (around, around + 1))


def _levels(uniform: Words) -> Integers:
    """Return V for each uniform number: the number of v ≥ 1 with e⁻ᵛ above it."""
    levels = (LAST - np.searchsorted(TABLE, uniform, side="left")).astype(np.int64)
    for index in np.flatnonzero(np.isin(uniform, TABLE) | (uniform == 0)):  # 64 bits do not decide
        levels[index] = _level(int(uniform[index]))
    return levels


def _level(word: int) -> int:
    """Return V for a uniform number whose first 64 bits are given, with as many further bits as it takes."""
    bits, level = WORD, 0
    while True:
        low, high = bounds(Fraction(level + 1), bits)
        if word >= high:
            return level
        if word + 1 <= low:
            level += 1
        else:
            word, bits = word << WORD | secrets.randbits(WORD), bits + WORD


def _below(word: int, gamma: Fraction) -> bool:
    """Return whether a uniform number, whose first 64 bits are given, is below exp(−γ)."""
    bits = WORD
    while True:
        low, high = bounds(gamma, bits)
        if word + 1 <= low or word >= high:
            return word + 1 <= low
        word, bits = word << WORD | secrets.randbits(WORD), bits + WORD


def bounds(gamma: Fraction, bits: int) -> tuple[int, int]:
    """Return integers that enclose 2^bits exp(−γ). The decimal module's exponential is correctly rounded."""
    if gamma > bits:  # then it is below 1, and a huge γ would need as many digits
        return 0, 1
    lower, upper = (_exponential(gamma, bits, rounding) for rounding in (ROUND_CEILING, ROUND_FLOOR))
    return math.floor(lower[0]), math.ceil(upper[1])


def _exponential(gamma: Fraction, bits: int, rounding: str) -> tuple[Fraction, Fraction]:
    """Return numbers below and above 2^bits exp(−γ'), where γ' is γ rounded to many digits."""
    context = Context(bits // 3 + 30, rounding, MIN_EMIN, MAX_EMAX, traps=[])
    rounded = context.divide(Decimal(gamma.numerator), Decimal(gamma.denominator))
    found = context.exp(rounded.copy_negate())
    ends = context.next_minus(found), context.next_plus(found)
    below, above = (Fraction(max(end, Decimal(0))) * (1 << bits) for end in ends)
    return below, above


def _table() -> Iterator[int]:
    """Yield the first 64 bits of e⁻ᵛ as integers, the smallest first."""
    for level in range(LAST, 0, -1):
        low, high = bounds(Fraction(level), 2 * WORD)
        assert low >> WORD == (high - 1) >> WORD, "128 bits settle the first 64 bits of every entry"
        yield low >> WORD


TABLE = np.array(list(_table()), np.uint64)
