"""The discrete Gaussian: its exact distribution, whoever decides, doubles or rational arithmetic."""

import itertools
import math
import secrets
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import chi2, norm

from fedspca.dp import gaussian
from fedspca.dp.gaussian import LAST, TABLE, bounds, discrete_gaussian

UNLIKELY = 1e-7  # how often a right sampler may fail each test


def probabilities(scale, most):
    weights = np.array([math.exp(-y * y / (2 * scale * scale)) for y in range(-most, most + 1)])
    return weights / weights.sum()


def misfit(counts, expected):
    """The probability of a larger chi-square, over cells that are merged until 20 are expected in each."""
    cells, ends = [], np.concatenate([[0.0], np.cumsum(expected)])
    observed = np.concatenate([[0.0], np.cumsum(counts)])
    last = 0
    for place in range(1, len(ends)):
        if ends[place] - ends[last] >= 20:
            cells.append((observed[place] - observed[last], ends[place] - ends[last]))
            last = place
    cells[-1] = (cells[-1][0] + observed[-1] - observed[last], cells[-1][1] + ends[-1] - ends[last])
    found, wanted = np.array(cells).T
    return chi2.sf(((found - wanted) ** 2 / wanted).sum(), len(cells) - 1)


def fit_of(drawn, scale):
    most = int(12 * scale) + 3
    counts = np.bincount(drawn.astype(int) + most, minlength=2 * most + 1)
    return misfit(counts, len(drawn) * probabilities(scale, most))


@pytest.mark.parametrize("scale", [0.3, 0.7, 1.0, 1.4, 1.5, 2.9, 5.0, 23.0])
def test_every_integer_comes_up_as_often_as_it_should(scale):
    drawn = discrete_gaussian(scale, 300_000)
    assert fit_of(drawn, scale) > UNLIKELY


@pytest.mark.parametrize("scale", [2.0**20, 1.4 * 2.0**20, 1.5 * 2.0**30, 2.0**47 + 1.0])
def test_noise_on_a_fine_grid_is_gaussian_up_to_the_tails(scale):
    """On so fine a grid the rounded Gaussian has the same probabilities to 10⁻¹²."""
    size = 400_000
    drawn = discrete_gaussian(scale, size)
    assert np.array_equal(drawn, np.rint(drawn))
    cells = np.bincount((norm.cdf(drawn / scale) * 1000).astype(int).clip(0, 999), minlength=1000)
    assert misfit(cells, np.full(1000, size / 1000)) > UNLIKELY
    for power, moment, spread in ((1, 0.0, 1.0), (2, 1.0, 2.0), (3, 0.0, 15.0), (4, 3.0, 96.0)):
        assert abs(np.mean((drawn / scale) ** power) - moment) < 6 * math.sqrt(spread / size)
    beyond = np.count_nonzero(np.abs(drawn) > 3.5 * scale)
    expected = 2 * norm.sf(3.5) * size
    assert abs(beyond - expected) < 6 * math.sqrt(expected)
    odd = np.count_nonzero(drawn % 2)  # the last bit is a fair coin
    assert abs(odd - size / 2) < 6 * math.sqrt(size / 4)


def test_opendp_draws_from_the_same_distribution():
    import opendp.prelude as dp

    dp.enable_features("contrib")
    scale, size = 3.3, 20_000
    draw = dp.m.make_gaussian(dp.vector_domain(dp.atom_domain(T="i64")), dp.l2_distance(T="f64"), scale=scale)
    theirs, ours = np.array(draw([0] * size)), discrete_gaussian(scale, size).astype(int)
    assert fit_of(theirs, scale) > UNLIKELY
    values = np.arange(-20, 21)
    one, other = (np.array([np.count_nonzero(drawn == v) for v in values]) for drawn in (theirs, ours))
    seen = one + other >= 20
    statistic = ((one - other)[seen] ** 2 / (one + other)[seen]).sum()
    assert chi2.sf(statistic, seen.sum()) > UNLIKELY


# -- who decides ------------------------------------------------------------------------------------------------------


