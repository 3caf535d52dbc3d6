"""The workers' updates: descent, gradients, and the exactness of FASPCA's step."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedspca.linalg.operators import DeflatedRows, Frame, StandardisedRows
from fedspca.linalg.stiefel import metric_gram, polar_factor, project_out
from fedspca.site.consensus import Descent, ReconstructionProblem, begin, descend_on_manifold, faspca_update


def local_problem(seed, d=12, r=2, q=0, lam1=3.0):
    rng = np.random.default_rng(seed)
    removed = np.linalg.qr(rng.standard_normal((d, q)))[0]
    rows = DeflatedRows(StandardisedRows(rng.standard_normal((9, d)), np.zeros(d), np.ones(d)), removed)
    u, z = rng.standard_normal((d, r)), 0.3 * rng.standard_normal((d, r))
    problem = ReconstructionProblem(u, z, rho=20.0, lam1=np.full(r, lam1), mu=0.1, orthonormal=q == 0)
    w = polar_factor(project_out(removed, rng.standard_normal((d, r))), removed)
    state = begin(rows, Frame(np.zeros(d), np.ones(d), removed), w)._replace(u=u)
    return rows, problem, state


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


@pytest.mark.parametrize("search", ["armijo", "wolfe"])
@pytest.mark.parametrize("retraction", ["qr", "polar"])
@pytest.mark.parametrize("stay", [True, False])
@pytest.mark.parametrize("q", [0, 2])
def test_descent_lowers_the_local_objective_and_stays_on_the_manifold(search, retraction, stay, q):
    for seed in range(5):
        rows, problem, state = local_problem(seed, q=q)
        before = problem.value(state.w, state.gram_w)
        for steps in (1, 3, 10):
            after = descend_on_manifold(rows, problem, state, Descent(steps, 1e-6, search, retraction, stay))
            value = problem.value(after.w, after.gram_w)
            assert value < before
            assert np.allclose(metric_gram(rows.removed, after.w), np.eye(2), atol=1e-9)
            assert np.allclose(after.gram_w, rows.gram_product(after.w), atol=1e-8)
            if stay:
                assert np.abs(rows.removed.T @ after.w).max(initial=0.0) < 1e-10


@given(st.integers(0, 2**32 - 1), st.integers(1, 3), st.integers(0, 2))
def test_faspca_step_solves_its_linear_problem_exactly(seed, r, q):
    rows, problem, state = local_problem(seed, r=r, q=q)
    after = faspca_update(rows, state, problem.z, problem.rho, stay_in_complement=True)

    def objective(w):  # ‖A − Ywᵀ‖² + ⟨u, w⟩ + (ρ/2)‖w − z‖² with Y = Awᵗ
        deflated = project_out(rows.removed, rows.standardised.rows.T).T
        gap = w - problem.z
        fit = np.linalg.norm(deflated - deflated @ state.w @ w.T) ** 2
        return fit + np.vdot(state.u, w) + problem.rho / 2 * np.vdot(gap, gap)

    rng = np.random.default_rng(seed)
    for _ in range(5):
        rival = polar_factor(project_out(rows.removed, after.w + rng.standard_normal(after.w.shape)), rows.removed)
        assert objective(after.w) <= objective(rival) + 1e-8
    assert np.allclose(after.gram_w, rows.gram_product(after.w))
