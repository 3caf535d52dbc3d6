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


@settings(max_examples=60, deadline=None)
@given(
    rows=hnp.arrays(np.float64, st.tuples(st.integers(1, 12), st.just(D)), elements=values),
    row=hnp.arrays(np.float64, (1, D), elements=values),
    at=st.integers(0, 12),
    seed=st.integers(0, 5),
)
def test_by_fold_a_row_that_is_added_anywhere_changes_one_fold_by_what_is_paid_for(rows, row, at, seed):
    """Parallel composition under adding or removing a row: no other row may change its fold."""
    asked = query("private_gram").by_fold(4, seed)
    with pytest.MonkeyPatch.context() as monkeypatch:
        silent(monkeypatch)
        before, after = (
            QUERIES["private_gram"].answer(SiteData("s", x), None, asked)[1]["gram"]
            for x in (rows, np.insert(rows, min(at, len(rows)), row, axis=0))
        )
    assert np.count_nonzero((after != before).any(axis=1)) <= 1
    assert np.linalg.norm(after - before) <= asked.scalars["sigma"] / QUERIES["private_gram"].cost(D, asked).multiplier


def test_by_fold_a_release_costs_what_it_costs_as_a_whole():
    asked = query("private_gram")
    whole, by_fold = (QUERIES["private_gram"].cost(D, each) for each in (asked, asked.by_fold(10, 0)))
    assert by_fold.multiplier == pytest.approx(whole.multiplier, rel=1e-5)
    assert by_fold.slack == pytest.approx(10 * whole.slack)


def test_rows_are_dealt_evenly_and_by_their_own_numbers_alone():
    rng = np.random.default_rng(0)
    rows = np.rint(1e5 * rng.standard_normal((5000, 7)))
    labels = noise.row_folds(rows, 10, seed=3)
    assert np.bincount(labels, minlength=10).min() > 400  # 500 ± 21
    assert abs(np.corrcoef(labels, rows[:, 0])[0, 1]) < 0.06
    order = rng.permutation(5000)
    assert np.array_equal(noise.row_folds(rows[order], 10, seed=3), labels[order])
    assert np.mean(noise.row_folds(rows, 10, seed=4) == labels) < 0.2
    near = rows + np.eye(7)[0]  # the next row in units of the grid
    assert np.mean(noise.row_folds(near, 10, seed=3) == labels) < 0.2


@pytest.mark.parametrize("form", [lambda x: x, lambda x: x.astype(np.float32).astype(np.float64), sp.csr_array])
def test_by_fold_the_matrices_add_up(form):
    rows = np.round(np.random.default_rng(1).standard_normal((300, D)), 2)
    stated = (np.zeros(D), np.ones(D), 2.0, 0.4)
    folds = noise.augmented_grams(form(rows), *stated, 4, 1)
    assert np.allclose(folds.sum(axis=0), noise.augmented_grams(rows, *stated)[0], atol=1e-4)
    assert np.all(folds[:, -1, -1] > 0)


def test_the_bound_on_the_gram_matrix_is_reached(monkeypatch):
    """A bound that nothing reaches would be noise for nothing."""
    silent(monkeypatch)
    asked = query("private_gram", clip=2.0)
    rows = np.full((4, D), 0.5)
    more = np.vstack([rows, np.full((1, D), 1e3)])
    before, after = (QUERIES["private_gram"].answer(SiteData("s", x), None, asked)[1]["gram"] for x in (rows, more))
    assert np.isclose(np.linalg.norm(after - before), 2.0**2 + 0.3**2, rtol=1e-5)


def test_packing_keeps_the_norm_and_comes_back():
    matrix = np.random.default_rng(0).standard_normal((5, 5))
    matrix += matrix.T
    assert np.isclose(np.linalg.norm(packed(matrix)), np.linalg.norm(matrix))
    assert np.allclose(unpacked(packed(matrix)), matrix)


def test_noise_is_a_discrete_gaussian_of_the_size_that_was_asked():
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


# -- the sums, by definition -------------------------------------------------------------------------------------------


def shortened(rows, centre, scale, clip):
    """The same in one line each: standardise as stated, then no row longer than ``clip``."""
    seen = (np.where(np.isnan(rows), centre, rows) - centre) / scale
    lengths = np.linalg.norm(seen, axis=1, keepdims=True)
    return np.where(lengths > clip, seen * clip / np.maximum(lengths, 1e-300), seen)


