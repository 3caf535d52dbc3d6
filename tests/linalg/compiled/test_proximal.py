"""Compiled proximal steps beside their twin in numpy."""

import numpy as np
import pytest

from fedspca.linalg.compiled import proximal as compiled
from fedspca.linalg.compiled.blas import with_blas
from fedspca.linalg.compiled.library import numpy_only
from fedspca.linalg.proximal import minimise
from fedspca.linalg.quadratic import DenseQuadratic
from fedspca.linalg.stiefel import orthonormality_error

pytestmark = pytest.mark.skipif(with_blas() is None, reason="nothing was compiled")


@pytest.mark.parametrize(("d", "r"), [(2, 1), (12, 1), (6, 2), (20, 2), (15, 3), (30, 5), (8, 8)])
@pytest.mark.parametrize("tol", [1e-2, 1e-7])
@pytest.mark.parametrize("tied", [False, True])
def test_both_end_in_the_same_point(d, r, tol, tied):
    for seed in range(6):
        rng = np.random.default_rng(seed)
        x = rng.standard_normal((d + 5 if seed % 2 else max(d // 2, r), d)) * rng.uniform(0.2, 2.0, d)
        if d > 3:
            x[:, 2] = x[:, 1]
        quadratic = DenseQuadratic(x.T @ x, shift=2.0 * (seed % 3))
        start = np.linalg.qr(rng.standard_normal((d, r)))[0]
        lam = rng.uniform(0.05, 0.3) * float(np.linalg.eigvalsh(x.T @ x)[-1])
        half = quadratic @ start + 0.3 * rng.standard_normal((d, r)) if tied else None
        found = minimise(quadratic, lam, start, half=half, tol=tol, max_iter=40)
        with numpy_only():
            expected = minimise(quadratic, lam, start, half=half, tol=tol, max_iter=40)
        assert orthonormality_error(found.w) < 1e-10
        assert found.converged == expected.converged
        assert found.objective == pytest.approx(expected.objective, rel=1e-7)
        assert np.array_equal(found.w != 0.0, expected.w != 0.0)
        assert np.abs(found.w - expected.w).max() < 1e-5


def test_a_multiplier_that_is_known_is_the_first():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((30, 15))
    quadratic, start = DenseQuadratic(x.T @ x), np.linalg.qr(rng.standard_normal((15, 3)))[0]
    solved = minimise(quadratic, 4.0, start)
    again = minimise(quadratic, 4.0, solved.w, multiplier=solved.multiplier)
    assert again.n_iter == 1
    assert again.objective == pytest.approx(solved.objective, rel=1e-12)


def test_shapes_are_checked():
    quadratic, w = DenseQuadratic(np.eye(4)), np.eye(4)[:, :2]
    with pytest.raises(ValueError, match="do not fit"):
        compiled.solve(with_blas(), quadratic, None, np.ones(3), w, 1e-3, 5, None)
    with pytest.raises(ValueError, match="multiplier"):
        compiled.solve(with_blas(), quadratic, None, np.ones(2), w, 1e-3, 5, np.eye(3))
