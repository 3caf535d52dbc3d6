"""Asking by fold: the solver sees the sums, masked or not, and the owners' consent decides."""

import numpy as np
import pytest

from contracts.federation import make_sites
from fedspca import ExactSPCA, FederationError, LocalFederation, PrivateFederation, Query, SiteRefusal
from fedspca.federation.covariance import CovarianceFederation
from fedspca.federation.folded import FoldedFederation
from fedspca.federation.plain import PlainFederation
from fedspca.federation.release_plan import Privacy
from fedspca.federation.secure import secure_federation
from helpers.letters import conversation_with

SIZES = (20, 31, 25)
AGREED = {"fit": {"folds": 4, "seed": 0}}
FEDERATIONS = {
    "local": LocalFederation,
    "plain": lambda sites: PlainFederation(conversation_with(sites, **AGREED)),
    "masked": lambda sites: secure_federation(sites, folds=4),
}


@pytest.mark.parametrize("name", sorted(FEDERATIONS))
def test_every_federation_answers_by_fold(name):
    folded = FoldedFederation(FEDERATIONS[name](make_sites(SIZES)), 4, 0)
    whole = LocalFederation(make_sites(SIZES))
    for query in (Query("moments"), Query("deviations", {"mean": np.full(6, 0.1)})):
        found, wanted = folded.sum(query), whole.sum(query)
        by_fold = whole.sum(query.by_fold(4, 0))
        for term in wanted.arrays:
            np.testing.assert_allclose(found[term], wanted[term], atol=1e-9)
            np.testing.assert_allclose(folded.asked[-1].arrays[term], by_fold[term], atol=1e-9)


@pytest.mark.parametrize("search", ["auto", "products"])
@pytest.mark.parametrize("name", sorted(FEDERATIONS))
def test_a_fit_with_folds_has_the_same_rounds_and_loadings(name, search):
    settings = {"n_nonzero": 3, "scale": True, "search": search, "proof_seconds": 0.0}
    without = ExactSPCA(2, **settings).fit_federation(LocalFederation(make_sites(SIZES)))
    found = ExactSPCA(2, folds=4, **settings).fit_federation(FEDERATIONS[name](make_sites(SIZES)))
    assert found.n_rounds_ == without.n_rounds_
    assert np.abs(found.components_ - without.components_).max() < 1e-10
    assert found.selection_frequency_.shape == (2, 6)


@pytest.mark.parametrize("make", [PlainFederation, None])
def test_folds_that_owners_did_not_approve_are_refused(make):
    for agreed, words in (({}, "has no folds"), ({"folds": 6, "seed": 0}, "not those that the owner approved"),
                          ({"folds": 4, "seed": 1}, "not those that the owner approved")):  # fmt: skip
        sites = make_sites(SIZES)
        federation = make(conversation_with(sites, fit=agreed)) if make else secure_federation(sites, **agreed)
        with pytest.raises(SiteRefusal, match=words):
            FoldedFederation(federation, 4, 0).sum(Query("moments"))


def test_where_there_are_no_rows_there_are_no_folds():
    with pytest.raises(FederationError, match="Folds need rows"):
        FoldedFederation(CovarianceFederation(np.eye(3)), 4, 0).sum(Query("moments"))


def test_a_private_study_says_that_it_has_no_folds():
    private = PrivateFederation(LocalFederation(make_sites()), Privacy(1.0, 1e-6))
    with pytest.raises(FederationError, match="no sums by fold"):
        FoldedFederation(private, 4, 0).sum(Query("moments"))
    dealt = PrivateFederation(LocalFederation(make_sites()), Privacy(1.0, 1e-6), dealt=(4, 0))
    with pytest.raises(FederationError, match="4 folds, by another seed"):
        FoldedFederation(dealt, 4, 1).sum(Query("moments"))
    assert not dealt.spent()["releases"]  # they refuse before they spend anything
