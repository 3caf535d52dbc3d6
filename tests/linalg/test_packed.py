import numpy as np
import pytest

from fedspca import ExactSPCA, LocalFederation, Site
from fedspca.linalg.beside import Beside
from fedspca.linalg.feature_sums import column_sums, deviations_from, missing_counts
from fedspca.linalg.packed import COPIES, PackedRows, codes, decoded, pack, transposed
from fedspca.site.preparation import Preparation


@pytest.fixture
def apart():
    return np.random.default_rng(0).integers(0, 4, (23, 10)).astype(np.uint8)


def test_four_codes_make_a_byte_and_come_apart_again(apart):
    packed = pack(apart)
    assert packed.shape == (23, 3)
    assert packed[0, 0] == apart[0, 0] + 4 * apart[0, 1] + 16 * apart[0, 2] + 64 * apart[0, 3]
    assert np.array_equal(codes(packed, 10), apart)
    assert np.array_equal(codes(transposed(packed, 10), 23), apart.T)
    assert np.array_equal(decoded(packed, 10), COPIES[apart], equal_nan=True)


def test_values_are_counted_as_they_are_packed(apart, monkeypatch):
    monkeypatch.setattr("fedspca.linalg.packed.MOST_IN_A_BYTE", 9)  # counters are emptied in time
    rows, dense, mean = PackedRows(pack(apart), 10), COPIES[apart], np.linspace(0, 2, 10)
    assert np.array_equal(missing_counts(rows), np.isnan(dense).sum(axis=0))
    assert np.allclose(column_sums(rows, missing=True), np.nansum(dense, axis=0))
    offsets, squares = deviations_from(rows, mean, missing=True)
    assert np.allclose(offsets, np.nansum(dense - mean, axis=0))
    assert np.allclose(squares, np.nansum((dense - mean) ** 2, axis=0))
    weights = Beside(None, np.arange(23.0))
    assert np.allclose(column_sums(rows, missing=True, beside=weights), np.arange(23) @ np.nan_to_num(dense))


def test_counters_do_not_run_over():
    rows = PackedRows(np.zeros((600, 1), dtype=np.uint8), 3)  # two copies everywhere
    assert rows.tallies[1].tolist() == [[600] * 3, [0] * 3, [0] * 3, [0] * 3]


@pytest.mark.parametrize("step", [1, 4, 23])
def test_every_sum_is_that_of_the_decoded_rows(apart, step, monkeypatch):
    monkeypatch.setattr("fedspca.linalg.packed.DECODED_BYTES", 8 * 10 * step)
    monkeypatch.setattr("fedspca.linalg.packed.IN_CACHE", 8 * 10 * 3)
    rows = PackedRows(pack(apart), 10)
    labels = np.arange(23, dtype=np.int16) % 3
    dense = COPIES[apart]
    assert np.allclose(rows.total(lambda block: (np.nansum(block, axis=0),))[0], np.nansum(dense, axis=0))
    (told,) = rows.labelled_total(lambda block, here: (np.nansum(block[here == 1], axis=0),), labels)
    assert np.allclose(told, np.nansum(dense[labels == 1], axis=0))
    fill = np.random.default_rng(2).random(10)
    (product,) = rows.filled_total(lambda block: (block.T @ block,), fill, least=2)
    whole = np.where(np.isnan(dense), fill, dense)
    assert np.allclose(product, whole.T @ whole)


def test_folds_weights_and_products_work(apart):
    weights = np.random.default_rng(1).uniform(0.5, 2, 23)
    for settings in ({"folds": 4}, {"search": "products"}):
        fits = [
            ExactSPCA(1, n_nonzero=3, max_missing=0.9, **settings).fit_federation(
                LocalFederation([Site("a", rows, allow_missing=True)])
            )
            for rows in (PackedRows(pack(apart), 10), COPIES[apart])
        ]
        assert np.abs(fits[0].components_ - fits[1].components_).max() < 1e-8
    how = Preparation(weighted=True)
    fits = [
        ExactSPCA(1, n_nonzero=3, max_missing=0.9).fit_federation(
            LocalFederation([Site("a", rows, allow_missing=True, preparation=how, weights=weights)])
        )
        for rows in (PackedRows(pack(apart), 10), COPIES[apart])
    ]
    assert np.abs(fits[0].components_ - fits[1].components_).max() < 1e-8
