import numpy as np
import pytest
from sklearn.datasets import make_low_rank_matrix

from fedspca import ExactSPCA
from fedspca.experiments.data import sites_in_order
from fedspca.linalg.stiefel import orthonormality_error


@pytest.mark.parametrize("share", [0.8, 0.95, 0.999])
def test_variance_kept_is_kept(wdbc, wdbc_standardised, share):
    fit = ExactSPCA(2, variance_kept=share, scale=True).fit(wdbc, sites=sites_in_order(569, 5))
    dense = np.linalg.svd(wdbc_standardised, compute_uv=False)[:2]
    kept = np.linalg.norm(wdbc_standardised @ fit.components_.T) ** 2 / np.sum(dense**2)
    assert kept >= share - 1e-3
    assert kept == pytest.approx(fit.variance_kept_, abs=2e-3)
    assert orthonormality_error(fit.components_.T) < 1e-8


def test_variance_kept_trades_weights_for_variance(wdbc):
    counts = [
        np.count_nonzero(ExactSPCA(2, variance_kept=share, scale=True).fit(wdbc).components_)
        for share in (0.7, 0.8, 0.9, 0.95, 0.99)
    ]
    assert counts == sorted(counts)
    assert counts[0] < 60


def many_components():
    """Four clusters of five features in noise: of 24 components, twenty are worth little more than a feature each."""
    rng = np.random.default_rng(1)
    x = np.hstack([np.repeat(3.0 * rng.standard_normal((400, 4)), 5, axis=1), np.zeros((400, 60))])
    return x + rng.standard_normal(x.shape)


@pytest.mark.parametrize("search", ["auto", "products"])
def test_many_components_of_noise_take_few_weights(search):
    # 24 components of 80 features: more than the 320 weights up to which entries were once left out one by one
    fit = ExactSPCA(24, variance_kept=0.9, proof_seconds=0.0, search=search).fit(many_components())
    assert fit.variance_kept_ >= 0.9 * (1.0 - 1e-6)
    assert np.count_nonzero(fit.components_) <= 60


def test_the_whole_covariance_is_asked_for_at_any_number_of_weights():
    x = many_components()
    fit = ExactSPCA(12, variance_kept=0.9, proof_seconds=0.0).fit(x)
    assert fit.n_rounds_ == ExactSPCA(12, n_nonzero=2, proof_seconds=0.0).fit(x).n_rounds_


def test_as_many_weights_in_each_loading_never_do_with_fewer():
    """Without the check that comes with a proof, this table keeps 170 weights where 56 in each, 168, do."""
    x = make_low_rank_matrix(300, 150, effective_rank=12, random_state=0)
    fit = ExactSPCA(3, variance_kept=0.9).fit(x)
    fewer = (np.count_nonzero(fit.components_) - 1) // 3
    target = 0.9 * np.sum(np.linalg.svd(x - x.mean(axis=0), compute_uv=False)[:3] ** 2)
    assert -fit.objective_ >= target * (1.0 - 1e-9)
    assert -ExactSPCA(3, n_nonzero=fewer, proof_seconds=0.0).fit(x).objective_ < target


def test_a_smaller_share_needs_no_more_weights_with_many_components():
    x = many_components()
    counts = [
        np.count_nonzero(ExactSPCA(12, variance_kept=share, proof_seconds=0.0).fit(x).components_)
        for share in (0.5, 0.7, 0.8, 0.86, 0.9, 0.95)
    ]
    assert counts == sorted(counts)
