"""Several solutions at once."""

import numpy as np
import pytest

from fedspca.linalg.cardinality import points as module
from fedspca.linalg.cardinality.points import Points, fitted, swept
from fedspca.linalg.cardinality.tuning import Tuning


def covariance(seed, d=12):
    x = np.random.default_rng(seed).standard_normal((30, d))
    return x.T @ x


def test_the_best_points_leave_out_repetitions_and_those_far_behind():
    w = np.zeros((4, 3, 1))
    w[[0, 1, 2, 3], [0, 1, 2, 1]] = 1.0
    points = Points(w, np.array([1.0, 0.9, 0.5, 0.8]))
    assert points.best(9).variances.tolist() == [1.0, 0.9, 0.5]
    assert points.best(9, 0.2).variances.tolist() == [1.0, 0.9]
    assert points.best(1, 0.2).variances.tolist() == [1.0]


@pytest.mark.parametrize("orthogonal", [True, False])
def test_nothing_gains_after_sweeps_to_the_end(orthogonal):
    for seed in range(4):
        s, k, tuning = covariance(seed), (4, 4, 4), Tuning()
        near = np.random.default_rng(seed).standard_normal((5, 12, 3))
        start = fitted(s, near, k, orthogonal).best(5)
        end = swept(s, start, k, orthogonal, tuning, sweeps=40, everywhere=True)
        again = swept(s, end, k, orthogonal, tuning, sweeps=2, everywhere=True)
        assert (end.variances >= start.variances).all()
        assert again.variances == pytest.approx(end.variances, rel=3e-8)


def test_a_column_is_updated_again_only_after_a_change(monkeypatch):
    updated = []
    real = module._updated

    def counted(s, points, j, *rest):
        updated.append((j, len(points.variances)))
        return real(s, points, j, *rest)

    monkeypatch.setattr(module, "_updated", counted)
    s, k = np.diag([5.0, 4.0, 3.0, 2.0, 1.0, 0.5]), (1, 1)
    best, poor = np.eye(6)[:, [0, 1]], np.eye(6)[:, [4, 5]]
    ended = swept(s, Points(np.array([best, poor]), np.array([9.0, 1.5])), k, True, Tuning(), sweeps=9)
    assert ended.variances.tolist() == [9.0, 9.0]
    assert updated[:2] == [(0, 2), (1, 2)]
    assert {n for _, n in updated[2:]} == {1}  # the best one is not looked at twice
