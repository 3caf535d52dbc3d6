"""Compiled power steps beside their twin in numpy."""

import numpy as np
import pytest

from fedspca.linalg.compiled.blas import with_blas
from fedspca.linalg.compiled.library import numpy_only
from fedspca.linalg.quadratic import DenseQuadratic, Quadratic
from fedspca.linalg.soft_power import soft_power

pytestmark = pytest.mark.skipif(with_blas() is None, reason="nothing was compiled")


@pytest.mark.parametrize("d", [1, 2, 5, 20, 70, 300])
@pytest.mark.parametrize("kind", ["dense", "factor", "signs"])
@pytest.mark.parametrize("rows", [4, 90])
def test_both_find_the_same_columns(d, kind, rows):
    for seed in range(6):
        rng = np.random.default_rng(seed)
        x = rng.standard_normal((rows, d)) * rng.uniform(0.2, 2.0, d)
        if d > 3:
            x[:, 2] = x[:, 1]  # a tie
        quadratic = {
            "dense": DenseQuadratic(x.T @ x),
            "factor": Quadratic(x.T.copy(), None, 0.3),
            "signs": Quadratic(x.T.copy(), np.where(np.arange(rows) < rows - 1, 1.0, -1.0), 1.5),
        }[kind]
        m, q = 1 + seed % 3, min(seed % 4, d - 1)
        beside = np.linalg.qr(rng.standard_normal((m, d, q)))[0] if q else np.zeros((m, d, 0))
        lam = rng.uniform(0.05, 0.3, m) * float(np.linalg.eigvalsh(x.T @ x)[-1])
        features = np.sort(rng.permutation(d)[: 1 + d // 2])
        starts = np.linalg.qr(rng.standard_normal((d, min(d, 3))))[0] if seed % 2 else None
        how = {"steps": 8 if seed % 2 else 40, "starts": starts}
        found = soft_power(quadratic, lam, features, beside, **how)
        with numpy_only():
            expected = soft_power(quadratic, lam, features, beside, **how)
        apart = np.isfinite(expected.values)
        assert np.array_equal(np.isfinite(found.values), apart)
        assert np.abs(found.values[apart] - expected.values[apart]).max() < 1e-9 * rows * d
        columns = (each.x.transpose(0, 2, 1)[apart] for each in (found, expected))
        assert np.abs(np.subtract(*columns)).max() < 1e-7


def test_features_that_do_not_exist_are_refused():
    with pytest.raises(ValueError, match="do not fit"):
        soft_power(DenseQuadratic(np.eye(3)), np.ones(1), np.array([3]), np.zeros((1, 3, 0)), steps=2)


@pytest.mark.parametrize("dense", [True, False])
def test_both_find_the_same_clusters(dense):
    """Copies of features are tied, columns are sparse, and others stand beside, on features without copies."""
    for seed in range(6):
        rng = np.random.default_rng(seed)
        x = np.repeat(rng.standard_normal((60, 25)), 4, axis=1) * np.repeat(rng.uniform(0.5, 2.0, 25), 4)
        x += 0.3 * rng.standard_normal((60, 100)) * (np.arange(100) > 50)
        quadratic = DenseQuadratic(x.T @ x) if dense else Quadratic(x.T.copy(), None, 0.2)
        beside = np.zeros((2, 100, seed % 3))
        for j in range(seed % 3):
            beside[:, 60 + 7 * j : 64 + 7 * j, j] = 0.5
        lam = np.array([0.6, 1.2]) * float(np.diagonal(x.T @ x).max())
        found = soft_power(quadratic, lam, np.arange(100), beside, steps=1 + seed)
        with numpy_only():
            expected = soft_power(quadratic, lam, np.arange(100), beside, steps=1 + seed)
        apart = np.isfinite(expected.values)
        assert np.array_equal(np.isfinite(found.values), apart)
        columns = [each.x.transpose(0, 2, 1)[apart] for each in (found, expected)]
        assert np.array_equal(columns[0] != 0.0, columns[1] != 0.0)
        assert np.abs(np.subtract(*columns)).max() < 1e-9
        assert (columns[0] != 0.0).sum(axis=1).max() <= 60
