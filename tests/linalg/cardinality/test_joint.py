"""Sparse components of a matrix that is known as a whole: the search and its parts, and the parts of bounds."""

import itertools
import time
from dataclasses import replace

import numpy as np
import pytest
from sklearn.datasets import load_wine

from all_supports import best_in_turn
from fedspca.linalg.cardinality import joint
from fedspca.linalg.cardinality.beside import Beside
from fedspca.linalg.cardinality.bounds import line_search, orthogonal_mass, projection_mass, tightened
from fedspca.linalg.cardinality.column import largest_row_bound, row_bounds
from fedspca.linalg.cardinality.joint import _promising, best_loadings
from fedspca.linalg.cardinality.points import Points, bases, fitted, supports_of
from fedspca.linalg.cardinality.polish import captured, orthonormal_basis, refit_free, refit_orthogonal
from fedspca.linalg.cardinality.selection import distinct, heaviest, ranked
from fedspca.linalg.cardinality.together import refitted
from fedspca.linalg.cardinality.tuning import Tuning
from fedspca.linalg.penalised_bound import penalised_bound
from fedspca.linalg.rotations import random_rotations, rotated


def random_matrix(rng, d):
    """Return a covariance: plain, rank-deficient, with copies, of whole numbers (ties), or a correlation."""
    rows = rng.standard_normal((int(rng.integers(1, 3 * d)), d))
    kind = int(rng.integers(4))
    if kind == 1:
        rows[:, rng.integers(d)] = rows[:, rng.integers(d)]
    if kind == 2:
        rows = np.round(rows)
    s = rows.T @ rows + (1e-3 * np.eye(d) if kind == 3 else 0.0)
    if kind == 3:
        sizes = np.sqrt(s.diagonal())
        s = s / sizes / sizes[:, None]
    return s if s.any() else np.eye(d)


@pytest.mark.parametrize("orthogonal", [True, False])
def test_two_components_are_as_good_as_the_best_pair_of_supports(orthogonal):
    rng = np.random.default_rng(int(orthogonal))
    for _ in range(15):
        s, k = random_matrix(rng, 6), int(rng.integers(1, 4))
        reached = best_in_turn(s, (k, k), orthogonal=orthogonal)
        fit = best_loadings(s, (k, k), orthogonal=orthogonal, tuning=Tuning())
        assert fit.variance >= reached * (1 - 1e-3)
        assert np.allclose(np.linalg.norm(fit.w, axis=0), 1.0)
        assert (np.count_nonzero(fit.w, axis=0) <= k).all()
        if orthogonal:
            assert np.allclose(fit.w.T @ fit.w, np.eye(2), atol=1e-9)


def test_a_feature_that_two_columns_want_goes_to_the_one_where_both_gain():
    rng = np.random.default_rng(3)
    z = rng.standard_normal((400, 2))
    parts = [z[:, [0]] + 0.3 * rng.standard_normal((400, 4)), z[:, [1]] + 0.3 * rng.standard_normal((400, 3))]
    shared = z.sum(axis=1, keepdims=True) + 0.3 * rng.standard_normal((400, 1))
    x = np.hstack([*parts, shared])
    s = x.T @ x
    fit = best_loadings(s, (4, 4), orthogonal=True, tuning=Tuning())
    assert fit.variance >= best_in_turn(s, (4, 4), orthogonal=True) * (1 - 1e-9)


@pytest.mark.parametrize("k", [1, 3, 40])
def test_the_largest_row_bound_is_that_of_all_rows(k):
    rng = np.random.default_rng(k)
    for d in (5, 40, 200):
        s = np.cov(rng.standard_normal((50, d)) * rng.uniform(0.1, 3.0, d), rowvar=False)
        s[rng.integers(d)] *= 2.0
        n = min(k, d)
        assert largest_row_bound(s, n) == pytest.approx(row_bounds(s, n).max(), rel=1e-14)


def test_a_row_that_is_not_among_the_longest_may_have_the_largest_bound():
    # sixty features alone with variance 3, and four with entries of 1.2: shorter rows, and a bound of 4.8
    s = np.diag(np.full(64, 3.0))
    s[60:, 60:] = 1.2
    assert largest_row_bound(s, 4) == pytest.approx(4.8)


CLUSTER = list(range(350, 356))


def varied(rng, height):
    """Three hundred features of large variance, and six alike with less, whose sum varies most if they are high."""
    x = rng.standard_normal((500, 400))
    x[:, :300] *= 2.5
    x[:, CLUSTER] += height * rng.standard_normal((500, 1))
    return np.cov(x, rowvar=False)


def test_a_cluster_with_little_variance_is_among_the_features_of_a_first_search():
    s, tuning = varied(np.random.default_rng(0), 1.35), Tuning.for_size(400, 6, 2)
    rows = _promising(s, (6, 6), [], tuning)
    assert len(rows) < 200
    assert set(CLUSTER) <= set(rows.tolist())
    assert CLUSTER in [one.tolist() for one in best_loadings(s, (6, 6), orthogonal=True, tuning=tuning).supports]


