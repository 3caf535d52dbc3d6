"""Numbers as integers: exact, in any order, and told when they do not fit."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from contracts.federation import make_sites, pooled
from fedspca import Query
from fedspca.federation import FederationError
from fedspca.masking.fixed_point import (
    OVERFLOW,
    TAG,
    WIDE,
    Coding,
    FixedPointOverflow,
    Segment,
    add_into,
    decode_terms,
    encode_terms,
    from_words,
    layout,
    negated,
    to_words,
)
from helpers.masks import watched


def anyhow(monkeypatch, federation, codings):
    """Integers of the coordinator's choice, and sites that take them."""
    monkeypatch.setattr("fedspca.masking.party.unruly", lambda *_: None)
    monkeypatch.setattr(federation._scale, "codings", lambda query, sites: codings)


def test_numbers_that_do_not_fit_are_told_under_masks_and_nobody_is_named():
    federation, channel = watched(make_sites())
    with pytest.MonkeyPatch.context() as patched:
        anyhow(patched, federation, dict.fromkeys(("rows", "counts", "sums"), Coding(1, 62)))
        with pytest.raises(FederationError, match="numbers of one site or more do not fit"):
            federation.sum(Query("moments"))
    assert all(message.kind != "refused" for _, message in channel.replies("masked"))
    assert federation.sum(Query("moments")).number("rows") == len(pooled(make_sites()))  # it ends one round only


def test_a_bound_that_all_sites_but_one_exceed_does_not_tell_that_ones_terms(monkeypatch):
    """Else a coordinator would look for such a bound, and read one site's own terms off the sum."""
    sites = make_sites(sizes=(40, 3, 45))
    federation, _ = watched(sites)
    codings = {"rows": Coding(1, 56), "counts": WIDE, "sums": WIDE}
    assert codings["rows"].limit(3) == 16
    anyhow(monkeypatch, federation, codings)
    monkeypatch.setattr(
        "fedspca.federation.secure.decode_terms",  # a coordinator that takes what it has for numbers all the same
        lambda total, segments: decode_terms(np.append(total[:-1], np.uint64(0)), segments),
    )
    read, alone = federation.sum(Query("moments")), sites[1].answer(Query("moments"))
    assert read["rows"] != alone["rows"]
    assert not np.isclose(read["sums"], alone["sums"]).any()


# -- numbers and integers ----------------------------------------------------------------------------------------------

NARROW, MIDDLE = Coding(1, 40), Coding(2, 64)
TINY = 2.0**-256


def exact(words, coding):
    """The number that words stand for, with Python's own integers."""
    total = sum(int(word) << (64 * k) for k, word in enumerate(words))
    total -= (1 << 64 * coding.words) if total >> (64 * coding.words - 1) else 0
    return Fraction(total, 1) / Fraction(2) ** coding.exponent


@pytest.mark.parametrize(
    "coding", [Coding(1, 0), NARROW, Coding(1, -3), MIDDLE, Coding(3, 100), WIDE], ids=lambda coding: f"{coding}"
)
@given(data=st.data())
def test_a_number_becomes_the_integer_nearest_to_it(coding, data):
    limit = min(coding.limit(1), 1e60)
    value = data.draw(st.floats(-limit, limit, exclude_min=True, exclude_max=True) | st.sampled_from([0.0, 1.0, -1.0]))
    words = to_words(np.array([value]), coding)
    assert words.shape == (coding.words, 1)
    assert words.dtype == np.uint64
    unit = Fraction(1, 1) / Fraction(2) ** coding.exponent
    assert abs(exact(words[:, 0], coding) - Fraction(value)) <= unit / 2
    back = from_words(words, coding)[0]
    assert back == pytest.approx(float(exact(words[:, 0], coding)), rel=1e-15)


def test_halves_and_less_are_rounded_and_what_is_far_below_is_nothing():
    values = np.array([TINY, 0.75 * TINY, 0.5 * TINY, 0.25 * TINY, -0.75 * TINY, 1e-300, -1e-300])
    assert np.array_equal(from_words(to_words(values, WIDE), WIDE), [TINY, TINY, TINY, 0, -TINY, 0, 0])
    for digits, rounded in ((2**52, 2**51), (2**52 + 1, 2**51 + 1)):  # one bit too many
        assert to_words(np.array([digits * 2.0**-65]), Coding(2, 64))[:, 0].tolist() == [rounded, 0]
    coding = Coding(2, 2)
    assert np.array_equal(from_words(to_words(np.array([0.3, 0.4, -0.4]), coding), coding), [0.25, 0.5, -0.5])


@pytest.mark.parametrize("power", [0, 1, 52, 53, 63, 64, 65, 127, 128, 200, 253])
def test_digits_stand_in_the_right_words_wherever_they_lie(power):
    value = float(0x1ABCDEF9876543) * 2.0 ** (power - 53)
    words = to_words(np.array([value, -value]), WIDE)
    assert [exact(column, WIDE) for column in words.T] == [Fraction(value), -Fraction(value)]
    assert np.array_equal(from_words(words, WIDE), [value, -value])


@given(
    st.lists(st.floats(-1e30, 1e30), min_size=1, max_size=5).flatmap(
        lambda values: st.tuples(st.just(values), st.permutations(values))
    )
)
def test_sums_are_exact_and_do_not_depend_on_their_order(orders):
    segments = layout({"x": (1,)}, {"x": WIDE})
    totals = []
    for values in orders:
        total = np.zeros(segments[-1].stop, np.uint64)
        for value in values:
            add_into(total, encode_terms({"x": np.array([value])}, segments, 5), segments)
        totals.append(total)
    assert np.array_equal(*totals)
    true = float(sum(Fraction(value) for value in orders[0]))
    assert decode_terms(totals[0], segments)["x"][0] == pytest.approx(true, rel=1e-14, abs=1e-70)


