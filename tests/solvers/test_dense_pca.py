import numpy as np
import pytest

from fedspca import FASPCA, ExactSPCA, LocalFederation, Site
from fedspca.experiments.data import wdbc_star
from fedspca.federation.base import Around
from fedspca.fit.facts import judge
from fedspca.solvers.rounds import Rounds

SLOW = np.random.default_rng(0).standard_normal((700, 400)) * np.arange(1, 401) ** -0.25


class Elsewhere(Around):
    """Sites that are not on this machine."""

    local = False

    def sum(self, query):
        return self._federation.sum(query)


def federation(rows):
    return LocalFederation([Site("a", rows[::2]), Site("b", rows[1::2])])


def shares(rows, *, scaled):
    centred = rows - rows.mean(axis=0)
    values = np.linalg.svd(centred / centred.std(axis=0) if scaled else centred, compute_uv=False) ** 2
    return values / values.sum()


def fitted(name, sites, *, scaled):
    if name == "consensus":
        with pytest.warns(UserWarning, match="stopped after"):
            return FASPCA(2, lam=1.0, rho=100.0, init="random", scale=scaled, max_rounds=1).fit_federation(sites)
    return ExactSPCA(2, n_nonzero=12, search=name, scale=scaled).fit_federation(sites)


@pytest.mark.parametrize("name", ["thorough", "products", "consensus"])
@pytest.mark.parametrize("rows", [wdbc_star().rows, SLOW], ids=["the demo's table", "slowly decaying"])
def test_what_dense_pca_captures_is_what_an_svd_says(name, rows):
    scaled = rows is not SLOW
    sites = federation(rows)
    facts = judge(sites, (), fitted(name, sites, scaled=scaled)).facts
    found = facts["dense_variance_ratio"]
    assert facts["dense_variance_settled"]
    true = shares(rows, scaled=scaled)[: len(found)]
    np.testing.assert_allclose(np.cumsum(found)[:2], np.cumsum(true)[:2], rtol=3e-4)
    np.testing.assert_allclose(np.cumsum(found), np.cumsum(true), rtol=3e-3)


@pytest.mark.parametrize("name", ["products", "consensus"])
def test_between_machines_no_more_is_asked_and_what_did_not_settle_is_a_lower_bound(name):
    sites = Elsewhere(federation(SLOW))
    asking = Rounds(sites)
    facts = judge(asking, (), fitted(name, sites, scaled=False)).facts
    products = [one for one in asking.history if one.query == "gram_product"]
    assert len(products) == (1 if name == "products" else 3)
    true = shares(SLOW, scaled=False)
    found = facts["dense_variance_ratio"]
    assert not facts["dense_variance_settled"]
    assert len(found) >= 2
    assert (np.cumsum(found) <= np.cumsum(true[: len(found)]) * (1 + 1e-9)).all()


def test_few_features_are_known_as_a_whole():
    rows = np.random.default_rng(1).standard_normal((60, 9))
    sites = federation(rows)
    facts = judge(sites, (), fitted("consensus", sites, scaled=False)).facts
    assert facts["dense_variance_settled"]
    np.testing.assert_allclose(facts["dense_variance_ratio"], shares(rows, scaled=False), rtol=1e-9)
