"""The fewest non-zeros: nothing can be left out, no number alike in each column does with fewer, more needs more."""

from itertools import product

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_digits, load_wine

from fedspca.linalg.cardinality.fewest import fewest_nonzeros, no_more_than_alike
from fedspca.linalg.cardinality.joint import best_loadings
from fedspca.linalg.cardinality.partition import partitioned
from fedspca.linalg.cardinality.polish import Fit, groups, nearest_orthogonal
from fedspca.linalg.cardinality.trades import Margins, promising_trades
from fedspca.linalg.cardinality.tuning import Tuning
from fedspca.linalg.rotations import varimax
from fedspca.linalg.stiefel import orthonormality_error


def correlations(load):
    x = load().data
    x = x[:, x.std(axis=0) > 0.0]
    return np.corrcoef(x.T)


def copies(seed):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((60, 10)) @ rng.standard_normal((10, 30)) + rng.standard_normal((60, 30))
    x = np.hstack([x, x[:, :20]])
    return x.T @ x


def low_rank(seed, d=60, q=6):
    factor = np.random.default_rng(seed).standard_normal((q, d))
    return factor.T @ factor


def clusters(seed, d=80, m=8):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((200, m))[:, rng.integers(0, m, d)] + 0.8 * rng.standard_normal((200, d))
    return x.T @ x


# the tables beyond 320 weights are those with six components and more, and the digits
TABLES = [
    ("wine", correlations(load_wine), 3),
    ("WDBC", correlations(load_breast_cancer), 2),
    ("digits", correlations(load_digits), 6),
    ("copies", copies(0), 7),
    ("low rank", low_rank(0), 6),
    ("clusters", clusters(0), 8),
]


def leading(s, r):
    values, vectors = np.linalg.eigh(s)
    return float(values[-r:].sum()), vectors[:, -r:]


def fewest(s, r, share):
    dense, basis = leading(s, r)
    turned = basis @ varimax(basis)
    return fewest_nonzeros(s, share * dense, tuning=Tuning(), starts=[turned, partitioned(s, turned)])


def without_one(s, w):
    """All loadings with one entry less, refitted to full precision."""
    for i, j in np.argwhere(w != 0.0):
        z = w.copy()
        z[i, j] = 0.0
        fit = nearest_orthogonal(s, z) if z[:, j].any() else None
        if fit is not None:
            yield fit


@pytest.mark.parametrize(("name", "s", "r"), TABLES, ids=[name for name, *_ in TABLES])
@pytest.mark.parametrize("share", [0.7, 0.9])
def test_backward_elimination_finds_nothing(name, s, r, share):
    fit = fewest(s, r, share)
    target = share * leading(s, r)[0]
    assert np.vdot(fit.w, s @ fit.w) >= target * (1.0 - 1e-12)
    assert orthonormality_error(fit.w) < 1e-9
    assert all(fewer.variance < target for fewer in without_one(s, fit.w))


@pytest.mark.parametrize(("name", "s", "r"), TABLES, ids=[name for name, *_ in TABLES])
def test_as_many_in_each_column_do_not_do_with_fewer(name, s, r):
    share = 0.9
    n = np.count_nonzero(fewest(s, r, share).w)
    k = (n - 1) // r
    alike = best_loadings(s, (k,) * r, orthogonal=True, tuning=Tuning.for_size(len(s), k, r))
    assert alike.variance < share * leading(s, r)[0]


@pytest.mark.parametrize(("name", "s", "r"), TABLES, ids=[name for name, *_ in TABLES])
def test_a_smaller_share_needs_no_more(name, s, r):
    counts = [np.count_nonzero(fewest(s, r, share).w) for share in (0.5, 0.7, 0.8, 0.9, 0.95)]
    assert counts == sorted(counts)


def test_small_tables_are_solved_as_by_trying_all_supports():
    rng = np.random.default_rng(3)
    named = [np.array(each, dtype=float) for each in product((0, 1), repeat=4) if any(each)]
    pairs = sorted((np.stack(both, axis=1) for both in product(named, repeat=2)), key=np.sum)
    for _ in range(8):
        x = rng.standard_normal((12, 4)) * np.exp(0.4 * rng.standard_normal(4))
        s = x.T @ x
        dense, basis = leading(s, 2)
        target = 0.8 * dense
        best = next(pair.sum() for pair in pairs if _captures(s, pair, target))
        fit = fewest_nonzeros(s, target, tuning=Tuning(), starts=[basis, basis @ varimax(basis)])
        fit = no_more_than_alike(s, fit, target, hope=0.0, tuning=Tuning(), starts=[basis])
        assert np.count_nonzero(fit.w) <= best


