import numpy as np
import pytest

from fedspca.linalg.certificate import certify
from fedspca.linalg.proximal import minimise, minimise_through_dense, proximal_point
from fedspca.linalg.quadratic import DenseQuadratic
from fedspca.linalg.rotations import random_rotations
from fedspca.linalg.stiefel import orthonormality_error


def spectrum(d, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((3 * d, d)) * np.geomspace(6.0, 1.0, d)
    return x.T @ x


def leading(s, r):
    return np.linalg.eigh(s)[1][:, ::-1][:, :r].copy()


@pytest.mark.parametrize("r", [1, 2, 5, 14, 20, 24])
def test_a_stationary_point_is_reached_with_any_number_of_columns(r):
    s = spectrum(40)
    lam = 0.15 * s.max()
    turn = random_rotations(1, r, np.random.default_rng(r))[0]
    found = minimise(DenseQuadratic(s), lam, leading(s, r) @ turn, tol=1e-6)
    assert found.converged
    assert orthonormality_error(found.w) < 1e-10
    assert certify(found.w, 2.0 * s @ found.w, lam).residual <= 1e-6
    assert found.objective == pytest.approx(-np.vdot(found.w, s @ found.w) + lam * np.abs(found.w).sum())


@pytest.mark.parametrize("r", [2, 14, 18])
def test_a_proximal_step_is_tangent_and_no_tangent_step_is_better(r):
    rng = np.random.default_rng(r)
    s = spectrum(40)
    w = leading(s, r) @ random_rotations(1, r, rng)[0]
    half, lam = s @ w, np.full(r, 0.3 * s.max())
    step = np.full(r, 0.5 / s.max())
    z, _ = proximal_point(w, half, lam, step, np.zeros((r, r)))
    cross = w.T @ (z - w)
    assert np.abs(cross + cross.T).max() < 1e-8

    def value(z):
        return -2.0 * np.vdot(half, z) + np.sum((z - w) ** 2 / (2.0 * step)) + lam @ np.abs(z).sum(axis=0)

    for _ in range(20):
        move = rng.standard_normal(w.shape)
        inner = w.T @ move
        move -= w @ (0.5 * (inner + inner.T))
        for size in (1e-4, 1e-2):
            assert value(z + size * move) >= value(z) - 1e-9 * abs(value(z))


def test_steps_that_run_out_say_so():
    s = spectrum(40)
    found = minimise(DenseQuadratic(s), 0.15 * s.max(), leading(s, 10), tol=1e-12, max_iter=2)
    assert not found.converged
    assert found.n_iter == 2
    assert orthonormality_error(found.w) < 1e-10


def few_rows(seed, d=40):
    """A covariance of 80 rows whose features vary unequally: columns of a sparse solution share few features."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((80, d)) * np.exp(0.7 * rng.standard_normal(d))
    return np.cov(x.T)


def test_where_steps_within_a_support_are_stuck_dense_points_lead_on():
    stuck = 0
    for seed in (0, 4, 8):
        s, r = few_rows(seed), 11
        q, lam = DenseQuadratic(s), np.full(r, 0.1 * np.sort(s.diagonal())[-r:].mean())
        for turn in random_rotations(3, r, np.random.default_rng(seed)):
            near = minimise(q, lam, leading(s, r) @ turn, tol=1e-8)
            if not 1e-5 < near.residual < 2e-3:  # it is there, or still far from any stationary point
                continue
            stuck += 1
            found = minimise_through_dense(q, lam, near, tol=1e-7)
            assert found.objective <= near.objective
            assert orthonormality_error(found.w) < 1e-7
            assert certify(found.w, 2.0 * s @ found.w, lam).residual <= 1e-2 * near.residual
    assert stuck >= 3


def test_dense_points_end_where_they_began_if_there_is_no_time():
    s, r = few_rows(4), 11
    q, lam = DenseQuadratic(s), np.full(r, 0.1 * np.sort(s.diagonal())[-r:].mean())
    near = minimise(q, lam, leading(s, r), tol=1e-8, max_iter=3)
    assert not near.converged
    found = minimise_through_dense(q, lam, near, tol=1e-12, deadline=0.0)
    assert found.n_iter <= near.n_iter + 1
    assert found.objective <= near.objective
