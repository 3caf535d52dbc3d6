"""Every set of features above a level is found, and no other."""

import itertools

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fedspca.linalg.cardinality.chains import leading_sums, sets_above


@given(st.integers(2, 9), st.integers(1, 3), st.integers(1, 12), st.floats(0.1, 0.95), st.integers(0, 10**6))
def test_the_sets_above_a_level_are_those_of_brute_force(d, r, n_rows, share, seed):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n_rows, d)) * rng.uniform(0.2, 2.0, d)
    s, m = x.T @ x, int(rng.integers(1, d + 1))
    every = np.array(list(itertools.combinations(range(d), m)))
    values = leading_sums(s, every, r)
    level = float(np.quantile(values, share)) * (1.0 - 1e-6)
    found = sets_above(s, r, m, level)
    assert {tuple(row) for row in found.members} == {tuple(row) for row in every[values >= level]}
    assert (np.diff(found.values) <= 0.0).all()
    assert found.bound >= values.max()


def test_a_list_that_would_take_too_long_is_not_begun():
    s = np.eye(60)
    assert sets_above(s, 2, 9, 1.0, deadline=0.0) is None
    assert sets_above(np.eye(500), 1, 40, 0.5) is None
