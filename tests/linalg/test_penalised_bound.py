import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedspca.linalg import penalised_bound as module
from fedspca.linalg.penalised_bound import Bounds, Lines, penalised_bound
from fedspca.linalg.proximal import minimise
from fedspca.linalg.quadratic import DenseQuadratic


def covariance(rng, d):
    """Small matrices with what is awkward about real ones: duplicates, low rank, unequal scales, ties."""
    rows = rng.standard_normal((int(rng.integers(1, 2 * d + 1)), d))
    if rng.random() < 0.4:
        rows = rows * np.exp(rng.standard_normal(d))
    if rng.random() < 0.3:
        rows[:, -1] = rows[:, 0]
    if rng.random() < 0.2:
        rows = np.round(rows)
    return rows.T @ rows


def objective(s, w, lam):
    return -np.vdot(w, s @ w) + lam * np.abs(w).sum()


def lowest(s, r, lam, rng, n=3):
    """The best of local solves from random orthonormal points, of coordinates and of eigenvectors."""
    d = len(s)
    starts = [np.linalg.qr(rng.standard_normal((d, r)))[0] for _ in range(n)]
    starts += [np.eye(d)[:, np.argsort(-s.diagonal())[:r]], np.linalg.eigh(s)[1][:, ::-1][:, :r].copy()]
    starts += [minimise(DenseQuadratic(s), lam, w, tol=1e-6, max_iter=30).w for w in starts]
    return min(starts, key=lambda w: objective(s, w, lam))


@settings(max_examples=80, deadline=None)
@given(seed=st.integers(0, 2**31))
def test_no_point_is_below_the_bound(seed):
    rng = np.random.default_rng(seed)
    d = int(rng.integers(1, 9))
    r = int(rng.integers(1, min(d, 3) + 1))
    s = covariance(rng, d)
    lam = float(rng.choice([0.0, 0.02, 0.1, 0.3, 0.6, 1.5])) * max(np.linalg.eigvalsh(s)[-1], 1e-3)
    w = lowest(s, r, lam, rng)
    found = objective(s, w, lam)
    assert penalised_bound(s, r, lam) <= found + 1e-9 * abs(found)
    # of the steps that improve it, at most one more than there is time for
    far = np.linalg.qr(rng.standard_normal((d, r)))[0]
    for near in (w, far):
        assert penalised_bound(s, r, lam, near=near, seconds=0.01) <= found + 1e-9 * abs(found)


def test_no_unit_vector_of_a_thousand_problems_is_below_the_bound():
    """Brute force: in two and three dimensions a fine net of all directions."""
    rng = np.random.default_rng(0)
    angles = np.linspace(0.0, np.pi, 721)
    circle = np.stack([np.cos(angles), np.sin(angles)])
    sphere = rng.standard_normal((3, 4000))
    sphere /= np.linalg.norm(sphere, axis=0)
    for case in range(1000):
        net = circle if case % 2 else sphere
        s = covariance(rng, len(net))
        lam = float(np.exp(rng.uniform(-4.0, 1.0))) * max(np.linalg.eigvalsh(s)[-1], 1e-3)
        values = lam * np.abs(net).sum(axis=0) - np.einsum("ij,ij->j", net, s @ net)
        seconds = 0.01 if case < 200 else 0.0
        near = net[:, [values.argmin()]]
        bound = penalised_bound(s, 1, lam, near=near, seconds=seconds)
        assert bound <= values.min() + 1e-9 * abs(values.min())
        # all directions of the plane are tried: with time, hardly anything is left between the best and the bound
        assert case % 2 == 0 or not seconds or bound >= values.min() - 1e-4 * (abs(values.min()) + lam)


@pytest.mark.parametrize("r", [2, 6])
def test_one_penalty_a_column(r):
    rng = np.random.default_rng(1)
    for _ in range(10):
        s = covariance(rng, 7)
        lam = rng.uniform(0.0, 0.5, r) * max(np.linalg.eigvalsh(s)[-1], 1e-3)
        starts = [np.linalg.qr(rng.standard_normal((7, r)))[0] for _ in range(4)]
        ends = [minimise(DenseQuadratic(s), lam, w, tol=1e-5) for w in starts]
        best = min(ends, key=lambda end: end.objective)
        for seconds in (0.0, 0.02):
            assert penalised_bound(s, r, lam, near=best.w, seconds=seconds) <= best.objective + 1e-9


def test_it_is_never_worse_than_dense_pca():
    rng = np.random.default_rng(2)
    for r in (1, 2, 3):
        s = covariance(rng, 7)
        values = np.linalg.eigvalsh(s)[::-1]
        for share in (0.0, 0.1, 0.5):
            lam = share * values[0]
            assert penalised_bound(s, r, lam) >= lam * r - values[:r].sum() - 1e-9 * values.sum()


def test_single_features_are_proved_best_where_lam_is_large():
    rows = np.random.default_rng(3).standard_normal((40, 12))
    s = rows.T @ rows
    lam = 4.0 * np.linalg.eigvalsh(s)[-1]
    best = 2 * lam - np.sort(s.diagonal())[-2:].sum()
    assert penalised_bound(s, 2, lam) == pytest.approx(best, rel=1e-6)


def cluster():
    rng = np.random.default_rng(4)
    rows = rng.standard_normal((300, 30))
    rows[:, :8] = 0.95 * rng.standard_normal((300, 1)) + 0.3 * rows[:, :8]
    return rows.T @ rows, rng


