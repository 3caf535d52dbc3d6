"""Sensitivity, noise, and an audit that must be able to fail."""

import math

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy.stats import beta, norm

from fedspca import InvalidQuery, Query, Site, SiteRefusal
from fedspca.dp import noise
from fedspca.dp.accounting import Budget, epsilon_of
from fedspca.dp.ledger import Ledger
from fedspca.dp.noise import packed, unpacked
from fedspca.site.queries import QUERIES
from fedspca.site.question import SiteData
from helpers.private import D, query, silent

PRIVATE = sorted(name for name, question in QUERIES.items() if question.cost is not None)


values = st.floats(-1e6, 1e6, allow_subnormal=False)


@pytest.mark.parametrize("name", PRIVATE)
@settings(max_examples=60, deadline=None)
@given(
    rows=hnp.arrays(np.float64, st.tuples(st.integers(1, 6), st.just(D)), elements=values),
    row=hnp.arrays(np.float64, (1, D), elements=values),
)
def test_one_row_changes_a_release_by_no_more_than_is_paid_for(name, rows, row):
    asked = query(name)
    with pytest.MonkeyPatch.context() as monkeypatch:
        silent(monkeypatch)
        (before,) = QUERIES[name].answer(SiteData("s", rows), None, asked)[1].values()
        (after,) = QUERIES[name].answer(SiteData("s", np.vstack([rows, row])), None, asked)[1].values()
    paid_for = asked.scalars["sigma"] / QUERIES[name].cost(D, asked).multiplier
    assert np.linalg.norm(after - before) <= paid_for


def test_the_bound_on_the_gram_matrix_is_reached(monkeypatch):
    """A bound that nothing reaches would be noise for nothing."""
    silent(monkeypatch)
    asked = query("private_gram", clip=2.0)
    rows = np.full((4, D), 0.5)
    more = np.vstack([rows, np.full((1, D), 1e3)])
    before, after = (QUERIES["private_gram"].answer(SiteData("s", x), None, asked)[1]["gram"] for x in (rows, more))
    assert np.isclose(np.linalg.norm(after - before), 2.0**2 + 0.3**2, rtol=1e-6)


def test_packing_keeps_the_norm_and_comes_back():
    matrix = np.random.default_rng(0).standard_normal((5, 5))
    matrix += matrix.T
    assert np.isclose(np.linalg.norm(packed(matrix)), np.linalg.norm(matrix))
    assert np.allclose(unpacked(packed(matrix)), matrix)


def test_noise_is_a_discrete_gaussian_of_the_size_that_was_asked():
    drawn = noise.discrete_gaussian(float(1 << 22), 50_000)
    assert np.array_equal(drawn, np.rint(drawn))
    assert abs(drawn.mean()) < 5 * (1 << 22) / math.sqrt(50_000)
    assert np.isclose(drawn.std(), 1 << 22, rtol=0.02)
    released = noise.noised(np.zeros(1000), 3.0, 24)
    assert np.array_equal(released, np.rint(np.ldexp(released, 24)) / 2**24)
    assert np.isclose(released.std(), 3.0, rtol=0.15)


def test_a_grid_that_is_too_coarse_or_too_fine_is_refused():
    site = Site("s", np.ones((3, D)))
    site.ledger = Ledger(Budget(5.0, 1e-6))
    with pytest.raises(SiteRefusal, match="too coarse"):
        site.answer(query("private_gram", grid=2))
    with pytest.raises(Exception, match="too fine"):
        site.answer(query("private_gram", sigma=1e6, grid=40))


@pytest.mark.parametrize("scale", [1e-320, 1e-200, 1e300, np.inf])
def test_no_stated_scale_makes_a_row_infinitely_long(monkeypatch, scale):
    silent(monkeypatch)
    asked = query("private_gram")
    asked.arrays["scale"][:] = scale
    rows = np.array([[1e60, -3.0, 0.5], [0.5, 0.5, 0.5]])
    before, after = (QUERIES["private_gram"].answer(SiteData("s", x), None, asked)[1]["gram"] for x in (rows[1:], rows))
    assert np.linalg.norm(after - before) <= asked.scalars["sigma"] / QUERIES["private_gram"].cost(D, asked).multiplier


