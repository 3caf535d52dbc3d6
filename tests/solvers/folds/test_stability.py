"""Half samples: which there are, how their components are matched, and what is promised of stable features."""

import numpy as np
import pytest
from sklearn.datasets import load_wine

from fedspca import ExactSPCA, LocalFederation, Site
from fedspca.federation.folded import FoldedFederation
from fedspca.solvers.exact import whole
from fedspca.solvers.folds.refits import Pool, dense_starts, half_samples, matched, refit, refits
from fedspca.solvers.folds.stability import (
    false_selections,
    false_selections_if_unimodal,
    stand_ins,
    threshold_for,
)
from fedspca.solvers.folds.sums import fold_sums
from fedspca.solvers.standardise import standardise


def test_ten_folds_have_126_pairs_that_share_no_fold():
    pairs = half_samples(10, 126, np.random.default_rng(0))
    assert len(pairs) == 126
    assert len({tuple(half) for pair in pairs for half in pair}) == 252
    assert all(a.sum() == b.sum() == 5 and not (a & b).any() for a, b in pairs)
    assert len(half_samples(20, 30, np.random.default_rng(0))) == 30


def test_components_are_matched_by_order_and_sign():
    w = np.linalg.qr(np.random.default_rng(0).standard_normal((6, 3)))[0]
    assert np.allclose(matched(-w[:, [2, 0, 1]], w), w)


@pytest.mark.parametrize("k", [3, 60])
def test_a_refit_finds_the_planted_components(k):
    v = np.zeros((120, 2))
    v[:k, 0] = v[k : 2 * k, 1] = k**-0.5
    s = np.eye(120) + 20.0 * np.outer(v[:, 0], v[:, 0]) + 10.0 * np.outer(v[:, 1], v[:, 1])
    found = matched(refit(s, (k, k), [np.roll(v, 1, axis=0), *dense_starts(s, 2)], orthogonal=True), v)
    assert np.allclose(found, v, atol=1e-6)


def test_the_bound_is_that_of_the_theorem():
    assert false_selections(10, 1000, 0.9) == pytest.approx(0.125)
    assert false_selections(10, 10, 0.6) == 10.0  # there are no more features than that
    assert threshold_for(10, 1000) == 0.6
    assert false_selections(10, 150, threshold_for(10, 150)) <= 1.0 < false_selections(10, 150, 0.83)
    assert threshold_for(10, 30) == 0.9
    for tau in (0.6, 0.75, 0.9, 0.95):
        assert false_selections_if_unimodal(10, 1000, tau) < false_selections(10, 1000, tau)


def test_chance_is_hardly_ever_stable():
    """Pure noise: what half samples select is chance, and the bound on stable features holds on average."""
    stable, bound = [], []
    for seed in range(2):
        rows = np.random.default_rng(seed).standard_normal((120, 40))
        model = ExactSPCA(1, n_nonzero=4, folds=6, proof_seconds=0.0).fit(rows)
        stable.append(int(model.stable_.sum()))
        bound.append(float(model.false_selections_[0]))
    assert np.mean(stable) <= np.mean(bound)


def test_features_that_stand_in_for_each_other_are_found():
    correlation = np.eye(4)
    correlation[0, 2] = correlation[2, 0] = -0.9
    frequency, chosen = np.array([0.6, 1.0, 0.4, 0.4]), np.array([True, True, False, False])
    assert stand_ins(frequency, chosen, correlation) == [(0, 2, -0.9)]


def halves_of(rows, w):
    folded = FoldedFederation(LocalFederation([Site("a", rows)]), 6, 0)
    moments = standardise(folded, scale=True)
    whole.ask(folded, moments.frame, "float64")
    sums = fold_sums(folded.asked, moments, w, scaled=True)
    return sums, [half for pair in half_samples(6, 10, np.random.default_rng(0)) for half in pair]


def test_a_half_sample_has_what_the_search_of_any_other_has_found():
    """No loadings of another half sample capture more of a half sample's variance than its own do."""
    rows = load_wine().data
    w = ExactSPCA(3, n_nonzero=4, scale=True, proof_seconds=0.0).fit(rows).components_.T
    sums, halves = halves_of(rows, w)
    fits = list(refits(sums, halves, w, orthogonal=True))
    for sample, own in fits:
        best = max(np.vdot(other, sample.matrix @ other) for _, other in fits)
        assert np.vdot(own, sample.matrix @ own) >= best * (1 - 1e-9)
        assert (np.count_nonzero(own, axis=0) <= 4).all()
        assert np.allclose(own.T @ own, np.eye(3), atol=1e-8)


def test_a_pool_keeps_each_set_of_supports_once_and_returns_the_best():
    pool, basis = Pool(), np.eye(4)
    for w in (basis[:, [0, 1]], basis[:, [1, 0]], basis[:, [2, 3]], basis[:, [0, 3]]):
        pool.add(w)
    assert len(pool) == 3
    best = pool.best(np.diag([1.0, 2.0, 3.0, 4.0]), 2)
    assert list(best) == [((2,), (3,)), ((0,), (3,))]
