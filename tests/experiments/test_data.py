"""The generators against the definitions in the paper."""

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer

from fedspca.experiments.data import allotted_columns, non_iid_wdbc_star, standardised, wdbc_star
from fedspca.experiments.iid_wdbc import pca_run


def test_wdbc_star_is_the_measured_columns_and_uniform_ones():
    rows = wdbc_star(seed=5).rows
    assert rows.shape == (569, 830)
    np.testing.assert_array_equal(rows[:, :30], load_breast_cancer().data)
    noise = rows[:, 30:]
    assert noise.min() >= 0
    assert noise.max() < 1
    assert abs(noise.mean() - 0.5) < 5 / np.sqrt(12 * noise.size)


def test_random_columns_are_allotted_once_and_all():
    columns = allotted_columns(7)
    assert sorted(np.concatenate(columns).tolist()) == list(range(800))


def test_non_iid_wdbc_star_follows_its_definition():
    data = non_iid_wdbc_star(10, seed=4)
    assert data.rows.shape == (569, 830)
    np.testing.assert_allclose(data.rows[:, :30].mean(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(data.rows[:, :30].std(axis=0, ddof=1), 1)
    noise = data.rows[:, 30:]
    for site, columns in zip(np.unique(data.owners), allotted_columns(10), strict=True):
        mine = data.owners == site
        own = noise[np.ix_(mine, columns)]
        others = noise[np.ix_(mine, np.setdiff1d(np.arange(800), columns))]
        assert np.all(own != 0)
        assert abs(np.mean(own**2) - 0.5) < 0.2  # variances are uniform on [0, 1)
        assert (own < 0).any()
        assert abs(np.mean(others == 0) - 0.8) < 0.02
        assert others.min() >= 0
        assert others.max() < 1
        assert abs(others[others > 0].mean() - 0.5) < 0.02


def test_variances_may_be_drawn_once_a_site():
    data = non_iid_wdbc_star(10, seed=4, variances="site")
    own = [
        data.rows[np.ix_(data.owners == site, 30 + columns)].var()
        for site, columns in zip(np.unique(data.owners), allotted_columns(10), strict=True)
    ]
    assert np.ptp(own) > 0.4


@pytest.mark.parametrize("seed", [0, 1, 2, 17, 12345])
def test_pcas_reconstruction_error_is_the_papers_whatever_the_seed(seed):
    (record,) = pca_run(seed)
    assert abs(record["error"] - 677.31) < 0.2


def test_standardised_uses_ddof_one():
    rows = np.random.default_rng(0).random((20, 3))
    np.testing.assert_allclose(standardised(rows).std(axis=0, ddof=1), 1)
