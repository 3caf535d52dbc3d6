"""Transforms by quantiles from noised counts: near to those of the pooled rows, within the bound that is stated."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.special import ndtr, ndtri
from scipy.stats import rankdata

from fedspca import ExactSPCA, LocalFederation, Query, Site, SiteRefusal
from fedspca.dp import noise
from fedspca.dp.accounting import Budget
from fedspca.dp.ledger import Ledger
from fedspca.dp.plan import BINS, value_edges
from fedspca.dp.quantiles import learnt_from
from fedspca.federation import FederationError
from fedspca.federation.private import PrivateFederation
from fedspca.federation.release_plan import Privacy, make_plan
from fedspca.site.preparation import Preparation
from fedspca.site.queries import QUERIES
from fedspca.site.question import SiteData
from helpers.private import query, silent

D, N = 5, 20000
CENTRE, SCALE = np.linspace(-3, 30, D), np.linspace(1, 6, D)


def rows(n=N, seed=0):
    """Skewed and correlated features; what is stated of them is only about right."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n, D)) + 1.5 * rng.standard_normal((n, 1)) * (np.arange(D) < 3)
    return CENTRE + SCALE * (np.exp(0.4 * x) - 1.2)


def private(parts, transform, epsilon=2.0, **more):
    preparation = Preparation(transform=(transform,))
    sites = [Site(str(at), part, allow_missing=True, preparation=preparation) for at, part in enumerate(parts)]
    for site in sites:
        site.ledger = Ledger(Budget(epsilon, 1e-6))
    return PrivateFederation(LocalFederation(sites), Privacy(epsilon, 1e-6, CENTRE, SCALE, **more)), sites


def counted(x):
    return noise.value_counts(x, CENTRE, SCALE, value_edges())


def test_values_are_counted_in_the_bins_of_numpy():
    x, edges = rows(500), value_edges()
    x[::7, 2] = np.nan
    for form in (x, sp.csr_array(np.nan_to_num(x)), x[:0]):
        dense = form if isinstance(form, np.ndarray) else form.toarray()
        ends = [-np.inf, *edges[:-1], np.inf]
        seen = -(dense - CENTRE) / SCALE  # numpy's bins are closed on the left, ours on the right
        expected = np.column_stack([np.histogram(column, -np.array(ends)[::-1])[0][::-1] for column in seen.T])
        assert np.array_equal(noise.value_counts(form, CENTRE, SCALE, edges), expected)
    assert np.array_equal(counted(x).sum(axis=0), np.count_nonzero(~np.isnan(x), axis=0))


def test_a_row_in_every_feature_changes_the_counts_by_what_is_paid_for_and_a_smaller_price_is_noticed(monkeypatch):
    silent(monkeypatch)
    asked, question = query("private_counts"), QUERIES["private_counts"]
    tables = np.zeros((4, 3)), np.vstack([np.zeros((4, 3)), np.ones((1, 3))])
    before, after = (question.answer(SiteData("s", x), None, asked)[1]["counts"] for x in tables)
    change = np.linalg.norm(after - before)
    assert np.isclose(change, 3**0.5)
    paid_for = asked.scalars["sigma"] / question.cost(3, asked).multiplier
    assert change <= paid_for <= 1.01 * change
    assert change > asked.scalars["sigma"] / noise.cost(12, 1.0, 10.0, 24, 1).multiplier  # one feature's price


def truth(x, transform):
    if transform == "normal":
        return ndtri((rankdata(x, axis=0) - 0.5) / len(x))
    return np.clip(x, *np.quantile(x, [0.05, 0.95], axis=0))


@pytest.mark.parametrize("transform", ["normal", "winsorise:0.05"])
def test_without_noise_the_transform_is_that_of_the_pooled_rows_to_the_bound(transform):
    x = rows()
    joint = Preparation(transform=(transform,)).joint
    learnt = learnt_from(counted(x), value_edges(), CENTRE, SCALE, joint, 0.0)
    off = np.abs(learnt.seen(x) - truth(x, transform))
    if transform == "normal":
        assert np.abs(ndtr(learnt.seen(x)) - ndtr(truth(x, transform))).max() <= learnt.error
        assert off.mean() < 0.01
    else:
        assert (off / SCALE).max() <= learnt.error
    assert 0 < learnt.error < 0.4


