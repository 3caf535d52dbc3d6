"""The compiled search for the fewest non-zeros beside its twin in numpy."""

import time
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from fedspca.linalg.cardinality.fewest import fewest_nonzeros, no_more_than_alike
from fedspca.linalg.cardinality.partition import partitioned
from fedspca.linalg.cardinality.polish import nearest_orthogonal, refit_orthogonal
from fedspca.linalg.cardinality.tuning import Tuning
from fedspca.linalg.compiled import fewest as compiled
from fedspca.linalg.compiled.library import library, numpy_only
from fedspca.linalg.rotations import rotated
from fedspca.linalg.small import largest_eigenpairs
from fedspca.linalg.sparse_stiefel import retract

pytestmark = pytest.mark.skipif(library() is None, reason="nothing was compiled")

SHAPES = [(1, 1), (5, 1), (5, 2), (5, 5), (8, 3), (20, 2), (30, 5), (40, 3)]


def plain(rng, d):
    rows = rng.standard_normal((60, d))
    return rows.T @ rows


def spiked(rng, d):
    rows = rng.standard_normal((60, 3)) @ rng.standard_normal((3, d)) + 0.3 * rng.standard_normal((60, d))
    return rows.T @ rows


def rank_deficient(rng, d):
    rows = rng.standard_normal((max(1, d // 2), d))
    return rows.T @ rows


def with_duplicates(rng, d):
    rows = rng.integers(0, 3, (40, d)).astype(float)
    rows[:, d // 2 :] = rows[:, : d - d // 2]
    return rows.T @ rows


MATRICES = [plain, spiked, rank_deficient, with_duplicates]


def starts_of(s, r):
    return rotated(largest_eigenpairs(s, r)[1], np.zeros((0, r, r)))


def supports(fit):
    """The features of all columns, in no order."""
    return sorted(each.tolist() for each in fit.supports)


def in_both(search):
    found = search()
    with numpy_only():
        return found, search()


@pytest.mark.parametrize("make", MATRICES)
@pytest.mark.parametrize(("d", "r"), SHAPES)
@pytest.mark.parametrize("share", [0.5, 0.9, 0.99])
def test_both_engines_find_the_same_loadings(make, d, r, share):
    for seed in range(3):
        s = make(np.random.default_rng(seed), d)
        target = share * float(largest_eigenpairs(s, r)[0].sum()) * (1.0 - 1e-10)
        starts = starts_of(s, r)
        found, expected = in_both(partial(fewest_nonzeros, s, target, tuning=Tuning(), starts=starts))
        assert (found is None) == (expected is None)
        if expected is None:
            continue
        assert np.count_nonzero(found.w) == np.count_nonzero(expected.w)
        assert found.variance >= target
        assert found.variance == pytest.approx(float(np.vdot(found.w, s @ found.w)), rel=1e-12)
        assert np.abs(found.w.T @ found.w - np.eye(r)).max() < 1e-10
        if make in (plain, spiked):  # else several loadings may be equally good
            assert supports(found) == supports(expected)
            assert found.variance == pytest.approx(expected.variance, rel=1e-9)


@pytest.mark.parametrize("r", [1, 2, 3, 5])
def test_both_engines_compare_with_loadings_of_equal_size(r):
    s = spiked(np.random.default_rng(r), 20)
    target, starts = 0.8 * float(largest_eigenpairs(s, r)[0].sum()), starts_of(s, r)

    def search():
        fit = fewest_nonzeros(s, target, tuning=Tuning(), starts=starts[:1])
        return no_more_than_alike(s, fit, target, hope=0.5, tuning=Tuning(), starts=starts)

    found, expected = in_both(search)
    assert np.array_equal(found.w != 0.0, expected.w != 0.0)
    assert found.variance == pytest.approx(expected.variance, rel=1e-9)


@pytest.mark.parametrize("make", MATRICES)
@pytest.mark.parametrize(("d", "r"), SHAPES)
@pytest.mark.parametrize("rough", [False, True])
def test_both_engines_refit_alike(make, d, r, rough):
    rng = np.random.default_rng(d + r)
    s = make(rng, d)
    for share in (0.2, 0.5, 1.0):
        blocks = np.repeat(rng.random((-(-d // 4), r)) < share, 4, axis=0)[:d]
        z = np.where(blocks, starts_of(s, r)[0], 0.0)
        z[np.arange(r), np.arange(r)] += 1.0
        near = retract(z)
        if near is None or np.abs(near[near != 0.0]).min() < 1e-6:  # entries vanish, and digits with them
            continue
        for refit, start in ((refit_orthogonal, near), (nearest_orthogonal, z)):
            found, expected = in_both(partial(refit, s, start, rough=rough))
            assert found.variance == pytest.approx(expected.variance, rel=1e-7)
            assert found.variance == pytest.approx(float(np.vdot(found.w, s @ found.w)), rel=1e-9)
            assert not found.w[near == 0.0].any()


def test_both_engines_say_that_supports_admit_no_orthonormal_columns():
    s, z = plain(np.random.default_rng(0), 6), np.zeros((6, 3))
    z[0], z[1, 0] = 1.0, 1.0
    empty = np.eye(6, 3) * [1.0, 0.0, 1.0]
    for each in (z, empty):
        found, expected = in_both(partial(nearest_orthogonal, s, each))
        assert found is None
        assert expected is None


@pytest.mark.parametrize("make", MATRICES[:2])
@pytest.mark.parametrize(("d", "r"), [*SHAPES, (150, 2), (160, 30)])
def test_both_engines_divide_the_features_alike(make, d, r):
    for seed in range(3):
        s = make(np.random.default_rng(seed), d)
        found, expected = in_both(partial(partitioned, s, starts_of(s, r)[-1]))
        assert np.array_equal(found != 0.0, expected != 0.0)
        assert np.abs(np.abs(found) - np.abs(expected)).max() < 1e-7


def test_a_search_without_time_returns_what_it_has():
    s = spiked(np.random.default_rng(0), 30)
    target, starts = 0.9 * float(largest_eigenpairs(s, 3)[0].sum()), starts_of(s, 3)
    late = replace(Tuning(), deadline=time.monotonic() - 1.0)
    found, expected = in_both(lambda: fewest_nonzeros(s, target, tuning=late, starts=starts))
    assert np.count_nonzero(found.w) == np.count_nonzero(expected.w) == 90


def test_the_deadline_is_asked_for():
    s, asked = spiked(np.random.default_rng(0), 30), []

    def late():
        asked.append(1)
        return len(asked) > 3

    target = 0.9 * float(largest_eigenpairs(s, 3)[0].sum())
    assert compiled.fewest(library(), s, target, starts_of(s, 3), late) is not None
    assert 3 < len(asked) < 20


def test_an_unreachable_target_has_no_answer():
    s = plain(np.random.default_rng(0), 10)
    target = 1.1 * float(largest_eigenpairs(s, 2)[0].sum())
    found, expected = in_both(lambda: fewest_nonzeros(s, target, tuning=Tuning(), starts=starts_of(s, 2)))
    assert found is None
    assert expected is None


def test_a_matrix_that_is_not_square_is_refused():
    with pytest.raises(ValueError, match="square"):
        compiled.fewest(library(), np.ones((3, 2)), 1.0, [np.eye(3, 2)], None)


def test_an_interruption_is_not_lost_in_c():
    def interrupted():
        raise KeyboardInterrupt

    s = np.cov(np.random.default_rng(0).standard_normal((40, 12)).T)
    w = np.linalg.eigh(s)[1][:, ::-1][:, :2]
    with pytest.raises(KeyboardInterrupt):
        compiled.fewest(library(), s, 0.5 * float(np.trace(w.T @ s @ w)), [w], interrupted)