@pytest.mark.parametrize("coding", [NARROW, MIDDLE, WIDE])
def test_what_was_added_is_taken_away_again(coding):
    rng = np.random.default_rng(0)
    segments = layout({"a": (3, 2), "b": ()}, {"a": coding, "b": Coding(1, 3)})
    terms = encode_terms({"a": rng.standard_normal((3, 2)), "b": np.array(-2.5)}, segments, 3)
    mask = rng.integers(0, 2**64, len(terms), dtype=np.uint64)
    total = terms.copy()
    add_into(total, mask, segments)
    assert not np.array_equal(total, terms)
    add_into(total, mask, segments, subtract=True)
    assert np.array_equal(total, terms)


@given(st.integers(0, 2**128 - 1), st.integers(0, 2**128 - 1))
def test_adding_and_negating_are_those_of_integers_modulo_a_power_of_two(a, b):
    def words(value):
        return np.array([[value & (2**64 - 1)], [value >> 64]], np.uint64)

    segments = [Segment("x", (1,), MIDDLE, 0, 2)]
    total = words(a).ravel()
    add_into(total, words(b).ravel(), segments)
    assert np.array_equal(total, words((a + b) % 2**128).ravel())
    total = words(a).ravel()
    add_into(total, words(b).ravel(), segments, subtract=True)
    assert np.array_equal(total, words((a - b) % 2**128).ravel())
    assert np.array_equal(negated(words(a)), words(-a % 2**128))


def test_carries_go_through_every_word():
    ones = np.full((8, 1), 2**64 - 1, np.uint64)
    total = ones.ravel().copy()
    one = np.zeros(8, np.uint64)
    one[0] = 1
    add_into(total, one, [Segment("x", (1,), WIDE, 0, 8)])
    assert not total.any()
    assert np.array_equal(negated(ones).ravel(), one)


def test_a_limit_leaves_room_for_the_sum_of_all_sites():
    assert Coding(1, 0).limit(1) == 2.0**62
    assert Coding(1, 0).limit(2) == 2.0**61
    assert Coding(1, 10).limit(3) == Coding(1, 10).limit(4) == 2.0**50
    assert Coding(1, 10).limit(5) == 2.0**49
    assert Coding(2, 64).limit(1) == 2.0**62
    assert WIDE.limit(1) == 2.0**254
    for coding in (NARROW, MIDDLE, WIDE):
        for sites in (1, 2, 3, 5, 8):
            largest = np.nextafter(coding.limit(sites), 0)
            segments = layout({"x": ()}, {"x": coding})
            total = np.zeros(segments[-1].stop, np.uint64)
            for _ in range(sites):
                add_into(total, encode_terms({"x": np.array(-largest)}, segments, sites), segments)
            assert decode_terms(total, segments)["x"] == pytest.approx(-sites * largest, rel=1e-12)


# -- the vector of all terms -------------------------------------------------------------------------------------------


def test_arrays_stand_one_after_the_other_by_name_then_a_tag_and_a_zero_last():
    segments = layout({"b": (2, 3), "a": (), "c": (0,)}, {"a": MIDDLE, "b": NARROW, "c": WIDE})
    assert segments == [
        Segment("a", (), MIDDLE, 0, 2),
        Segment("b", (2, 3), NARROW, 2, 8),
        Segment("c", (0,), WIDE, 8, 8),
        Segment(TAG, (), Coding(WIDE.words + 2, 0), 8, 18),
        Segment(OVERFLOW, (), Coding(1, 0), 18, 19),
    ]
    terms = {"a": np.array(-1.5), "b": np.arange(6.0).reshape(2, 3) - 2, "c": np.zeros(0)}
    vector = encode_terms(terms, segments, 3)
    assert vector.dtype == np.uint64
    assert len(vector) == 19
    assert vector[-1] == 0
    back = decode_terms(vector, segments)
    assert list(back) == ["a", "b", "c"]
    for name, term in terms.items():
        assert np.array_equal(back[name], term)
        assert back[name].shape == term.shape


@pytest.mark.parametrize("bad", [np.inf, -np.inf, np.nan, 2.0**21, -(2.0**21)])
def test_a_number_that_does_not_fit_makes_the_whole_vector_random(bad):
    coding = Coding(1, 40)
    assert coding.limit(2) == 2.0**21
    segments = layout({"a": (20,), "b": (2,)}, {"a": coding, "b": coding})
    terms = {"a": np.ones(20), "b": np.array([1.0, bad])}
    one, other = (encode_terms(terms, segments, 2) for _ in range(2))
    assert one.dtype == np.uint64
    assert len(one) == len(other) == 26
    assert not (one == other).any()
    assert one[-1] != 0
    assert not (one == encode_terms({"a": np.ones(20), "b": np.ones(2)}, segments, 2)).any()
    with pytest.raises(FixedPointOverflow, match="do not fit"):
        decode_terms(one, segments)
    one[-1] = 0  # the words can be written to, as those of an answer can
    for fits in (np.nextafter(2.0**21, 0), -np.nextafter(2.0**21, 0)):
        good = encode_terms({"a": np.ones(20), "b": np.array([1.0, fits])}, segments, 2)
        assert decode_terms(good, segments)["b"][1] == pytest.approx(fits)
