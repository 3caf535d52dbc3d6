"""Moves that change two columns at once."""

from contextlib import nullcontext

import numpy as np
import pytest

from fedspca import ExactSPCA
from fedspca.linalg.cardinality.joint import best_loadings
from fedspca.linalg.cardinality.moves import redivided
from fedspca.linalg.cardinality.polish import Fit, captured
from fedspca.linalg.cardinality.tuning import Tuning
from fedspca.linalg.compiled.library import numpy_only
from fedspca.linalg.rotations import random_rotations, rotated


def on(d, *supports):
    w = np.zeros((d, len(supports)))
    for j, support in enumerate(supports):
        w[list(support), j] = len(support) ** -0.5
    return w


@pytest.mark.parametrize("orthogonal", [True, False])
def test_two_groups_that_were_mixed_are_parted(orthogonal):
    group = np.repeat([0, 1, 2], [4, 4, 2])
    s = np.where(group[:, None] == group, 0.9, 0.1) + 0.1 * np.eye(10)
    mixed = on(10, (0, 1, 6, 7), (2, 3, 4, 5))  # any single trade loses, two gain
    fit = redivided(s, Fit(mixed, captured(s, mixed)), (4, 4), orthogonal, Tuning.for_size(10, 4, 2))
    assert sorted(tuple(support.tolist()) for support in fit.supports) == [(0, 1, 2, 3), (4, 5, 6, 7)]


def test_columns_with_the_same_features_have_nothing_to_trade():
    s = np.eye(4) + 0.5
    w = np.linalg.eigh(s)[1][:, -2:]
    fit = Fit(w, captured(s, w))
    assert redivided(s, fit, (4, 4), True, Tuning.for_size(4, 4, 2)) is fit


@pytest.mark.parametrize("engine", [nullcontext, numpy_only])
@pytest.mark.parametrize("k", [(3, 1, 1), (5, 3, 5, 1, 7, 7, 3)])
def test_an_empty_column_has_nothing_to_trade(k, engine):
    """With as many loadings as features, nothing may be left for one of them."""
    for seed in range(6):
        x = np.random.default_rng(seed).standard_normal((20, len(k)))
        with engine():
            fit = ExactSPCA(len(k), n_nonzero=list(k)).fit(x)
        assert np.abs(fit.components_ @ fit.components_.T - np.eye(len(k)))[fit.components_.any(axis=1)].max() < 1e-9


@pytest.mark.parametrize("engine", [nullcontext, numpy_only])
@pytest.mark.parametrize(("seed", "best"), [(173, 7.159564435), (323, 7.182388713), (392, 7.232959903)])
def test_searches_that_ended_lower_without_it(seed, best, engine):
    rng = np.random.default_rng(seed)
    mixed = rng.standard_normal((3, 12)) + 0.8
    s = np.corrcoef((rng.standard_normal((40, 3)) @ mixed + 0.3 * rng.standard_normal((40, 12))).T)
    tuning, basis = Tuning.for_size(12, 4, 2), np.linalg.eigh(s)[1][:, ::-1][:, :2]
    starts = rotated(basis, random_rotations(tuning.rotations, 2, np.random.default_rng(0)))
    with engine():
        assert best_loadings(s, (4, 4), orthogonal=True, tuning=tuning, starts=starts).variance > best - 1e-8
