"""Copies of features, of which the lowest is selected."""

import numpy as np
import pytest

from fedspca.linalg.cardinality.beside import Beside
from fedspca.linalg.cardinality.column import copied


def by_pairs(s, support):
    """Return the same by comparing every selected feature with every lower one, entry by entry."""
    found, most = [], 1e-8 * s.diagonal().max()
    for feature in support[::-1]:
        rest = support[support != feature]
        others = [
            j
            for j in range(feature)
            if j not in support
            and abs(s[j, j] - s[feature, feature]) <= most
            and (np.abs(np.abs(s[rest, j]) - np.abs(s[rest, feature])) <= most).all()
        ]
        if others:
            found.append((int(feature), others))
    return found


@pytest.mark.parametrize("k", [1, 2, 6, 15])
def test_copies_are_those_that_pairs_show(k):
    rng = np.random.default_rng(k)
    rows = rng.standard_normal((60, 10))[:, rng.integers(0, 10, 30)] * rng.choice([-1.0, 1.0], 30)
    s = rows.T @ rows
    for _ in range(20):
        support = np.sort(rng.choice(30, k, replace=False))
        found = copied(Beside(s, np.zeros((30, 0)), orthogonal=True), support)
        assert [(feature, others.tolist()) for feature, others in found] == by_pairs(s, support)
