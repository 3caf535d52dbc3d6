"""Sparse components by brute force: every support, or every tuple of supports, of a small matrix."""

import itertools

import numpy as np

from fedspca.linalg.cardinality.beside import Beside
from fedspca.linalg.cardinality.polish import orthonormal_basis


def supports_of(d, k):
    return np.array(list(itertools.combinations(range(d), k)))


def best_single(s, k):
    """Return the largest eigenvalue of all blocks of k features."""
    t = supports_of(len(s), k)
    return float(np.linalg.eigvalsh(s[t[:, :, None], t[:, None, :]])[:, -1].max())


def best_in_turn(s, k, *, orthogonal):
    """Return the best of all tuples of supports, each column the best beside those before it: a feasible value."""
    best, t = 0.0, [supports_of(len(s), kj) for kj in k]

    def longer(w, value):
        nonlocal best
        best = max(best, value)
        at = w.shape[1]
        gains, weights = Beside(s, orthonormal_basis(w), orthogonal).refit(t[at])
        if at + 1 == len(k):
            best = max(best, value + float(gains.max()))
            return
        for support, gain, x in zip(t[at], gains, weights, strict=True):
            if np.isfinite(gain):
                column = np.zeros((len(s), 1))
                column[support, 0] = x
                longer(np.hstack([w, column]), value + float(gain))

    longer(np.zeros((len(s), 0)), 0.0)
    return best
