"""Asking about a sample: estimates of the sums, masked or not, with the owners' consent and within their policies."""

import numpy as np
import pytest

from fedspca import ExactSPCA, FederationError, LocalFederation, Policy, PrivateFederation, Query, Site, SiteRefusal
from fedspca.federation.covariance import CovarianceFederation
from fedspca.federation.plain import PlainFederation
from fedspca.federation.release_plan import Privacy
from fedspca.federation.sampled import SampledFederation
from fedspca.federation.secure import secure_federation
from fedspca.site.folds import MINE, deal
from fedspca.site.preparation import Preparation
from helpers.letters import conversation_with

D = 12
SIZES = {"east": 900, "north": 1503, "south": 600}
AGREED = {"sample": 10, "seed": 3}
FRAME = {"mean": np.zeros(D), "scale": np.ones(D), "removed": np.zeros((D, 0))}
DOUBLE = {"precision": "float64"}
GRAM = Query("gram", FRAME, DOUBLE)


def rows_of(name):
    rng = np.random.default_rng(SIZES[name])
    rows = rng.standard_normal((SIZES[name], D))
    rows[:, :3] += 2.0 * rng.standard_normal((len(rows), 1))
    rows[:, 3:6] += 1.5 * rng.standard_normal((len(rows), 1))
    return rows


def make_sites(**policy):
    return [Site(name, rows_of(name), policy=Policy(**policy)) for name in SIZES]


FEDERATIONS = {
    "local": LocalFederation,
    "plain": lambda sites: PlainFederation(conversation_with(sites, fit=AGREED)),
    "masked": lambda sites: secure_federation(sites, **AGREED),
}


@pytest.mark.parametrize("name", sorted(FEDERATIONS))
def test_every_federation_sums_over_the_sample_that_the_seed_deals(name):
    parts = [rows_of(site)[deal(site, size, 10, 3) == MINE] for site, size in SIZES.items()]
    assert [len(part) for part in parts] in ([90, 150, 60], [90, 151, 60])
    wanted = 10 * sum(part.T @ part for part in parts)
    found = SampledFederation(FEDERATIONS[name](make_sites()), 10, 3).sum(GRAM)["gram"]
    np.testing.assert_allclose(found, wanted[np.triu_indices(D)], atol=1e-6)


@pytest.mark.parametrize("search", ["auto", "products"])
@pytest.mark.parametrize("sparsity", [{"n_nonzero": 3}, {"lam": 900.0}])
@pytest.mark.parametrize("name", ["masked", "plain"])
def test_a_fit_after_a_sample_ends_where_a_fit_to_all_rows_does(name, sparsity, search):
    settings = {"search": search, "random_state": 3, **sparsity}
    whole = ExactSPCA(2, **settings).fit_federation(LocalFederation(make_sites()))
    found = ExactSPCA(2, sample=10, **settings).fit_federation(FEDERATIONS[name](make_sites()))
    assert np.abs(found.components_ - whole.components_).max() < 1e-4
    assert abs(found.objective_ / whole.objective_ - 1.0) < 1e-8
    assert np.isclose(found.total_variance_, whole.total_variance_)
    asked = [record.query for record in found.history_]
    assert asked[:2] == ["moments", "deviations"]
    assert asked[-1] == "gram_product"  # over all rows
    if search == "auto":
        assert asked[2] == "gram"  # over the sample
        assert len(asked) <= 6


def test_other_samples_than_the_approved_one_are_refused():
    for agreed, query, words in (
        ({}, GRAM.of_sample(10, 3), "has no sample"),
        (AGREED, GRAM.of_sample(5, 3), "not the one that the owner approved"),
        (AGREED, GRAM.of_sample(10, 4), "not the one that the owner approved"),
        (AGREED, GRAM, "of the sample only"),
        (AGREED, Query("moments").of_sample(10, 3), "only products and the covariance"),
        (AGREED, Query("row_errors", {**FRAME, "directions": np.eye(D)[:, :1]}).of_sample(10, 3), "cannot be asked of"),
        (AGREED, Query("gram", FRAME, {**DOUBLE, "sample": 1, "deal": 3}), "one row in two or more"),
        (AGREED, Query("gram", FRAME, {**DOUBLE, "sample": 10, "folds": 4, "deal": 3}), "takes the scalars"),
    ):
        federation = PlainFederation(conversation_with(make_sites(), fit=agreed))
        with pytest.raises(RuntimeError, match=words):
            federation.sum(query)


def test_limits_of_the_policy_are_those_of_the_sample():
    query = GRAM.of_sample(10, 3)
    with pytest.raises(SiteRefusal, match="holds fewer rows than the 100 that its policy requires"):
        LocalFederation(make_sites(min_rows=100)).sum(query)
    with pytest.raises(SiteRefusal, match="holds fewer rows than the 61 that"):
        LocalFederation(make_sites(min_fold_rows=61)).sum(query)
    with pytest.raises(SiteRefusal, match="no sums over parts of them"):
        LocalFederation(make_sites(max_folds=0)).sum(query)
    assert LocalFederation(make_sites(min_rows=60, min_fold_rows=60)).sum(query)["gram"].any()


def test_a_sample_beside_folds_is_refused():
    federation = FEDERATIONS["plain"](make_sites())
    with pytest.raises(ValueError, match="for a sample, or into folds"):
        ExactSPCA(2, n_nonzero=3, sample=10, folds=4, random_state=3).fit_federation(federation)


def test_where_there_can_be_no_sample_it_is_said():
    with pytest.raises(FederationError, match="A sample needs rows"):
        SampledFederation(CovarianceFederation(np.eye(D)), 10, 3).sum(GRAM)
    private = PrivateFederation(LocalFederation(make_sites()), Privacy(1.0, 1e-6))
    with pytest.raises(FederationError, match="has no sample"):
        SampledFederation(private, 10, 3).sum(GRAM)
    assert not private.spent()["releases"]
    own = [Site(name, rows_of(name), preparation=Preparation(centre="site")) for name in SIZES]
    with pytest.raises(FederationError, match="A sample is of rows as they are"):
        SampledFederation(LocalFederation(own), 10, 3)
    with pytest.raises(RuntimeError, match="have no sample"):
        LocalFederation(own).sum(GRAM.of_sample(10, 3))
