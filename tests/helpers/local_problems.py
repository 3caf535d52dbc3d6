"""Small local problems of a worker, with rows, a state and possibly removed directions."""

import numpy as np

from fedspca.linalg.operators import DeflatedRows, Frame, StandardisedRows
from fedspca.linalg.stiefel import polar_factor, project_out
from fedspca.site.consensus import begin
from fedspca.site.descent import ReconstructionProblem


def local_problem(seed, d=12, r=2, q=0, lam1=3.0):
    rng = np.random.default_rng(seed)
    removed = np.linalg.qr(rng.standard_normal((d, q)))[0]
    rows = DeflatedRows(StandardisedRows(rng.standard_normal((9, d)), np.zeros(d), np.ones(d)), removed)
    u, z = rng.standard_normal((d, r)), 0.3 * rng.standard_normal((d, r))
    problem = ReconstructionProblem(u, z, rho=20.0, lam1=np.full(r, lam1), mu=0.1, orthonormal=q == 0)
    w = polar_factor(project_out(removed, rng.standard_normal((d, r))), removed)
    state = begin(rows, Frame(np.zeros(d), np.ones(d), removed), w)._replace(u=u)
    return rows, problem, state
