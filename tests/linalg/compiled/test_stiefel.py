"""Compiled retractions and Newton steps beside their twins in numpy."""

import numpy as np
import pytest

from fedspca.linalg.compiled import factors
from fedspca.linalg.compiled.library import library, numpy_only
from fedspca.linalg.newton import Surrogate, polish
from fedspca.linalg.quadratic import DenseQuadratic
from fedspca.linalg.sparse_stiefel import retract
from fedspca.linalg.stiefel import orthonormality_error

pytestmark = pytest.mark.skipif(library() is None, reason="nothing was compiled")

SHAPES = [(1, 1), (6, 1), (4, 2), (12, 2), (9, 3), (5, 5), (30, 5), (40, 8), (60, 12), (70, 20)]


@pytest.fixture(params=[True, False], ids=["lapack", "alone"])
def _lapack(request, monkeypatch):
    """Larger matrices by LAPACK, or all of them by the compiled code alone."""
    if not request.param:
        monkeypatch.setattr("fedspca.linalg.compiled.stiefel.lapack", lambda: None)


def test_scipy_has_the_functions_of_lapack():
    assert factors.lapack() is not None


def near_orthonormal(rng, n, r, share, noise=0.1):
    """Sparse columns near an orthonormal matrix: each has a feature that it uses most, and threes that many may use."""
    blocks = rng.random((-(-n // 3), r)) < share
    z = np.where(np.repeat(blocks, 3, axis=0)[:n], noise * rng.standard_normal((n, r)), 0.0)
    z[:r] = np.eye(r)
    return z


@pytest.mark.usefixtures("_lapack")
@pytest.mark.parametrize(("n", "r"), SHAPES)
@pytest.mark.parametrize("share", [0.05, 0.3, 1.0])
def test_both_retractions_end_in_the_same_point(n, r, share):
    for seed in range(10):
        z = near_orthonormal(np.random.default_rng(seed), n, r, share, 0.3 / np.sqrt(r))
        found = retract(z)
        with numpy_only():
            expected = retract(z)
        assert (found is None) == (expected is None)
        if expected is not None:
            assert orthonormality_error(found) < 1e-10
            assert np.array_equal(found != 0.0, expected != 0.0)
            assert np.abs(found - expected).max() < 1e-6


@pytest.mark.parametrize("r", [2, 3, 5])
def test_both_retractions_may_use_entries_that_are_zero(r):
    rng = np.random.default_rng(r)
    for _ in range(10):
        mask = (near_orthonormal(rng, 20, r, 0.5) != 0.0).astype(float)
        z = mask * near_orthonormal(rng, 20, r, 1.0)
        found = retract(z, mask)
        with numpy_only():
            expected = retract(z, mask)
        assert np.abs(found - expected).max() < 1e-9
        assert not found[mask == 0.0].any()


@pytest.mark.parametrize("r", [2, 3])
def test_both_say_when_there_is_no_retraction(r):
    z = np.zeros((5, r))
    z[1] = 1.0
    nothing = np.eye(5, r) * (np.arange(r) > 0)
    for each in (z, nothing, np.full((5, r), np.nan)):
        assert retract(each) is None
        with numpy_only(), np.errstate(invalid="ignore"):
            assert retract(each) is None


def surrogate(rng, n, r, *, linear, lam):
    factor = rng.standard_normal((n, max(2, n // 2)))  # S has not the full rank
    tied = 0.3 * rng.standard_normal((n, r)) if linear else np.zeros((n, r))
    return Surrogate(DenseQuadratic(factor @ factor.T), tied, np.full(r, lam * n))


def both(p, w, tol, **options):
    value, signed = p.trial(w)
    half = p.quadratic.outer(signed) + p.linear
    found = polish(p, w, half, value, tol, **options)
    with numpy_only():
        return found, polish(p, w, half, value, tol, **options)


@pytest.mark.usefixtures("_lapack")
@pytest.mark.parametrize(("n", "r"), SHAPES)
@pytest.mark.parametrize(("linear", "lam", "keep_signs"), [(False, 0.0, False), (True, 0.0, False), (True, 0.1, True)])
@pytest.mark.parametrize("tol", [1e-11, 1e-4, 1e-2])
def test_both_polish_alike(n, r, linear, lam, keep_signs, tol):
    rng = np.random.default_rng(n + r)
    for share in (0.1, 0.15, 0.2, 0.4):
        w = retract(near_orthonormal(rng, n, r, share, 0.3 / np.sqrt(r)))
        p = surrogate(rng, n, r, linear=linear, lam=lam)
        found, expected = both(p, w, tol, max_newton=3, keep_signs=keep_signs)
        if min(np.abs(each[each != 0.0]).min() for each in (w, expected.w)) < 1e-6:
            continue  # columns that share a single feature: it vanishes, and digits with it
        assert np.array_equal(found.w != 0.0, expected.w != 0.0)
        assert found.value == pytest.approx(expected.value, rel=1e-9)
        assert np.abs(found.w - expected.w).max() < 1e-6
        assert np.abs(found.half - expected.half).max() < 1e-6 * np.abs(expected.half).max()
        z = expected.w
        pulls = [(z != 0.0) * (z @ each.multiplier) for each in (found, expected)]  # the multiplier need not be unique
        assert np.abs(pulls[0] - pulls[1]).max() < 1e-5 * np.abs(pulls[1]).max()
        assert found.radius == pytest.approx(expected.radius)


def test_both_iterate_where_there_are_many_entries():
    rng = np.random.default_rng(3)
    p = surrogate(rng, 200, 3, linear=False, lam=0.0)
    w = retract(near_orthonormal(rng, 200, 3, 0.7, 0.02))
    assert 300 < np.count_nonzero(w) < 700
    found, expected = both(p, w, 1e-9, max_newton=4, keep_signs=False)
    assert found.value == pytest.approx(expected.value, rel=1e-9)
    assert np.abs(found.w - expected.w).max() < 1e-6


def test_no_step_changes_nothing():
    rng = np.random.default_rng(5)
    p = surrogate(rng, 10, 3, linear=False, lam=0.0)
    w = retract(near_orthonormal(rng, 10, 3, 0.4))
    found, expected = both(p, w, 1e-9, max_newton=0, keep_signs=False)
    assert found.multiplier is None
    assert expected.multiplier is None
    assert found.w is w
