"""What the search for a penalised problem counts as the same."""

import numpy as np

from fedspca.solvers.exact.penalised_search import _alike, _unlike_earlier


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
