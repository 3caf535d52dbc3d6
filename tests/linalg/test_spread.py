"""Sums and squares by one pass: about any mean, with digits kept, and none where a value is no number."""

import numpy as np
import pytest

from fedspca.linalg import spread
from fedspca.linalg.feature_sums import column_sums, deviations_from
from fedspca.linalg.spread import spread_of

MOST = 1e70


def rows_of(n=2000, d=7, *, mean=0.0):
    rng = np.random.default_rng(0)
    return rng.standard_normal((n, d)) * np.geomspace(0.5, 10.0, d) + mean


@pytest.fixture(params=["double", "single", "many in single"])
def kind(request, monkeypatch):
    if request.param == "many in single":
        monkeypatch.setattr(spread, "SINGLE_PAYS", 1)
    return request.param


@pytest.mark.parametrize("mean", [0.0, 100.0, 1e6])
@pytest.mark.parametrize("order", ["as drawn", "sorted"])
def test_sums_about_any_mean(kind, mean, order):
    rows = rows_of(mean=mean).astype(np.float64 if kind == "double" else np.float32)
    rows = np.sort(rows, axis=0) if order == "sorted" else rows
    found = spread_of(rows, MOST)
    exact = rows.astype(np.float64)
    rtol = 1e-6 if kind == "many in single" else 1e-12
    length = np.sqrt(len(rows) * (exact**2).sum(axis=0))
    assert np.all(np.abs(found.totals - column_sums(exact)) <= rtol * length)
    for about in (exact.mean(axis=0), exact.mean(axis=0) + 3.0, np.zeros(7)):
        offsets, squares = found.about(about)
        expected = deviations_from(exact, about)
        size = np.sqrt(len(rows) * expected[1])
        assert np.all(np.abs(offsets - expected[0]) <= np.maximum(rtol * size, 1e-15 * len(rows) * np.abs(mean)))
        np.testing.assert_allclose(squares, expected[1], rtol=max(rtol, 1e-9))


def test_a_constant_feature_has_no_spread():
    rows = rows_of()
    rows[:, 2] = 0.1
    found = spread_of(rows, MOST)
    assert found.shift[2] == 0.1
    assert found.squares[2] == 0.0


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 3e70])
def test_nothing_if_one_value_is_no_usable_number(value):
    rows = rows_of()
    rows[1234, 5] = value
    assert spread_of(rows, MOST) is None


@pytest.mark.parametrize("unit", [1e-21, 1e25])
def test_nothing_if_single_precision_cannot_hold_the_squares(unit, monkeypatch):
    monkeypatch.setattr(spread, "SINGLE_PAYS", 1)
    assert spread_of((unit * rows_of()).astype(np.float32), MOST) is None
