import numpy as np
import pytest

from fedspca.estimators.base import Found
from fedspca.estimators.exact_bound import bound_on

FOUND = Found(np.eye(4)[:, :2], np.diag([3.0, 2.0]))  # loadings that capture 5


def test_without_a_bound_of_its_own_dense_pca_bounds_the_loadings():
    assert bound_on(FOUND, None, None, 8.0, 0.0) == (8.0, True, pytest.approx(0.6))


def test_the_smaller_of_two_bounds_is_told():
    assert bound_on(FOUND, None, 6.0, 8.0, 0.0) == (6.0, False, pytest.approx(0.2))
    assert bound_on(FOUND, None, 9.0, 8.0, 0.0) == (8.0, True, pytest.approx(0.6))


def test_no_bound_is_below_what_was_reached():
    assert bound_on(FOUND, None, 5.0 - 1e-9, 8.0, 0.0) == (5.0, False, 0.0)


def test_with_a_penalty_every_loading_pays_at_least_once():
    lam = np.array([1.0, 0.5])
    assert bound_on(FOUND, lam, None, 8.0, 0.0) == (6.5, True, pytest.approx(3.0 / 3.5))


def test_rounding_widens_the_bound_twice_for_the_loadings_and_for_the_bound():
    assert bound_on(FOUND, None, 6.0, 8.0, 0.25) == (6.5, False, pytest.approx(0.3))


def test_loadings_that_capture_nothing_have_no_gap():
    assert bound_on(Found(np.eye(4)[:, :2], np.zeros((2, 2))), None, None, 0.0, 0.0) == (0.0, True, 0.0)


def test_loadings_that_are_proved_have_no_gap_at_all():
    assert bound_on(FOUND, None, 5.0 * (1 + 7e-7), 8.0, 0.0, proved=True) == (5.0, False, 0.0)


def test_what_is_proved_of_loadings_whose_own_variance_is_rounded_stays_a_bound():
    """Of nearly parallel loadings less is seen than they capture."""
    assert bound_on(FOUND, None, 5.0 * (1 + 2e-5), 8.0, 0.0, proved=True) == (5.0001, False, pytest.approx(2e-5))


def test_an_objective_of_nothing_has_a_gap_all_the_same():
    lam = np.array([3.0, 2.0])  # the penalty takes what the loadings capture
    assert bound_on(FOUND, lam, 1.0, 8.0, 0.0) == (1.0, False, pytest.approx(0.2))
