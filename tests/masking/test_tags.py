"""Tags: what was sent fits, and nothing else does."""

import secrets

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedspca.masking.fixed_point import WIDE, Coding, add_into, decode_terms, encode_terms, layout
from fedspca.masking.tags import BLOCK, fits, offset, stamp, weighted

FORMS = {
    "one word": ({"product": (7, 3)}, {"product": Coding(1, 40)}),
    "wide words": ({"sums": (5,)}, {"sums": WIDE}),
    "all kinds": (
        {"rows": (), "consensus": (3, 2), "sums": (4,)},
        {"rows": Coding(1, 0), "consensus": Coding(2, 64), "sums": WIDE},
    ),
}


def signed(vector, segments):
    """The integers that a vector stands for, by Python's own arithmetic."""
    found = []
    for _, _, coding, start, stop in segments[:-2]:
        for words in vector[start:stop].reshape(coding.words, -1).T:
            value = sum(int(word) << 64 * place for place, word in enumerate(words))
            found.append(value - (1 << 64 * coding.words if value >> 64 * coding.words - 1 else 0))
    return found


def make_round(form, sites=3, seed=0):
    """A sum with its tag, its layout, the key, and who is in it."""
    rng = np.random.default_rng(seed)
    segments, key = layout(*FORMS[form]), secrets.token_bytes(32)
    names = [f"site {k}" for k in range(sites)]
    total = np.zeros(segments[-1].stop, np.uint64)
    for name in names:
        terms = {segment.name: rng.standard_normal(segment.shape) * 1e4 for segment in segments[:-2]}
        vector = encode_terms(terms, segments, sites)
        stamp(vector, segments, key, name)
        add_into(total, vector, segments)
    return total, segments, key, names


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("sites", [1, 3, 40])
def test_the_sum_of_the_tags_is_the_tag_of_the_sum(form, sites):
    total, segments, key, names = make_round(form, sites)
    assert fits(total, segments, key, names)
    assert decode_terms(total, segments).keys() == FORMS[form][0].keys()


@pytest.mark.parametrize("form", FORMS)
def test_the_inner_product_is_exact(form):
    total, segments, key, _ = make_round(form)
    ones = [np.zeros_like(total) for _ in signed(total, segments)]
    place = 0
    for _, _, coding, start, stop in segments[:-2]:
        count = (stop - start) // coding.words
        for j in range(count):
            ones[place + j][start + j] = 1  # the lowest word of the j-th integer
        place += count
    weights = [weighted(one, segments, key) for one in ones]
    assert len(set(weights)) == len(weights)
    assert weighted(total, segments, key) == sum(
        weight * value for weight, value in zip(weights, signed(total, segments), strict=True)
    )


def test_more_integers_than_a_block_are_weighed_one_by_one():
    count = 2 * BLOCK + 5
    segments, key = layout({"product": (count,)}, {"product": Coding(1, 0)}), secrets.token_bytes(32)
    largest = np.full(count, -(2.0**61))  # all limbs at work
    vector = encode_terms({"product": largest}, segments, 1)
    stamp(vector, segments, key, "a")
    assert fits(vector, segments, key, ["a"])
    for place in (0, BLOCK - 1, BLOCK, count - 1):
        altered = vector.copy()
        altered[place : place + 1] += np.uint64(1)
        assert not fits(altered, segments, key, ["a"])


@pytest.mark.parametrize("form", FORMS)
def test_any_single_bit_of_a_sum_or_tag_is_noticed(form):
    total, segments, key, names = make_round(form)
    for word in range(segments[-2].stop):  # the last word says whether there is a sum at all
        for bit in range(0, 64, 7):
            altered = total.copy()
            altered[word] ^= np.uint64(1 << bit)
            assert not fits(altered, segments, key, names), (word, bit)


