"""A worker's descent: derivatives, descent on the manifold, and where Newton's method ends."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedspca.linalg.stiefel import metric_gram
from fedspca.site.consensus import fsspca_update
from fedspca.site.descent import Descent
from helpers.local_problems import local_problem


@given(st.integers(0, 2**32 - 1), st.integers(1, 3), st.integers(0, 2), st.sampled_from([0.0, 0.5, 30.0]))
def test_gradient_agrees_with_finite_differences(seed, r, q, lam1):
    rows, problem, state = local_problem(seed, r=r, q=q, lam1=lam1)
    rng = np.random.default_rng(seed)
    w = rng.standard_normal(state.w.shape)  # the formula holds off the manifold too
    direction = rng.standard_normal(w.shape)
    gradient = problem.gradient(w, rows.gram_product(w))
    h = 1e-6
    ends = [problem.value(w + s * h * direction, rows.gram_product(w + s * h * direction)) for s in (-1, 1)]
    slope = (ends[1] - ends[0]) / (2 * h)
    assert np.isclose(slope, np.vdot(gradient, direction), rtol=1e-4, atol=1e-3)


@given(st.integers(0, 2**32 - 1), st.integers(1, 3), st.integers(0, 2), st.sampled_from([0.0, 0.5, 30.0]))
def test_second_derivative_agrees_with_differences_of_the_gradient(seed, r, q, lam1):
    rows, problem, state = local_problem(seed, r=r, q=q, lam1=lam1)
    w = state.w  # wherever the first term is -tr(w'Sw) it is so on the manifold only, and along tangents
    x = np.random.default_rng(seed).standard_normal(w.shape)
    away = np.abs(np.abs(w) - problem.mu / 2) > 1e-3  # from the kinks of the smoothed norm's slope
    h = 1e-5
    ends = [problem.gradient(w + s * h * x, rows.gram_product(w + s * h * x)) for s in (-1, 1)]
    expected = (ends[1] - ends[0]) / (2 * h)
    found = problem.stiffness(problem.pieces(w)) * x + problem.coupling(w, state.gram_w, x, rows.gram_product(x))
    assert np.allclose(found[away], expected[away], rtol=1e-6, atol=1e-5)


@pytest.mark.parametrize("q", [0, 2])
def test_newton_ends_where_steepest_descent_does_in_a_tenth_of_the_steps(q):
    for seed in range(5):
        rows, problem, state = local_problem(seed, q=q)
        problem = replace(problem, rho=100.0)  # so large that there is one minimum near
        slow, fast = (
            fsspca_update(rows, state, problem, Descent(steps, 1e-9, "wolfe", "qr", q > 0, direction))
            for direction, steps in (("steepest", 2000), ("newton", 40))
        )
        assert np.abs(slow.w - fast.w).max() < 1e-6


@pytest.mark.parametrize("search", ["armijo", "wolfe"])
@pytest.mark.parametrize("retraction", ["qr", "polar"])
@pytest.mark.parametrize("stay", [True, False])
@pytest.mark.parametrize("q", [0, 2])
@pytest.mark.parametrize("direction", ["steepest", "conjugate", "newton"])
def test_descent_lowers_the_local_objective_and_stays_on_the_manifold(search, retraction, stay, q, direction):
    for seed in range(3):
        rows, problem, state = local_problem(seed, q=q)
        before = problem.value(state.w, state.gram_w)
        for steps in (1, 3, 10):
            how = Descent(steps, 1e-6, search, retraction, stay, direction)
            after = fsspca_update(rows, state, problem, how)
            value = problem.value(after.w, after.gram_w)
            assert value < before
            assert np.allclose(metric_gram(rows.removed, after.w), np.eye(2), atol=1e-9)
            assert np.allclose(after.gram_w, rows.gram_product(after.w), atol=1e-8)
            if stay:
                assert np.abs(rows.removed.T @ after.w).max(initial=0.0) < 1e-10