def test_features_outside_a_first_search_take_the_places_of_others(monkeypatch):
    s, tuning = varied(np.random.default_rng(0), 1.35), replace(Tuning.for_size(400, 6, 2), starts=400)
    monkeypatch.setattr(joint, "_promising", lambda *_: np.arange(300))
    assert list(range(350, 356)) in [
        one.tolist() for one in best_loadings(s, (6, 6), orthogonal=True, tuning=tuning).supports
    ]


def test_row_bounds_hold_for_the_feature_of_largest_weight():
    rng = np.random.default_rng(0)
    for _ in range(50):
        s = random_matrix(rng, 8)
        fit = best_loadings(s, (3,), orthogonal=True, tuning=Tuning())
        assert row_bounds(s, 3)[np.argmax(np.abs(fit.w[:, 0]))] >= fit.variance * (1 - 1e-9)


@pytest.mark.parametrize("k", [4, 12, 30])
def test_one_component_is_the_leading_eigenvector_on_its_support(k):
    x = np.random.default_rng(8).standard_normal((60, 50))
    s = x.T @ x
    fit = best_loadings(s, (k,), orthogonal=True, tuning=Tuning.for_size(50, k, 1))
    support = fit.supports[0]
    vector = np.linalg.eigh(s[np.ix_(support, support)])[1][:, -1]
    assert np.abs(np.abs(fit.w[support, 0]) - np.abs(vector)).max() < 1e-10


def test_ties_go_by_index_and_not_by_the_last_bit():
    scores = np.array([[1.0, 0.5, 1.0 + 1e-13, 0.5 - 1e-14, 0.5 + 1e-15]])
    for noise in (0.0, 1e-13, -1e-13):
        assert heaviest(scores + noise * np.arange(5), 3).tolist() == [[0, 1, 2]]
    assert ranked(np.array([1.0, 1.0 + 1e-12, 2.0]), np.array([[0, 2], [0, 1], [3, 4]])).tolist() == [2, 1, 0]


def test_equal_features_are_named_by_the_lowest():
    rng = np.random.default_rng(5)
    x = rng.standard_normal((50, 4))
    x = np.hstack([x, x[:, [3]], -x[:, [0]]])  # 4 is 3, 5 is minus 0
    s = x.T @ x
    supports = []
    for _ in range(5):
        noise = 1e-13 * rng.standard_normal(s.shape) * s.max()
        fit = best_loadings(s + noise + noise.T, (1, 1), orthogonal=True, tuning=Tuning())
        supports.append(sorted(np.flatnonzero(fit.w.any(axis=1)).tolist()))
    assert supports == [supports[0]] * 5
    assert not {4, 5} & set(supports[0]) or {0, 5} <= set(supports[0]) or {3, 4} <= set(supports[0])


def test_first_order_steps_tighten_the_line_search():
    rng = np.random.default_rng(1)
    x = rng.standard_normal((80, 30))
    s = x.T @ x
    fit = best_loadings(s, (5,), orthogonal=True, tuning=Tuning())
    dual = line_search(s, 1, 4.0)
    near = fit.w @ fit.w.T
    closer = tightened(s, 1, 4.0, dual, near, fit.variance, time.monotonic() + 2.0)
    assert fit.variance <= closer.bound < dual.bound
    assert np.abs(closer.u).max() <= closer.rho * (1 + 1e-12)
    assert not closer.u.diagonal().any()


def test_the_mass_off_the_diagonal_is_never_more_than_it_is_said_to_be():
    rng = np.random.default_rng(2)
    for _ in range(200):
        d, r, k = 8, int(rng.integers(1, 4)), int(rng.integers(1, 5))
        w = np.zeros((d, r))
        for j in range(r):
            w[rng.choice(d, k, replace=False), j] = rng.standard_normal(k)
        basis = orthonormal_basis(w)
        if basis.shape[1] < r:
            continue
        p = np.abs(basis @ basis.T)
        apart = int((w != 0.0).sum(axis=1).max()) == 1
        most = orthogonal_mass((k,) * r) if apart else projection_mass(min(r * k - 1, d), r)
        assert p.sum() - np.trace(p) <= most * (1 + 1e-9) + 1e-9


def test_a_penalised_bound_is_never_below_what_is_reached():
    rng = np.random.default_rng(4)
    for _ in range(100):
        s = random_matrix(rng, 6)
        lam = np.full(2, float(rng.uniform(0, s.diagonal().max())))
        points = [np.linalg.qr(rng.standard_normal((6, 2)))[0] for _ in range(50)] + [
            np.eye(6)[:, [i, j]] for i, j in itertools.combinations(range(6), 2)
        ]
        reached = [float(np.vdot(w, s @ w) - lam @ np.abs(w).sum(axis=0)) for w in points]
        assert -penalised_bound(s, 2, lam, near=points[0]) >= max(reached) - 1e-9 * abs(max(reached))


