import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedspca.linalg.stiefel import (
    metric_gram,
    nothing_removed,
    orthonormality_error,
    polar_factor,
    project_out,
    retraction,
    retraction_factor,
    retraction_velocity,
    sym,
    tangent_projection,
)

KINDS = ("qr", "polar")


@st.composite
def points(draw):
    """A point of the generalised manifold, a tangent vector and the removed directions."""
    r = draw(st.integers(1, 4))
    q = draw(st.integers(0, 3))
    d = draw(st.integers(r + q, 30))
    scale = 10.0 ** draw(st.integers(-6, 6))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    removed = np.linalg.qr(rng.standard_normal((d, q)))[0]
    in_complement = draw(st.booleans())
    w = rng.standard_normal((d, r))
    w = project_out(removed, w) if in_complement else w
    w = w @ retraction_factor(metric_gram(removed, w), "polar")
    tangent = scale * tangent_projection(w, rng.standard_normal((d, r)), removed)
    return w, tangent, removed


def on_manifold(w, removed):
    return np.allclose(metric_gram(removed, w), np.eye(w.shape[1]), atol=1e-9)


@given(points())
def test_tangent_projection_is_tangent_and_idempotent(point):
    w, tangent, removed = point
    size = max(1.0, np.abs(tangent).max())
    assert np.abs(sym(w.T @ project_out(removed, tangent))).max() <= 1e-10 * size
    assert np.allclose(tangent_projection(w, tangent, removed), tangent, atol=1e-10 * size)


@pytest.mark.parametrize("kind", KINDS)
@given(point=points())
def test_retraction_lands_on_the_manifold(kind, point):
    w, tangent, removed = point
    tangent = tangent / max(1.0, np.abs(tangent).max() / 100)
    assert on_manifold(retraction(w, tangent, removed, kind), removed)


@pytest.mark.parametrize("kind", KINDS)
@given(point=points())
def test_retraction_agrees_with_the_tangent_to_first_order(kind, point):
    w, tangent, removed = point
    tangent = tangent / max(np.linalg.norm(tangent), 1e-300)
    step = 1e-5
    assert np.linalg.norm(retraction(w, step * tangent, removed, kind) - w - step * tangent) <= 50 * step**2 * (
        1 + np.linalg.norm(w)
    )


@pytest.mark.parametrize("kind", KINDS)
@given(point=points(), theta=st.floats(0.0, 2.0))
def test_retraction_velocity_agrees_with_finite_differences(kind, point, theta):
    w, tangent, removed = point
    tangent = tangent / max(np.linalg.norm(tangent), 1e-300)
    moved = w + theta * tangent
    factor = retraction_factor(metric_gram(removed, moved), kind)
    velocity = retraction_velocity(moved @ factor, tangent, factor, removed, kind)
    h = 1e-6
    ends = [retraction(w, (theta + s * h) * tangent, removed, kind) for s in (-1, 1)]
    assert np.abs((ends[1] - ends[0]) / (2 * h) - velocity).max() < 1e-6 * (1 + np.abs(w).max()) ** 3


@given(points())
def test_qr_retraction_is_the_q_factor_with_positive_diagonal(point):
    w, tangent, _ = point
    moved = np.linalg.qr(w)[0] + tangent / max(1.0, np.abs(tangent).max())
    q, r = np.linalg.qr(moved)
    expected = q * np.sign(np.diag(r))
    if np.linalg.cond(moved) < 1e3:
        assert np.allclose(moved @ retraction_factor(moved.T @ moved, "qr"), expected, atol=1e-8)


@given(points(), st.integers(0, 2**32 - 1))
def test_polar_factor_maximises_the_inner_product(point, seed):
    w, _, removed = point
    rng = np.random.default_rng(seed)
    x = project_out(removed, rng.standard_normal(w.shape))
    best = polar_factor(x, removed)
    rival = polar_factor(project_out(removed, rng.standard_normal(w.shape)), removed)
    assert on_manifold(best, removed)
    assert np.vdot(best, x) >= np.vdot(rival, x) - 1e-9


@pytest.mark.parametrize("rank", [0, 1, 2])
def test_polar_factor_of_dependent_columns_is_orthonormal_off_the_removed(rank):
    rng = np.random.default_rng(0)
    removed = np.linalg.qr(rng.standard_normal((9, 2)))[0]
    x = project_out(removed, rng.standard_normal((9, rank)) @ rng.standard_normal((rank, 3)))
    w = polar_factor(x, removed)
    assert orthonormality_error(w) < 1e-12
    assert np.abs(removed.T @ w).max() < 1e-12


