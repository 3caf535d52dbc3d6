import numpy as np
import pytest

from fedspca.linalg.certificate import certify
from fedspca.linalg.proximal import minimise
from fedspca.linalg.quadratic import DenseQuadratic
from fedspca.linalg.rotations import random_rotations
from fedspca.linalg.splitting import objectives, orthonormal, settle, split
from fedspca.linalg.stiefel import orthonormality_error


@pytest.fixture
def s():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((80, 15)) * np.linspace(4.0, 1.0, 15)
    return x.T @ x


def starts(s, r, n=5):
    basis = np.linalg.eigh(s)[1][:, ::-1][:, :r]
    return basis @ random_rotations(n, r, np.random.default_rng(1))


@pytest.mark.parametrize("r", [1, 3, 6])
def test_points_are_orthonormal_and_the_sparse_ones_near_them(s, r):
    lam = np.full(r, 0.1 * s.max())
    found = split(DenseQuadratic(s), lam, starts(s, r), steps=400)
    for w, z, value in zip(found.w, found.z, found.values, strict=True):
        assert orthonormality_error(w) < 1e-12
        assert np.abs(w - z).max() < 1e-2
        near = [w, orthonormal(z[None])[0]]
        assert value == pytest.approx(min(-np.vdot(v, s @ v) + lam @ np.abs(v).sum(axis=0) for v in near))
    assert np.any(found.z == 0.0)


def test_it_descends_from_every_start(s):
    lam = np.full(3, 0.1 * s.max())
    begin = starts(s, 3)
    found = split(DenseQuadratic(s), lam, begin, steps=100)
    assert np.all(found.values < objectives(DenseQuadratic(s), lam, begin))


def test_without_a_penalty_it_is_dense_pca(s):
    found = split(DenseQuadratic(s), np.zeros(2), starts(s, 2), steps=400)
    assert np.allclose(-found.values, np.linalg.eigvalsh(s)[-2:].sum(), rtol=1e-6)


def test_a_shift_is_part_of_the_matrix(s):
    lam, begin = np.full(2, 50.0), starts(s, 2)
    whole = split(DenseQuadratic(s), lam, begin, steps=30)
    parts = split(DenseQuadratic(s - 3.0 * np.eye(15), shift=3.0), lam, begin, steps=30)
    assert np.allclose(whole.w, parts.w)


@pytest.mark.parametrize("rank", [0, 1, 2])
def test_an_orthonormal_matrix_is_near_even_one_that_lacks_columns(rank):
    rng = np.random.default_rng(2)
    x = rng.standard_normal((2, 9, rank)) @ rng.standard_normal((2, rank, 3))
    for w in orthonormal(x):
        assert orthonormality_error(w) < 1e-10


def test_two_columns_in_closed_form_are_the_polar_factor():
    x = np.random.default_rng(3).standard_normal((4, 9, 2))
    left, _, right = np.linalg.svd(x, full_matrices=False)
    assert np.allclose(orthonormal(x), left @ right, atol=1e-14)


def test_the_worse_starts_are_dropped_and_the_best_goes_on_as_if_alone(s):
    lam, begin = np.full(3, 0.1 * s.max()), starts(s, 3)
    everything = split(DenseQuadratic(s), lam, begin, steps=20)
    few = split(DenseQuadratic(s), lam, begin, steps=20, keep={19: 2})
    assert sorted(few.start) == sorted(np.argsort(everything.values)[:2])
    assert np.allclose(few.w, everything.w[few.start])


def test_starts_that_stay_above_the_aim_are_given_up(s):
    lam, begin = np.full(3, 0.1 * s.max()), starts(s, 3)
    reached = split(DenseQuadratic(s), lam, begin, steps=10).values.min()
    stopped = split(DenseQuadratic(s), lam, begin, steps=300, keep={10: 5}, aim=2.0 * reached)
    assert np.allclose(stopped.values.min(), reached)


def test_with_its_multiplier_a_stationary_point_stays_where_it_is(s):
    q, lam = DenseQuadratic(s), np.full(3, 0.1 * s.max())
    best = minimise(q, lam, starts(s, 3)[0], tol=1e-10)
    kept = split(q, lam, best.w[None], steps=30, tol=0.0, multipliers=best.multiplier[None])
    left = split(q, lam, best.w[None], steps=30, tol=0.0)
    assert np.abs(kept.w[0] - best.w).max() < 1e-6
    assert np.abs(left.w[0] - best.w).max() > 1e-4  # without it, the first steps shrink the point


@pytest.mark.parametrize("r", [1, 3, 5])
def test_steps_from_one_start_settle_at_a_sparse_stationary_point(s, r):
    lam = np.full(r, 0.05 * s.max())
    start = starts(s, r, n=1)[0]
    found = settle(DenseQuadratic(s), lam, start, steps=5000, tol=1e-8)
    assert found.stationary
    assert found.sparse
    assert orthonormality_error(found.w) < 1e-12
    assert np.count_nonzero(found.w) < found.w.size
    assert found.value <= objectives(DenseQuadratic(s), lam, start[None])[0]
    assert found.value == pytest.approx(objectives(DenseQuadratic(s), lam, found.w[None])[0])
    gradient = 2.0 * s @ found.w
    assert certify(found.w, gradient, lam, multiplier=found.multiplier).residual < 1e-7


def test_settling_agrees_with_proximal_steps_from_its_point_and_has_a_linear_term(s):
    lam, q = np.full(3, 0.05 * s.max()), DenseQuadratic(s)
    start = starts(s, 3, n=1)[0]
    linear = 0.1 * s.max() * np.random.default_rng(2).standard_normal(start.shape)
    found = settle(q, lam, start, steps=5000, tol=1e-9, linear=linear)
    same = minimise(q, lam, found.w, half=s @ found.w + linear, tol=1e-8)
    assert same.objective == pytest.approx(found.value, rel=1e-9)
    np.testing.assert_allclose(same.w, found.w, atol=1e-6)


def test_steps_that_would_take_too_long_end_early(s):
    lam, q = np.full(3, 0.05 * s.max()), DenseQuadratic(s)
    assert not settle(q, lam, starts(s, 3, n=1)[0], steps=401, tol=1e-300).stationary


def test_settling_does_not_hang_on_the_order_or_the_signs_of_columns(s):
    lam, q = np.full(4, 0.05 * s.max()), DenseQuadratic(s)
    start, order, signs = starts(s, 4, n=1)[0], [2, 0, 3, 1], np.array([1.0, -1.0, -1.0, 1.0])
    one = settle(q, lam, start, steps=5000, tol=1e-9)
    other = settle(q, lam, start[:, order] * signs, steps=5000, tol=1e-9)
    np.testing.assert_allclose(one.w[:, order] * signs, other.w, atol=1e-7)
