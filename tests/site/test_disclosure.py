"""Covariates and weights that tell of a few rows, or of one site."""

import numpy as np
import pytest

from fedspca.linalg.beside import Beside
from fedspca.site.disclosure import disclosed, effective_rows, largest_leverage

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
