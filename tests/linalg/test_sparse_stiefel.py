import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedspca.linalg.sparse_stiefel import retract
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
