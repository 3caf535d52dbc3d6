import numpy as np
import pytest
import scipy.sparse as sp

from fedspca.linalg.beside import NOTHING, Adjustment, Beside
from fedspca.linalg.feature_sums import column_sums, covariate_products, deviations_from, missing_counts
from fedspca.linalg.operators import StandardisedRows
from fedspca.linalg.row_blocks import BLOCK_BYTES


@pytest.fixture
def table():
    rng = np.random.default_rng(0)
    n, d, p = 60, 7, 3
    rows = np.where(rng.random((n, d)) < 0.6, rng.normal(3, 2, (n, d)), 0.0)
    beside = Beside(rng.normal(5, 2, (n, p)), rng.uniform(0, 3, n))
    return rows, beside, Adjustment(rng.standard_normal(p), rng.standard_normal((p, d)))


def seen(rows, beside, adjustment, mean, scale):
    left = (rows - mean - (beside.covariates - adjustment.mean) @ adjustment.coefficients) / scale
    return np.sqrt(beside.weights)[:, None] * left


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array, lambda x: x.astype(np.float32)])
@pytest.mark.parametrize("expected", [1, 100, 1000])
def test_adjusted_and_weighted_rows_are_an_operator(table, form, expected, monkeypatch):
    rows, beside, adjustment = table
    rows = form(rows)
    whole = rows.toarray() if sp.issparse(rows) else rows.astype(np.float64)
    rng = np.random.default_rng(1)
    mean, scale = rng.standard_normal(7), rng.uniform(0.5, 2, 7)
    a = seen(whole, beside, adjustment, mean, scale)
    monkeypatch.setattr("fedspca.linalg.row_blocks.BLOCK_BYTES", 8 * 7 * 11)  # blocks do not divide the rows evenly
    monkeypatch.setattr("fedspca.linalg.operators.CSR_ROWS", 11)
    monkeypatch.setattr("fedspca.linalg.operators.BLOCK_ROWS", 1)
    monkeypatch.setattr("fedspca.linalg.feature_sums.BLOCK_ROWS", 1)
    operator = StandardisedRows(rows, mean, scale, beside=beside, adjustment=adjustment)
    for m in (1, 6):
        x = rng.standard_normal((7, m))
        assert np.allclose(operator.gram_product(x, expected), a.T @ (a @ x), rtol=1e-11)
    assert np.allclose(operator.gram_matrix(), a.T @ a, rtol=1e-11)
    basis = np.linalg.qr(rng.standard_normal((7, 2)))[0]
    plain = seen(whole, Beside(beside.covariates, np.ones(60)), adjustment, mean, scale)
    errors = ((plain - plain @ basis @ basis.T) ** 2).sum(axis=1)
    assert np.allclose(operator.error_sums(basis), (beside.weights @ errors, beside.weights @ errors**2))
    assert np.allclose(operator.row_sums(), beside.weights @ plain)


def test_sums_count_each_row_as_its_weight_says(table, monkeypatch):
    rows, beside, _ = table
    monkeypatch.setattr("fedspca.linalg.row_blocks.BLOCK_BYTES", 8 * 7 * 11)
    gaps = np.where(np.random.default_rng(2).random(rows.shape) < 0.2, np.nan, rows)
    present, w, mean = ~np.isnan(gaps), beside.weights[:, None], np.arange(7.0)
    for form in (gaps, sp.csr_array(gaps)):
        assert np.allclose(missing_counts(form, beside), (w * ~present).sum(axis=0))
        assert np.allclose(column_sums(form, missing=True, beside=beside), np.nansum(w * gaps, axis=0))
        offsets, squares = deviations_from(form, mean, missing=True, beside=beside)
        assert np.allclose(offsets, np.nansum(w * (gaps - mean), axis=0))
        assert np.allclose(squares, np.nansum(w * (gaps - mean) ** 2, axis=0))


def test_products_with_covariates_are_about_the_means(table):
    rows, beside, adjustment = table
    mean = rows.mean(axis=0)
    about, w = beside.covariates - adjustment.mean, beside.weights[:, None]
    for form in (rows, sp.csr_array(rows)):
        inner, cross = covariate_products(form, mean, adjustment.mean, missing=False, beside=beside)
        assert np.allclose(inner, about.T @ (w * about))
        assert np.allclose(cross, (w * about).T @ (rows - mean))


def test_an_adjustment_without_covariates_is_an_error(table):
    with pytest.raises(ValueError, match="the rows have none"):
        NOTHING.explained(table[2])
    assert not NOTHING
    assert BLOCK_BYTES > 0
