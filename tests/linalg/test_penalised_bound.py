import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedspca.linalg.penalised_bound import penalised_bound
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
    values = [objective(s, w, lam) for w in starts]
    values += [minimise(DenseQuadratic(s), lam, w, tol=1e-6, max_iter=30).objective for w in starts]
    return min(values)


@settings(max_examples=80, deadline=None)
@given(seed=st.integers(0, 2**31))
def test_no_point_is_below_the_bound(seed):
    rng = np.random.default_rng(seed)
    d = int(rng.integers(1, 9))
    r = int(rng.integers(1, min(d, 3) + 1))
    s = covariance(rng, d)
    lam = float(rng.choice([0.0, 0.02, 0.1, 0.3, 0.6, 1.5])) * max(np.linalg.eigvalsh(s)[-1], 1e-3)
    found = lowest(s, r, lam, rng)
    assert penalised_bound(s, r, lam) <= found + 1e-9 * abs(found)
    assert penalised_bound(s, r, lam, best=found) <= found + 1e-9 * abs(found)


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
        assert penalised_bound(s, 1, lam) <= values.min() + 1e-9 * abs(values.min())


def test_one_penalty_a_column():
    rng = np.random.default_rng(1)
    for _ in range(15):
        s = covariance(rng, 6)
        lam = rng.uniform(0.0, 0.5, 2) * max(np.linalg.eigvalsh(s)[-1], 1e-3)
        bound = penalised_bound(s, 2, lam)
        starts = [np.linalg.qr(rng.standard_normal((6, 2)))[0] for _ in range(5)]
        assert bound <= min(minimise(DenseQuadratic(s), lam, w, tol=1e-5).objective for w in starts) + 1e-9


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


@pytest.mark.parametrize("share", [0.05, 0.15, 0.3])
def test_one_component_of_a_cluster_is_known_to_a_few_per_cent(share):
    rng = np.random.default_rng(4)
    rows = rng.standard_normal((300, 30))
    rows[:, :8] = 0.95 * rng.standard_normal((300, 1)) + 0.3 * rows[:, :8]
    s = rows.T @ rows
    lam = share * np.linalg.eigvalsh(s)[-1]
    found = lowest(s, 1, lam, rng)
    assert 0.0 <= found - penalised_bound(s, 1, lam, best=found) <= 0.03 * np.linalg.eigvalsh(s)[-1]
