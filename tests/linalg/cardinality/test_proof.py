"""No bound is below what some loadings reach: small problems of every kind, each solved by trying its supports."""

import os
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from all_supports import best_in_turn, best_single, supports_of
from fedspca.linalg.cardinality.beside import Beside
from fedspca.linalg.cardinality.column import best_columns
from fedspca.linalg.cardinality.joint import best_loadings
from fedspca.linalg.cardinality.polish import Fit, captured, orthonormal_basis
from fedspca.linalg.cardinality.proof import bound_loadings
from fedspca.linalg.cardinality.tuning import Tuning

EXAMPLES = int(os.environ.get("FEDSPCA_BOUND_EXAMPLES", "150"))  # make bounds tries 2,100
KINDS = ("plain", "correlation", "low rank", "copies", "opposites", "whole numbers", "ties")


@st.composite
def matrices(draw, least=2, most=10):
    """Draw a covariance: plain, or with what makes proofs go wrong (copies, ties, a low rank)."""
    d = draw(st.integers(least, most))
    kind = draw(st.sampled_from(KINDS))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    rows = rng.standard_normal((int(rng.integers(1, 3)) if kind == "low rank" else 2 * d, d))
    if kind in ("copies", "opposites"):
        rows[:, 0] = rows[:, -1] * (1.0 if kind == "copies" else -1.0)
    if kind == "whole numbers":
        rows = np.round(rows)
    s = rows.T @ rows
    if kind in ("correlation", "copies"):
        sizes = np.sqrt(s.diagonal())
        s = s / sizes / sizes[:, None]
    if kind == "ties":
        s = np.eye(d) + draw(st.floats(0.0, 1.0)) * np.ones((d, d))
    return s if s.any() else np.eye(d)


@st.composite
def problems(draw):
    """Draw a matrix, two or three components and their numbers of non-zeros, equal or not."""
    r = draw(st.sampled_from((2, 2, 3)))
    s = draw(matrices(least=r + 1))
    most = min(len(s), 5)
    k = tuple(draw(st.lists(st.integers(1, most), min_size=r, max_size=r)))
    return s, (k if draw(st.booleans()) else (k[0],) * r)


def best_known(s, k, *, orthogonal):
    """Try every support where these are few; search otherwise."""
    tuples = np.prod([len(supports_of(len(s), kj)) for kj in k[:-1]])
    if tuples <= 40:
        return best_in_turn(s, k, orthogonal=orthogonal)
    return best_loadings(s, k, orthogonal=orthogonal, tuning=Tuning().lighter()).variance


def in_turn(s, k, *, orthogonal):
    """Return columns found one after another: some feasible point."""
    w = np.zeros((len(s), 0))
    for kj in k:
        found = best_columns(Beside(s, orthonormal_basis(w), orthogonal), kj, Tuning(climbs=1))
        column = np.zeros((len(s), 1))
        if found:
            column[found[0].support, 0] = found[0].weights
        w = np.hstack([w, column])
    return Fit(w, captured(s, w))


@settings(max_examples=EXAMPLES // 3)
@given(matrices(), st.data())
def test_one_component_is_the_best_of_all_supports_and_no_bound_is_below_it(s, data):
    k = data.draw(st.integers(1, len(s)))
    best = best_single(s, k)
    fit = best_loadings(s, (k,), orthogonal=True, tuning=Tuning())
    assert fit.variance == pytest.approx(best, rel=1e-9, abs=1e-9)
    assert np.count_nonzero(fit.w) <= k
    bounded = bound_loadings(s, fit, (k,), orthogonal=True, seconds=0.01)
    assert bounded.bound >= best * (1 - 1e-9)


@pytest.mark.parametrize("orthogonal", [True, False])
@settings(max_examples=EXAMPLES // 3)
@given(problem=problems())
def test_no_bound_for_several_components_is_below_what_some_reach(orthogonal, problem):
    s, k = problem
    reached = best_known(s, k, orthogonal=orthogonal)
    fit = in_turn(s, k, orthogonal=orthogonal)
    for seconds in (0.0, 1.0):
        assert bound_loadings(s, fit, k, orthogonal=orthogonal, seconds=seconds).bound >= reached * (1 - 1e-9)


@pytest.mark.parametrize("orthogonal", [True, False])
@pytest.mark.parametrize("r", [2, 3])
def test_components_that_lie_apart_are_proved_to_be_the_best(r, orthogonal):
    rng = np.random.default_rng(r)
    x = np.repeat(rng.standard_normal((200, 4)), 5, axis=1) + 0.5 * rng.standard_normal((200, 20))
    s = np.corrcoef(x.T)
    fit = best_loadings(s, (4,) * r, orthogonal=orthogonal, tuning=Tuning())
    bounded = bound_loadings(s, fit, (4,) * r, orthogonal=orthogonal, seconds=30.0)
    assert bounded.proved
    assert bounded.bound >= fit.variance


def test_loadings_that_share_a_feature_may_be_the_best():
    s = np.eye(8)
    s[:3, :3] -= 0.5 * (1.0 - np.eye(3))  # three features that add up to zero: two columns with two each span them
    best, apart = np.zeros((8, 2)), np.zeros((8, 2))
    best[[0, 1], 0] = best[[1, 2], 1] = apart[[0, 1], 0] = apart[[3, 4], 1] = (1.0, -1.0)
    assert captured(s, best) == pytest.approx(3.0)
    bounded = bound_loadings(s, Fit(apart, captured(s, apart)), (2, 2), orthogonal=False, seconds=30.0)
    assert 3.0 <= bounded.bound < 3.0 + 1e-6


def test_a_proof_ends_in_time():
    rng = np.random.default_rng(8)
    x = rng.standard_normal((100, 60))
    s = x.T @ x
    fit = best_loadings(s, (12,), orthogonal=True, tuning=Tuning())
    began = time.monotonic()
    bounded = bound_loadings(s, fit, (12,), orthogonal=True, seconds=0.2)
    assert time.monotonic() - began < 5.0
    assert bounded.bound > fit.variance