@pytest.fixture
def known_bits(monkeypatch):
    """Bits that come from a seed, so that the same draw can be made twice."""

    def begin(seed=0):
        rng = np.random.default_rng(seed)
        monkeypatch.setattr(secrets, "token_bytes", rng.bytes)
        monkeypatch.setattr(secrets, "randbits", lambda bits: int.from_bytes(rng.bytes(bits // 8), "little"))

    return begin


@pytest.mark.parametrize("scale", [0.3, 1.0, 6.5, 2.0**20, 1.37 * 2.0**33])
def test_rational_arithmetic_decides_as_doubles_do(known_bits, monkeypatch, scale):
    known_bits()
    fast = gaussian._accepted(scale, 3000)
    monkeypatch.setattr(gaussian, "MARGIN", 2.0)  # doubles decide nothing any more
    known_bits()
    assert np.array_equal(gaussian._accepted(scale, 3000), fast)
    assert len(fast) > 900


def test_further_bits_decide_where_the_first_do_not(known_bits, monkeypatch):
    """The acceptance of 0 at γ = ln 2 + a little: a uniform number that begins as exp(−γ) does is open."""
    gamma = Fraction(7, 10)
    low, high = bounds(gamma, 64)
    assert high - low <= 2
    known_bits()
    further = []
    monkeypatch.setattr(secrets, "randbits", lambda bits: further.append(bits) or next(words))
    deep = bounds(gamma, 128)[0]
    word, rest = deep >> 64, deep & (1 << 64) - 1
    for offset, below in ((-5, True), (5, False)):
        words = iter([rest + offset])
        further.clear()
        assert gaussian._below(word, gamma) is below
        assert further == [64]
    assert gaussian._below(word - 1, gamma) is True
    assert gaussian._below(word + 1, gamma) is False
    assert further == [64]


def test_levels_are_geometric_also_where_64_bits_do_not_tell(monkeypatch):
    edge = int(TABLE[-1])  # the first 64 bits of 1/e
    assert [gaussian._levels(np.array([word], np.uint64))[0] for word in (edge - 1, edge + 1)] == [1, 0]
    rest = bounds(Fraction(1), 128)[0] & (1 << 64) - 1
    for offset, level in ((-5, 1), (5, 0)):
        monkeypatch.setattr(secrets, "randbits", lambda _, offset=offset: rest + offset)
        assert gaussian._levels(np.array([edge], np.uint64))[0] == level
    monkeypatch.setattr(secrets, "randbits", lambda _: 1 << 63)  # 2⁻⁶⁵ lies between e⁻⁴⁶ and e⁻⁴⁵
    assert gaussian._levels(np.zeros(1, np.uint64))[0] == 45
    assert (TABLE[0], len(TABLE)) == (1, LAST)


def test_levels_come_from_the_table_as_from_exact_arithmetic():
    words = np.random.default_rng(0).integers(0, 2**64, 200, np.uint64) >> np.arange(200, dtype=np.uint64) % 50
    expected = [min(60, int(-math.log((int(word) + 0.5) / 2**64))) for word in words]
    assert gaussian._levels(words).tolist() == expected
    assert [gaussian._level(int(word)) for word in words] == expected


@pytest.mark.parametrize("gamma", [Fraction(0), Fraction(1, 3), Fraction(22, 7), Fraction(10**30 + 1, 10**29), 40])
@pytest.mark.parametrize("bits", [64, 200])
def test_bounds_enclose_the_exponential(gamma, bits):
    low, high = bounds(Fraction(gamma), bits)
    with localcontext() as context:
        context.prec = 150
        exact = (-Decimal(Fraction(gamma).numerator) / Decimal(Fraction(gamma).denominator)).exp() * 2**bits
    assert low <= exact <= high <= low + 3


def test_bounds_of_what_is_next_to_nothing_take_no_time():
    assert bounds(Fraction(10) ** 18, 64) == (0, 1)


def test_doubles_are_closer_to_the_exponential_than_the_margin_allows():
    gamma = np.concatenate([np.random.default_rng(0).uniform(0, 60, 2000), np.linspace(0, 1, 500)])
    with localcontext() as context:
        context.prec = 40
        exact = [(-Decimal(float(value))).exp() for value in gamma]
    errors = [abs(Decimal(float(found)) - true) for found, true in zip(np.exp(-gamma), exact, strict=True)]
    assert max(errors) < Decimal(gaussian.MARGIN) / 1000


@pytest.mark.parametrize("scale", [0.1, 0.9, 1.0, 1.2, 3.0, 2.0**20 * 1.414, 2.0**40])
def test_no_candidate_is_accepted_with_a_probability_above_one(scale):
    place = max(0, round(math.log2(scale)))
    peak = gaussian._peak(Fraction(scale), place)
    gains = [v - Fraction(v * v << 2 * place) / (2 * Fraction(scale) ** 2) for v in range(40)]
    assert peak == max(gains)  # γ is least at y = tv, and 0 at the best of them


# -- what is asked for -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [0, 1, 7, 1000, gaussian.BLOCK + 5])
def test_as_many_draws_as_are_asked_for(size):
    drawn = discrete_gaussian(50.0, size)
    assert drawn.shape == (size,)
    assert drawn.dtype == np.float64


def test_draws_differ():
    assert not np.array_equal(discrete_gaussian(1e6, 50), discrete_gaussian(1e6, 50))


@pytest.mark.parametrize("scale", [0.0, -1.0, math.nan, math.inf, 2.0**51])
def test_noise_that_cannot_be_drawn_is_refused(scale):
    with pytest.raises(ValueError, match="cannot be drawn"):
        discrete_gaussian(scale, 3)


def test_neighbouring_draws_are_independent():
    drawn = discrete_gaussian(100.0, 200_000)
    for lag, magnitude in itertools.product((1, 2, 3), (False, True)):
        values = np.abs(drawn) if magnitude else drawn
        assert abs(np.corrcoef(values[:-lag], values[lag:])[0, 1]) < 6 / math.sqrt(200_000)
