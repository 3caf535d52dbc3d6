import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from contracts.solver import SolverContract, owners
from fedspca import FASPCA, StopReason
from fedspca.experiments.data import sites_in_order
from fedspca.linalg.stiefel import orthonormality_error


class TestFASPCA(SolverContract):
    def make(self, n_components=2, *, penalty=0.0, **settings):
        return FASPCA(n_components, lam=penalty, **settings)


class TestFASPCAOneAtATime(SolverContract):
    """The paper's own form: one loading after the other."""

    def make(self, n_components=2, *, penalty=0.0, **settings):
        ones = [1] * n_components or None
        return FASPCA(n_components, lam=penalty, block_sizes=ones, **settings)


@pytest.mark.parametrize(("lam", "bound", "most"), [(190, -9306.9, 380), (290, -8327.0, 140)])
def test_wdbc_star_reaches_the_pooled_optimum(wdbc, lam, bound, most):
    model = FASPCA(2, lam=lam, scale=True).fit(wdbc, sites=sites_in_order(569, 10))
    assert model.stop_reason_ is StopReason.CONVERGED
    assert model.objective_ <= bound
    assert np.count_nonzero(model.components_) < most
    assert orthonormality_error(model.components_.T) < 1e-8
    assert model.history_[-2].alignment > 1 - 1e-6


def test_any_number_of_sites_gives_the_same_optimum(wdbc):
    fits = [FASPCA(2, lam=290, scale=True).fit(wdbc, sites=sites_in_order(569, k)) for k in (1, 3, 5, 10)]
    objectives = np.array([fit.objective_ for fit in fits])
    assert np.ptp(objectives) <= 1e-4 * abs(objectives[0])
    assert all(np.allclose(fit.components_, fits[0].components_, atol=1e-3) for fit in fits)


def test_the_solution_satisfies_the_first_order_conditions(wdbc, wdbc_standardised):
    """2Sw − ξ = wΛ with Λ symmetric and ξ a subgradient of λ‖w‖₁, for the pooled problem."""
    lam = 290.0
    w = FASPCA(2, lam=lam, scale=True, tol=1e-8, max_rounds=3000).fit(wdbc, sites=sites_in_order(569, 3)).components_.T
    pull = 2 * wdbc_standardised.T @ (wdbc_standardised @ w)
    support = w != 0
    # the multipliers, by least squares on the support, where the subgradient is known
    basis = [np.outer(a, b) + np.outer(b, a) for a, b in [(e, f) for e in np.eye(2) for f in np.eye(2)]]
    design = np.stack([(w @ m)[support] for m in basis], axis=1)
    target = (pull - lam * np.sign(w))[support]
    solution = np.linalg.lstsq(design, target, rcond=None)[0]
    rest = pull - w @ np.tensordot(solution, basis, axes=1)
    assert np.abs((rest - lam * np.sign(w))[support]).max() < 1e-3 * lam
    assert np.abs(rest[~support]).max() < lam * (1 + 1e-3)


def test_the_papers_settings_are_available_and_say_that_they_do_not_converge(wdbc):
    model = FASPCA(2, lam=190, scale=True, rho=1000, init="random", block_sizes=[1, 1], max_rounds=60)
    with pytest.warns(ConvergenceWarning, match=r"primal residual.*dual residual.*init='warm'.*rho='auto'"):
        model.fit(wdbc, sites=sites_in_order(569, 10))
    assert model.stop_reason_ is StopReason.MAX_ROUNDS
    assert list(model.rho_) == [1000, 1000]
    assert orthonormality_error(model.components_.T) < 1e-8


def test_qf_fills_zeros_in_and_the_sparse_finish_does_not(wdbc):
    sites = sites_in_order(569, 3)
    with pytest.warns(ConvergenceWarning):
        sparse = FASPCA(2, lam=190, scale=True, max_rounds=30).fit(wdbc, sites=sites)
    with pytest.warns(ConvergenceWarning):
        filled = FASPCA(2, lam=190, scale=True, max_rounds=30, finish="qf").fit(wdbc, sites=sites)
    assert np.count_nonzero(sparse.components_) == sparse.history_[-2].nonzeros
    assert np.count_nonzero(filled.components_) > np.count_nonzero(sparse.components_)
    assert orthonormality_error(filled.components_.T) < 1e-12


@pytest.mark.parametrize("deflation", ["orthogonal", "generalized"])
def test_one_penalty_a_loading_and_both_kinds_of_deflation(rows, deflation):
    model = FASPCA(3, lam=[5.0, 400.0, 20.0], block_sizes=[1, 1, 1], deflation=deflation)
    model.fit(rows, sites=owners(len(rows), 3))
    w = model.components_
    assert orthonormality_error(w.T) < 1e-8
    # a loading that is projected at the end takes over the support of those before it
    filled = np.count_nonzero(w[1]) == np.count_nonzero(w[0])
    assert filled == (deflation == "generalized")
    assert {record.stage for record in model.history_} == {0, 1, 2}


def test_the_first_of_several_loadings_is_the_only_one_of_one(rows):
    alone = FASPCA(1, lam=15.0).fit(rows)
    first = FASPCA(2, lam=15.0, block_sizes=[1, 1]).fit(rows)
    assert np.allclose(alone.components_[0], first.components_[0], atol=1e-6)


def test_rho_grows_where_the_given_one_is_too_small_if_asked_to(wdbc):
    settings = {"lam": 190, "scale": True, "rho": 500.0}
    model = FASPCA(2, adaptive_rho=True, **settings).fit(wdbc, sites=sites_in_order(569, 10))
    assert model.stop_reason_ is StopReason.CONVERGED
    assert model.rho_[0] > 500.0
    assert np.isclose(model.objective_, -9307.2248, rtol=1e-3)


def test_many_rhos_that_do_not_converge_still_warn(rows):
    with pytest.warns(ConvergenceWarning, match="rho='auto'"):
        FASPCA(2, lam=15.0, block_sizes=[1, 1], rho=np.array([9.0, 9.0]), max_rounds=3, tol=1e-12).fit(rows)
