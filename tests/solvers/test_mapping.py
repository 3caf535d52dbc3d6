import numpy as np
import pytest
import scipy.sparse as sp
from scipy.stats import norm, rankdata

from fedspca import FASPCA, ExactSPCA, InvalidData, SparsePCAModel
from fedspca.federation.base import FederationError

N, D = 300, 8


def data(seed=0):
    rng = np.random.default_rng(seed)
    return np.exp(0.5 * rng.standard_normal((N, D)) @ rng.standard_normal((D, D)))


def counts(seed=0):
    x = data(seed)
    return np.random.default_rng(seed).poisson(4 * x / x.mean(axis=0)).astype(float)


def residuals(x):
    expected = x.sum(axis=1, keepdims=True) * x.sum(axis=0) / x.sum()
    return np.clip((x - expected) / np.sqrt(expected + expected**2 / 100), -np.sqrt(len(x)), np.sqrt(len(x)))


def method():
    return ExactSPCA(2, n_nonzero=4, scale=True, proof_seconds=0)


def same(one, other, tol=1e-10):
    assert np.allclose(one.components_, other.components_, atol=tol)
    assert np.isclose(one.total_variance_, other.total_variance_, rtol=tol)


@pytest.mark.parametrize("k", [1, 3, 10])
def test_pearson_residuals_by_sums_are_those_of_the_pooled_counts(k):
    x = counts()
    pooled = method().fit(residuals(x))
    for form in (np.asarray, sp.csr_array):
        found = method().fit(form(x), sites=np.arange(N) % k, transform=["pearson"])
        same(found, pooled)
        assert np.allclose(found.transform(form(x)), pooled.transform(residuals(x)), atol=1e-9)
    model = SparsePCAModel.from_estimator(found)
    assert np.allclose(model.transform(x), pooled.transform(residuals(x)), atol=1e-9)


@pytest.mark.parametrize("k", [1, 3, 10])
def test_normal_scores_know_ranks_to_the_bound_that_they_state(k, tmp_path):
    x = data()
    ranks = (rankdata(x, axis=0) - 0.5) / N
    found = method().fit(x, sites=np.arange(N) % k, transform=["normal"])
    scores = found.feature_map_(x)
    error = np.abs(norm.cdf(scores) - ranks).max()
    assert error <= found.feature_map_error_ < 0.04
    assert np.abs(scores - norm.ppf(ranks)).mean() < 0.01
    assert np.all(np.diff(np.take_along_axis(scores, np.argsort(x, axis=0), axis=0), axis=0) >= 0)
    same(found, method().fit(scores))  # the same as forming the transformed rows
    SparsePCAModel.from_estimator(found).save(tmp_path / "model")
    model = SparsePCAModel.load(tmp_path / "model")
    assert np.allclose(model.transform(x), found.transform(x), atol=1e-10)
    assert np.allclose(model.to_estimator().transform(x), found.transform(x), atol=1e-10)
    assert "Ranks are known to within" in model.adjusted()[0]


@pytest.mark.parametrize("k", [1, 3, 10])
@pytest.mark.parametrize("share", [0.01, 0.1])
def test_values_are_cut_off_at_quantiles_to_the_bound_that_is_stated(k, share):
    x = data()
    found = method().fit(x, sites=np.arange(N) % k, transform=[f"winsorise:{share}"])
    wanted = np.quantile(x, [share, 1 - share], axis=0, method="inverted_cdf")
    assert np.all(np.abs(found.feature_map_.knots - wanted) <= found.feature_map_error_ * x.std(axis=0) * (1 + 1e-9))
    assert found.feature_map_error_ < 0.1
    same(found, method().fit(np.clip(x, *found.feature_map_.knots)))


