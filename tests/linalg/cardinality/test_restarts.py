"""Random supports find what the search from single columns and eigenvectors misses."""

from dataclasses import replace
from itertools import combinations, permutations

import numpy as np
import pytest

from fedspca import ExactSPCA
from fedspca.linalg.cardinality.fewest import no_more_than_alike
from fedspca.linalg.cardinality.joint import best_loadings
from fedspca.linalg.cardinality.polish import Fit, captured, refit_orthogonal
from fedspca.linalg.cardinality.restarts import restarted, starts_for
from fedspca.linalg.cardinality.tuning import Tuning
from fedspca.linalg.compiled.library import numpy_only

# the covariance of six gene frequencies of butterflies (McKechnie, Ehrlich and White, 1975)
BUTTERFLIES = np.array(
    [
        [17.1333, 26.5167, 27.5500, -44.1500, -22.5500, -4.5000],
        [26.5167, 56.1625, 49.6875, -82.3708, -48.2375, -1.7583],
        [27.5500, 49.6875, 116.1292, -178.0458, -14.7125, -0.6083],
        [-44.1500, -82.3708, -178.0458, 402.5625, -57.0375, -40.9583],
        [-22.5500, -48.2375, -14.7125, -57.0375, 116.1625, 26.3750],
        [-4.5000, -1.7583, -0.6083, -40.9583, 26.3750, 21.4500],
    ]
)
K = (2, 2, 2)


def best_apart(s):
    """The most that three columns of two features capture that share none."""
    best = 0.0
    for order in permutations(range(6)):
        pairs = [list(order[at : at + 2]) for at in (0, 2, 4)]
        best = max(best, sum(float(np.linalg.eigvalsh(s[np.ix_(pair, pair)])[-1]) for pair in pairs))
    return best


def searched(s, k=K, orthogonal=True):
    return best_loadings(s, k, orthogonal=orthogonal, tuning=Tuning.for_size(len(s), max(k), len(k)))


@pytest.mark.parametrize("compiled", [True, False])
def test_they_find_loadings_that_the_search_misses(compiled):
    best = best_apart(BUTTERFLIES)
    first, tuning = searched(BUTTERFLIES), Tuning.for_size(6, 2, 3)
    assert first.variance < 0.99 * best  # otherwise this is no test any more
    if compiled:
        found = restarted(BUTTERFLIES, first, K, orthogonal=True, tuning=tuning)
    else:
        with numpy_only():
            found = restarted(BUTTERFLIES, first, K, orthogonal=True, tuning=tuning)
    assert found.variance >= best * (1.0 - 1e-9)
    assert found.variance == pytest.approx(captured(BUTTERFLIES, found.w), rel=1e-9)
    assert np.allclose(found.w.T @ found.w, np.eye(3), atol=1e-9)
    assert (np.count_nonzero(found.w, axis=0) <= 2).all()


def test_a_fit_uses_them_where_there_is_time_for_a_proof():
    best = best_apart(BUTTERFLIES)
    fits = [ExactSPCA(3, n_nonzero=2, proof_seconds=seconds).fit_covariance(BUTTERFLIES) for seconds in (0.25, 0.0)]
    assert -fits[0].objective_ >= best * (1.0 - 1e-9)
    assert -fits[1].objective_ < 0.99 * best


@pytest.mark.parametrize(("whole", "weights"), [(True, 6), (False, 8)])
def test_the_check_of_a_share_uses_them(whole, weights):
    """The first column has two weights too many, and without random supports two in each miss the target."""
    target, w = best_apart(BUTTERFLIES) * (1.0 - 1e-9), np.zeros((6, 3))
    for j, pair in enumerate(([0, 1], [2, 3], [4, 5])):
        w[pair, j] = np.linalg.eigh(BUTTERFLIES[np.ix_(pair, pair)])[1][:, -1]
    w[:, 0] = 0.9 * w[:, 0] + np.sqrt(0.19) * np.array([0.0, 0.0, w[3, 1], -w[2, 1], 0.0, 0.0])
    start = refit_orthogonal(BUTTERFLIES, w)
    assert np.count_nonzero(start.w) == 8
    found = no_more_than_alike(BUTTERFLIES, start, target, hope=0.0, tuning=Tuning(), starts=[], whole=whole)
    assert found.variance >= target
    assert np.count_nonzero(found.w) == weights


@pytest.mark.parametrize("orthogonal", [True, False])
@pytest.mark.parametrize("seed", range(6))
def test_loadings_never_get_worse_and_stay_what_was_asked_for(seed, orthogonal):
    rng = np.random.default_rng(seed)
    s = np.cov(rng.standard_normal((9, 12)) @ rng.standard_normal((12, 12)), rowvar=False)
    k = (5, 3) if seed % 2 else (4, 4)
    first = searched(s, k, orthogonal)
    found = restarted(s, first, k, orthogonal=orthogonal, tuning=Tuning.for_size(12, max(k), 2))
    assert found.variance >= first.variance
    assert (np.count_nonzero(found.w, axis=0) <= np.array(k)).all()
    assert np.allclose(np.linalg.norm(found.w, axis=0), 1.0)
    if orthogonal:
        assert abs(found.w[:, 0] @ found.w[:, 1]) < 1e-9


def test_the_same_loadings_come_out_each_time():
    first, tuning = searched(BUTTERFLIES), Tuning.for_size(6, 2, 3)
    found = [restarted(BUTTERFLIES, first, K, orthogonal=True, tuning=tuning).w for _ in range(2)]
    assert (found[0] == found[1]).all()


def test_large_problems_and_those_that_are_late_stay_as_they_are():
    assert starts_for(6, K) == 200
    assert starts_for(40, (5, 5, 5)) > 80
    assert starts_for(830, (12, 12)) < 10
    first = searched(BUTTERFLIES)
    late = replace(Tuning.for_size(6, 2, 3), deadline=0.0)
    assert restarted(BUTTERFLIES, first, K, orthogonal=True, tuning=late) is first
    s, w = np.eye(830), np.eye(830, 2)
    fit = Fit(w, 2.0)
    assert restarted(s, fit, (12, 12), orthogonal=True, tuning=Tuning()) is fit


def test_the_best_supports_of_the_example_were_enumerated_rightly():
    """Columns that share features capture less here: by refits of all triples of supports that share one or two."""
    supports = list(combinations(range(6), 2))
    best = 0.0
    for triple in combinations(supports, 3):
        mask = np.zeros((6, 3))
        for j, support in enumerate(triple):
            mask[list(support), j] = 1.0
        refitted = refit_orthogonal(BUTTERFLIES, np.linalg.qr(mask + 1e-3 * np.eye(6, 3))[0] * mask)
        orthonormal = np.allclose(refitted.w.T @ refitted.w, np.eye(3), atol=1e-8)
        best = max(best, refitted.variance if orthonormal else 0.0)
    assert best <= best_apart(BUTTERFLIES) * (1.0 + 1e-9)
