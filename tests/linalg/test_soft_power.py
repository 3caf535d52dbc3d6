import numpy as np
import pytest

from fedspca.linalg.quadratic import DenseQuadratic, Quadratic
from fedspca.linalg.soft_power import soft_power

NOTHING = np.zeros((1, 20, 0))


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
    found = soft_power(DenseQuadratic(s), np.array([lam]), np.arange(20), NOTHING, steps=10)
    different = np.isfinite(found.values[0])
    x, values = found.x[0][:, different], found.values[0, different]
    assert np.allclose(np.linalg.norm(found.x[0], axis=0), 1.0)
    assert np.allclose(values, [objective(s, column, lam) for column in x.T])
    assert np.all(np.diff(values) > 0)
    assert np.all(np.diff(different.astype(int)) <= 0)  # repetitions come last


def test_the_objective_never_rises(rows):
    s = rows.T @ rows
    lam = 0.3 * np.linalg.eigvalsh(s)[-1]
    for feature in range(20):
        values = [
            soft_power(DenseQuadratic(s), np.array([lam]), np.array([feature]), NOTHING, steps=n).values[0, 0]
            for n in range(6)
        ]
        assert np.all(np.diff(values) <= 1e-9)


def test_a_cluster_is_found_where_each_feature_alone_is_stationary(rows):
    """With lam above twice the variance of a feature no power step leaves it, and yet three together are better."""
    s = rows.T @ rows
    lam = 2.05 * float(s.diagonal()[:3].max())
    alone = lam - s.diagonal().max()
    together = objective(s, np.repeat([1.0, 0.0], [3, 17]) / np.sqrt(3.0), lam)
    assert together < alone
    found = soft_power(DenseQuadratic(s), np.array([lam]), np.arange(20), NOTHING, steps=10)
    assert found.values[0, 0] <= together
    assert list(found.x[0, :, 0].nonzero()[0]) == [0, 1, 2]


def test_a_factor_a_matrix_and_a_shift_give_the_same(rows):
    s = rows.T @ rows
    ways = [DenseQuadratic(s), Quadratic(rows.T), DenseQuadratic(s - 5.0 * np.eye(20), shift=5.0)]
    best = [soft_power(q, np.array([30.0]), np.arange(20), NOTHING, steps=8) for q in ways]
    for other in best[1:]:
        assert np.allclose(other.values[0, 0], best[0].values[0, 0])


def test_beside_the_leading_direction_another_is_found(rows):
    s = rows.T @ rows
    first = np.linalg.eigh(s)[1][:, -1:]
    found = soft_power(DenseQuadratic(s), np.array([1e-9]), np.arange(20), first[None], steps=300)
    assert -found.values[0, 0] == pytest.approx(np.linalg.eigvalsh(s)[-2], rel=1e-3)


def test_problems_side_by_side_are_solved_as_if_alone(rows):
    s = rows.T @ rows
    axes = np.linalg.eigh(s)[1]
    beside, lam = np.stack([axes[:, -1:], axes[:, -2:-1]]), np.array([5.0, 20.0])
    together = soft_power(DenseQuadratic(s), lam, np.arange(20), beside, steps=12)
    for i in range(2):
        alone = soft_power(DenseQuadratic(s), lam[i : i + 1], np.arange(20), beside[i : i + 1], steps=12)
        assert np.allclose(together.values[i, 0], alone.values[0, 0])
        assert np.allclose(np.abs(together.x[i, :, 0]), np.abs(alone.x[0, :, 0]))


def test_a_given_start_is_used(rows):
    """Of one feature alone no power step finds the leading eigenvector as fast as a start at it."""
    s = rows.T @ rows
    leading = np.linalg.eigh(s)[1][:, -1:]
    found = soft_power(DenseQuadratic(s), np.array([1e-9]), np.array([19]), NOTHING, steps=0, starts=leading)
    assert -found.values[0, 0] == pytest.approx(np.linalg.eigvalsh(s)[-1])


def test_of_equal_columns_the_first_feature_comes_first():
    s = np.diag([1.0, 3.0, 3.0 * (1 + 1e-14), 2.0])
    found = soft_power(DenseQuadratic(s), np.array([0.5]), np.arange(4), np.zeros((1, 4, 0)), steps=3)
    assert found.x[0, :, 0].argmax() == 1


def test_a_pair_is_found_where_its_correlation_is_weak():
    """With the weights of a feature's column, 1 and 0.35, each pair looks worse than one feature alone."""
    s, lam = np.eye(6), np.array([0.8])
    s[0, 1] = s[1, 0] = s[2, 3] = s[3, 2] = 0.35
    found = soft_power(DenseQuadratic(s), lam, np.arange(6), np.zeros((1, 6, 0)), steps=60)
    assert np.isclose(found.values[0, 0], 0.8 * np.sqrt(2.0) - 1.35)
    assert np.allclose(found.x[0, :, 0], np.repeat([np.sqrt(0.5), 0.0], [2, 4]))
