"""AnnData in, and scanpy's places out."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from fedspca import ExactSPCA, InvalidData, sc

anndata = pytest.importorskip("anndata")


def cells(n=60, d=30, seed=0):
    rng = np.random.default_rng(seed)
    counts = rng.poisson(1.0, (n, d)) + rng.poisson(3.0, (n, 1)) * (np.arange(d) < 5)
    obs = pd.DataFrame({"batch": [f"b{k % 3}" for k in range(n)]}, index=[f"c{k}" for k in range(n)])
    var = pd.DataFrame({"highly_variable": np.arange(d) < 20}, index=[f"g{j}" for j in range(d)])
    return anndata.AnnData(sp.csr_matrix(np.log1p(counts)), obs=obs, var=var)


def test_results_are_where_scanpys_users_look():
    adata = cells()
    assert sc.spca(adata, 2, n_nonzero=4, site_key="batch") is None
    loadings = adata.varm["SPCs"]
    assert loadings.shape == (30, 2)
    assert not loadings[20:].any()  # not highly variable
    assert np.count_nonzero(loadings, axis=0).max() <= 4
    here = ExactSPCA(2, n_nonzero=4).fit(adata.X[:, :20])
    np.testing.assert_allclose(np.abs(loadings[:20].T), np.abs(here.components_), atol=1e-8)
    np.testing.assert_allclose(adata.obsm["X_spca"], here.transform(adata.X[:, :20]), atol=1e-8)
    assert adata.uns["spca"]["variance_ratio"].sum() == pytest.approx(here.captured_variance_ratio_[-1])


def test_a_copy_another_layer_and_a_mask():
    adata = cells()
    adata.layers["raw"] = adata.X * 2.0
    made = sc.spca(adata, 1, n_nonzero=3, layer="raw", mask_var=np.arange(30) < 10, key_added="sparse", copy=True)
    assert "X_sparse" in made.obsm
    assert "X_sparse" not in adata.obsm
    assert not made.varm["sparse"][10:].any()


def test_mistakes_are_named():
    with pytest.raises(TypeError, match="AnnData"):
        sc.spca(np.ones((3, 3)))
    with pytest.raises(InvalidData, match=r"adata\.obs has no column 'hospital'; it has batch"):
        sc.spca(cells(), 1, site_key="hospital")
    with pytest.raises(InvalidData, match="mask_var"):
        sc.spca(cells(), 1, mask_var=np.zeros(30, dtype=bool))


def test_an_estimator_says_what_to_do_with_anndata():
    """It once went through the object cell by cell, for minutes."""
    with pytest.raises(InvalidData, match=r"fedspca\.sc\.spca"):
        ExactSPCA(1).fit(cells())


def test_looking_for_partial_fit_says_what_to_do():
    assert not hasattr(ExactSPCA(), "partial_fit")
    with pytest.raises(AttributeError, match="every component depends on all rows"):
        _ = ExactSPCA().partial_fit


def test_raw_counts_are_transformed_and_the_most_variable_genes_kept():
    adata = cells()
    adata.X = sp.csr_matrix(np.expm1(adata.X.toarray()).round())
    sc.spca(
        adata, 2, n_nonzero=4, mask_var=np.ones(30, dtype=bool), site_key="batch", transform=["pearson"], variable=8
    )
    here = ExactSPCA(2, n_nonzero=4).fit(adata.X, transform=["pearson"], variable=8)
    np.testing.assert_allclose(adata.varm["SPCs"].T, here.components_, atol=1e-8)
    assert np.count_nonzero(adata.varm["SPCs"].any(axis=1)) <= 8
