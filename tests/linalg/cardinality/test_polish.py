"""Refits of all columns together: Newton steps where supports overlap, groups apart where they do not."""

import numpy as np
import pytest

from fedspca.linalg.cardinality import polish
from fedspca.linalg.cardinality.polish import captured, orthonormal_basis, refit_free, refit_orthogonal
from fedspca.linalg.sparse_stiefel import retract


def overlapping(seed, r=4):
    """Return a covariance and loadings on chained supports: each shares three features with the next."""
    rng = np.random.default_rng(seed)
    d = 3 * r + 3
    x = rng.standard_normal((2 * d, d))
    w = np.zeros((d, r))
    for j in range(r):
        w[3 * j : 3 * j + 6, j] = rng.standard_normal(6)
    return x.T @ x, w / np.linalg.norm(w, axis=0)


def slope(s, w):
    """Return the gradient of the variance of span(w) on the supports of w, relative."""
    basis = orthonormal_basis(w)
    image = s @ w @ np.linalg.inv(w.T @ w)
    return np.abs((image - basis @ (basis.T @ image))[w != 0.0]).max() / s.max()


@pytest.mark.parametrize("seed", [0, 1, 3, 5])
def test_loadings_that_overlap_are_stationary_on_their_supports(seed):
    s, w = overlapping(seed)
    fit = refit_free(s, w)
    assert slope(s, fit.w) < 1e-7
    assert fit.variance == pytest.approx(captured(s, fit.w), rel=1e-12)
    assert ((fit.w != 0.0) <= (w != 0.0)).all()


def test_a_newton_step_squares_the_distance():
    s, w = overlapping(1)
    best = refit_free(s, w)
    near = best.w + 1e-4 * np.random.default_rng(2).standard_normal(w.shape) * (w != 0.0)
    before, after = (best.variance - captured(s, z) for z in (near, polish._newton(s, near)[0][0]))
    assert abs(after) < 1e-4 * before


@pytest.mark.parametrize("refit", [refit_free, refit_orthogonal])
def test_groups_that_share_no_feature_are_refitted_apart(refit):
    rng = np.random.default_rng(3)
    x = rng.standard_normal((40, 16))
    s = x.T @ x
    w = np.zeros((16, 5))
    for j, support in enumerate(([0, 1, 2, 3], [2, 3, 4, 5], [8, 9, 10, 11], [10, 11, 12, 13], [14, 15])):
        w[support, j] = rng.standard_normal(len(support))
    w = retract(w)
    whole = refit(s, w)
    parts = [refit(s, w[:, group]) for group in ([0, 1], [2, 3], [4])]
    assert whole.variance == pytest.approx(sum(part.variance for part in parts), rel=1e-10)
    assert whole.variance == pytest.approx(captured(s, whole.w), rel=1e-10)
    assert whole.variance > captured(s, w)


def test_a_column_without_features_stays_empty():
    s, w = overlapping(4, r=3)
    w[:, 1] = 0.0
    fit = refit_free(s, w)
    assert not fit.w[:, 1].any()
    assert fit.variance == pytest.approx(refit_free(s, w[:, [0, 2]]).variance, rel=1e-10)


def test_columns_whose_span_contains_all_of_s_are_refitted_without_a_warning():
    rng = np.random.default_rng(2)
    for _ in range(50):
        s = np.diag(rng.integers(0, 3, 5).astype(float))
        w = np.zeros((5, 3))
        for j in range(3):
            w[rng.choice(5, 3, replace=False), j] = rng.standard_normal(3)
        w /= np.linalg.norm(w, axis=0)
        fit = refit_free(s, w)
        assert captured(s, w) * (1.0 - 1e-12) <= fit.variance <= np.trace(s) * (1.0 + 1e-12)


def test_a_newton_step_is_the_same_however_its_hessian_is_put_together(monkeypatch):
    s, w = overlapping(3)
    plain, _ = polish._newton(s, w)
    monkeypatch.setattr(polish, "_FEW", 0)
    for one, other in zip(plain, polish._newton(s, w)[0], strict=True):
        assert other == pytest.approx(one, abs=1e-10)


def test_a_column_without_an_entry_is_a_group_of_its_own():
    s, w = overlapping(1)
    w[:, 2] = 0.0
    assert [group.tolist() for group in polish.groups(w)] == [[0, 1], [2], [3]]
    with_it, without = refit_free(s, w), refit_free(s, np.delete(w, 2, axis=1))
    assert with_it.variance == pytest.approx(without.variance, rel=1e-12)
    assert not with_it.w[:, 2].any()


def test_the_captured_variance_does_not_hang_on_how_nearly_parallel_loadings_are():
    s, w = overlapping(2, r=2)
    for angle in (1.0, 0.3, 0.05, 1e-4):  # on both sides of where a factor of w' w would lose digits
        near = np.column_stack([w[:, 0], np.cos(angle) * w[:, 0] + np.sin(angle) * orthonormal_basis(w)[:, 1]])
        near /= np.linalg.norm(near, axis=0)
        q = np.linalg.qr(near)[0]
        assert captured(s, near) == pytest.approx(float(np.vdot(q, s @ q)), rel=1e-9)


def test_columns_are_nearly_dependent_if_one_is_almost_a_combination_of_others():
    w = np.eye(5)[:, :3]
    assert not polish.nearly_dependent(w)
    sum_of_both = w[:, :2].sum(axis=1) / np.sqrt(2.0)
    for sine, near in ((0.05, False), (1e-4, True), (0.0, True)):  # no two of the columns are parallel
        w[:, 2] = np.sqrt(1.0 - sine**2) * sum_of_both
        w[2, 2] = sine
        assert polish.nearly_dependent(w) is near
