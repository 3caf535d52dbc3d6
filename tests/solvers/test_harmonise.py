import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from fedspca import FASPCA, ExactSPCA, InvalidData, SparsePCAModel
from fedspca.estimators.rows import RowsBeside
from fedspca.federation import LocalFederation
from fedspca.fit.facts import shares_between
from fedspca.solvers.harmonise import SiteEffectWarning
from helpers.combat import combat

N, D = 150, 9


def data(k, seed=0):
    """Rows with a shift and a spread of each site, and an effect of age and sex that is to stay."""
    rng = np.random.default_rng(seed)
    known = pd.DataFrame({"age": rng.normal(50, 10, N), "sex": rng.choice(["F", "M"], N)})
    sites = np.sort(np.arange(N) % k)
    x = rng.standard_normal((N, D)) @ rng.standard_normal((D, D)) * (1 + 0.3 * (sites % 3))[:, None] + 100
    x += rng.standard_normal((k, D))[sites] * 3 + 0.2 * np.outer(known["age"], rng.standard_normal(D))
    return x, sites, known


def lines(known):
    return pd.get_dummies(known, drop_first=True).to_numpy(np.float64)


def method(scale=True):
    return ExactSPCA(2, n_nonzero=4, scale=scale, proof_seconds=0)


def same(one, other):
    assert np.allclose(one.components_, other.components_, atol=1e-10)
    assert np.allclose(one.explained_variance_, other.explained_variance_, rtol=1e-10)
    assert np.isclose(one.total_variance_, other.total_variance_, rtol=1e-10)


@pytest.mark.parametrize("k", [2, 3, 10])
@pytest.mark.parametrize("protected", [False, True])
@pytest.mark.parametrize("scale", [False, True])
def test_combat_by_sums_is_combat_on_the_pooled_rows(k, protected, scale):
    x, sites, known = data(k)
    about = {"covariates": known} if protected else {}
    pooled = combat(x, sites, lines(known) if protected else None)
    found, expected = method(scale).fit(x, sites=sites, centre="combat", **about), method(scale).fit(pooled)
    same(found, expected)
    assert np.allclose(found.transform(x, sites=sites, **about), expected.transform(pooled), atol=1e-8)


def test_sparse_rows_products_and_consensus_see_the_same_rows():
    x, sites, _ = data(3)
    x = np.where(np.random.default_rng(1).random(x.shape) < 0.5, x, 0.0)
    pooled = combat(x, sites)
    whole = method().fit(pooled)
    same(method().fit(sp.csr_array(x), sites=sites, centre="combat"), whole)
    by_products = ExactSPCA(2, n_nonzero=4, scale=True, search="products")
    found = by_products.fit(x, sites=sites, centre="combat").components_.copy()
    assert np.allclose(found, by_products.fit(pooled).components_, atol=1e-10)
    consensus = FASPCA(2, lam=30, scale=True)
    found = consensus.fit(x, sites=sites, centre="combat").components_.copy()
    assert np.allclose(found, consensus.fit(pooled, sites=sites).components_, atol=1e-8)


def test_what_lies_between_sites_is_nearly_gone_and_what_is_protected_stays():
    x, sites, known = data(3)
    x[:, 0] += 5 * (known["age"] - 50)
    about = {"sites": sites, "centre": "combat", "covariates": known}
    fitted = method().fit(x, **about)
    federation = LocalFederation(RowsBeside(**about).make_sites(x))
    share = shares_between(federation, fitted._fitted_moments(), scaled=True)
    assert share["after"] < 0.05 < 0.2 < share["before"]
    alone = ExactSPCA(1, n_nonzero=1).fit(x, **about)
    scores = alone.transform(x, sites=sites, covariates=known)[:, 0]
    assert abs(np.corrcoef(scores, known["age"])[0, 1]) > 0.99


def test_new_rows_of_a_known_site_are_seen_as_in_the_fit(tmp_path):
    x, sites, known = data(3)
    fitted = method().fit(x, sites=sites, centre="combat", covariates=known)
    SparsePCAModel.from_estimator(fitted).save(tmp_path / "model")
    model, here, c = SparsePCAModel.load(tmp_path / "model"), sites == 1, lines(known)
    assert model.adjusted() == [
        "Each site's own shift and spread were taken out of its rows (ComBat). What age and sex explain was protected."
    ]
    scores = fitted.transform(x, sites=sites, covariates=known)
    own = model.own(x[here], covariates=c[here])
    assert np.allclose(model.transform(x[here][:1], covariates=c[here][:1], own=own), scores[here][:1], atol=1e-8)
    assert np.allclose(model.transform(x[here], covariates=c[here]), scores[here], atol=1e-8)
    back = model.to_estimator()
    assert np.allclose(back.transform(x, sites=sites, covariates=known), scores, atol=1e-8)
    assert 0 < fitted.score(x[here], covariates=known[here]) < 1
    with pytest.raises(ValueError, match="needs every value"):
        model.own(np.where(x > 99, np.nan, x), covariates=c)


def test_features_with_one_value_at_a_site_are_left_as_they_are():
    x, sites, _ = data(3)
    x[sites == 1, 4] = 7.0
    with pytest.warns(SiteEffectWarning, match="1 feature.* at some site, so no site effect is taken out of it: x4"):
        found = method(False).fit(x, sites=sites, centre="combat")
    others = np.delete(np.arange(D), 4)
    pooled = x.copy()
    pooled[:, others] = combat(x[:, others], sites)
    same(found, method(False).fit(pooled))
    x[sites == 1, 1:] = 7.0
    with pytest.raises(InvalidData, match="fewer than two vary at every site"):
        method().fit(x, sites=sites, centre="combat")


def test_what_makes_no_sense_is_refused_in_words():
    x, sites, known = data(3)
    refused = {
        "one site has no effect": {"sites": None},
        "without scale_by, weight and site_weight": {"scale_by": "site"},
        "every row counts once": {"sample_weight": np.ones(N)},
        "name them in protect": {"covariates": known, "adjust": ["age"]},
        "has one value at each site": {"covariates": pd.DataFrame({"batch": (sites == 1).astype(float)})},
    }
    for words, about in refused.items():
        with pytest.raises(InvalidData, match=words):
            method().fit(x, **{"sites": sites, "centre": "combat", **about})
    with pytest.raises(InvalidData, match="protected from ComBat only"):
        method().fit(x, sites=sites, covariates=known, protect=["age"])
    with pytest.raises(InvalidData, match="'protect' names covariates"):
        method().fit(x, sites=sites, centre="combat", protect=["age"])
    x[3, 3] = np.nan
    with pytest.raises(InvalidData, match="ComBat needs every value"):
        ExactSPCA(2, max_missing=0.5).fit(x, sites=sites, centre="combat")
