import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from fedspca.linalg.shrinkage import smooth_abs, smooth_abs_gradient, smooth_norms, soft_threshold

finite = st.floats(-100, 100)


@given(arrays(np.float64, (5, 2), elements=finite), st.floats(0, 50), arrays(np.float64, (5, 2), elements=finite))
def test_soft_threshold_is_the_prox_of_the_l1_norm(x, t, other):
    def objective(z):
        return 0.5 * np.sum((z - x) ** 2) + t * np.abs(z).sum()

    best = soft_threshold(x, t)
    assert objective(best) <= objective(other) + 1e-9
    assert objective(best) <= objective(best + 1e-3 * np.sign(other)) + 1e-9
    assert np.all(best[np.abs(x) <= t] == 0.0)


@given(st.floats(-2, 2), st.floats(1e-4, 1.0))
def test_smooth_abs_bounds_the_absolute_value_within_a_quarter_of_mu(x, mu):
    gap = float(smooth_abs(np.array(x), mu)) - abs(x)
    assert -1e-15 <= gap <= mu / 4 + 1e-15


@given(st.floats(-2, 2), st.floats(1e-2, 1.0))
def test_smooth_abs_gradient_agrees_with_finite_differences(x, mu):
    step = 1e-6 * mu
    ends = smooth_abs(np.array([x - step, x + step]), mu)
    slope = (ends[1] - ends[0]) / (2 * step)
    assert abs(slope - float(smooth_abs_gradient(np.array(x), mu))) < 1e-5


def test_smooth_abs_is_continuous_where_its_pieces_meet():
    mu = 1e-3
    edge = np.array([mu / 2 - 1e-12, mu / 2 + 1e-12])
    assert np.ptp(smooth_abs(edge, mu)) < 1e-11
    assert np.ptp(smooth_abs_gradient(edge, mu)) < 1e-8


@given(arrays(np.float64, (6, 3), elements=st.floats(-2, 2)), st.floats(1e-4, 1.0))
def test_smooth_norms_add_up_the_smooth_absolute_values(x, mu):
    assert np.allclose(smooth_norms(x, mu), smooth_abs(x, mu).sum(axis=0), rtol=1e-12)


def test_soft_threshold_moves_every_entry_towards_zero_by_as_much():
    x = np.array([[3.0, -3.0], [0.5, -0.5], [1.0, -1.0], [0.0, 2.0]])
    assert np.array_equal(soft_threshold(x, 1.0), [[2.0, -2.0], [0.0, 0.0], [0.0, 0.0], [0.0, 1.0]])
    assert np.array_equal(soft_threshold(x, [0.0, 2.5]), [[3.0, -0.5], [0.5, 0.0], [1.0, 0.0], [0.0, 0.0]])


def test_smooth_abs_has_the_papers_values():
    mu = 0.4
    x = np.array([0.0, 0.1, -0.1, 0.2, -0.2, 1.0, -1.0])
    expected = [0.1, 0.125, 0.125, 0.2, 0.2, 1.0, 1.0]
    assert np.allclose(smooth_abs(x, mu), expected, rtol=1e-14)
    assert np.allclose(smooth_abs_gradient(x, mu), [0.0, 0.5, -0.5, 1.0, -1.0, 1.0, -1.0], rtol=1e-14)
    assert np.allclose(smooth_norms(x[:, None], mu), [sum(expected)], rtol=1e-14)
    assert smooth_norms(np.zeros((3, 2)), mu).shape == (2,)
