"""Symmetric matrices: packed, and to seven digits."""

import numpy as np
import pytest

from fedspca.linalg.symmetric import coarse, pack, unpack


def covariance(seed=0, d=12):
    x = np.random.default_rng(seed).standard_normal((40, d)) * np.geomspace(1e-6, 1e6, d)
    return x.T @ x


def test_a_packed_matrix_comes_back():
    x = np.random.default_rng(0).standard_normal((7, 5))
    assert np.array_equal(unpack(pack(x.T @ x)), x.T @ x)
    with pytest.raises(ValueError, match="4 numbers"):
        unpack(np.zeros(4))


@pytest.mark.parametrize("scale", [1.0, 1e-200, 1e200])
def test_each_entry_is_right_to_seven_digits_of_its_variances(scale):
    s = scale * covariance()
    sizes = np.sqrt(s.diagonal())
    assert (np.abs(coarse(s) - s) <= 2.0**-24 * sizes * sizes[:, None]).all()
    assert np.array_equal(coarse(s), coarse(s).T)
    assert not np.array_equal(coarse(s), s)


def test_rounding_errors_do_not_show():
    s, rng = covariance(1), np.random.default_rng(2)
    for _ in range(20):
        noise = 1e-14 * rng.standard_normal(s.shape)
        assert np.array_equal(coarse(s * (1.0 + noise + noise.T)), coarse(s))


@pytest.mark.parametrize("variance", [1.0, 256.0, 568.0, 1024.0, 4.0**-7, 1797.0])
def test_common_variances_are_not_at_a_limit_between_two_roundings(variance):
    s = variance * np.corrcoef(np.random.default_rng(3).standard_normal((6, 50)))
    assert np.array_equal(coarse(s * (1.0 + 1e-15)), coarse(s * (1.0 - 1e-15)))


def test_it_is_done_once_and_leaves_what_does_not_vary():
    s = covariance(4)
    s[3] = s[:, 3] = 0.0
    assert np.array_equal(coarse(coarse(s)), coarse(s))
    assert not coarse(s)[3].any()
