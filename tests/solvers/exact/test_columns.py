"""Column updates on a matrix small enough that everything can be tried."""

from itertools import combinations

import numpy as np
import pytest

from fedspca.linalg.quadratic import Quadratic
from fedspca.solvers.exact.columns import (
    Fit,
    Span,
    _promising_swaps,
    explained,
    leading_on_support,
    orthogonalise,
    refine,
    truncate,
)
from fedspca.solvers.exact.tuning import CardinalityTuning


def quadratic(seed, d=12, m=20):
    factor = np.random.default_rng(seed).standard_normal((d, m)) * np.linspace(2.0, 0.5, d)[:, None]
    return Quadratic(factor), factor @ factor.T


def best_gain(s, support, other, orthogonal):
    """The most that a unit vector on a support adds to the variance of a unit vector, over a basis of the support."""
    eye = np.eye(len(s))[:, support]
    if orthogonal:
        inside = eye @ np.linalg.svd((other @ eye)[None])[2][1:].T if (other @ eye).any() else eye
        return np.linalg.eigvalsh(inside.T @ s @ inside)[-1]
    p = np.eye(len(s)) - np.outer(other, other)
    b = eye.T @ p @ eye
    values, vectors = np.linalg.eigh(b)
    white = eye @ (vectors[:, values > 1e-9] / np.sqrt(values[values > 1e-9]))
    return np.linalg.eigvalsh(white.T @ p @ s @ p @ white)[-1]


@pytest.mark.parametrize("orthogonal", [True, False])
@pytest.mark.parametrize("seed", range(4))
def test_a_refit_is_the_best_on_its_support(seed, orthogonal):
    q, s = quadratic(seed)
    other = np.zeros(12)
    other[[0, 1, 5, 6]] = np.random.default_rng(seed).standard_normal(4)
    other /= np.linalg.norm(other)
    for support in (np.array([0, 2, 5, 9]), np.array([7, 8, 9])):
        x, gain = leading_on_support(q, support, Span.of(q, other[:, None]), CardinalityTuning(), orthogonal=orthogonal)
        assert np.isclose(gain, best_gain(s, support, other, orthogonal))
        assert set(np.flatnonzero(x)) <= set(support)
        assert not orthogonal or abs(x @ other) < 1e-12
        both = np.column_stack([other, x])
        assert np.isclose(explained(q, both), other @ s @ other + gain)


@pytest.mark.parametrize("seed", range(6))
def test_swaps_that_are_promised_gain(seed):
    q, s = quadratic(seed)
    support = np.sort(np.random.default_rng(seed).permutation(12)[:4])
    values, vectors = np.linalg.eigh(s[np.ix_(support, support)])
    x, gain = vectors[:, -1], values[-1]
    swaps = _promising_swaps(q, support, x, s[:, support] @ x, gain, CardinalityTuning.weak)
    found = [np.linalg.eigvalsh(s[np.ix_(swap, swap)])[-1] for swap in swaps]
    assert all(value > gain for value in found)
    assert all(len(set(swap) - set(support)) == 1 and len(swap) == 4 for swap in swaps)
    exchanged = [np.union1d(np.setdiff1d(support, [i]), [j]) for i in support for j in set(range(12)) - set(support)]
    most = max(np.linalg.eigvalsh(s[np.ix_(one, one)])[-1] for one in exchanged)
    assert swaps or most < 1.1 * gain  # none is promised only where none gains much


@pytest.mark.parametrize("orthogonal", [True, False])
@pytest.mark.parametrize("seed", range(5))
def test_refining_ascends_and_is_near_the_best_of_all_supports(seed, orthogonal):
    q, s = quadratic(seed, d=8)
    w = truncate(np.linalg.eigh(s)[1][:, :-3:-1], (3, 3))
    start = orthogonalise(q, w, CardinalityTuning()) if orthogonal else w
    before = Fit(start, explained(q, start))
    after = refine(q, before, (3, 3), orthogonal, CardinalityTuning())
    assert after.variance >= before.variance * (1 - 1e-12)
    assert np.isclose(after.variance, explained(q, after.w))
    assert (np.count_nonzero(after.w, axis=0) <= 3).all()
    assert not orthogonal or np.abs(after.w.T @ after.w - np.eye(2)).max() < 1e-12
    best = 0.0
    for first, second in combinations(combinations(range(8), 3), 2):
        if not set(first) & set(second):  # a lower bound on the best, in closed form
            best = max(best, sum(np.linalg.eigvalsh(s[np.ix_(t, t)])[-1] for t in (first, second)))
    assert after.variance >= 0.9 * best


@pytest.mark.parametrize("seed", range(12))
def test_swaps_promise_what_they_can_keep_and_the_best_comes_first(seed):
    """Without entry i and with entry j let in, the best combination of both is an eigenproblem of order two."""
    q, s = quadratic(seed, d=10)
    support = np.sort(np.random.default_rng(100 + seed).permutation(10)[:5])
    values, vectors = np.linalg.eigh(s[np.ix_(support, support)])
    x, gain = vectors[:, -1], values[-1]
    score = s[:, support] @ x

    def kept(i, j):
        rest = np.zeros(10)
        rest[support] = x
        rest[support[i]] = 0.0
        pair = np.column_stack([rest / np.linalg.norm(rest), np.eye(10)[:, j]])
        return np.linalg.eigvalsh(pair.T @ s @ pair)[-1]

    weak = np.argsort(np.abs(x))[:4]
    outside = np.setdiff1d(np.arange(10), support)
    strong = outside[np.argsort(-np.abs(score[outside]))[:4]]
    promises = {(i, j): kept(i, j) for i in weak for j in strong}
    swaps = _promising_swaps(q, support, x, score, gain, CardinalityTuning.weak)
    (i, j), most = max(promises.items(), key=lambda item: item[1])
    assert bool(swaps) == (most > gain * (1 + 1e-12))
    if swaps:
        assert set(swaps[0]) == set(support) - {support[i]} | {j}
        assert len({tuple(swap) for swap in swaps}) == len(swaps)


@pytest.mark.parametrize("orthogonal", [True, False])
@pytest.mark.parametrize("seed", range(8))
def test_once_refined_no_column_gains_beside_the_others_as_they_are_now(seed, orthogonal):
    """A column is looked at again when another has changed: none is left as it was best beside an older one."""
    q, _ = quadratic(seed, d=14, m=18)
    w = truncate(np.linalg.qr(np.random.default_rng(seed).standard_normal((14, 3)))[0], (4, 4, 4))
    start = orthogonalise(q, w, CardinalityTuning()) if orthogonal else w
    after = refine(q, Fit(start, explained(q, start)), (4, 4, 4), orthogonal, CardinalityTuning(sweeps=50))
    for j in range(3):
        others = after.w[:, [i for i in range(3) if i != j]]
        span = Span.of(q, others)
        _, gain = leading_on_support(q, after.w[:, j].nonzero()[0], span, CardinalityTuning(), orthogonal=orthogonal)
        assert explained(q, others) + gain <= after.variance * (1 + 1e-3)
