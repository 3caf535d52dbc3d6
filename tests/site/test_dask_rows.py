"""Rows on a cluster: the same answers as the same rows here, and no chunk ever fetched."""

import numpy as np
import pytest
import scipy.sparse as sp

from fedspca import FASPCA, ExactSPCA, InvalidData, LocalFederation, Site
from fedspca.dp.noise import augmented_grams, clipped_product, first_moments, length_counts
from fedspca.linalg.feature_sums import column_sums, deviations_from, missing_counts
from fedspca.linalg.operators import StandardisedRows
from fedspca.site.dask_rows import DaskRows, is_dask

da = pytest.importorskip("dask.array")


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((300, 40))
    x[:, :6] += 2.0 * rng.standard_normal((300, 1))
    x[:, 6:12] += 1.5 * rng.standard_normal((300, 1))
    return x + 3.0


@pytest.fixture(scope="module")
def cluster():
    distributed = pytest.importorskip("distributed")
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, host="127.0.0.1"
        ) as made,
        distributed.Client(made) as client,
    ):
        yield client


@pytest.mark.parametrize("chunks", [(300, 40), (70, 40), (7, 13)])
def test_sums_over_chunks_equal_those_over_the_array(rows, chunks):
    there, mean = DaskRows(da.from_array(rows, chunks=chunks)), np.linspace(2, 4, 40)
    np.testing.assert_allclose(column_sums(there), column_sums(rows))
    np.testing.assert_allclose(deviations_from(there, mean), deviations_from(rows, mean), atol=1e-9)
    w = np.random.default_rng(1).standard_normal((40, 3))
    for expected in (1, 1000):  # by products, and by the Gram matrix
        seen = [StandardisedRows(x, mean, np.full(40, 2.0)) for x in (there, rows)]
        one, other = (x.gram_product(w, expected) for x in seen)
        np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-8)
        assert (seen[0]._gram is None) == (seen[1]._gram is None)
    basis = np.linalg.qr(w)[0]
    np.testing.assert_allclose(seen[0].error_sums(basis), seen[1].error_sums(basis))


def test_clipped_sums_are_formed_where_the_rows_are(rows):
    there = DaskRows(da.from_array(rows, chunks=(70, 40)))
    centre, scale, w = np.full(40, 3.0), np.full(40, 2.0), np.linalg.qr(np.ones((40, 1)))[0]
    for sums in (
        lambda x: augmented_grams(x, centre, scale, 4.0, 1.5),
        lambda x: first_moments(x, centre, scale, 4.0, 1.5),
        lambda x: clipped_product(x, centre, scale, 4.0, w),
        lambda x: length_counts(x, centre, scale, np.array([2.0, 4.0, 8.0])),
    ):
        np.testing.assert_allclose(sums(there), sums(rows), rtol=1e-10, atol=1e-10)


def test_sparse_chunks_stay_sparse_and_are_counted_once(rows):
    dense = np.where(np.abs(rows - 3.0) > 2.0, rows, 0.0)
    chunked = da.from_array(dense, chunks=(90, 40)).map_blocks(sp.csr_matrix)
    there = DaskRows(chunked)
    assert not there.dense
    seen = StandardisedRows(there, np.ones(40), np.ones(40))
    w = np.random.default_rng(1).standard_normal((40, 3))
    centred = dense - 1.0
    np.testing.assert_allclose(seen.gram_product(w), centred.T @ (centred @ w), rtol=1e-10, atol=1e-8)
    assert seen._gram is None


def test_a_fit_on_a_real_cluster_equals_the_fit_here(rows, cluster):
    lazy = da.from_array(rows, chunks=(64, 40)).persist()
    here = ExactSPCA(2, n_nonzero=6).fit(rows)
    there = ExactSPCA(2, n_nonzero=6).fit(lazy)
    np.testing.assert_allclose(there.components_, here.components_, atol=1e-8)
    np.testing.assert_allclose(there.transform(lazy), here.transform(rows), atol=1e-8)
    assert there.score(lazy) == pytest.approx(here.score(rows), rel=1e-9)
    ran = cluster.run(lambda dask_worker: dask_worker.state.executed_count)
    assert min(ran.values()) > 0  # every worker took part


def test_one_site_on_a_cluster_and_one_here(rows, cluster):
    sites = [Site("cluster", da.from_array(rows[:200], chunks=(50, 40))), Site("here", rows[200:])]
    mixed = FASPCA(2, lam=300, max_rounds=40).fit_federation(LocalFederation(sites))
    local = FASPCA(2, lam=300, max_rounds=40).fit(rows, sites=["cluster"] * 200 + ["here"] * 100)
    np.testing.assert_allclose(mixed.components_, local.components_, atol=1e-6)


def test_chunks_are_never_fetched(rows, monkeypatch):
    lazy = da.from_array(rows, chunks=(64, 40))

    def refuse(self, *args, **kwargs):
        raise AssertionError("fetched")

    monkeypatch.setattr(da.Array, "__array__", refuse)
    monkeypatch.setattr(da.Array, "compute", refuse)
    ExactSPCA(2, n_nonzero=6).fit(lazy, sites=np.arange(300) // 100)


def test_bad_values_are_refused_where_they_are(rows):
    bad = rows.copy()
    bad[100, 7] = np.nan
    lazy = da.from_array(bad, chunks=(64, 40))
    with pytest.raises(InvalidData, match=r"column 'x7' \(no. 8\): 1 are NaN"):
        Site("a", lazy)
    site = Site("a", lazy, allow_missing=True)
    assert missing_counts(site._data.rows)[7] == 1.0
    bad[100, 7] = np.inf
    with pytest.raises(InvalidData, match="infinite"):
        Site("a", da.from_array(bad, chunks=(64, 40)), allow_missing=True)
    np.testing.assert_allclose(
        ExactSPCA(2, n_nonzero=6, max_missing=0.1).fit(lazy).mean_,
        np.nanmean(np.where(np.isinf(bad), np.nan, bad), axis=0),
    )


def test_shapes_and_types_are_checked(rows):
    with pytest.raises(InvalidData, match="1 dimension"):
        Site("a", da.from_array(rows[:, 0], chunks=50))
    with pytest.raises(InvalidData, match="real numbers"):
        Site("a", da.from_array(rows.astype(str), chunks=(50, 40)))
    assert Site("a", da.from_array((rows * 10).astype(int), chunks=(50, 40)))._data.rows.dtype == np.float64
    assert Site("a", da.from_array(rows.astype(np.float32), chunks=(50, 40)))._data.rows.dtype == np.float32
    assert not is_dask(rows)
    unknown = da.from_array(rows, chunks=(50, 40))
    assert Site("a", unknown[unknown[:, 0] > 3.0]).n_rows == int((rows[:, 0] > 3.0).sum())
    with pytest.raises(ValueError, match="features"):
        ExactSPCA(2, n_nonzero=6).fit(rows).transform(unknown[:, :5])
