import numpy as np
import pytest

from contracts.solver import owners
from fedspca import ExactSPCA
from fedspca.linalg.stiefel import orthonormality_error


def spikes(rng, kind, n=150, d=400, r=3, k=12):
    """Rows with r sparse spikes near the limit of detection."""
    loadings = np.zeros((r, d))
    for j in range(r):
        start = j * (k // 2 if kind == "overlapping" else k)
        loadings[j, start : start + k] = rng.choice([-1, 1], k) / np.sqrt(k)
    sizes = np.array([6.0, 5.0, 4.0]) if kind == "weak" else np.array([12.0, 9.0, 7.0])
    noise = rng.standard_normal((n, d))
    if kind == "correlated":
        noise = noise + 0.7 * np.roll(noise, 1, axis=1)
    x = (rng.standard_normal((n, r)) * np.sqrt(sizes)) @ loadings + noise
    return x - x.mean(axis=0)


def explained(x, w):
    q = np.linalg.qr(w)[0]
    return np.linalg.norm(x @ q) ** 2 / np.linalg.norm(x) ** 2


def truncated_pca(x, r, k):
    basis = np.linalg.svd(x, full_matrices=False)[2][:r].T
    w = np.zeros_like(basis)
    for j in range(r):
        top = np.argsort(-np.abs(basis[:, j]))[:k]
        w[top, j] = basis[top, j]
    return w / np.linalg.norm(w, axis=0)


def truncated_power(x, r, k):
    """Truncated power iterations with projection deflation, each loading from the truncated leading eigenvector."""
    s, w = x.T @ x, np.zeros((x.shape[1], r))
    for j in range(r):
        v = np.linalg.eigh(s)[1][:, -1]
        for _ in range(200):
            v = s @ v
            v[np.argsort(-np.abs(v))[:-k]] = 0.0
            v /= np.linalg.norm(v)
        w[:, j] = v
        off = np.eye(len(s)) - np.outer(v, v)
        s = off @ s @ off
    return w


@pytest.mark.parametrize("kind", ["weak", "overlapping", "correlated"])
@pytest.mark.parametrize("seed", range(3))
def test_cardinality_is_never_worse_than_the_peers(kind, seed):
    x = spikes(np.random.default_rng([seed, len(kind)]), kind)
    sites = owners(len(x), 5)
    free = ExactSPCA(3, n_nonzero=12, orthogonal=False).fit(x, sites=sites)
    strict = ExactSPCA(3, n_nonzero=12).fit(x, sites=sites)
    for fit in (free, strict):
        assert np.all(np.count_nonzero(fit.components_, axis=1) <= 12)
        assert np.allclose(np.linalg.norm(fit.components_, axis=1), 1.0)
        assert sum(record.query.startswith("gram") for record in fit.history_) <= 8
    assert orthonormality_error(strict.components_.T) < 1e-8
    best = max(explained(x, truncated_pca(x, 3, 12)), explained(x, truncated_power(x, 3, 12)))
    assert explained(x, free.components_.T) >= (1 - 1e-3) * best
    assert explained(x, strict.components_.T) >= 0.98 * best


def test_one_count_a_component_keeps_its_order(rows):
    fit = ExactSPCA(3, n_nonzero=[2, 5, 3]).fit(rows)
    assert list(np.count_nonzero(fit.components_, axis=1)) == [2, 5, 3]
