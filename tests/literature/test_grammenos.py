import numpy as np
import pytest

from contracts.literature import RowsContract
from contracts.solver import owners
from fedspca import FederationError, Site, secure_federation
from fedspca.literature import MergedPCA
from fedspca.metrics import recovery_error
from helpers.private import silent


class TestRows(RowsContract):
    def make(self, **settings):
        return MergedPCA(2, **settings)


def dense(a):
    return np.linalg.svd(a, full_matrices=False)[2][:2]


@pytest.mark.parametrize("k", [1, 3, 10])
def test_with_full_rank_merging_is_pca(rows, k):
    model = MergedPCA(2, rank=12, block_rows=7).fit(rows, sites=owners(60, k))
    assert recovery_error(model.components_, dense(rows - rows.mean(axis=0))) < 1e-16


def test_a_small_rank_loses_a_little_and_forgetting_more(rows):
    truth, parts = dense(rows - rows.mean(axis=0)), owners(60, 10)
    losses = [
        recovery_error(MergedPCA(2, **given).fit(rows, sites=parts).components_, truth)
        for given in ({"rank": 2}, {"rank": 2, "forget": 0.5, "block_rows": 3})
    ]
    assert 1e-12 < losses[0] < losses[1] < 1.0


def test_a_merge_is_not_a_sum(rows):
    sites = secure_federation([Site(name, rows[k::3]) for k, name in enumerate("abc")])
    with pytest.raises(FederationError, match="a merge is not a sum"):
        MergedPCA(2).fit_federation(sites)


def test_with_privacy_each_site_adds_noise_of_its_own(monkeypatch):
    generator = np.random.default_rng(2)
    rows = generator.standard_normal((9000, 2)) @ np.eye(2, 12) * 3 + generator.standard_normal((9000, 12))
    # with a tenth of the rows, noise hid all there was to see once in some hundred runs
    noisy = MergedPCA(2, rank=12, epsilon=2.0, clip=20.0).fit(rows, sites=owners(9000, 3))
    silent(monkeypatch)
    exact = MergedPCA(2, rank=12, epsilon=2.0, clip=20.0).fit(rows, sites=owners(9000, 3))
    parts = [part - part.mean(axis=0) for part in np.split(rows, 3)]  # of each site about its own mean
    truth = dense(np.vstack(parts))
    assert recovery_error(exact.components_, truth) < 1e-6
    assert 1e-4 < recovery_error(noisy.components_, truth) < 1.9
