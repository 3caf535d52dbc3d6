import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.decomposition import PCA

from fedspca import metrics


@given(st.integers(1, 4), st.integers(1, 4), st.integers(0, 2**32 - 1))
def test_recovery_error_equals_its_definition(r, q, seed):
    rng = np.random.default_rng(seed)
    z, v = rng.standard_normal((r, 9)), rng.standard_normal((q, 9))
    brute = np.linalg.norm(z.T @ z - v.T @ v) ** 2
    assert np.isclose(metrics.recovery_error(z, v), brute, rtol=1e-9)


def test_recovery_error_ignores_signs_and_rotation():
    q = np.linalg.qr(np.random.default_rng(0).standard_normal((9, 2)))[0].T
    turn = np.array([[0.6, 0.8], [-0.8, 0.6]])
    assert metrics.recovery_error(turn @ q, q) < 1e-28


def test_reconstruction_error_and_variance_of_pca():
    x = np.random.default_rng(0).standard_normal((30, 6))
    pca = PCA(2, svd_solver="full").fit(x)
    centred = x - x.mean(axis=0)
    rest = np.linalg.svd(centred, compute_uv=False)[2:]
    assert np.isclose(metrics.reconstruction_error(centred, pca.components_), np.sqrt(np.sum(rest**2)))
    assert np.allclose(metrics.explained_variance_ratio(x, pca.components_), pca.explained_variance_ratio_)


def test_adjusted_variance_counts_shared_variance_once():
    scores = np.random.default_rng(0).standard_normal((40, 1)) @ np.ones((1, 2))  # two scores that are one
    total = metrics.adjusted_variances(scores.T @ scores)
    assert np.isclose(total[0], np.sum(scores[:, 0] ** 2))
    assert abs(total[1]) < 1e-9 * total[0]


@given(st.integers(1, 5), st.integers(0, 2**32 - 1), st.sampled_from([0.0, 1e-12, 1e-4, 1.0]))
def test_variances_of_correlated_loadings_are_those_of_their_spans(r, seed, apart):
    rng = np.random.default_rng(seed)
    x, z = rng.standard_normal((40, 7)), rng.standard_normal((r, 7))
    z[r // 2] = z[0] + apart * z[r // 2]  # with 0, two loadings are one
    z /= np.linalg.norm(z, axis=1, keepdims=True)
    s = x.T @ x
    if apart >= 1e-4:
        spans = [np.linalg.qr(z[: j + 1].T)[0] for j in range(r)]
        wanted = [np.trace(span.T @ s @ span) for span in spans]
        assert np.allclose(metrics.captured_variances(z, z @ s @ z.T), wanted, rtol=1e-4)
    scores = x @ z.T
    before = [scores[:, :j] @ np.linalg.lstsq(scores[:, :j], scores[:, j], rcond=1e-9)[0] for j in range(r)]
    added = np.sum((scores - np.transpose(before)) ** 2, axis=0)
    assert np.allclose(metrics.adjusted_variances(scores.T @ scores), added, atol=1e-6 * added.max())


def test_sparsity():
    z = np.array([[0.0, 0.5, -1e-3], [1e-5, 0.0, 2.0]])
    assert metrics.n_nonzeros(z) == 4
    assert np.allclose(metrics.share_of_small_weights(z, [1e-4, 1e-2, 1.0, 10.0]), [3 / 6, 4 / 6, 5 / 6, 1.0])


def test_agreement_from_sums_equals_agreement_from_loadings_once_signs_agree():
    rng = np.random.default_rng(0)
    base = rng.standard_normal((2, 8))
    loadings = np.array([base + 0.1 * rng.standard_normal((2, 8)) for _ in range(5)])
    loadings /= np.linalg.norm(loadings, axis=2, keepdims=True)
    total = loadings.sum(axis=0).T
    assert np.isclose(metrics.mean_cosine(total, np.full(2, 5.0), 5), metrics.alignment(loadings))
    flipped = loadings * np.array([1, -1, 1, 1, -1])[:, None, None]
    assert np.isclose(metrics.alignment(flipped), metrics.alignment(loadings))
    assert metrics.alignment(loadings[:1]) == metrics.mean_cosine(total, np.ones(2), 1) == 1.0


def test_shapes_are_checked():
    with pytest.raises(ValueError, match="n_components, n_features"):
        metrics.n_nonzeros(np.zeros((2, 2, 2)))
    with pytest.raises(ValueError, match="n_workers"):
        metrics.alignment(np.zeros((2, 2)))
