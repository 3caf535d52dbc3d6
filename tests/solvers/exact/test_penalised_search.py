"""What the search for a penalised problem counts as the same."""

from dataclasses import replace

import numpy as np
import pytest

from fedspca import ExactSPCA
from fedspca.linalg.quadratic import DenseQuadratic
from fedspca.linalg.splitting import objectives
from fedspca.solvers.exact.penalised import Penalised
from fedspca.solvers.exact.penalised_search import (
    _alike,
    _alone,
    _from_split,
    _lowest_places,
    _partitions,
    _unlike_earlier,
    _values_alone,
)
from fedspca.solvers.exact.tuning import PenalisedTuning
from fedspca.solvers.exact.whole import leading


def test_points_are_alike_up_to_signs_and_order_of_their_columns():
    w = np.linalg.qr(np.random.default_rng(0).standard_normal((12, 3)))[0]
    other = np.linalg.qr(np.random.default_rng(1).standard_normal((12, 3)))[0]
    exchanged = np.column_stack([w[:, :2], np.linalg.qr(np.column_stack([w[:, :2], other]))[0][:, 2]])
    points = np.array([w, w[:, [2, 0, 1]] * [1.0, -1.0, 1.0], other, exchanged])
    expected = np.eye(4, dtype=bool)
    assert np.array_equal(_alike(points, np.array([1.0, 2.0, 1.0]), 0.99), expected)  # their order matters
    expected[0, 1] = expected[1, 0] = True
    assert np.array_equal(_alike(points, np.full(3, 1.0), 0.99), expected)


def test_a_column_counts_once_up_to_its_sign():
    x = np.eye(4)[None, :, [0, 1, 0, 2, 1]] * [1.0, 1.0, -1.0, 1.0, 1.0]
    assert _unlike_earlier(x, 0.99).tolist() == [[True, True, False, True, False]]


# three features are one, and a fourth is nearly unrelated: the best point has two of the three in one column, the third
# alone, and the fourth alone, although that costs more than it captures
TRIPLE = np.diag([0.0, 0.0, 0.0, 1.2, 0.3, 0.2])
TRIPLE[:3, :3] = 3.2
TRIPLE[:3, 3] = TRIPLE[3, :3] = 0.6


def test_two_columns_become_one_where_a_third_feature_is_free():
    lam, values = 2.72, {}
    for name, columns in {"apart": [[0], [1], [2]], "merged": [[0, 1], [2], [3]]}.items():
        w = np.zeros((6, 3))
        for j, features in enumerate(columns):
            w[features, j] = 1.0 / np.sqrt(len(features))
        values[name] = lam * np.abs(w).sum() - np.vdot(w, TRIPLE @ w)
    assert values["merged"] < values["apart"]
    weights, (_, basis) = np.full(3, lam), leading(TRIPLE, 3)
    found = Penalised(weights).on(DenseQuadratic(TRIPLE), basis, np.zeros((0, 3, 3)), [], np.inf)
    assert found.objective <= values["merged"] + 1e-9


def test_another_point_is_solved_and_not_one_point_twice():
    s, noise = np.diag([5.0, 4.0, 3.9, 1.0, 1.0, 1.0]), np.random.default_rng(0).standard_normal((2, 6, 2))
    near = np.linalg.qr(np.eye(6)[:, :2] + 0.01 * noise)[0]
    starts = np.array([*near, np.eye(6)[:, [0, 2]]])
    tuning = replace(PenalisedTuning(), solved=2, near=1.0, split_steps=0, crowd=())
    found = _from_split(DenseQuadratic(s), np.full(2, 1.0), starts, tuning)
    assert sorted(np.flatnonzero(each.w.any(axis=1)).tolist() for each in found) == [[0, 1], [0, 2]]


def test_what_a_feature_alone_leaves_is_known_before_any_product():
    rng = np.random.default_rng(3)
    rows = rng.standard_normal((40, 9))
    q, lam = DenseQuadratic(rows.T @ rows), np.array([3.0, 1.0, 2.0])
    w = np.zeros((9, 3))
    w[:4, 0], w[4:7, 1], w[8, 2] = rng.standard_normal(4), rng.standard_normal(3), 1.0
    w /= np.linalg.norm(w, axis=0)
    values = _values_alone(q, lam, w, q @ w)
    assert np.isinf(values[8]).all()  # it is a column already
    features, columns = _lowest_places(values, 27)
    assert len(features) == 24
    trials = _alone(w, columns, features)
    trials /= np.linalg.norm(trials, axis=1, keepdims=True)
    assert np.allclose(objectives(q, lam, trials), values[features, columns])
    assert (np.diff(values[features, columns]) >= 0.0).all()


