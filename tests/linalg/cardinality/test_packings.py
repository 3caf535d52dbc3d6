"""Lists of supports, and what two or three columns on them capture at most."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedspca.linalg.cardinality import chains, packings
from fedspca.linalg.cardinality.beside import Beside
from fedspca.linalg.cardinality.chains import sets_above
from fedspca.linalg.cardinality.packings import columns_bound, disjoint_pairs, orthogonal_pairs, shared_bound


def covariance(seed, d):
    x = np.random.default_rng(seed).standard_normal((2 * d, d))
    return x.T @ x


def best_disjoint(s, k, r):
    """Return the largest sum of leading eigenvalues over r supports that share no feature."""
    d = len(s)
    values = {t: float(np.linalg.eigvalsh(s[np.ix_(t, t)])[-1]) for t in itertools.combinations(range(d), k)}
    best = 0.0
    for supports in itertools.combinations(values, r):
        if len(set().union(*supports)) == r * k:
            best = max(best, sum(values[t] for t in supports))
    return best


@given(st.integers(0, 10**6), st.sampled_from([(6, 2, 2), (7, 3, 2), (7, 2, 3), (8, 4, 2)]))
def test_disjoint_columns_are_solved(seed, shape):
    d, k, r = shape
    s = covariance(seed, d)
    best = best_disjoint(s, k, r)
    single = sets_above(s, 1, k, 0.0).bound
    bound, listed = columns_bound(s, k, r, best, single, np.inf, orthogonal=False)
    assert bound == pytest.approx(best, rel=1e-9)
    assert bound >= best
    assert listed.rest <= single


@given(st.integers(0, 10**6))
def test_a_pair_captures_no_more_than_is_said(seed):
    s = covariance(seed, 6)
    listed = sets_above(s, 1, 3, 0.0)
    pairs = orthogonal_pairs(s, listed, 0.0, np.inf)
    assert (pairs <= np.add.outer(listed.values, listed.values) + 1e-9).all()
    for i in range(0, len(listed.members), 3):
        x = np.zeros((6, 1))
        block = s[np.ix_(listed.members[i], listed.members[i])]
        x[listed.members[i], 0] = np.linalg.eigh(block)[1][:, -1]
        gains, _ = Beside(s, x, orthogonal=True).refit(listed.members)
        assert (listed.values[i] + gains <= pairs[i] * (1 + 1e-9)).all()
    apart = disjoint_pairs(s, listed, 0.0, np.inf)
    assert (np.isfinite(apart) == (pairs == np.add.outer(listed.values, listed.values)))[np.isfinite(apart)].all()


@settings(max_examples=12)
@given(st.integers(0, 10**6))
def test_columns_that_share_a_feature_stay_below_their_bound(seed):
    rng = np.random.default_rng(seed)
    s = covariance(seed, 9)
    single = sets_above(s, 1, 3, 0.0).bound
    for r in (2, 3):
        _, listed = columns_bound(s, 3, r, 0.8 * r * single, single, np.inf, orthogonal=False)
        bound = shared_bound(s, 3, r, 0.8 * r * single, single, listed, np.inf)
        for _ in range(30):
            w = np.zeros((9, r))
            w[[0, 1, 2], 0] = rng.standard_normal(3)
            w[[2, 3, 4], 1] = rng.standard_normal(3)
            w[[5, 6, 7], r - 1] = rng.standard_normal(3) if r == 3 else 0.0
            basis = np.linalg.qr(w[rng.permutation(9)])[0]
            assert float(np.vdot(basis, s @ basis)) <= bound * (1 + 1e-9)


def test_where_a_list_would_be_too_long_levels_in_between_are_tried(monkeypatch):
    s = covariance(4, 12)
    most = max(float(np.linalg.eigvalsh(s[np.ix_(m, m)])[-2:].sum()) for m in itertools.combinations(range(12), 5))
    bounds = []
    for halvings in (0, 3):
        monkeypatch.setattr(packings, "_HALVINGS", halvings)
        monkeypatch.setattr(chains, "_LARGEST", 300)
        bounds.append(shared_bound(s, 3, 2, 0.9 * most, 0.0, chains.none_listed(3, 0.0), np.inf))
    assert most <= bounds[1] < 0.99 * bounds[0]
