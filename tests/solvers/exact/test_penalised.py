import numpy as np
import pytest
from sklearn.decomposition import PCA

from fedspca import ExactSPCA, StopReason
from fedspca.experiments.data import sites_in_order
from fedspca.linalg.nystrom import Quadratic
from fedspca.linalg.proximal import minimise
from fedspca.linalg.rotations import random_rotations
from fedspca.linalg.stiefel import orthonormality_error


def pooled_residual(a, w, lam):
    """Least ‖2Sw − ξ − wΛ‖/‖2Sw‖ over symmetric Λ and subgradients ξ of λ‖w‖₁, by brute force: a convex problem."""
    pull = 2 * a.T @ (a @ w)
    r = w.shape[1]
    pairs = [(i, j) for i in range(r) for j in range(i, r)]
    basis = np.array([[[float({p, q} == {i, j}) for q in range(r)] for p in range(r)] for i, j in pairs])
    design = np.stack([(w @ b).ravel() for b in basis], axis=1)
    support = (w != 0).ravel()
    xi = lam * np.sign(w).ravel()
    for _ in range(500):  # alternate Λ given ξ, and ξ given Λ
        solution = np.linalg.lstsq(design, pull.ravel() - xi, rcond=None)[0]
        rest = pull.ravel() - design @ solution
        xi = np.where(support, xi, np.clip(rest, -lam, lam))
    return np.linalg.norm(rest - xi) / np.linalg.norm(pull)


@pytest.mark.parametrize(("lam", "bound"), [(190, -9307.22), (290, -8327.35)])
def test_wdbc_star_the_pooled_optimum_for_any_number_of_sites(wdbc, wdbc_standardised, lam, bound):
    fits = [ExactSPCA(2, lam=lam, scale=True).fit(wdbc, sites=sites_in_order(569, k)) for k in (1, 3, 10, 50)]
    for fit in fits:
        assert fit.objective_ <= bound
        assert fit.n_rounds_ <= 10
        assert fit.stop_reason_ is StopReason.CERTIFIED
        assert fit.certificate_ <= fit.tol
        assert orthonormality_error(fit.components_.T) < 1e-8
        assert np.array_equal(fit.components_ != 0, fits[0].components_ != 0)
        assert np.abs(fit.components_ - fits[0].components_).max() < 1e-6
    assert pooled_residual(wdbc_standardised, fits[-1].components_.T, lam) < 2e-6


def test_rows_sorted_by_their_first_score_change_nothing(wdbc, wdbc_standardised):
    order = np.argsort(PCA(1).fit_transform(wdbc_standardised)[:, 0])
    sites = sites_in_order(569, 10)
    mixed = ExactSPCA(2, lam=290, scale=True).fit(wdbc, sites=sites)
    apart = ExactSPCA(2, lam=290, scale=True).fit(wdbc[order], sites=sites)
    assert apart.n_rounds_ == mixed.n_rounds_
    assert np.abs(apart.components_ - mixed.components_).max() < 1e-6


def best_of_pooled_starts(a, r, lam, n=20):
    """Lowest objective from n random rotations of the PCA subspace, each solved on the pooled rows."""
    basis = np.linalg.svd(a, full_matrices=False)[2][:r].T
    pooled = Quadratic(a.T)
    turns = random_rotations(n, r, np.random.default_rng(7))
    return min(minimise(pooled, lam, basis @ turn, tol=1e-4).objective for turn in turns)


@pytest.mark.parametrize(("r", "lam", "bound"), [(5, 190, -11389), (5, 400, -8418), (10, 150, -14617)])
def test_more_components_reach_a_good_basin(wdbc, wdbc_standardised, r, lam, bound):
    fit = ExactSPCA(r, lam=lam, scale=True).fit(wdbc, sites=sites_in_order(569, 3))
    assert fit.objective_ <= bound
    assert fit.n_rounds_ <= 15
    assert fit.certificate_ <= fit.tol
    assert orthonormality_error(fit.components_.T) < 1e-8
    assert fit.objective_ <= best_of_pooled_starts(wdbc_standardised, r, lam) * (1 - 5e-3)


@pytest.mark.parametrize(("lam", "bound"), [(190, -11389), (400, -8418)])
def test_a_good_basin_does_not_hang_on_the_seed(wdbc, lam, bound):
    for seed in range(5):
        fit = ExactSPCA(5, lam=lam, scale=True, random_state=seed).fit(wdbc, sites=sites_in_order(569, 3))
        assert fit.objective_ <= bound
        assert fit.n_rounds_ <= 15
