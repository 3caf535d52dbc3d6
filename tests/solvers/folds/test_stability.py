"""Half samples: which there are, how their components are matched, and what is promised of stable features."""

import numpy as np
import pytest

from fedspca import ExactSPCA
from fedspca.solvers.folds.refits import dense_starts, half_samples, matched, refit
from fedspca.solvers.folds.stability import (
    false_selections,
    false_selections_if_unimodal,
    stand_ins,
    threshold_for,
)


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