@pytest.fixture
def table():
    rng = np.random.default_rng(3)
    rows = 3.0 * rng.standard_normal((50, 4)) + 1.0
    rows[4, 1] = rows[7, 0] = np.nan
    return rows, rng.standard_normal(4), rng.uniform(0.5, 3.0, 4)


def test_rows_are_centred_and_scaled_and_shortened_in_whole_units(table):
    unit = 2.0 / 2**20
    seen = np.vstack(list(noise.seen_rows(*table)))
    assert np.allclose(seen, shortened(*table, 1e9))
    found = np.vstack(list(noise.whole_rows(*table, 2.0)))
    assert np.array_equal(found, np.rint(found))
    assert np.allclose(found * unit, shortened(*table, 2.0), atol=4 * unit)
    lengths = np.linalg.norm(found, axis=1)
    assert 2**20 - 4 < lengths.max() <= 2**20  # rounding makes no row longer than the clip
    assert lengths.min() < 0.95 * 2**20  # short ones are left as they are


def test_a_long_row_leaves_room_for_rounding_and_no_more():
    (found,) = noise.whole_rows(9.0 * np.eye(1, 16), np.zeros(16), np.ones(16), 1.0)
    assert found[0, 0] == 2**20 - 2  # √16 / 2 units


def test_a_row_at_the_centre_stays_there():
    (found,) = noise.whole_rows(np.full((2, 3), 0.5), np.full(3, 0.5), np.ones(3), 2.0)
    assert np.array_equal(found, np.zeros((2, 3)))


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_a_value_beyond_all_bounds_is_held(sign):
    (found,) = noise.seen_rows(np.array([[sign * 1e60, 0.0]]), np.zeros(2), np.array([1e-300, 1.0]))
    assert np.array_equal(found, [[sign * 1e150, 0.0]])


def test_lengths_neither_overflow_nor_vanish():
    rows = np.array([[3.0, 4.0], [3e200, -4e200], [3e-200, 4e-200], [0.0, 0.0]])
    assert np.allclose(noise.row_lengths(rows), [5.0, 5e200, 5e-200, 0.0], rtol=1e-14, atol=0.0)


def test_sums_of_many_integers_are_exact():
    total = noise.WholeSum((3,))
    added = np.array([2.0**52 - 1, -(2.0**52) + 3, 5.0])
    for _ in range(5000):
        total.add(added)
    assert [int(value) for value in total.times(1.0)] == [round(5000 * float(x)) for x in added]
    assert np.allclose(total.times(0.5), 2500 * added, rtol=1e-15)


def test_with_too_many_features_rounding_would_be_all_there_is():
    d = (1 << 20) ** 2
    with pytest.raises(ValueError, match="too many features"):
        next(noise.whole_rows(np.zeros((1, 1)), np.broadcast_to(0.0, d), np.ones(1), 1.0))


def test_the_sums_are_those_of_their_definitions(table):
    rows, centre, scale = table
    a, b = shortened(rows, centre, scale, 2.0), 0.7
    whole = np.hstack([a, np.full((50, 1), b)])
    assert np.allclose(noise.augmented_grams(rows, centre, scale, 2.0, b)[0], whole.T @ whole, atol=1e-3)
    moments = np.concatenate([(a**2).sum(axis=0), np.sqrt(2) * b * a.sum(axis=0), [b**2 * 50]])
    assert np.allclose(noise.first_moments(rows, centre, scale, 2.0, b), moments, atol=1e-3)
    q = np.linalg.qr(np.random.default_rng(1).standard_normal((4, 2)))[0]
    assert np.allclose(noise.clipped_product(rows, centre, scale, 2.0, q), a.T @ a @ q, atol=1e-3)


def test_sums_over_many_blocks_are_those_over_one(table, monkeypatch):
    rows, centre, scale = table
    q = np.linalg.qr(np.random.default_rng(1).standard_normal((4, 2)))[0]

    def sums():
        return [
            noise.augmented_grams(rows, centre, scale, 2.0, 0.7),
            noise.first_moments(rows, centre, scale, 2.0, 0.7),
            noise.clipped_product(rows, centre, scale, 2.0, q),
            noise.length_counts(rows, centre, scale, np.array([1.0, 4.0, 9.0])),
        ]

    at_once = sums()
    monkeypatch.setattr("fedspca.linalg.row_blocks.BLOCK_BYTES", 64)
    assert len(list(noise.seen_rows(rows, centre, scale))) > 1
    for one, other in zip(at_once, sums(), strict=True):
        assert np.allclose(one, other, atol=1e-9)