@pytest.mark.parametrize(
    "scalars", [{"grid": 10**6}, {"clip": 1e200}, {"sigma": 1e300}, {"sigma": 1e-300}, {"among": 0}, {"offset": 1e300}]
)
def test_a_question_that_cannot_be_accounted_for_is_refused(scalars):
    site = Site("s", np.ones((3, D)))
    site.ledger = Ledger(Budget(5.0, 1e-6))
    asked = query("private_gram")
    with pytest.raises((SiteRefusal, InvalidQuery)):
        site.answer(Query(asked.name, asked.arrays, {**asked.scalars, **scalars}))


def test_lengths_without_edges_are_refused():
    site = Site("s", np.ones((3, D)))
    site.ledger = Ledger(Budget(5.0, 1e-6))
    asked = query("private_lengths")
    with pytest.raises(SiteRefusal, match="nothing to release"):
        site.answer(Query(asked.name, {**asked.arrays, "edges": np.zeros(0)}, asked.scalars))


def test_sparse_rows_are_shortened_as_dense_ones(monkeypatch):
    silent(monkeypatch)
    rows = sp.random_array((500, D), density=0.3, random_state=0, format="csr")
    asked = query("private_gram")
    sparse, dense = (
        QUERIES["private_gram"].answer(SiteData("s", x), None, asked)[1]["gram"] for x in (rows, rows.toarray())
    )
    assert np.allclose(sparse, dense, atol=1e-6)


def test_a_discrete_gaussian_is_as_near_to_a_rounded_one_as_is_charged():
    for steps in (5.0, 20.0, 100.0):
        k = np.arange(-12 * int(steps), 12 * int(steps) + 1)
        discrete = np.exp(-(k**2) / (2 * steps**2))
        rounded = norm.cdf(k + 0.5, scale=steps) - norm.cdf(k - 0.5, scale=steps)
        distance = np.abs(discrete / discrete.sum() - rounded).sum() / 2
        assert distance < 1 / (20 * steps**2)


def audited_epsilon(asked, delta, trials=1500, confidence=0.95):
    """A lower bound on ε, from how well a test tells rows with one more from rows without it."""
    rows = np.full((5, D), 0.5)
    more = np.vstack([rows, np.full((1, D), 1e3)])
    difference = np.ones(D)  # in the frame the row lies on the diagonal
    direction = packed(np.outer(np.r_[difference, 0], np.r_[difference, 0]))
    outcomes = []
    for x in (rows, more):
        data = SiteData("s", x)
        outcomes.append(
            [QUERIES["private_gram"].answer(data, None, asked)[1]["gram"] @ direction for _ in range(trials)]
        )
    without, with_row = np.array(outcomes)
    best = 0.0
    half = trials // 2  # the threshold is chosen on one half and judged on the other
    threshold = max(
        np.quantile(with_row[:half], [0.1, 0.25, 0.5, 0.75]), key=lambda t: _ratio(without[:half], with_row[:half], t)
    )
    hits, alarms = np.sum(with_row[half:] >= threshold), np.sum(without[half:] >= threshold)
    low = beta.ppf((1 - confidence) / 2, hits, half - hits + 1) if hits else 0.0
    high = beta.ppf((1 + confidence) / 2, alarms + 1, half - alarms) if alarms < half else 1.0
    if low > delta:
        best = max(best, math.log((low - delta) / high))
    return best


def _ratio(without, with_row, threshold):
    return np.mean(with_row >= threshold) / (np.mean(without >= threshold) + 0.01)


def test_the_audit_finds_no_more_than_was_promised_and_notices_missing_noise(monkeypatch):
    delta = 1e-6
    asked = query("private_gram", sigma=1.9 * (2.0**2 + 0.3**2))
    stated = epsilon_of([QUERIES["private_gram"].cost(D, asked)], delta)
    found = audited_epsilon(asked, delta)
    assert found < stated
    assert found > 0.1  # it does see something
    monkeypatch.setattr(noise, "discrete_gaussian", lambda scale, size: np.zeros(size))
    assert audited_epsilon(asked, delta) > stated
