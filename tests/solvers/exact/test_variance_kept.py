import numpy as np
import pytest

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
