"""The Newton direction of a worker: it descends, it solves its model, and it stops at kinks."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedspca.linalg.stiefel import sym
from fedspca.site.descent import Descent, descend
from fedspca.site.newton import _corrected, newton_direction
from helpers.local_problems import local_problem


def at_start(seed, **given):
    rows, problem, state = local_problem(seed, **given)
    return rows, problem, state, problem.gradient(state.w, state.gram_w)


@given(st.integers(0, 2**32 - 1), st.integers(1, 3), st.integers(0, 2), st.sampled_from([0.0, 0.5, 30.0]))
def test_the_direction_is_tangent_and_descends(seed, r, q, lam1):
    rows, problem, state, gradient = at_start(seed, r=r, q=q, lam1=lam1)
    zeta = newton_direction(rows, problem, state.w, state.gram_w, gradient)
    assert np.abs(sym(state.w.T @ zeta)).max() < 1e-9 * (1 + np.abs(zeta).max())
    assert np.vdot(gradient, zeta) < 0


def test_an_entry_leaves_its_line_for_the_parabola_and_never_for_the_other_line():
    before = np.array([1.0, 1.0, 1.0, -1.0, -1.0, 0.0, 0.0, 0.0])
    reached = np.array([1.0, 0.0, -1.0, -1.0, 1.0, 0.0, 1.0, -1.0])
    assert _corrected(before, reached).tolist() == [1.0, 0.0, 0.0, -1.0, 0.0, 0.0, 1.0, -1.0]


@pytest.mark.parametrize("q", [0, 2])
@pytest.mark.parametrize("lam1", [0.0, 3.0, 300.0])
def test_a_worker_is_at_its_minimum_after_few_steps(q, lam1):
    """Also where the problem is far from convex, as it is with a small ρ, and the smoothed norm nearly has a corner."""
    for seed in range(10):
        rows, problem, state = local_problem(seed, q=q, lam1=lam1)
        how = Descent(60, 1e-9, "wolfe", "qr", q > 0, "newton")
        w, gram_w, _ = descend(rows, problem, state.w, state.gram_w, 0.0, how)
        gradient = problem.gradient(w, gram_w)
        if q:
            gradient = gradient - rows.removed @ (rows.removed.T @ gradient)
        left = gradient - w @ sym(w.T @ gradient)
        assert np.linalg.norm(left) < 1e-6 * np.linalg.norm(gradient)