def test_transforms_of_rows_come_first_and_missing_values_stay_missing():
    x = counts() + 1
    whole = method().fit(x, transform=["library", "log1p"])
    by_hand = np.log1p(x / x.sum(axis=1, keepdims=True) * 1e4)
    same(whole, method().fit(by_hand))
    assert np.allclose(whole.transform(x), method().fit(by_hand).transform(by_hand), atol=1e-9)
    model = SparsePCAModel.from_estimator(whole)
    assert model.transforms == ("library", "log1p")
    assert np.allclose(model.transform(x), whole.transform(x), atol=1e-9)
    gaps = np.where(np.random.default_rng(2).random(x.shape) < 0.1, np.nan, x)
    found = ExactSPCA(2, n_nonzero=4, max_missing=0.5).fit(gaps, sites=np.arange(N) % 3, transform=["log1p", "normal"])
    ranks = np.stack([(rankdata(c, nan_policy="omit") - 0.5) / np.isfinite(c).sum() for c in gaps.T], axis=1)
    scores = found.feature_map_(np.log1p(gaps))
    assert np.array_equal(np.isnan(scores), np.isnan(gaps))
    assert np.nanmax(np.abs(norm.cdf(scores) - ranks)) <= found.feature_map_error_


def test_other_solvers_covariates_and_site_effects_see_transformed_rows():
    x, sites = data(), np.arange(N) % 3
    age = np.random.default_rng(3).normal(50, 9, (N, 1))
    found = method().fit(x, sites=sites, covariates=age, transform=["normal"])
    scores = found.feature_map_(x)
    same(found, method().fit(scores, sites=sites, covariates=age))
    same(
        method().fit(x, sites=sites, centre="combat", transform=["normal"]),
        method().fit(scores, sites=sites, centre="combat"),
    )
    consensus = FASPCA(2, lam=30, scale=True)
    mine = consensus.fit(x, sites=sites, transform=["normal"]).components_.copy()
    assert np.allclose(mine, consensus.fit(scores, sites=sites).components_, atol=1e-8)
    longer = FASPCA(1, lam=30, scale=True).fit(x, sites=sites, transform=["normal"])
    assert longer.extend(x, 1, sites=sites, transform=["normal"]).components_.shape == (2, D)


@pytest.mark.parametrize("k", [1, 3, 10])
def test_the_most_variable_features_are_those_of_the_pooled_rows(k, tmp_path):
    x = data()
    found = method().fit(x, sites=np.arange(N) % k, variable=5)
    kept = np.sort(np.argsort(-x.var(axis=0))[:5])
    assert np.array_equal(found.left_out_features_, np.setdiff1d(np.arange(D), kept))
    assert len(found.constant_features_) == 0
    pooled = method().fit(x[:, kept])
    assert np.allclose(found.components_[:, kept], pooled.components_, atol=1e-10)
    assert not found.components_[:, found.left_out_features_].any()
    assert np.isclose(found.total_variance_, pooled.total_variance_)
    SparsePCAModel.from_estimator(found).save(tmp_path / "model")
    model = SparsePCAModel.load(tmp_path / "model")
    assert np.allclose(model.transform(x), pooled.transform(x[:, kept]), atol=1e-9)
    assert model.adjusted() == ["Only the 5 features of the largest variance were used."]


def test_what_makes_no_sense_is_refused_in_words():
    x = data()
    refused = {
        "There is no transform 'rank'": {"transform": ["rank"]},
        "must be the last": {"transform": ["normal", "log1p"]},
        "without others": {"transform": ["log1p", "pearson"]},
        "between 0 and 0.5": {"transform": ["winsorise:0.7"]},
        "others take none": {"transform": ["normal:0.1"]},
        "counts every row once": {"transform": ["normal"], "sample_weight": np.ones(N)},
        "at least 1": {"variable": 0},
    }
    for words, about in refused.items():
        with pytest.raises(InvalidData, match=words):
            method().fit(x, **about)
    with pytest.raises(InvalidData, match="some values are negative"):
        method().fit(-x, transform=["pearson"])
    with pytest.raises(InvalidData, match="all counts are zero"):
        method().fit(0 * x, transform=["pearson"])
    with pytest.raises(InvalidData, match="need every count"):
        ExactSPCA(2, max_missing=0.9).fit(np.where(x > 3, np.nan, x), transform=["pearson"])
    with pytest.raises(FederationError, match="transforms and choices of features"):
        ExactSPCA(2, n_nonzero=3, folds=4).fit(x, transform=["normal"])
