"""Fits to subsamples, near the fit to all rows, and their components in its order and with its signs."""

from collections.abc import Sequence
from itertools import combinations

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from fedspca.linalg.cardinality.joint import loadings_near
from fedspca.linalg.cardinality.tuning import Tuning
from fedspca.linalg.rotations import rotated
from fedspca.solvers.exact.whole import leading

Array = NDArray[np.float64]
Chosen = NDArray[np.bool_]


def half_samples(folds: int, most: int, rng: np.random.Generator) -> list[tuple[Chosen, Chosen]]:
    """Return complementary pairs of half samples: all of them, or at most ``most`` drawn at random."""
    first = [(0, *rest) for rest in combinations(range(1, folds), folds // 2 - 1)]
    if len(first) > most:
        first = [first[at] for at in sorted(rng.choice(len(first), most, replace=False))]
    halves = [np.isin(np.arange(folds), chosen) for chosen in first]
    return [(half, ~half) for half in halves]


def refit(s: Array, k: Sequence[int], starts: Sequence[Array], *, orthogonal: bool) -> Array:
    """Sparse loadings of S with k_j non-zeros each, from the starts, from PCA and from its varimax rotation."""
    r = len(k)
    counts = tuple(min(int(kj), len(s)) for kj in k)
    tuning = Tuning.for_size(len(s), max(counts), r).lighter()
    turned = rotated(leading(s, r)[1], np.zeros((0, r, r)))
    return loadings_near(s, counts, [*starts, *turned], orthogonal=orthogonal, tuning=tuning).w


def matched(w: Array, reference: Array) -> Array:
    """Return components in the order and with the signs of a reference: the matching maximises the sum of cosines."""
    cosines = reference.T @ w
    at, found = linear_sum_assignment(-np.abs(cosines))
    signs = np.where(cosines[at, found] < 0, -1.0, 1.0)
    ordered = np.zeros_like(reference)
    ordered[:, at] = w[:, found] * signs
    return ordered