@pytest.mark.parametrize("share", [0.05, 0.15, 0.3])
def test_one_component_is_proved_to_be_the_best(share):
    s, rng = cluster()
    lam = share * np.linalg.eigvalsh(s)[-1]
    w = lowest(s, 1, lam, rng)
    found = objective(s, w, lam)
    assert 0.0 <= found - penalised_bound(s, 1, lam, near=w) <= 0.03 * np.linalg.eigvalsh(s)[-1]
    assert 0.0 <= found - penalised_bound(s, 1, lam, near=w, seconds=20.0) <= 1e-6 * abs(found)


@pytest.mark.parametrize("r", [2, 7])
def test_time_makes_the_bound_of_several_components_closer(r):
    rng = np.random.default_rng(7)
    rows = rng.standard_normal((40, 20))
    s = rows.T @ rows
    lam = 0.2 * np.linalg.eigvalsh(s)[-1]
    w = lowest(s, r, lam, rng)
    found = objective(s, w, lam)
    at_once, later = (found - penalised_bound(s, r, lam, near=w, seconds=seconds) for seconds in (0.0, 1.0))
    assert 0.0 <= later < 0.9 * at_once


def test_lines_are_the_least_of_all():
    rng = np.random.default_rng(5)
    for n in (1, 2, 3, 30):
        for _ in range(20):
            slopes = rng.integers(0, 6, n) / 2.0  # some are parallel
            tops = rng.integers(0, 9, n) - slopes * rng.uniform(0.0, 3.0)
            masses = np.concatenate([[0.0], rng.uniform(0.0, 10.0, 200)])
            least = (tops + slopes * masses[:, None]).min(axis=1)
            half = Lines(zip(slopes[: n // 2 + 1], tops[: n // 2 + 1], strict=True))
            np.testing.assert_allclose(half.and_more(zip(slopes, tops, strict=True)).at(masses), least, atol=1e-12)


def test_columns_in_groups_are_bounded_by_the_best_division():
    rng = np.random.default_rng(8)
    lines = {n: Lines([(1.0, float(top))]) for n, top in enumerate(rng.uniform(0.0, 3.0, 4), 1)}
    masses = rng.uniform(0.0, 2.0, (20, 4))
    cuts = [[0, *cut, 4] for n in range(4) for cut in itertools.combinations((1, 2, 3), n)]
    sums = [sum(float(lines[b - a].at(0.0)) for a, b in itertools.pairwise(cut)) for cut in cuts]
    bounds = Bounds(lines)
    np.testing.assert_allclose(bounds.at(masses), masses.sum(axis=1) + min(sums))
    for row in masses:
        inside = [total for cut, total in zip(cuts, sums, strict=True) if 1 in cut and 3 in cut and 2 not in cut]
        assert bounds.of(1, 3, row) == pytest.approx(row.sum() + min(inside))


@pytest.mark.parametrize("lam", [[0.7], [0.5, 0.5], [0.2, 0.9], [0.9, 0.2], [0.4, 0.4, 0.7]])
def test_no_norms_give_more_than_the_maximum_over_boxes(lam, monkeypatch):
    """Brute force over a net of norms; between its points the maximum grows by a little only."""
    rng, lam, longest = np.random.default_rng(6), np.array(lam), 3.0
    net = np.linspace(1.0, longest, 61)
    norms = np.stack(np.meshgrid(*[net] * len(lam)), axis=-1).reshape(-1, len(lam))
    for _ in range(10):
        slopes = rng.uniform(0.0, 1.0, (len(lam), 4))
        bounds = Bounds(
            {n: Lines(zip([2.0, *own], [0.5 * n, *(n - 0.3 * own)], strict=True)) for n, own in enumerate(slopes, 1)}
        )
        best = float((bounds.at(norms**2 - 1.0) - norms @ lam).max())
        found = module._by_boxes(bounds, lam, longest, best - 1.0)
        assert best <= found.value <= best + 0.1
        assert found.value - 0.02 <= bounds.at(found.norms**2 - 1.0) - found.norms @ lam <= found.value
        assert module._by_total(bounds, lam, longest, best - 1.0).value >= best
        with monkeypatch.context() as few:  # a few boxes at a time, and no time for all of them
            few.setattr(module, "_BATCH", 2)
            few.setattr(module, "_ROUNDS", 12)
            assert best <= module._by_boxes(bounds, lam, longest, best - 1.0).value


def test_boxes_without_norms_in_order_are_left_out():
    """Their halves have none either: the last boxes were divided into nothing, and that was an error."""
    lines = {
        1: [(0.52, 0.56), (0.2, 1.16)],
        2: [(0.58, 2.06), (0.09, 3.04)],
        3: [(0.58, 3.63), (0.03, 4.41)],
        4: [(0.45, 5.23), (0.25, 5.62)],
    }
    bounds = Bounds({n: Lines(own) for n, own in lines.items()})
    net = np.array([t for t in itertools.product(np.linspace(1.0, 3.0, 21), repeat=4) if list(t) == sorted(t)[::-1]])
    best = float((bounds.at(net**2 - 1.0) - net @ np.full(4, 0.62)).max())
    assert best <= module._by_boxes(bounds, np.full(4, 0.62), 3.0, 0.0).value <= best + 0.1
