"""Degenerate S through the compiled searches: each ends, and finds finite loadings of length one within its limits.

``make sanitize`` runs these with every index and allocation watched.
"""

from contextlib import suppress

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from fedspca.linalg.cardinality.fewest import fewest_nonzeros
from fedspca.linalg.cardinality.joint import best_loadings
from fedspca.linalg.cardinality.partition import partitioned
from fedspca.linalg.cardinality.tuning import Tuning
from fedspca.linalg.compiled.blas import with_blas
from fedspca.linalg.quadratic import DenseQuadratic
from fedspca.linalg.rotations import rotated
from fedspca.solvers.exact.penalised_search import search
from fedspca.solvers.exact.tuning import PenalisedTuning

pytestmark = [
    pytest.mark.skipif(with_blas() is None, reason="nothing was compiled here"),
    pytest.mark.filterwarnings("ignore::RuntimeWarning"),  # numpy's: of overflow and of NaN
]

KINDS = ["plain", "zero", "rank one", "low rank", "copies", "few levels", "diagonal", "blocks", "graded"]


def covariance(kind, d, seed):
    rng = np.random.default_rng(seed)
    rows = rng.standard_normal((2 * d, d))
    if kind == "zero":
        rows[:] = 0.0
    elif kind in ("rank one", "low rank"):
        rows = rows[: 1 if kind == "rank one" else 1 + d // 3]
    elif kind == "copies":
        rows[:, 1:] = rows[:, rng.integers(0, d, d - 1)] * rng.choice([-1.0, 1.0], d - 1)
    elif kind == "few levels":
        rows = rng.integers(-1, 2, (d, d)).astype(float)
    elif kind == "diagonal":
        rows = np.diag(rng.integers(0, 3, d).astype(float))
    elif kind == "blocks":
        rows[:d, : d // 2], rows[d:, d // 2 :] = 0.0, 0.0
    elif kind == "graded":
        rows *= 10.0 ** -np.arange(d)
    s = rows.T @ rows
    return s / (float(np.abs(s).max()) or 1.0)


def basis_of(s, r):
    return np.linalg.eigh(s)[1][:, ::-1][:, :r].copy()


@st.composite
def problems(draw):
    """S of scale one, the number of columns, and the power of ten by which S is multiplied."""
    d = draw(st.integers(1, 24))
    s = covariance(draw(st.sampled_from(KINDS)), d, draw(st.integers(0, 99)))
    return s, draw(st.integers(1, min(d, 6))), draw(st.sampled_from([0, 0, -150, -80, 80, 150]))


def is_sound(w, s, r):
    """Whether columns are finite, and of length one; columns beyond the rank of S may be empty."""
    lengths = np.linalg.norm(w, axis=0)
    there = lengths > 0.0
    full = there.sum() >= min(r, np.linalg.matrix_rank(s, tol=1e-9))
    return w.shape == (len(s), r) and np.isfinite(w).all() and np.allclose(lengths[there], 1.0) and full


def starts_of(s, r):
    return rotated(basis_of(s, r), np.zeros((0, r, r)))


@given(problem=problems(), k=st.integers(1, 24), mixed=st.booleans(), orthogonal=st.booleans())
def test_columns_with_few_non_zeros(problem, k, mixed, orthogonal):
    s, r, power = problem
    d = len(s)
    assume(s.any() or r == 1)  # features that do not vary are left out before a search
    each = tuple(min(d, max(1, k - j) if mixed else k) for j in range(r))
    tuning, scaled = Tuning.for_size(d, max(each), r), s * 10.0**power
    fit = best_loadings(scaled, each, orthogonal=orthogonal, tuning=tuning, starts=starts_of(s, r))
    assert is_sound(fit.w, s, r)
    assert (np.count_nonzero(fit.w, axis=0) <= each).all()
    assert np.isfinite(fit.variance)
    if orthogonal:
        assert np.allclose(fit.w.T @ fit.w, np.diag(fit.w.any(axis=0)), atol=1e-8)


@given(problem=problems(), share=st.sampled_from([0.0, 0.3, 0.9, 0.999, 1.0]))
def test_the_fewest_non_zeros(problem, share):
    s, r, power = problem
    scaled, basis = s * 10.0**power, basis_of(s, r)
    target = share * float(np.einsum("ij,ij->", basis, scaled @ basis))
    fit = fewest_nonzeros(scaled, target, tuning=Tuning.for_size(len(s), 5, r), starts=starts_of(s, r))
    if fit is not None:
        assert is_sound(fit.w, s, r)
        assert fit.variance >= target * (1.0 - 1e-9)
    parts = partitioned(scaled, basis)
    assert np.isfinite(parts).all()
    assert (np.count_nonzero(parts, axis=1) <= 1).all()


@given(problem=problems(), share=st.sampled_from([1e-6, 0.05, 0.5, 2.0, 30.0]))
def test_the_penalised_search(problem, share):
    s, r, power = problem
    scaled, lam = s * 10.0**power, np.full(r, share * 10.0**power)
    found = search(DenseQuadratic(scaled), lam, basis_of(s, r), np.zeros((0, r, r)), [], PenalisedTuning(), tol=1e-6)
    for each in found:
        assert is_sound(each.w, s, r)
        assert np.isfinite(each.objective)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize(("d", "k", "r"), [(12, 9, 1), (12, 8, 3), (30, 9, 2), (40, 30, 2), (40, 3, 4)])
def test_entries_that_are_not_finite_end_a_search(bad, whole, d, k, r):
    """Nothing is promised of its result: callers refuse such data. But it ends, and touches no other memory."""
    s = covariance("plain", d, 0)
    basis = basis_of(s, r)
    rows = np.arange(d) if whole else np.array([d // 2])
    s[rows, rows[::-1]] = s[rows[::-1], rows] = bad
    tuning = Tuning.for_size(d, k, r)
    searches = (
        lambda: best_loadings(s, (k,) * r, orthogonal=True, tuning=tuning, starts=[basis]),
        lambda: best_loadings(s, (k,) * r, orthogonal=False, tuning=tuning, starts=[]),
        lambda: fewest_nonzeros(s, 0.5, tuning=tuning, starts=[basis]),
        lambda: partitioned(s, basis),
        lambda: search(DenseQuadratic(s), np.full(r, 0.1), basis, np.zeros((0, r, r)), [], PenalisedTuning(), tol=1e-6),
    )
    for each in searches:
        with suppress(ValueError, IndexError, FloatingPointError, np.linalg.LinAlgError):
            each()
