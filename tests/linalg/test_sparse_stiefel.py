from time import perf_counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedspca.linalg import sparse_stiefel
from fedspca.linalg.sparse_stiefel import NormalEquations, Tangent, retract, retract_with_signs, sparse_orthonormalise
from fedspca.linalg.stiefel import orthonormality_error


@pytest.mark.parametrize("r", [1, 2, 3, 5])
@given(seed=st.integers(0, 2**31))
def test_a_retraction_is_orthonormal_near_and_keeps_zeros(r, seed):
    rng = np.random.default_rng(seed)
    w = np.linalg.qr(rng.standard_normal((40, r)))[0]
    z = (w + 1e-3 * rng.standard_normal(w.shape)) * (np.abs(w) > 0.01)
    found = retract(z)
    assert orthonormality_error(found) < 1e-10
    assert not found[z == 0.0].any()
    # no orthonormal matrix can be much nearer than z is to having orthonormal columns
    assert np.linalg.norm(found - z) <= 3 * np.linalg.norm(z.T @ z - np.eye(r)) + 1e-12


@pytest.mark.parametrize("gap", [1e-1, 1e-2, 1e-4])
def test_two_columns_that_are_nearly_parallel_come_apart(gap):
    x = np.random.default_rng(0).standard_normal((30, 2))
    x[:, 1] = x[:, 0] + gap * x[:, 1]
    assert orthonormality_error(retract(x)) < 1e-12


def test_columns_on_one_feature_have_no_retraction():
    z = np.zeros((4, 2))
    z[1] = 1.0
    assert retract(z) is None


@given(st.integers(1, 4), st.integers(0, 2), st.integers(0, 2**32 - 1))
def test_sparse_orthonormalise_keeps_zeros_and_lands_on_the_manifold(r, q, seed):
    rng = np.random.default_rng(seed)
    d = 30
    removed = np.linalg.qr(rng.standard_normal((d, q)))[0]
    support = rng.random((d, r)) < 0.6
    w = np.linalg.qr(np.where(support, rng.standard_normal((d, r)), 0.0))[0]
    v = sparse_orthonormalise(w, support, removed)
    assert v is not None
    assert orthonormality_error(v) < 1e-10
    assert np.abs(removed.T @ v).max(initial=0.0) < 1e-10
    assert np.all(v[~support] == 0.0)


def test_sparse_orthonormalise_changes_nothing_where_nothing_is_amiss():
    w = np.linalg.qr(np.random.default_rng(0).standard_normal((10, 3)))[0]
    assert np.allclose(sparse_orthonormalise(w, w != 0, np.zeros((10, 0))), w, atol=1e-14)


def test_sparse_orthonormalise_says_when_a_column_has_no_support():
    support = np.ones((4, 2), dtype=bool)
    support[:, 1] = False
    assert sparse_orthonormalise(np.eye(4, 2), support, np.zeros((4, 0))) is None


def test_sparse_orthonormalise_says_when_supports_cannot_be_orthogonal():
    support = np.zeros((4, 2), dtype=bool)
    support[0] = True  # both columns live on one and the same feature
    assert sparse_orthonormalise(np.ones((4, 2)), support, np.zeros((4, 0))) is None


def overlapping(rng, d, r, share=0.3):
    """Orthonormal, sparse, with supports that overlap."""
    z = np.where(rng.random((d, r)) < share, rng.standard_normal((d, r)), 0.0)
    z[np.arange(r), np.arange(r)] = 3.0
    return retract(z)


@pytest.mark.parametrize("r", [3, 5, 12, 20, 21, 40])
def test_the_projection_is_orthogonal_and_tangent_for_few_and_for_many_columns(r):
    rng = np.random.default_rng(r)
    w = overlapping(rng, 150, r)
    mask = (w != 0.0).astype(float)
    tangent, y = Tangent.at(w, mask), mask * rng.standard_normal(w.shape)
    d = tangent.project(y)
    assert np.abs(w.T @ d + d.T @ w).max() < 1e-9  # tangent
    assert np.abs(tangent.project(d) - d).max() < 1e-9
    assert abs(np.vdot(d, y - d)) < 1e-8 * np.vdot(y, y)  # and orthogonal
    assert not d[w == 0.0].any()


def test_steps_and_a_factorisation_solve_the_same_equations(monkeypatch):
    rng = np.random.default_rng(0)
    w = overlapping(rng, 60, 10, share=0.15)
    weights = (w != 0.0) * rng.uniform(0.5, 2.0, 10)
    rhs = rng.standard_normal((10, 10))
    z = w.T @ (weights * (w @ (rhs + rhs.T)))  # in the range, or there would be no solution
    for damping in (0.0, 1e-3):
        direct = NormalEquations.at(w, weights, damping=damping).solve(z + z.T)
        with monkeypatch.context() as patch:
            patch.setattr(sparse_stiefel, "_DIRECT", 0)
            sparse = NormalEquations.at(w, weights, damping=damping)
            patch.setattr(sparse_stiefel, "_TRIPLES", 0)
            steps = NormalEquations.at(w, weights, damping=damping)
        assert sparse.pairs is not None
        assert steps.pairs is None
        assert np.abs(weights * (w @ (direct - sparse.solve(z + z.T)))).max() < 1e-9
        assert np.abs(weights * (w @ (direct - steps.solve(z + z.T)))).max() < 1e-7


def test_columns_that_do_not_meet_have_no_equation():
    w = np.eye(30)[:, :25]
    multiplier = NormalEquations.at(w, w).solve(np.ones((25, 25)))
    assert np.allclose(multiplier, np.diag(np.diag(multiplier)))
    assert np.allclose(np.diag(multiplier), 0.5)


@pytest.mark.parametrize("r", [25, 60])
def test_many_columns_are_retracted_to_rounding_and_in_no_time(r):
    rng = np.random.default_rng(r)
    w = overlapping(rng, 400, r, share=0.2)
    z = np.where(w != 0.0, w + 1e-2 * rng.standard_normal(w.shape), 0.0)
    begin = perf_counter()
    found = retract(z)
    assert perf_counter() - begin < 2.0  # the dense system of r = 60 alone takes longer, each time
    assert orthonormality_error(found) < 1e-12
    assert np.array_equal(found != 0.0, z != 0.0)


def test_more_constraints_than_entries_are_refused_quickly():
    rng = np.random.default_rng(0)
    z = np.where(rng.random((64, 60)) < 0.15, rng.standard_normal((64, 60)), 0.0) + np.eye(64, 60)
    begin = perf_counter()
    assert retract(z) is None
    assert perf_counter() - begin < 2.0


def test_an_entry_that_would_change_its_sign_becomes_zero():
    rng = np.random.default_rng(0)
    z = np.where(rng.random((30, 4)) < 0.5, rng.standard_normal((30, 4)), 0.0)
    z = np.where(rng.random((30, 4)) < 0.3, 1e-4 * z, z)  # entries that a retraction moves by more than they are
    assert (retract(z) * z < 0.0).any()
    w = retract_with_signs(z)
    assert orthonormality_error(w) < 1e-12
    assert not (w * z < 0.0).any()
    assert np.count_nonzero(w) < np.count_nonzero(z)
