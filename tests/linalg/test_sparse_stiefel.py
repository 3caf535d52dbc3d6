import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedspca.linalg.sparse_stiefel import retract, sparse_orthonormalise
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