def _captures(s, named, target):
    """Whether orthonormal columns on these supports capture the target, from several starts."""
    rng = np.random.default_rng(0)
    found = (nearest_orthogonal(s, named * rng.standard_normal(named.shape)) for _ in range(4))
    return any(fit is not None and fit.variance >= target for fit in found)


def test_a_search_of_columns_alike_finds_what_the_first_search_missed():
    s = correlations(load_digits)
    dense, basis = leading(s, 3)
    first = fewest(s, 3, 0.75)
    fit = no_more_than_alike(s, first, 0.75 * dense, hope=0.0, tuning=Tuning(), starts=[basis])
    assert np.count_nonzero(fit.w) < np.count_nonzero(first.w)
    assert fit.variance >= 0.75 * dense


def test_without_hope_no_columns_alike_are_searched():
    s = correlations(load_wine)
    first = fewest(s, 3, 0.9)
    same = no_more_than_alike(s, first, 0.9 * leading(s, 3)[0], hope=1.0, tuning=Tuning(), starts=[])
    assert np.array_equal(same.w != 0.0, first.w != 0.0)


def test_no_start_reaches_more_than_there_is():
    s = correlations(load_wine)
    dense, basis = leading(s, 2)
    assert fewest_nonzeros(s, 1.01 * dense, tuning=Tuning(), starts=[basis]) is None


def test_many_components_of_noise_are_single_features():
    # beyond the four clusters, a component is worth little more than a feature of its own
    rng = np.random.default_rng(1)
    x = np.hstack([np.repeat(3.0 * rng.standard_normal((400, 4)), 5, axis=1), np.zeros((400, 60))])
    s = np.cov((x + rng.standard_normal(x.shape)).T)
    fit = fewest(s, 24, 0.9)
    lengths = np.sort(np.count_nonzero(fit.w, axis=0))
    assert lengths[:18].max() == 1
    assert lengths.sum() <= 60


def test_a_partition_uses_each_feature_once_and_leaves_no_component_out():
    s = clusters(1)
    w = partitioned(s, leading(s, 12)[1])
    assert (np.count_nonzero(w, axis=1) == 1).all()
    assert w.any(axis=0).all()
    assert orthonormality_error(w) < 1e-12


def test_groups_are_columns_that_share_features_directly_or_through_others():
    w = np.zeros((8, 5))
    w[[0, 1], 0] = w[[1, 2], 3] = w[[2, 3], 1] = w[[4, 5], 2] = w[[6, 7], 4] = 1.0
    assert [group.tolist() for group in groups(w)] == [[0, 1, 3], [2], [4]]


def test_the_margins_of_a_column_alone_are_those_of_two_features():
    s = np.array([[3.0, 1.0, 0.2], [1.0, 2.0, 0.1], [0.2, 0.1, 1.0]])
    margins = Margins.at(s, np.array([[1.0], [0.0], [0.0]]))
    assert margins.gain[1, 0] == pytest.approx(np.linalg.eigvalsh(s[:2, :2])[-1] - 3.0)
    assert margins.cost[0, 0] == np.inf  # the last entry of a column
    both = np.linalg.eigh(s[:2, :2])[1][:, -1]
    margins = Margins.at(s, np.append(both, 0.0)[:, None])
    kept = margins.cost[0, 0]
    assert np.linalg.eigvalsh(s[:2, :2])[-1] - kept == pytest.approx(2.0)


def test_a_lone_feature_is_traded_for_one_that_varies_more():
    s = np.diag([5.0, 1.0, 3.0])
    w = np.eye(3)[:, :2]
    enter, leave = promising_trades(s, w, Margins.at(s, w))
    assert (enter.tolist(), leave.tolist()) == ([5], [3])  # feature 2 for feature 1, in the second column


def test_a_fit_past_its_deadline_returns_what_it_has():
    s = correlations(load_digits)
    dense, basis = leading(s, 3)
    fit = fewest_nonzeros(s, 0.9 * dense, tuning=Tuning(deadline=0.0), starts=[basis])
    assert isinstance(fit, Fit)
    assert fit.variance >= 0.9 * dense
