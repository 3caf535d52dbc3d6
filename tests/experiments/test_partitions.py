from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedspca.experiments.partitions import (
    by_feature,
    by_label,
    by_principal_score,
    by_quantity,
    dirichlet,
    shift_features,
)

LABELS = np.repeat(["a", "b", "c"], [50, 30, 20])
VALUES = np.random.default_rng(0).standard_normal(100)
ROWS = np.random.default_rng(1).standard_normal((100, 4)) * [10, 1, 1, 1] + 3


@pytest.mark.parametrize(
    "deal",
    [
        lambda k, seed: by_label(LABELS, k, seed=seed),
        lambda k, seed: dirichlet(LABELS, k, alpha=1.0, seed=seed),
        lambda k, seed: by_quantity(100, k, seed=seed),
        lambda k, seed: by_feature(VALUES, k, seed=seed),
        lambda k, seed: by_principal_score(ROWS, k, seed=seed),
    ],
)
@given(k=st.integers(1, 8), seed=st.integers(0, 1000))
def test_every_row_has_one_owner_and_every_site_two_rows_or_more(deal, k, seed):
    owners = deal(k, seed)
    assert owners.shape == (100,)
    names, sizes = np.unique(owners, return_counts=True)
    assert len(names) == k
    assert sizes.min() >= 2
    np.testing.assert_array_equal(owners, deal(k, seed))


def test_by_label_gives_a_site_one_label_or_neighbours():
    owners = by_label(LABELS, 10)
    kinds = [len(set(LABELS[owners == site])) for site in np.unique(owners)]
    assert kinds == [1] * 10


def test_dirichlet_runs_from_one_label_a_site_to_the_same_mixture():
    def unlikeness(alpha):
        owners = dirichlet(np.tile(["a", "b"], 500), 5, alpha=alpha, seed=1)
        shares = [np.mean(np.arange(1000)[owners == site] % 2) for site in np.unique(owners)]
        return np.std(shares)

    assert unlikeness(0.1) > 0.2 > 0.05 > unlikeness(1000.0)


def test_by_quantity_is_more_uneven_for_small_alpha():
    def largest(alpha):
        return np.unique(by_quantity(1000, 5, alpha=alpha), return_counts=True)[1].max()

    assert largest(0.1) > 400 > 250 > largest(1000.0)


def test_by_feature_gives_consecutive_ranges_and_strength_zero_chance():
    owners = by_feature(VALUES, 4)
    ranges = sorted((VALUES[owners == site].min(), VALUES[owners == site].max()) for site in np.unique(owners))
    assert all(before[1] < after[0] for before, after in pairwise(ranges))
    chance = by_feature(VALUES, 4, strength=0.0)
    means = [VALUES[chance == site].mean() for site in np.unique(chance)]
    assert np.ptp(means) < 1.0 < np.ptp([VALUES[owners == site].mean() for site in np.unique(owners)])


def test_by_principal_score_sorts_by_the_first_component_of_the_standardised_table():
    table = np.column_stack([VALUES, VALUES + 0.1 * ROWS[:, 1], ROWS[:, 2]])
    owners = by_principal_score(table, 2)
    assert abs(np.corrcoef(owners == "site 1", VALUES)[0, 1]) > 0.7


def test_shift_features_moves_sites_and_nothing_within_them():
    owners = by_quantity(100, 4)
    shifted = shift_features(ROWS, owners, size=2.0)
    for site in np.unique(owners):
        moved = (shifted - ROWS)[owners == site]
        np.testing.assert_allclose(moved, np.broadcast_to(moved[0], moved.shape))
        assert np.abs(moved[0]).max() > 0
    np.testing.assert_array_equal(shift_features(ROWS, owners, size=0.0), ROWS)


@pytest.mark.parametrize(
    ("deal", "words"),
    [
        (lambda: by_label(LABELS, 101), "100 rows cannot be dealt out to 101 sites"),
        (lambda: dirichlet(LABELS, 5, alpha=0), "'alpha' must be a positive number"),
        (lambda: dirichlet(LABELS, 45, alpha=1e-3), "try a larger alpha"),
        (lambda: by_quantity(9, 5), "too few to give each of 5 sites two"),
        (lambda: by_feature(VALUES, 4, strength=2), "'strength' must lie between 0 and 1"),
    ],
)
def test_errors_say_what_was_wrong(deal, words):
    with pytest.raises(ValueError, match=words):
        deal()
