"""Numbers as integers modulo a power of two, so that sums are exact, do not depend on their order, and can be masked.

A number x stands for the integer nearest to x·2ᵉ modulo 2⁶⁴ʷ, held as w words of 64 bits, the lowest first. One word
is enough if a bound on the sum is known. Otherwise eight words hold any number between 2⁻²⁵⁶ and 2²⁵⁴ exactly.
"""

import secrets
from collections.abc import Iterable, Mapping
from math import prod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Words = NDArray[np.uint64]

MAX_WORDS = 8


class FixedPointOverflow(ValueError):
    """A number is too large for the agreed bound. Numbers are never truncated to the bound."""


class Coding(NamedTuple):
    """How the numbers of an array become integers: ``words`` of 64 bits, in units of 2^-``exponent``."""

    words: int
    exponent: int

    def limit(self, sites: int) -> float:
        """Return the bound below which the sum of the terms of ``sites`` sites cannot overflow."""
        return float(np.ldexp(1.0, 64 * self.words - 2 - self.exponent - (sites - 1).bit_length()))


WIDE = Coding(MAX_WORDS, 256)
TAG = "tag"
TAG_MARGIN = 2  # words of a tag beyond those of the widest number; see fedspca.masking.tags
OVERFLOW = "could not answer"


class Segment(NamedTuple):
    """Where one array stands in the vector of all terms."""

    name: str
    shape: tuple[int, ...]
    coding: Coding
    start: int
    stop: int


def layout(shapes: Mapping[str, tuple[int, ...]], codings: Mapping[str, Coding]) -> list[Segment]:
    """Place the arrays one after the other, by name; then a tag, and a last word that is zero if all numbers fit."""
    segments: list[Segment] = []
    for name in sorted(shapes):
        start = segments[-1].stop if segments else 0
        stop = start + codings[name].words * prod(shapes[name])
        segments.append(Segment(name, shapes[name], codings[name], start, stop))
    end = segments[-1].stop
    tag = Coding(TAG_MARGIN + max(segment.coding.words for segment in segments), 0)
    last = end + tag.words
    return [*segments, Segment(TAG, (), tag, end, last), Segment(OVERFLOW, (), Coding(1, 0), last, last + 1)]


def segments_of(kept: Iterable[Any]) -> list[Segment]:
    """Return a layout that was kept as JSON."""
    return [Segment(name, tuple(shape), Coding(*coding), start, stop) for name, shape, coding, start, stop in kept]


def encode_terms(terms: Mapping[str, NDArray[np.floating]] | None, segments: list[Segment], sites: int) -> Words:
    """Return one vector of integers for all terms; random words if there are no terms or one exceeds its bound.

    The place of the tag is left at zero.

    A refusal would reveal something about this site alone. With zeros, the sum would consist of the terms of the other
    sites: if all sites but one exceeded the bound, it would be the terms of that one site. With random words, the sum
    reveals nothing about anyone. The last word, which is zero if all numbers fit, then shows that the sum is invalid.
    """
    vector = np.zeros(segments[-1].stop, np.uint64)
    if terms is None:
        return _random_words(vector.nbytes)
    for name, _, coding, start, stop in segments[:-2]:
        values = np.asarray(terms[name], np.float64).ravel()
        if not np.all(np.abs(values) < coding.limit(sites)):  # also true for NaN
            return _random_words(vector.nbytes)
        vector[start:stop] = to_words(values, coding).ravel()
    return vector


def _random_words(nbytes: int) -> Words:
    return np.frombuffer(secrets.token_bytes(nbytes), np.uint64).copy()


def decode_terms(vector: Words, segments: list[Segment]) -> dict[str, Array]:
    """Return the arrays that a vector of sums stands for; :class:`FixedPointOverflow` if numbers did not fit."""
    if vector[-1]:
        raise FixedPointOverflow("The numbers of one site or more do not fit the bound that was asked for.")
    return {
        name: from_words(vector[start:stop].reshape(coding.words, -1), coding).reshape(shape)
        for name, shape, coding, start, stop in segments[:-2]
    }


def add_into(total: Words, addend: Words, segments: list[Segment], *, subtract: bool = False) -> None:
    """Add to (or subtract from) a vector in place, with carries between the words of a number."""
    for segment in segments:
        here, there = total[segment.start : segment.stop], addend[segment.start : segment.stop]
        words = segment.coding.words
        if words == 1:
            np.subtract(here, there, out=here) if subtract else np.add(here, there, out=here)
        else:
            there = there.reshape(words, -1)
            _add(here.reshape(words, -1), negated(there) if subtract else there)


def to_words(values: Array, coding: Coding) -> Words:
    """Return the integers nearest to the values, as an array of (words, values)."""
    if coding.words == 1:
        return np.rint(np.ldexp(values, coding.exponent)).astype(np.int64).view(np.uint64)[None]
    fractions, powers = np.frexp(values)
    digits = np.abs(np.ldexp(fractions, 53)).astype(np.uint64)
    shift = powers.astype(np.int64) - 53 + coding.exponent
    down = np.clip(-shift, 0, 60).astype(np.uint64)  # digits below one unit are rounded off
    half = np.where(down > 0, np.uint64(1) << np.maximum(down, 1).astype(np.uint64) - np.uint64(1), np.uint64(0))
    digits = (digits + half) >> down
    up = np.maximum(shift, 0)
    word, bits = up // 64, (up % 64).astype(np.uint64)
    words = np.zeros((coding.words + 1, len(values)), np.uint64)
    columns = np.arange(len(values))
    words[word, columns] = digits << bits
    words[word + 1, columns] = np.where(bits > 0, digits >> (np.uint64(64) - np.maximum(bits, np.uint64(1))), 0)
    words = words[: coding.words]
    return np.where(values < 0, negated(words), words)


def from_words(words: Words, coding: Coding) -> Array:
    """Return the numbers that integers stand for, to the last digit or two of double precision."""
    if coding.words == 1:
        return np.asarray(np.ldexp(words[0].view(np.int64).astype(np.float64), -coding.exponent))
    negative = words[-1] >> np.uint64(63) == 1
    magnitude = np.where(negative, negated(words), words)
    total = np.zeros(words.shape[1])
    for number, word in enumerate(magnitude):  # the lowest word first
        total += np.ldexp(word.astype(np.float64), 64 * number - coding.exponent)
    return np.where(negative, -total, total)


def negated(words: Words) -> Words:
    """Return −x modulo 2⁶⁴ʷ."""
    result = ~words
    one = np.zeros_like(words)
    one[0] = 1
    _add(result, one)
    return result


def _add(total: Words, addend: Words) -> None:
    carry = np.zeros(total.shape[1], np.uint64)
    for word in range(len(total)):
        total[word] += addend[word]
        over = total[word] < addend[word]
        total[word] += carry
        carry = (over | (total[word] < carry)).astype(np.uint64)
