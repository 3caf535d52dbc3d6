import numpy as np
import pytest
import scipy.sparse as sp

from fedspca.linalg.beside import Beside
from fedspca.linalg.feature_sums import column_sums, deviations_from, missing_counts
from fedspca.linalg.maps import CountModel, Curves, MappedRows, map_of
from fedspca.linalg.operators import StandardisedRows

CURVES = Curves(np.array([[0.0, -1.0], [1.0, 0.0], [3.0, 5.0]]), np.array([[0.0, -2.0], [2.0, 0.0], [3.0, 1.0]]))


def test_curves_rise_between_knots_and_stay_beyond_them():
    rows = np.array([[-4.0, 5.0], [0.5, -1.0], [2.0, np.nan], [9.0, 2.5]])
    expected = np.array([[0.0, 1.0], [1.0, -2.0], [2.5, np.nan], [3.0, 0.5]])
    assert np.array_equal(CURVES(rows), expected, equal_nan=True)


def test_residuals_of_counts_are_those_of_the_negative_binomial_model():
    rng = np.random.default_rng(0)
    counts = rng.poisson(3.0, (40, 5)).astype(float)
    counts[:, 2] = 0
    shares = counts.sum(axis=0) / counts.sum()
    expected = np.outer(counts.sum(axis=1), shares)
    with np.errstate(invalid="ignore"):
        wanted = np.nan_to_num((counts - expected) / np.sqrt(expected + expected**2 / 100))
    found = CountModel(shares, np.array([1.5]))(counts)
    assert np.allclose(found, np.clip(wanted, -1.5, 1.5))
    assert np.abs(found).max() == 1.5
    assert (found[:, 2] == 0).all()


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_rows_seen_through_a_transform_give_the_sums_of_transformed_rows(form, monkeypatch):
    monkeypatch.setattr("fedspca.linalg.row_blocks.BLOCK_BYTES", 160)  # many blocks
    rng = np.random.default_rng(1)
    x = np.where(rng.random((50, 2)) < 0.7, rng.normal(1, 2, (50, 2)), 0.0)
    x[3, 1] = np.nan
    beside, mean = Beside(rng.standard_normal((50, 1)), rng.random(50)), np.array([0.5, 0.2])
    rows, formed = MappedRows(form(x), CURVES), CURVES(x)
    about = {"missing": True, "beside": beside}
    assert np.allclose(column_sums(rows, **about), column_sums(formed, **about))
    assert np.array_equal(missing_counts(rows), missing_counts(formed))
    assert np.allclose(deviations_from(rows, mean, **about), deviations_from(formed, mean, **about))
    grams = [StandardisedRows(r, mean, np.array([1.0, 2.0]), **about).gram_matrix() for r in (rows, formed)]
    assert np.allclose(*grams)
    labels = np.arange(50, dtype=np.int16) % 3
    found = rows.labelled_total(lambda block, here: (np.bincount(here, np.nan_to_num(block[:, 0]), 3),), labels)[0]
    assert np.allclose(found, np.bincount(labels, np.nan_to_num(formed[:, 0]), 3))


def test_a_transform_is_known_by_its_arrays():
    assert map_of({"mean": np.zeros(2)}) is None
    assert map_of(CURVES.arrays).arrays.keys() == {"knots", "images"}
    assert isinstance(map_of(CountModel(np.ones(2), np.ones(1)).arrays), CountModel)