def test_refits_are_stationary_on_their_supports():
    rng = np.random.default_rng(6)
    x = rng.standard_normal((40, 12))
    s = x.T @ x
    w = np.zeros((12, 3))
    for j in range(3):
        w[rng.choice(12, 5, replace=False), j] = rng.standard_normal(5)
    free = refit_free(s, w)
    basis = orthonormal_basis(free.w)
    slope = ((s @ free.w - basis @ (basis.T @ (s @ free.w))) @ np.linalg.inv(free.w.T @ free.w))[free.w != 0.0]
    assert np.abs(slope).max() < 1e-4 * s.max()
    near = best_loadings(s, (5, 5, 5), orthogonal=True, tuning=Tuning())
    again = refit_orthogonal(s, near.w)
    assert again.variance == pytest.approx(near.variance, rel=1e-10)


@pytest.mark.parametrize("d", [9, 210])  # with many features, P S P is not formed
@pytest.mark.parametrize("orthogonal", [True, False])
def test_a_stack_of_bases_gives_what_each_basis_gives_alone(d, orthogonal):
    rng = np.random.default_rng(11)
    x = rng.standard_normal((30, d))
    s = x.T @ x
    w = np.zeros((3, d, 2))
    for point, column in itertools.product(range(3), range(2)):
        w[point, rng.choice(9, 4, replace=False), column] = rng.standard_normal(4)
    w[2, :, 1] = 2.0 * w[2, :, 0]  # a basis of one column
    supports, of = np.array([np.sort(rng.choice(9, 4, replace=False)) for _ in range(12)]), np.arange(12) % 3
    stack = Beside(s, bases(w), orthogonal)
    gains, weights = stack.refit(supports, of)
    scores = stack.scores(supports, weights, gains, of)
    for at, point in enumerate(of):
        alone = Beside(s, orthonormal_basis(w[point]), orthogonal)
        one, x = alone.refit(supports[at : at + 1])
        assert gains[at] == pytest.approx(one[0], rel=1e-9)
        assert abs(weights[at] @ x[0]) == pytest.approx(1.0, rel=1e-6)
        first = np.zeros(1, dtype=int)
        assert scores[at] == pytest.approx(alone.scores(supports[at : at + 1], weights[at : at + 1], one, first)[0])
        dense = np.zeros(d)
        dense[supports[at]] = weights[at]
        off = dense - alone.basis @ (alone.basis.T @ dense)
        assert gains[at] == pytest.approx(off @ s @ off / (off @ off), rel=1e-7)


def test_orthogonal_columns_are_refitted_together_as_well_as_one_by_one():
    rng = np.random.default_rng(12)
    x = rng.standard_normal((40, 10))
    s = x.T @ x
    near = rng.standard_normal((6, 10, 3))
    rough = fitted(s, near, (5, 5, 4), orthogonal=True)
    points = Points(*refitted(s, rough.w, supports_of(rough.w, (5, 5, 4)), steps=40))
    assert (points.variances >= rough.variances).all()
    for w, variance in points.fits():
        assert np.abs(w.T @ w - np.eye(3)).max() < 1e-10
        assert np.count_nonzero(w, axis=0).tolist() <= [5, 5, 4]
        assert variance == pytest.approx(captured(s, w))
        assert variance == pytest.approx(refit_orthogonal(s, w).variance, rel=1e-7)
    assert points.best(9).variances.tolist() == sorted(points.variances, reverse=True)


def test_rounding_does_not_decide_where_supports_must_overlap():
    s, rng = np.corrcoef(load_wine().data.T), np.random.default_rng(0)
    tuning, found = Tuning.for_size(13, 5, 5), []
    for size in (0.0, 1e-14, 1e-14, 1e-14):
        noise = rng.standard_normal(s.shape)
        near = s + size * (noise + noise.T)
        basis = np.linalg.eigh(near)[1][:, :-6:-1]
        starts = rotated(basis, random_rotations(tuning.rotations, 5, np.random.default_rng(0)))
        found.append(best_loadings(near, (5,) * 5, orthogonal=True, tuning=tuning, starts=starts).variance)
    assert np.ptp(found) < 1e-9 * max(found)


def test_sets_of_features_are_told_apart():
    rng = np.random.default_rng(13)
    supports = np.array([np.sort(rng.choice(300, 6, replace=False)) for _ in range(400)])
    again = np.concatenate([supports, supports[::-1]])
    assert distinct(again).tolist() == list(range(400))
    assert len(distinct(again, np.repeat([0, 1], 400))) == 800


def test_a_column_with_a_weight_of_zero_is_not_given_a_feature_twice():
    # two columns of three features, of five: one feature is shared, and has the weight zero in one of them
    off = [[0, 4.65, -8.19, 8.79, 9.67], [0, 0, -3.84, 16.91, 7.12], [0, 0, 0, -5.77, -5.31], [0, 0, 0, 0, 11.34]]
    upper = np.array([*off, [0.0] * 5])
    s = upper + upper.T + 74.0 * np.eye(5)
    fit = best_loadings(s, (3, 3), orthogonal=True, tuning=Tuning.for_size(5, 3, 2))
    assert fit.variance > 180.49
