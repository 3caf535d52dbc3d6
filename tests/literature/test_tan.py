import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from contracts.literature import RowsContract
from contracts.solver import owners
from fedspca import ExactSPCA, Site, secure_federation
from fedspca.literature import StabilizedADMM


class TestRows(RowsContract):
    def make(self, **settings):
        return StabilizedADMM(2, **settings)


@pytest.mark.parametrize("k", [1, 3, 10])
def test_it_settles_at_the_pooled_optimum_whatever_the_number_of_sites(rows, k):
    model = StabilizedADMM(2, lam=20.0, tol=1e-9, max_rounds=5000).fit(rows, sites=owners(60, k))
    exact = ExactSPCA(2, lam=20.0, tol=1e-12).fit(rows)
    assert model.converged_
    assert np.isclose(model.objective_, exact.objective_, rtol=1e-14)
    assert np.abs(model.components_ - exact.components_).max() < 1e-8


def test_masks_change_nothing(rows):
    parts = owners(60, 3)
    sites = [Site(f"s{k}", rows[parts == k]) for k in range(3)]
    plain, masked = StabilizedADMM(2, lam=20.0, max_rounds=6), StabilizedADMM(2, lam=20.0, max_rounds=6)
    with pytest.warns(ConvergenceWarning):
        plain.fit(rows, sites=parts)
    with pytest.warns(ConvergenceWarning):
        masked.fit_federation(secure_federation(sites))
    assert np.abs(masked.components_ - plain.components_).max() < 1e-7


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_both_directions_solve_the_local_problem_each_in_its_way(rows):
    """With one site and no penalty the first round is the whole problem, which PCA solves."""
    best = -np.sum(np.linalg.svd(rows - rows.mean(axis=0))[1][:2] ** 2)

    def after(direction, steps):
        kind = type("Local", (StabilizedADMM,), {"direction": direction})
        model = kind(2, lam=0.0, local_steps=steps, local_tol=1e-9, rho=1e-6, max_rounds=1, init=np.eye(2, 12))
        return model.fit(rows).history_[-2].objective

    assert after("conjugate", 3) != after("steepest", 3)
    assert np.allclose([after("conjugate", 300), after("steepest", 300)], best, rtol=1e-9)
