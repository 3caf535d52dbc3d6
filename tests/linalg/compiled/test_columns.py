"""The search for columns: C and numpy find the same."""

import ctypes
import time
from dataclasses import replace

import numpy as np
import pytest

from fedspca.linalg.cardinality import joint
from fedspca.linalg.cardinality.beside import Beside
from fedspca.linalg.cardinality.joint import best_loadings
from fedspca.linalg.cardinality.points import fitted, supports_of
from fedspca.linalg.cardinality.polish import orthonormal_basis
from fedspca.linalg.cardinality.together import refitted
from fedspca.linalg.cardinality.tuning import Tuning
from fedspca.linalg.compiled import columns
from fedspca.linalg.compiled.library import library, numpy_only
from fedspca.linalg.rotations import random_rotations, rotated

pytestmark = pytest.mark.skipif(library() is None, reason="there was no C compiler")


def covariance(rng, d, kind):
    """Plain, spiked, clustered, of low rank, with copies, or a correlation matrix full of ties."""
    rows = rng.standard_normal((3 if kind == "low rank" else 3 * d, d))
    if kind == "spiked":
        rows[:, : d // 2] += 2.0 * rng.standard_normal((len(rows), 1)) * rng.standard_normal(d // 2)
    if kind == "clustered":
        rows = 0.6 * rows + rng.standard_normal((len(rows), d))[:, rng.integers(0, max(2, d // 4), d)]
    if kind == "copies":
        rows[:, d // 2 :] = rows[:, : d - d // 2]
    s = rows.T @ rows
    if kind == "ties":
        sizes = np.sqrt(s.diagonal())
        s = np.round(s / sizes / sizes[:, None], 1)
        s -= min(0.0, float(np.linalg.eigvalsh(s)[0])) * np.eye(d)
    return 0.5 * (s + s.T)


def both(s, k, orthogonal, **changed):
    """The best loadings found by C and by numpy."""
    tuning = replace(Tuning.for_size(len(s), max(k), len(k)), **changed)
    basis = np.linalg.eigh(s)[1][:, ::-1][:, : len(k)]
    starts = rotated(basis, random_rotations(tuning.rotations, len(k), np.random.default_rng(0)))
    found = best_loadings(s, k, orthogonal=orthogonal, tuning=tuning, starts=starts)
    with numpy_only():
        return found, best_loadings(s, k, orthogonal=orthogonal, tuning=tuning, starts=starts)


def is_feasible(fit, k, orthogonal):
    r = len(k)
    return (
        (np.count_nonzero(fit.w, axis=0) <= k).all()
        and np.allclose(np.linalg.norm(fit.w, axis=0), 1.0)
        and (not orthogonal or np.abs(fit.w.T @ fit.w - np.eye(r)).max() < 1e-9)
    )


@pytest.mark.parametrize("orthogonal", [True, False])
@pytest.mark.parametrize("kind", ["plain", "spiked", "clustered", "low rank", "copies", "ties"])
def test_both_engines_reach_the_same_variance(kind, orthogonal):
    rng, apart = np.random.default_rng(7), []
    for _ in range(8):
        d, r = int(rng.integers(5, 32)), int(rng.integers(2, 5))
        k = (int(rng.integers(2, min(d, 7))),) * r
        compiled, plain = both(covariance(rng, d, kind), k, orthogonal)
        assert is_feasible(compiled, k, orthogonal)
        apart.append(abs(compiled.variance / plain.variance - 1.0))
    assert np.median(apart) < 1e-12
    assert sorted(apart)[-2] < 1e-9  # a last bit may decide where one of the searches ends


def test_both_engines_refit_orthogonal_columns_of_many_non_zeros_alike():
    rng, apart = np.random.default_rng(11), []
    for kind in ("plain", "spiked", "clustered", "low rank"):
        d = int(rng.integers(20, 32))
        k = (8,) * 7
        compiled, plain = both(covariance(rng, d, kind), k, True)
        assert is_feasible(compiled, k, True)
        apart.append(abs(compiled.variance / plain.variance - 1.0))
    assert sorted(apart)[-2] < 1e-9


@pytest.mark.parametrize("orthogonal", [True, False])
@pytest.mark.parametrize(
    ("d", "k"),
    [
        (6, (1, 1)),
        (5, (5, 5, 5)),
        (4, (1, 1, 1, 1)),
        (7, (2, 5, 3)),
        (9, (9, 1)),
        (20, (12, 12)),
        (60, (5, 5, 5)),
        (12, (4,)),
        (40, (30,)),
        (130, (3, 3)),  # a first search uses some of the features
    ],
)
def test_both_engines_agree_at_the_limits(d, k, orthogonal):
    compiled, plain = both(covariance(np.random.default_rng(d), d, "plain"), k, orthogonal)
    assert compiled.variance == pytest.approx(plain.variance, rel=1e-10)
    # starts end at the same columns in another order, and rounding decides which of them is kept
    assert sorted(one.tolist() for one in compiled.supports) == sorted(one.tolist() for one in plain.supports)


def sparse_columns(rng, d, k, q):
    """Columns of k features each."""
    w = np.zeros((d, q))
    for j in range(q):
        w[rng.choice(d, k, replace=False), j] = rng.standard_normal(k)
    return w / np.linalg.norm(w, axis=0)


@pytest.mark.parametrize("orthogonal", [True, False])
@pytest.mark.parametrize("kind", ["plain", "low rank", "copies"])
def test_a_column_beside_others_is_refitted_alike(kind, orthogonal):
    rng = np.random.default_rng(5)
    for _ in range(40):
        d, q = int(rng.integers(4, 12)), int(rng.integers(0, 4))
        k, m = int(rng.integers(1, min(d, 6))), 20
        s, w = covariance(rng, d, kind), sparse_columns(rng, d, k, q)
        if orthogonal and q:
            w = np.asarray(orthonormal_basis(w))
        if q > 1 and rng.random() < 0.3:
            w[:, 1] = w[:, 0]  # a basis of fewer columns
        supports = np.array([np.sort(rng.choice(d, k, replace=False)) for _ in range(m)])
        gains, weights, others = np.empty(m), np.empty((m, k)), np.ascontiguousarray(w.T)
        given = [array.ctypes.data_as(ctypes.c_void_p) for array in (s, others, supports, gains, weights)]
        assert not library().fedspca_refit_beside(
            *map(ctypes.c_int64, (d, w.shape[1])), *given[:2], *map(ctypes.c_int64, (orthogonal, m, k)), *given[2:]
        )
        plain, near = Beside(s, orthonormal_basis(w), orthogonal).refit(supports)
        assert (np.isfinite(gains) == np.isfinite(plain)).all()
        known = np.isfinite(plain)
        scale = s.diagonal().max()
        assert np.abs(gains[known] - plain[known]).max(initial=0.0) < 1e-9 * scale
        for x, y, gain in zip(weights[known], near[known], plain[known], strict=True):
            assert np.linalg.norm(x) == pytest.approx(1.0)
            if gain > 1e-6 * scale and kind == "plain":
                assert abs(x @ y) > 1.0 - 1e-6


def test_a_column_of_many_features_is_refitted_alike():
    """Also where its support contains a whole other column, or a combination of two."""
    rng = np.random.default_rng(8)
    for k in (7, 8, 9, 15, 16, 30, 41):
        d, q, m = 3 * k, 3, 12
        s, w = covariance(rng, d, "spiked"), sparse_columns(rng, d, k // 2, q)
        w[:, 2] = w[:, 0] + 1e-5 * w[:, 2]
        w /= np.linalg.norm(w, axis=0)
        supports = np.array([np.sort(rng.choice(d, k, replace=False)) for _ in range(m)])
        for row, named in enumerate((w[:, :1], w[:, :2], w[:, :1])):
            own = np.flatnonzero(named.any(axis=1))[:k]
            free = rng.permutation(np.setdiff1d(np.arange(d), own))[: k - len(own)]
            supports[row] = np.sort(np.concatenate([own, free]))
        gains, weights, others = np.empty(m), np.empty((m, k)), np.ascontiguousarray(w.T)
        given = [array.ctypes.data_as(ctypes.c_void_p) for array in (s, others, supports, gains, weights)]
        assert not library().fedspca_refit_beside(
            *map(ctypes.c_int64, (d, q)), *given[:2], *map(ctypes.c_int64, (0, m, k)), *given[2:]
        )
        plain, near = Beside(s, orthonormal_basis(w), orthogonal=False).refit(supports)
        assert np.abs(gains - plain).max() < 1e-7 * s.diagonal().max()  # next to a held direction, digits are lost
        assert np.abs(np.einsum("mk,mk->m", weights[3:], near[3:])).min() > 1.0 - 1e-6


@pytest.mark.parametrize("k", [3, 20, 30])
def test_the_best_single_columns_are_the_same(k):
    s, tuning = covariance(np.random.default_rng(k), 150, "spiked"), Tuning.for_size(150, k, 2).quick()
    plain = joint._single(s, (k, k), tuning).supports
    assert [one.tolist() for one in columns.singles(s, k, tuning)] == plain.tolist()


def test_orthogonal_columns_are_refitted_together_alike():
    rng, apart = np.random.default_rng(6), []
    for _ in range(60):
        d, r, steps = int(rng.integers(6, 14)), int(rng.integers(2, 5)), int(rng.integers(1, 4))
        k = int(rng.integers(2, 6))
        s = covariance(rng, d, "plain")
        near = fitted(s, rng.standard_normal((1, d, r)), (k,) * r, orthogonal=True)
        if not np.isfinite(near.variances[0]):
            continue
        supports = supports_of(near.w, (k,) * r)
        variances = refitted(s, near.w, supports, steps)[1]
        z, named, variance = np.ascontiguousarray(near.w[0].T), np.concatenate(supports), np.empty(1)
        given = [array.ctypes.data_as(ctypes.c_void_p) for array in (s, named, z, variance)]
        n, m, j, most = map(ctypes.c_int64, (d, r, k, steps))
        assert not library().fedspca_refitted(n, m, given[0], j, given[1], most, *given[2:])
        apart.append(abs(variance[0] / variances[0] - 1.0))
        assert variance[0] == pytest.approx(np.vdot(z.T, s @ z.T), rel=1e-12)
        assert np.abs(z @ z.T - np.eye(r)).max() < 1e-9
    # the ridge of the normal matrix leaves steps of numpy, and rounding decides which way a saddle point is left
    assert np.median(apart) < 1e-9
    assert np.quantile(apart, 0.9) < 1e-5


def test_the_lowest_of_equal_features_is_selected_by_both():
    rng = np.random.default_rng(3)
    for _ in range(10):
        x = rng.standard_normal((40, 7))
        s = np.cov(np.hstack([x, -x[:, :3], x[:, 4:6]]), rowvar=False)
        w = np.zeros((12, 2))
        w[[8, 3, 11], 0], w[[7, 10], 1] = rng.standard_normal(3), rng.standard_normal(2)
        w /= np.linalg.norm(w, axis=0)
        named, plain = columns.lowest(s, w, False), joint._lowest(s, w, False)
        assert plain is not None
        assert np.flatnonzero(named.any(axis=1)).max() < 7
        assert ((named != 0.0) == (plain != 0.0)).all()
        assert np.abs(np.abs(named) - np.abs(plain)).max() < 1e-6
        assert columns.lowest(s, named, False) is None


def test_stages_of_a_search_with_a_deadline_find_what_one_call_finds():
    s = covariance(np.random.default_rng(1), 25, "clustered")
    tuning = Tuning.for_size(25, 4, 3)
    whole = best_loadings(s, (4, 4, 4), orthogonal=True, tuning=tuning)
    parts = best_loadings(s, (4, 4, 4), orthogonal=True, tuning=replace(tuning, deadline=time.monotonic() + 1e3))
    assert (parts.w == whole.w).all()
    late = best_loadings(s, (4, 4, 4), orthogonal=True, tuning=replace(tuning, deadline=0.0))
    assert is_feasible(late, (4, 4, 4), True)
    assert late.variance <= whole.variance * (1.0 + 1e-12)


def test_a_search_needs_a_square_matrix_and_supports_that_fit():
    s, tuning = np.eye(5), Tuning()
    with pytest.raises(ValueError, match="has no columns"):
        columns.searched(s[:, :4], (2, 2), True, tuning, [])
    with pytest.raises(ValueError, match="has no columns"):
        columns.searched(s, (2, 6), True, tuning, [])
    with pytest.raises(ValueError, match="does not suit"):
        columns.lowest(s, np.eye(4), True)


def test_many_orthogonal_columns_are_found_in_groups():
    rng, apart = np.random.default_rng(11), []
    for kind in ("plain", "clustered", "copies"):
        k = (5,) * 11
        compiled, plain = both(covariance(rng, 40, kind), k, True)
        assert is_feasible(compiled, k, True)
        apart.append(compiled.variance / plain.variance - 1.0)
    assert min(apart) > -0.02  # with many columns, the two refit them by different steps, and end in different points
