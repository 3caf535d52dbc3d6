"""Who masks with whom: the bound on its failure, and that nobody but the site chooses."""

import math
from fractions import Fraction

import numpy as np
import pytest

from fedspca.masking import graph
from fedspca.masking.graph import BITS, MANY, choices_for, choices_of, chosen, tolerated, unsafe


def union_bound(n, c, k):
    """The formula of the page, in rational numbers."""
    h, ways = n - c, math.comb(n - 1, k)
    inside = [Fraction(math.comb(s - 1 + c, k), ways) for s in range(h + 1) if s]
    outside = [Fraction(math.comb(n - 1 - s, k), ways) for s in range(h + 1) if s]
    return sum(math.comb(h, s) * inside[s - 1] ** s * outside[s - 1] ** (h - s) for s in range(1, h // 2 + 1))


def connected(neighbours, honest):
    reached, front = {honest[0]}, [honest[0]]
    while front:
        front = [j for i in front for j in neighbours[i] if j in set(honest) - reached]
        reached |= set(front)
    return len(reached) == len(honest)


@pytest.mark.parametrize(("n", "c", "k"), [(12, 4, 2), (30, 10, 5), (60, 30, 12), (100, 50, 27), (200, 66, 9)])
def test_the_bound_is_that_of_its_formula(n, c, k):
    assert 2 ** unsafe(n, c, k) == pytest.approx(float(union_bound(n, c, k)), rel=1e-9)


def test_random_graphs_fall_apart_no_more_often_than_the_bound_says():
    rng, n, c, k, trials = np.random.default_rng(0), 16, 6, 2, 1500
    apart = 0
    for _ in range(trials):
        neighbours = [set() for _ in range(n)]
        for i in range(n):
            for j in rng.choice([j for j in range(n) if j != i], k, replace=False):
                neighbours[i].add(int(j))
                neighbours[int(j)].add(i)
        apart += not connected(neighbours, list(range(c, n)))
    bound = 2 ** unsafe(n, c, k)
    assert bound / 3 < apart / trials < bound  # a union bound, and not a loose one


@pytest.mark.parametrize("n", [MANY, 100, 333, 1000, 10_000])
def test_the_fewest_choices_that_are_safe_with_half_of_the_sites_against_them(n):
    k = choices_of(n)
    assert unsafe(n, n // 2, k) <= -BITS < unsafe(n, n // 2, k - 1)
    assert 2 * k < n - 1 or n == MANY
    assert tolerated(n) == n // 2


def test_fewer_allies_do_no_more_harm():
    for n in (MANY, 100):
        assert all(unsafe(n, c, choices_of(n)) <= -BITS for c in range(n // 2 + 1))
    assert unsafe(100, 80, choices_of(100)) > -BITS  # and many more do


def test_a_thousand_runs_leave_forty_bits():
    from fedspca.door.endpoint import MAX_RUNS

    assert BITS - math.log2(MAX_RUNS) >= 40


def test_few_sites_and_sums_that_may_be_over_fewer_have_masks_between_all_pairs():
    assert choices_for(MANY - 1, whole=True) == 0
    assert choices_for(MANY, whole=True) == choices_of(MANY)
    assert choices_for(1000, whole=False) == 0


def test_where_no_choice_is_safe_a_site_masks_with_all():
    assert choices_of(3) == 2
    assert unsafe(3, 2, 2) == -math.inf  # one honest site: there is nothing to connect


def test_a_site_chooses_others_at_random():
    names = [f"s{k}" for k in range(20)]
    drawn = [chosen(names, "s3", 5) for _ in range(4000)]
    assert all(len(set(one)) == 5 and "s3" not in one and one == sorted(one) for one in drawn)
    counts = np.array([sum(name in one for one in drawn) for name in names if name != "s3"])
    expected = 4000 * 5 / 19
    assert np.abs(counts - expected).max() < 6 * math.sqrt(expected * (1 - 5 / 19))


def test_one_term_is_the_expected_number_of_isolated_sets():
    n, c, k = 20, 8, 3
    alone = 12 * Fraction(math.comb(8, 3), math.comb(19, 3)) * Fraction(math.comb(18, 3), math.comb(19, 3)) ** 11
    assert math.exp(graph._isolated(n, c, k, 1)) == pytest.approx(float(alone), rel=1e-9)
