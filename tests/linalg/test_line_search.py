import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fedspca.linalg.line_search import CURVATURE, SUFFICIENT_DECREASE, armijo, strong_wolfe

curves = st.tuples(st.floats(0.1, 50), st.floats(0.01, 5), st.floats(0.0, 3), st.floats(1e-4, 10))


def make(bend, slope, wave):
    """A curve that falls at first: a parabola with a ripple."""

    def value(theta):
        return 0.5 * bend * theta**2 - slope * theta + 0.1 * slope * wave * np.sin(theta) ** 2

    def derivative(theta):
        return bend * theta - slope + 0.1 * slope * wave * np.sin(2 * theta)

    return value, derivative


@given(curves)
def test_armijo_step_satisfies_armijos_condition(curve):
    bend, slope, wave, start = curve
    value, derivative = make(bend, slope, wave)
    theta = armijo(value, value(0.0), derivative(0.0), start)
    assert theta > 0
    assert value(theta) <= value(0.0) + SUFFICIENT_DECREASE * theta * derivative(0.0) + 1e-12


@given(curves)
def test_wolfe_step_satisfies_both_strong_conditions(curve):
    bend, slope, wave, start = curve
    value, derivative = make(bend, slope, wave)
    theta = strong_wolfe(lambda t: (value(t), derivative(t)), value(0.0), derivative(0.0), start)
    assert value(theta) <= value(0.0) + SUFFICIENT_DECREASE * theta * derivative(0.0) + 1e-12
    assert abs(derivative(theta)) <= CURVATURE * abs(derivative(0.0)) + 1e-12


def test_armijo_gives_up_where_there_is_no_descent():
    assert armijo(lambda theta: 1.0 + theta, 1.0, -1.0, 1.0) < 1e-10


def test_armijo_takes_no_step_where_shorter_ones_cannot_be_told_from_none():
    assert armijo(lambda theta: 1e6 + 1e-6, 1e6, -1e-9, 1.0) == 0.0


def test_a_full_step_whose_descent_is_below_the_rounding_is_judged_by_its_slope():
    """Or else a Newton method would end with hundreds of steps that go nowhere."""
    assert strong_wolfe(lambda theta: (1e6 + 1e-9 * theta, -1e-10 * (1 - theta)), 1e6, -1e-10, 1.0) == 1.0