def orthonormal(seed, d, r):
    return np.linalg.qr(np.random.default_rng(seed).standard_normal((d, r)))[0]


def test_the_symmetric_part():
    x = np.array([[1.0, 2.0], [5.0, 3.0]])
    assert np.array_equal(sym(x), [[1.0, 3.5], [3.5, 3.0]])


def test_nothing_removed_is_a_basis_of_no_directions_and_the_projection_off_it_changes_nothing():
    assert nothing_removed(7).shape == (7, 0)
    x = np.ones((7, 2))
    assert project_out(nothing_removed(7), x) is x
    removed = orthonormal(0, 7, 2)
    off = project_out(removed, x)
    assert np.allclose(removed.T @ off, 0)
    assert np.allclose(off, (np.eye(7) - removed @ removed.T) @ x)
    assert np.allclose(metric_gram(removed, x), x.T @ (np.eye(7) - removed @ removed.T) @ x)


def test_the_projection_onto_the_tangent_space_is_its_formula():
    removed, w = orthonormal(0, 8, 2), orthonormal(1, 8, 3)
    x = np.random.default_rng(2).standard_normal((8, 3))
    inner = w.T @ (np.eye(8) - removed @ removed.T) @ x
    assert np.allclose(tangent_projection(w, x, removed), x - w @ (inner + inner.T) / 2)


@pytest.mark.parametrize("seed", range(4))
def test_factors_of_both_retractions_are_those_of_their_definitions(seed):
    x = np.random.default_rng(seed).standard_normal((9, 3))
    gram = x.T @ x
    qr, polar = retraction_factor(gram, "qr"), retraction_factor(gram, "polar")
    assert np.allclose(qr, np.linalg.inv(np.linalg.cholesky(gram).T))
    assert np.allclose(polar @ polar @ gram, np.eye(3))
    assert np.allclose(polar, polar.T)
    left, _, right = np.linalg.svd(x, full_matrices=False)
    assert np.allclose(x @ polar, left @ right)
    assert np.allclose(retraction(np.zeros_like(x), x, nothing_removed(9)), x @ qr)  # which is the usual one
    assert np.allclose(retraction(0.5 * x, 0.5 * x, nothing_removed(9), "polar"), left @ right)


@pytest.mark.parametrize("angle", [0.9e-4, 1.1e-4, 1e-3, 1e-6, 1e-12])
def test_the_polar_factor_of_nearly_dependent_columns_is_the_svds(angle):
    x = orthonormal(3, 12, 3)
    x[:, 2] = x[:, 1] + angle * x[:, 2]
    left, _, right = np.linalg.svd(x, full_matrices=False)
    found = polar_factor(x, nothing_removed(12))
    assert orthonormality_error(found) < 1e-7
    assert np.vdot(found, x) >= np.vdot(left @ right, x) * (1 - 1e-12)
    if angle >= 1e-6:
        assert np.abs(found - left @ right).max() < 1e-6


@pytest.mark.parametrize("size", [1e-12, 1.0, 1e12])
def test_the_polar_factor_does_not_depend_on_the_scale(size):
    x = np.random.default_rng(4).standard_normal((10, 3))
    assert np.allclose(polar_factor(size * x, nothing_removed(10)), polar_factor(x, nothing_removed(10)))


def test_a_polar_factor_of_low_rank_keeps_what_is_there():
    removed = orthonormal(5, 9, 2)
    x = project_out(removed, np.outer(np.arange(9.0), [1.0, 2.0, 0.0]))
    w = polar_factor(x, removed)
    assert w.shape == (9, 3)
    assert orthonormality_error(w) < 1e-12
    assert np.abs(removed.T @ w).max() < 1e-12
    assert np.isclose(np.vdot(w, x), np.linalg.svd(x, compute_uv=False).sum())


def test_the_error_is_the_largest_entry():
    w = np.eye(4, 2)
    assert orthonormality_error(w) == 0.0
    w[0, 0], w[1, 0] = 2.0, 0.5
    assert orthonormality_error(w) == 3.25
    w = np.eye(4, 2)
    w[0, 0] = 0.0
    assert orthonormality_error(w) == 1.0  # too short is as wrong as too long
    assert orthonormality_error(np.zeros((4, 0))) == 0.0