def test_random_columns_divide_all_features_and_none_is_empty():
    s = np.cov(np.random.default_rng(0).standard_normal((20, 7)), rowvar=False)
    s[2] = s[:, 2] = 0.0  # a feature that does not vary
    w = _partitions(DenseQuadratic(s), 3, 50)
    assert np.allclose(w.transpose(0, 2, 1) @ w, np.eye(3), atol=1e-9)
    assert (np.count_nonzero(w, axis=2) <= 1).all()
    sizes = np.count_nonzero(w, axis=1)
    assert sizes.min() >= 1
    assert len(np.unique(sizes)) > 3
    assert (w == _partitions(DenseQuadratic(s), 3, 50)).all()


# the public capital of 48 American states (Munnell, 1990): covariances of seven features, in units of their mean
MUNNELL = np.array(
    [
        [0.7261, 0.2351, 0.1102, 0.3807, 1.3509, 1.7733, 0.0472],
        [0.2351, 0.0806, 0.0359, 0.1187, 0.4747, 0.5907, 0.0157],
        [0.1102, 0.0359, 0.0175, 0.0568, 0.2135, 0.2756, 0.0073],
        [0.3807, 0.1187, 0.0568, 0.2052, 0.6627, 0.9070, 0.0242],
        [1.3509, 0.4747, 0.2135, 0.6627, 3.3610, 3.6838, 0.0947],
        [1.7733, 0.5907, 0.2756, 0.9070, 3.6838, 4.6064, 0.1210],
        [0.0472, 0.0157, 0.0073, 0.0242, 0.0947, 0.1210, 0.0032],
    ]
)
# fuel, cylinders, displacement, power, weight and acceleration of cars, scaled by roots of their deviations
CARS = np.array(
    [
        [0.0463, -0.0166, -0.1349, -0.0783, -0.3989, 0.0114],
        [-0.0166, 0.0102, 0.0763, 0.0408, 0.2040, -0.0068],
        [-0.1349, 0.0763, 0.6279, 0.3402, 1.6635, -0.0573],
        [-0.0783, 0.0408, 0.3402, 0.2303, 0.9319, -0.0430],
        [-0.3989, 0.2040, 1.6635, 0.9319, 5.0685, -0.1254],
        [0.0114, -0.0068, -0.0573, -0.0430, -0.1254, 0.0168],
    ]
)
# five residuals of which two groups are nearly equal
RESIDUALS = np.array(
    [
        [1.0, 0.8547, 0.9188, 0.8485, 0.9633],
        [0.8547, 1.0, 0.8061, 0.9985, 0.8361],
        [0.9188, 0.8061, 1.0, 0.8008, 0.9906],
        [0.8485, 0.9985, 0.8008, 1.0, 0.8303],
        [0.9633, 0.8361, 0.9906, 0.8303, 1.0],
    ]
)


# drawn at random: a feature that the first point does not use is the better single column
SINGLE = np.array(
    [
        [1.48, 0.0, -1.1, -0.4, 0.2, -0.9, 0.4],
        [0.0, 2.08, 0.6, -0.2, 0.5, -0.3, 0.4],
        [-1.1, 0.6, 3.78, 0.0, 0.9, 4.1, -1.2],
        [-0.4, -0.2, 0.0, 1.18, -1.2, -0.6, 0.2],
        [0.2, 0.5, 0.9, -1.2, 1.78, 1.5, -0.7],
        [-0.9, -0.3, 4.1, -0.6, 1.5, 5.88, -1.6],
        [0.4, 0.4, -1.2, 0.2, -0.7, -1.6, 0.88],
    ]
)


@pytest.mark.parametrize(
    ("s", "lam", "seconds", "best"),
    [
        (SINGLE, [7.056, 1.411], 0.0, -2.577190),  # 18 % lower than with features of the first point only
        (MUNNELL, [1.3819, 0.4606, 2.3032], 0.0, -4.685424),  # 1.2 % lower than without starts solved where they are
        (CARS, [4.0548, 0.5069, 0.5069], 0.0, -0.862525),  # .5 %
        (RESIDUALS, [1.2, 0.3, 1.2], 0.25, -1.995851),  # 6 % lower than without random columns
    ],
)
def test_unequal_penalties_end_at_the_best_point_known(s, lam, seconds, best):
    model = ExactSPCA(len(lam), lam=lam, proof_seconds=seconds).fit_covariance(s)
    assert model.objective_ <= best + 1e-5


def test_columns_with_unequal_penalties_change_places():
    """Two clusters: the penalty that is left for the larger one decides, and steps of ADMM do not exchange them."""
    s = np.zeros((8, 8))
    s[:5, :5] = 1.0
    s[5:, 5:] = 1.7
    s += 0.05 * np.eye(8)
    found = [ExactSPCA(2, lam=lam, proof_seconds=0.0).fit_covariance(s).objective_ for lam in ([0.3, 1.6], [1.6, 0.3])]
    assert found[0] == pytest.approx(found[1], rel=1e-9)
