import numpy as np
import pytest

from fedspca.experiments.synthetic import covariance, eigenvectors, iid_synthetic, non_iid_synthetic, sparse_truth


def test_the_true_loadings_are_sparse_and_orthonormal():
    truth = sparse_truth()
    assert truth.shape == (2, 500)
    np.testing.assert_allclose(truth @ truth.T, np.eye(2), atol=1e-15)
    assert np.flatnonzero(truth[0]).tolist() == list(range(10))
    assert np.flatnonzero(truth[1]).tolist() == list(range(10, 20))
    np.testing.assert_allclose(truth[truth != 0], 1 / np.sqrt(10))


@pytest.mark.parametrize("draw", ["random", "standard_normal"])
def test_eigenvectors_are_orthonormal_and_begin_with_the_true_loadings(draw):
    vectors = eigenvectors(getattr(np.random.default_rng(0), draw)((60, 58)), "orthonormal")
    np.testing.assert_allclose(vectors.T @ vectors, np.eye(60), atol=1e-12)
    np.testing.assert_allclose(vectors[:, :2].T, sparse_truth(60), atol=1e-12)
    values = np.linalg.eigvalsh(covariance(vectors))[::-1]
    np.testing.assert_allclose(values, [400, 300] + [1] * 58, rtol=1e-9)


def test_orthonormal_eigenvectors_make_the_covariance_one_and_the_same_whatever_was_drawn():
    # the page says so of the paper's non-IID synthetic data: all further eigenvalues are 1
    rng = np.random.default_rng(0)
    one, other = (eigenvectors(scale * rng.standard_normal((60, 58)), "orthonormal") for scale in (0.1, 0.9))
    np.testing.assert_allclose(covariance(one), covariance(other), atol=1e-9)


def test_eigenvectors_as_drawn_keep_their_scale():
    drawn = 0.3 * np.random.default_rng(0).standard_normal((60, 58))
    np.testing.assert_array_equal(eigenvectors(drawn, "as drawn")[:, 2:], drawn)


@pytest.mark.parametrize("generate", [iid_synthetic, non_iid_synthetic])
def test_rows_have_the_covariance_they_should(generate):
    data = generate(4, n_rows=20_000, d=25, seed=3)
    truth = sparse_truth(25)
    expected = np.eye(25) + 399 * np.outer(truth[0], truth[0]) + 299 * np.outer(truth[1], truth[1])
    found = data.rows.T @ data.rows / len(data.rows)
    # an entry of a sample covariance is off by about √((Σ_jj Σ_kk + Σ_jk²)/n)
    scale = np.sqrt((np.outer(np.diag(expected), np.diag(expected)) + expected**2) / len(data.rows))
    assert np.abs((found - expected) / scale).max() < 5
    assert np.abs(data.rows.mean(axis=0) / np.sqrt(np.diag(expected) / len(data.rows))).max() < 5


def test_rows_as_drawn_have_each_sites_own_covariance():
    data = non_iid_synthetic(4, n_rows=4000, d=25, rest="as drawn", seed=0)
    noise = [np.var(data.rows[data.owners == site][:, 20:]) for site in np.unique(data.owners)]
    assert max(noise) > 2 * min(noise)


def test_iid_rows_do_not_depend_on_the_number_of_sites_and_do_on_the_seed():
    np.testing.assert_array_equal(iid_synthetic(1, d=40).rows, iid_synthetic(10, d=40).rows)
    assert not np.array_equal(iid_synthetic(1, d=40).rows, iid_synthetic(1, d=40, seed=1).rows)