def test_rows_are_counted_by_length_and_those_above_all_edges_in_the_last_place():
    rows = np.array([[0.0], [0.5], [1.0], [-1.5], [2.0], [3.0], [100.0]])
    counts = noise.length_counts(rows, np.zeros(1), np.ones(1), np.array([1.0, 2.0, 4.0]))
    assert np.array_equal(counts, [2, 2, 3])
    assert np.array_equal(noise.length_counts(rows[:2], np.zeros(1), np.ones(1), np.array([1.0, 2.0, 4.0])), [2, 0, 0])


def test_a_symmetric_matrix_of_any_size_is_packed_row_by_row():
    vector = packed(np.array([[1.0, 2.0], [2.0, 3.0]]))
    assert np.allclose(vector, [1.0, 2.0 * np.sqrt(2), 3.0])
    for size in (1, 2, 3, 7, 30):
        matrix = np.random.default_rng(size).standard_normal((size, size))
        assert np.allclose(unpacked(packed(matrix + matrix.T)), matrix + matrix.T)


# -- what a release costs ----------------------------------------------------------------------------------------------


def test_a_release_costs_its_noise_over_what_a_row_and_rounding_can_change():
    unit = 2.0**-24
    found = noise.cost(100, 4.0, 12.0, 24, 3)
    assert found.multiplier == pytest.approx(12.0 / (4.0 * 1.001 + unit * 10.0), rel=1e-12)
    assert math.isclose(found.slack, 100 / (20.0 * (12.0 / math.sqrt(3) / unit) ** 2), rel_tol=1e-12)
    coarse = noise.cost(1, 9.0, 2.0**20, 0, 1)  # here rounding is a good part of what changes
    assert coarse.multiplier == pytest.approx(2.0**20 / (1 + 9.0 * 1.001), rel=1e-12)
    assert math.isclose(coarse.slack, 1 / (20.0 * 2.0**40))
    assert noise.cost(1, 1.0, 12.0, 24, 0) == noise.cost(1, 1.0, 12.0, 24, 1)


def test_a_release_of_nothing_or_on_no_grid_or_on_a_coarse_one_has_no_price():
    with pytest.raises(ValueError, match="nothing to release"):
        noise.cost(0, 1.0, 12.0, 24, 1)
    with pytest.raises(ValueError, match="on no grid"):
        noise.cost(1, 1.0, 12.0, 201, 1)
    assert noise.cost(1, 1.0, 12.0, 200, 1).multiplier > 0
    assert noise.cost(1, 1.0, 1e6, 24, 1).multiplier < 1e6
    with pytest.raises(ValueError, match="cannot be accounted for"):
        noise.cost(1, 1.0, 1.1e6, 24, 1)
    with pytest.raises(ValueError, match="cannot be accounted for"):
        noise.cost(1, math.inf, 12.0, 24, 1)
    assert noise.cost(1, 1.0, 1.0, 20, 1).multiplier > 0  # 2²⁰ units in a standard deviation
    with pytest.raises(ValueError, match="too coarse"):
        noise.cost(1, 1.0, 1.0, 19, 1)
    with pytest.raises(ValueError, match="too coarse"):
        noise.cost(1, 1.0, 1.0, 20, 4)
    assert noise.cost(1, 1.0, 1.0, 21, 4).multiplier > 0


# -- the noise itself --------------------------------------------------------------------------------------------------


def test_values_are_rounded_to_the_grid_and_cut_off_far_out(monkeypatch):
    silent(monkeypatch)
    assert np.array_equal(noise.noised(np.array([[0.3, -0.3], [1.0, 0.55]]), 1.0, 2), [[0.25, -0.25], [1.0, 0.5]])
    far = noise.noised(np.array([1e30, -1e30]), 1.0, 2)
    assert np.array_equal(far, [2.0**49, -(2.0**49)])


def test_noise_too_large_for_whole_numbers_in_a_double_is_refused(monkeypatch):
    silent(monkeypatch)
    largest = 2.0**52 / 20  # so that 20 standard deviations are still exact
    assert noise.noised(np.zeros(1), np.nextafter(largest, 0), 0) == 0
    for sigma, grid in ((largest, 0), (largest / 2, 1)):
        with pytest.raises(ValueError, match="too fine"):
            noise.noised(np.zeros(1), sigma, grid)
