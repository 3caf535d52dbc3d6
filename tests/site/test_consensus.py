"""The workers' updates: the exactness of FASPCA's step."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fedspca.linalg.stiefel import polar_factor, project_out
from fedspca.site.consensus import faspca_update
from helpers.local_problems import local_problem


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
