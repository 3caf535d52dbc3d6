"""Covariates and weights that tell of a few rows, or of one site."""

import numpy as np
import pytest
import scipy.sparse as sp

from fedspca.linalg.beside import Beside
from fedspca.site.disclosure import disclosed, effective_rows, largest_leverage, told_together

N = 40


def found(columns, weights=None, least=5):
    columns = np.column_stack(columns)
    names = [f"c{j}" for j in range(columns.shape[1])]
    return disclosed(Beside(columns, weights), names, min_rows=10, least=least)


def first(count):
    return (np.arange(N) < count).astype(float)


def test_ordinary_covariates_tell_of_nobody():
    rng = np.random.default_rng(0)
    assert found([rng.normal(50, 9, N), first(5), first(35)]) is None
    assert disclosed(Beside(), (), min_rows=10, least=5) is None


@pytest.mark.parametrize("count", [0, 1, 4, 36, 39, 40])
def test_a_level_of_few_rows_or_of_all_is_named(count):
    assert f"'c0' has one value in all rows but {min(count, N - count)}" in found([first(count)])


def test_rows_that_do_not_count_hide_nobody():
    assert "'c0'" in found([first(20)], weights=np.where(np.arange(N) < 16, 0.0, 1.0))
    assert "equal rows" in found([first(20)], weights=np.where(np.arange(N) < 33, 0.0, 1.0))


def test_a_combination_that_is_about_one_row_is_found():
    """Of three levels the first has no column, and here one row."""
    one, two = first(20), 1.0 - first(20)
    two[-1] = 0.0
    assert "mostly about one row" in found([one, two])
    assert "mostly about one row" in found([np.random.default_rng(0).normal(size=N) + 1e6 * (np.arange(N) == 3)])
    assert found([one, two], least=1) is None  # an owner may allow single rows


def test_leverage_is_that_of_a_one_way_layout():
    assert largest_leverage(Beside(first(4)[:, None])) == pytest.approx(1 / 4)
    assert largest_leverage(Beside(np.ones((N, 1)))) == pytest.approx(1 / N)


def test_equal_weights_are_rows():
    assert effective_rows(np.full(N, 3e-200)) == pytest.approx(N)
    assert effective_rows(first(7)) == pytest.approx(7)


@pytest.mark.parametrize("seed", range(20))
def test_no_combination_of_what_is_filled_in_is_mostly_about_one_row(seed):
    rng = np.random.default_rng(seed)
    fills = rng.standard_t(2, (60, 5)) * (rng.random((60, 5)) < 0.3)
    rows, features = told_together(sp.csr_array(fills), min_rows=10, least=5)
    told = fills[np.ix_(rows, features)]
    assert not rows.any() or (rows.sum() >= 10 and (told != 0).sum(axis=0).min() >= 5)
    for at in range(len(told)):  # the combination that is most about a row is the solution of least squares for it
        weights = np.square(told @ np.linalg.lstsq(told, np.eye(len(told))[at])[0])
        assert weights[at] <= 0.5 * weights.sum() + 1e-9
    assert rows.sum() > 20  # and most rows stay


def test_few_rows_are_not_filled_in_and_a_policy_without_a_least_fills_all():
    fills = sp.csr_array(np.diag(np.ones(12)))
    assert not any(told.any() for told in told_together(fills, min_rows=1, least=2))
    assert not any(told.any() for told in told_together(sp.csr_array(np.ones((9, 2))), min_rows=10, least=2))
    assert all(told.all() for told in told_together(fills, min_rows=1, least=1))