@settings(max_examples=200, deadline=None)
@given(st.integers(1, 2**63 - 1), st.integers(0, 20), st.booleans())
def test_no_difference_is_a_multiple_of_what_a_coordinator_knows(difference, place, up):
    """Powers of two, primes, and all that it can think of: the modulus is known and helps nobody."""
    total, segments, key, names = make_round("one word")
    altered = total.copy()
    altered[place : place + 1] += np.uint64(difference if up else 2**64 - difference)
    assert not fits(altered, segments, key, names)


@pytest.mark.parametrize("factor", [0, 2, 3, 2**32])
def test_a_multiple_of_the_sum_does_not_bear_the_multiple_of_its_tag(factor):
    """Without offsets it would: zero for zero, twice for twice."""
    total, segments, key, names = make_round("one word")
    scaled = total * np.uint64(factor)
    tag = segments[-2]
    value = int.from_bytes(total[tag.start : tag.stop].tobytes(), "little") * factor % (1 << 64 * tag.coding.words)
    scaled[tag.start : tag.stop] = np.frombuffer(value.to_bytes(8 * tag.coding.words, "little"), "<u8")
    assert not fits(scaled, segments, key, names)


def test_the_tag_says_who_is_in_the_sum():
    total, segments, key, names = make_round("one word", 5)
    assert not fits(total, segments, key, names[1:])
    assert not fits(total, segments, key, [*names, "site 5"])
    assert not fits(total, segments, key, [*names[1:], names[1]])


def test_another_key_or_another_rounds_tag_does_not_fit():
    total, segments, key, names = make_round("one word")
    other, *_ = make_round("one word", seed=1)
    assert not fits(total, segments, secrets.token_bytes(32), names)
    tag = segments[-2]
    replayed = total.copy()
    replayed[tag.start : tag.stop] = other[tag.start : tag.stop]
    assert not fits(replayed, segments, key, names)


@pytest.mark.parametrize("form", FORMS)
def test_a_tag_is_two_words_longer_than_the_widest_integer(form):
    """So the highest power of two that divides a difference leaves 129 bits of the tag unknown."""
    segments = layout(*FORMS[form])
    assert segments[-2].coding.words == 2 + max(coding.words for coding in FORMS[form][1].values())


def test_the_bound_is_met_where_it_is_largest():
    """An integer altered by its highest bit moves the tag by one of 2¹²⁹ values: the weight's low bits decide."""
    segments = layout({"a": ()}, {"a": Coding(1, 0)})
    moved = set()
    for _ in range(200):
        key = secrets.token_bytes(32)
        vector = np.zeros(segments[-1].stop, np.uint64)
        before = weighted(vector, segments, key)
        vector[0] = np.uint64(1 << 63)
        difference = (weighted(vector, segments, key) - before) % (1 << 192)
        assert difference % (1 << 63) == 0
        moved.add(difference >> 63)
    assert len(moved) == 200
    assert max(moved).bit_length() > 120


def test_sites_of_different_releases_make_the_same_tags():
    """A golden value: weights and offsets are part of the protocol, so a change of them needs another protocol."""
    key, segments = bytes(range(32)), layout({"product": (16_400,)}, {"product": Coding(1, 0)})
    vector = np.zeros(segments[-1].stop, np.uint64)
    vector[:16_400] = 1
    assert offset(key, "north", 1) == 0xD895DCFE31EC021C
    assert weighted(vector, segments, key) % (1 << 64) == 0x89494E0201BF3948


def test_who_holds_the_key_can_make_a_tag_for_any_sum():
    """What a site that works for the coordinator can do; the documentation says so."""
    total, segments, key, names = make_round("one word")
    forged = total.copy()
    forged[:1] += np.uint64(12345)
    stamp(forged, segments, key, names[0])
    tag = segments[-2]
    words = tag.coding.words
    value = int.from_bytes(forged[tag.start : tag.stop].tobytes(), "little")
    value = (value + sum(offset(key, name, words) for name in names[1:])) % (1 << 64 * words)
    forged[tag.start : tag.stop] = np.frombuffer(value.to_bytes(8 * words, "little"), "<u8")
    assert fits(forged, segments, key, names)
