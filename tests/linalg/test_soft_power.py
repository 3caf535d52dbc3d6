import numpy as np
import pytest

from fedspca.linalg.quadratic import DenseQuadratic, Quadratic
from fedspca.linalg.soft_power import soft_power

NOTHING = np.zeros((20, 0))


@pytest.fixture
def rows():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((60, 20))
    x[:, :3] = 0.97 * rng.standard_normal((60, 1)) + 0.2 * x[:, :3]
    return x


def objective(s, x, lam):
    return lam * np.abs(x).sum() - x @ s @ x


@pytest.mark.parametrize("share", [0.1, 0.4, 1.0])
def test_columns_are_unit_distinct_and_best_first(rows, share):
    s = rows.T @ rows
    lam = share * np.linalg.eigvalsh(s)[-1]
    found = soft_power(DenseQuadratic(s), lam, np.arange(20), NOTHING, steps=10)
    assert np.allclose(np.linalg.norm(found.x, axis=0), 1.0)
    assert np.allclose(found.values, [objective(s, x, lam) for x in found.x.T])
    assert np.all(np.diff(found.values) > 0)


def test_the_objective_never_rises(rows):
    s = rows.T @ rows
    lam = 0.3 * np.linalg.eigvalsh(s)[-1]
    for feature in range(20):
        values = [soft_power(DenseQuadratic(s), lam, np.array([feature]), NOTHING, steps=n).values[0] for n in range(6)]
        assert np.all(np.diff(values) <= 1e-9)


def test_a_cluster_is_found_where_each_feature_alone_is_stationary(rows):
    """With lam above twice the variance of a feature no power step leaves it, and yet three together are better."""
    s = rows.T @ rows
    lam = 2.05 * float(s.diagonal()[:3].max())
    alone = lam - s.diagonal().max()
    together = objective(s, np.repeat([1.0, 0.0], [3, 17]) / np.sqrt(3.0), lam)
    assert together < alone
    found = soft_power(DenseQuadratic(s), lam, np.arange(20), NOTHING, steps=10)
    assert found.values[0] <= together
    assert list(found.x[:, 0].nonzero()[0]) == [0, 1, 2]


def test_a_factor_a_matrix_and_a_shift_give_the_same(rows):
    s = rows.T @ rows
    ways = [DenseQuadratic(s), Quadratic(rows.T), DenseQuadratic(s - 5.0 * np.eye(20), shift=5.0)]
    best = [soft_power(q, 30.0, np.arange(20), NOTHING, steps=8) for q in ways]
    for other in best[1:]:
        assert np.allclose(other.values[0], best[0].values[0])


def test_beside_the_leading_direction_another_is_found(rows):
    s = rows.T @ rows
    first = np.linalg.eigh(s)[1][:, -1:]
    found = soft_power(DenseQuadratic(s), 1e-9, np.arange(20), first, steps=300)
    assert -found.values[0] == pytest.approx(np.linalg.eigvalsh(s)[-2], rel=1e-3)
