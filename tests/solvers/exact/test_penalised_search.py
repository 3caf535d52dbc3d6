"""What the search for a penalised problem counts as the same."""

from dataclasses import replace

import numpy as np

from fedspca.linalg.quadratic import DenseQuadratic
from fedspca.solvers.exact.penalised import Penalised
from fedspca.solvers.exact.penalised_search import _alike, _from_split, _unlike_earlier
from fedspca.solvers.exact.tuning import PenalisedTuning
from fedspca.solvers.exact.whole import leading


def test_points_are_alike_up_to_signs_and_order_of_their_columns():
    w = np.linalg.qr(np.random.default_rng(0).standard_normal((12, 3)))[0]
    other = np.linalg.qr(np.random.default_rng(1).standard_normal((12, 3)))[0]
    exchanged = np.column_stack([w[:, :2], np.linalg.qr(np.column_stack([w[:, :2], other]))[0][:, 2]])
    found = _alike(np.array([w, w[:, [2, 0, 1]] * [1.0, -1.0, 1.0], other, exchanged]), 0.99)
    expected = np.eye(4, dtype=bool)
    expected[0, 1] = expected[1, 0] = True
    assert np.array_equal(found, expected)


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