@pytest.mark.parametrize("transform", ["normal", "winsorise:0.05"])
def test_with_noise_the_stated_bound_holds(transform):
    """In 40 drawings; each bound may fail in one of twenty, and is far from that."""
    x, joint = rows(4000), Preparation(transform=(transform,)).joint
    counts, sd, rng = counted(x), 12.0, np.random.default_rng(1)
    edges, failed = value_edges(), 0
    for _ in range(40):
        noised = counts + sd * rng.standard_normal(counts.shape)
        learnt = learnt_from(noised, edges, CENTRE, SCALE, joint, sd)
        knots, images = learnt.seen.knots, learnt.seen.images
        if transform == "normal":
            below = np.array([(x <= at).mean(axis=0) for at in knots])
            failed += np.abs(ndtr(images) - below).max() > learnt.error
        else:
            found = np.quantile(x, [0.05, 0.95], axis=0)
            failed += (np.abs(knots - found) / SCALE).max() > learnt.error
        assert (np.diff(images, axis=0) >= 0).all()
    assert failed <= 2


@pytest.mark.parametrize("mechanism", ["gram", "product"])
@pytest.mark.parametrize("transform", ["normal", "winsorise:0.05"])
def test_a_private_study_learns_the_transform_first_and_is_charged_for_it(transform, mechanism):
    x = rows()
    federation, sites = private(np.array_split(x, 3), transform, mechanism=mechanism, columns=4, expected_rows=N)
    found = ExactSPCA(1, n_nonzero=3, scale=True).fit_federation(federation)
    here = ExactSPCA(1, n_nonzero=3, scale=True).fit(truth(x, transform))
    assert set(np.flatnonzero(found.components_[0])) == set(np.flatnonzero(here.components_[0])) == {0, 1, 2}
    assert abs(found.components_[0] @ here.components_[0]) > 0.99
    spent = federation.spent()
    assert 1.99 < spent["epsilon"] <= 2.0
    assert len(spent["releases"]["private_counts"]) == 1
    assert all(np.isclose(site.ledger.spent(), spent["epsilon"]) for site in sites)
    assert found.feature_map_ is federation.learnt.seen
    assert 0 < found.feature_map_error_ < (0.3 if transform == "normal" else 2)
    assert "counts of values" in str(federation.plan)
    with pytest.raises(SiteRefusal, match="owner allows 2"):
        PrivateFederation(LocalFederation(sites), federation.privacy).released()


def test_without_noise_private_normal_scores_are_those_of_the_pooled_rows(monkeypatch):
    silent(monkeypatch)
    x = rows()
    federation, _ = private(np.array_split(x, 3), "normal", clip=50.0)
    moments = federation.sum(Query("moments"))
    assert moments.number("rows") == N
    assert np.allclose(moments["sums"] / N, 0, atol=0.02)
    scores = federation.learnt.seen(x)
    gram = federation.sum(
        Query(
            "gram",
            {"mean": np.zeros(D), "scale": np.ones(D), "removed": np.zeros((D, 0))},
            {"precision": "float64"},
        )
    )["gram"]
    assert np.allclose(gram, (scores.T @ scores)[np.triu_indices(D)], rtol=1e-3)


def test_a_plan_with_counts_spends_the_budget_and_no_more():
    plan = make_plan(Privacy(1.0, 1e-6), D, counts=True)
    usual = make_plan(Privacy(1.0, 1e-6), D)
    assert np.isclose(
        sum(z**-2 for z in plan.multipliers.values()), sum(z**-2 for z in usual.multipliers.values()), rtol=1e-6
    )
    assert plan.releases == usual.releases + 1
    assert len(value_edges()) == BINS


def test_pearson_residuals_are_refused_in_words():
    with pytest.raises(FederationError, match="other than normal and winsorise"):
        private(np.array_split(np.ones((20, D)), 2), "pearson")
