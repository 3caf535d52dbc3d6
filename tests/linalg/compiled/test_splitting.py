"""Compiled steps of ADMM beside their twins in numpy."""

import numpy as np
import pytest

from fedspca.linalg.compiled import splitting as compiled
from fedspca.linalg.compiled.blas import with_blas
from fedspca.linalg.compiled.library import numpy_only
from fedspca.linalg.quadratic import DenseQuadratic, Quadratic
from fedspca.linalg.splitting import objectives, orthonormal, settle, split
from fedspca.linalg.stiefel import orthonormality_error

pytestmark = pytest.mark.skipif(with_blas() is None, reason="nothing was compiled")

SHAPES = [(1, 1), (7, 1), (9, 2), (12, 3), (30, 5), (25, 8), (40, 11), (60, 20)]


def problem(d, r, n, seed, kind="dense"):
    """A matrix of full rank, as it is or as a factor, a penalty that leaves several non-zeros, and starts."""
    rng = np.random.default_rng(seed)
    factor = rng.standard_normal((d, 2 * d)) * rng.uniform(0.3, 2.0, (d, 1))
    quadratic = {
        "dense": DenseQuadratic(factor @ factor.T),
        "factor": Quadratic(factor, None, 0.5),
        "signs": Quadratic(factor, np.where(np.arange(2 * d) < 2 * d - 1, 1.0, -1.0), 2.0),
    }[kind]
    lam = rng.uniform(0.1, 0.4, r) * float(np.sqrt(np.linalg.eigvalsh(factor @ factor.T)[-1]))
    return quadratic, lam, np.linalg.qr(rng.standard_normal((n, d, r)))[0]


@pytest.mark.parametrize(("d", "r"), SHAPES)
@pytest.mark.parametrize("kind", ["dense", "factor", "signs"])
def test_both_splits_end_in_the_same_points(d, r, kind):
    for seed in range(4):
        quadratic, lam, starts = problem(d, r, 6, seed, kind)
        multipliers = np.broadcast_to(np.eye(r), (6, r, r)) if seed % 2 else None
        how = {"steps": 40, "keep": {16: 4, 32: 2}, "multipliers": multipliers}
        found = split(quadratic, lam, starts, **how)
        with numpy_only():
            expected = split(quadratic, lam, starts, **how)
        scale = float(np.abs(expected.values).max()) + 1.0
        assert np.abs(np.sort(found.values) - np.sort(expected.values)).max() < 1e-8 * scale
        if r < d and r > 1:  # else starts end in the same value, and rounding ranks them
            assert np.array_equal(found.start, expected.start)
            assert np.abs(found.w - expected.w).max() < 1e-7
            assert np.abs(found.z - expected.z).max() < 1e-7
            assert np.abs(found.multipliers - expected.multipliers).max() < 1e-6 * scale


def test_both_splits_give_starts_up_that_stay_above_the_aim():
    quadratic, lam, starts = problem(20, 3, 5, 0)
    for aim in (-np.inf, np.inf):
        found = split(quadratic, lam, starts, steps=40, keep={8: 3, 16: 2}, aim=aim)
        with numpy_only():
            expected = split(quadratic, lam, starts, steps=40, keep={8: 3, 16: 2}, aim=aim)
        assert len(found.values) == len(expected.values) == (3 if aim < 0 else 2)
        assert np.abs(found.w - expected.w).max() < 1e-8


@pytest.mark.parametrize(("d", "r"), [(9, 2), (30, 5), (40, 11)])
@pytest.mark.parametrize("kind", ["dense", "factor"])
def test_both_settle_in_the_same_point(d, r, kind):
    quadratic, lam, starts = problem(d, r, 1, 3, kind)
    linear = 0.2 * np.random.default_rng(4).standard_normal((d, r))
    for extra in (0.0, linear):
        found = settle(quadratic, lam, starts[0], steps=300, tol=1e-5, linear=extra)
        with numpy_only():
            expected = settle(quadratic, lam, starts[0], steps=300, tol=1e-5, linear=extra)
        assert found.stationary == expected.stationary
        assert found.sparse == expected.sparse
        assert np.abs(found.w - expected.w).max() < 1e-6
        assert found.value == pytest.approx(expected.value, rel=1e-9)


