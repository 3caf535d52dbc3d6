import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedspca.linalg.stiefel import (
    metric_gram,
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
