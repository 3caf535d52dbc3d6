"""Single precision: near double precision whatever the means and units, and double where it cannot hold the values."""

import numpy as np
import pytest

from fedspca.linalg import single
from fedspca.linalg.beside import Beside
from fedspca.linalg.operators import DeflatedRows, StandardisedRows
from fedspca.linalg.single import PRODUCT_ROUNDING, ROUNDING, SingleRows, in_single
from fedspca.linalg.stiefel import nothing_removed


def rows_of(n=6000, d=40, *, mean=0.0, unit=1.0, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n, d)) * np.geomspace(0.5, 8.0, d) + 2.0 * rng.standard_normal((n, 1))
    return (unit * (x + mean)).astype(np.float32)


def seen(rows, *, scaled=False, away=0.0, told=False):
    """Rows about their mean, or about that of other sites, so many spreads away; their squares are told, or not."""
    exact = rows.astype(np.float64)
    mean, spread = exact.mean(axis=0), exact.std(axis=0)
    about = mean + away * spread
    squares = ((exact - about) ** 2).sum(axis=0) if told else None
    return StandardisedRows(rows, about, spread if scaled else np.ones(rows.shape[1]), squares=squares)


@pytest.mark.parametrize("scaled", [False, True])
@pytest.mark.parametrize("mean", [0.0, 300.0, 1e6])
@pytest.mark.parametrize("unit", [1e-6, 1.0, 1e8])
@pytest.mark.parametrize("away", [0.0, 3.0])
@pytest.mark.parametrize("told", [False, True])
def test_a_gram_matrix_is_that_of_double_precision(mean, unit, scaled, away, told):
    rows = seen(rows_of(mean=mean, unit=unit), scaled=scaled, away=away, told=told)
    exact, found = rows.gram_matrix(), SingleRows(rows).gram_matrix()
    size = np.sqrt(exact.diagonal())
    apart = np.abs(found - exact) / np.outer(size, size)
    assert 0.0 < apart.max() < 0.2 * ROUNDING  # the worst case is never met
    assert np.array_equal(found, found.T)


@pytest.mark.parametrize("scaled", [False, True])
@pytest.mark.parametrize("mean", [0.0, 1e6])
@pytest.mark.parametrize("shape", [(6000, 40), (60, 1500)])
@pytest.mark.parametrize("away", [0.0, 3.0])
@pytest.mark.parametrize("told", [False, True])
def test_a_product_is_that_of_double_precision(shape, mean, scaled, away, told):
    rows = seen(rows_of(*shape, mean=mean), scaled=scaled, away=away, told=told)
    x = np.linalg.qr(np.random.default_rng(1).standard_normal((shape[1], 7)))[0]
    exact, found = rows.gram_product(x, 0), SingleRows(rows).gram_product(x, 0)
    whole = float(np.trace(rows.gram_matrix()))
    apart = np.linalg.norm(found - exact, axis=0)
    assert 0.0 < apart.max() < 1e-7 * whole < PRODUCT_ROUNDING * whole


def test_the_bound_holds_where_all_rounding_errors_have_one_sign():
    rows = np.full((4096, 3), 1.0 + 2.0**-12, dtype=np.float32)  # every square is rounded down
    rows[::2] *= -1
    seen_rows = StandardisedRows(rows, np.zeros(3), np.ones(3))
    exact, found = seen_rows.gram_matrix(), SingleRows(seen_rows).gram_matrix()
    assert np.abs(found / exact - 1.0).max() < ROUNDING


def test_the_order_of_rows_hardly_matters():
    rows = rows_of(mean=1e3)
    other = rows[np.random.default_rng(2).permutation(len(rows))]
    one, two = (SingleRows(seen(each)).gram_matrix() for each in (rows, other))
    assert np.abs(one - two).max() < 1e-6 * one.max()


@pytest.mark.parametrize(("mean", "centred"), [(0.0, False), (0.45, False), (0.55, True), (1e3, True)])
def test_rows_are_centred_first_unless_means_are_small(mean, centred):
    rows = rows_of()
    exact = rows.astype(np.float64)
    rows = (exact - exact.mean(axis=0) + mean * exact.std(axis=0)).astype(np.float32)
    assert single._small_means(seen(rows, told=True)) != centred
    assert not single._small_means(seen(rows))  # the squares are not known


def test_rows_that_are_scaled_are_not_multiplied_as_stored():
    rows = rows_of()
    plain, scaled = (single._Centred(seen(rows, scaled=scaled), as_stored=True) for scaled in (False, True))
    assert np.shares_memory(next(plain.blocks()), rows)
    assert not np.shares_memory(next(scaled.blocks()), rows)


@pytest.mark.parametrize("told", [False, True])
@pytest.mark.parametrize("unit", [1e-22, 1e22])
def test_values_that_single_precision_cannot_square_are_multiplied_in_double(unit, told):
    rows = seen(rows_of(unit=unit), told=told)
    x = np.linalg.qr(np.random.default_rng(1).standard_normal((40, 3)))[0]
    assert np.array_equal(SingleRows(rows).gram_matrix(), rows.gram_matrix())
    assert np.array_equal(SingleRows(rows).gram_product(x, 0), rows.gram_product(x, 0))


def test_a_feature_that_is_left_out_is_exactly_zero():
    rows = rows_of()
    scale = np.ones(40)
    scale[3] = np.inf
    left_out = StandardisedRows(rows, rows.mean(axis=0, dtype=np.float64), scale)
    assert not SingleRows(left_out).gram_matrix()[3].any()
    assert not SingleRows(left_out).gram_product(np.eye(40), 0)[3].any()


def test_rows_of_another_kind_stay_in_double():
    rows, mean, scale = rows_of(), np.zeros(40), np.ones(40)
    kinds = [
        StandardisedRows(rows.astype(np.float64), mean, scale),
        StandardisedRows(rows, mean, scale, missing=True),
        StandardisedRows(rows, mean, scale, beside=Beside(weights=np.ones(len(rows)))),
    ]
    for kind in kinds:
        deflated = DeflatedRows(kind, nothing_removed(40))
        assert in_single(deflated) is deflated
    single_rows = in_single(DeflatedRows(StandardisedRows(rows, mean, scale), nothing_removed(40)))
    assert isinstance(single_rows.standardised, SingleRows)


def test_many_columns_use_a_gram_matrix_in_single_precision():
    rows = seen(rows_of())
    x = np.eye(40)[:, :2]
    product = SingleRows(rows).gram_product(x)
    assert np.array_equal(product, single._gram_matrix(rows) @ x)