def test_products_in_single_precision_do_not_limit_the_accuracy(monkeypatch):
    rng = np.random.default_rng(1)
    blocks = np.kron(np.eye(4), np.ones((5, 1)))  # four clusters among sixty features
    spikes = np.vstack([blocks, np.zeros((40, 4))]) * np.sqrt([9.0, 8.0, 7.0, 6.0])
    noise = rng.standard_normal((60, 300)) / np.sqrt(300.0)
    quadratic, lam = DenseQuadratic(spikes @ spikes.T + noise @ noise.T), np.full(4, 1.0)
    start = np.linalg.qr(spikes + 0.1 * rng.standard_normal((60, 4)))[0]
    expected = settle(quadratic, lam, start, steps=1500, tol=1e-8)
    monkeypatch.setattr("fedspca.linalg.splitting._LARGE", 10)
    found = settle(quadratic, lam, start, steps=1500, tol=1e-8)
    with numpy_only():
        twin = settle(quadratic, lam, start, steps=1500, tol=1e-8)
    for each in (expected, found, twin):
        assert each.stationary
        assert each.value == pytest.approx(expected.value, rel=1e-10)
        assert np.array_equal(each.w != 0.0, expected.w != 0.0)


@pytest.mark.parametrize(("d", "r"), SHAPES)
def test_the_nearest_orthonormal_matrix_is_the_same(d, r):
    x = np.random.default_rng(d).standard_normal((3, d, r)) * np.geomspace(1.0, 1e-3, r)
    found = compiled.orthonormal(with_blas(), x)
    assert np.abs(found - orthonormal(x)).max() < 1e-9


@pytest.mark.parametrize("kind", ["dense", "factor", "signs"])
def test_objectives_are_the_same(kind):
    quadratic, lam, points = problem(12, 3, 5, 0, kind)
    found = objectives(quadratic, lam, points)
    with numpy_only():
        expected = objectives(quadratic, lam, points)
    assert np.allclose(found, expected, rtol=1e-12, atol=0.0)
    with pytest.raises(ValueError, match="12"):
        objectives(quadratic, lam, points[:, :-1])
    with pytest.raises(ValueError, match="one lam"):
        objectives(quadratic, lam[:-1], points)


@pytest.mark.parametrize("r", [2, 3, 9, 14])
def test_dependent_columns_are_completed_to_a_basis(r):
    x = np.random.default_rng(r).standard_normal((1, 20, r))
    x[0, :, 1] = x[0, :, 0]
    found = compiled.orthonormal(with_blas(), x)[0]
    assert orthonormality_error(found) < 1e-10
    assert np.vdot(found, x[0]) == pytest.approx(np.linalg.svd(x[0], compute_uv=False).sum(), rel=1e-9)


def test_entries_that_are_not_finite_are_refused():
    quadratic, lam, starts = problem(12, 3, 2, 0)
    starts[0, 0, 0] = np.nan
    with pytest.raises(np.linalg.LinAlgError, match="not finite"):
        split(quadratic, lam, starts, steps=5)


def test_shapes_are_checked():
    quadratic, lam, starts = problem(12, 3, 2, 0)
    with pytest.raises(ValueError, match="features"):
        split(quadratic, lam, starts[:, :-1], steps=5)
    with pytest.raises(ValueError, match="one lam"):
        split(quadratic, lam[:-1], starts, steps=5)
    with pytest.raises(ValueError, match="multiplier"):
        settle(quadratic, lam, starts[0], steps=5, tol=1e-3, multiplier=np.eye(2))
