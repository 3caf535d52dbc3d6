import numpy as np

from fedspca.linalg.rotations import turned_pairs, varimax


def test_varimax_of_two_columns_beats_every_other_angle():
    w = np.linalg.qr(np.random.default_rng(0).standard_normal((300, 2)) ** 3)[0]
    angles = np.linspace(0, np.pi, 500)
    turns = np.array([[np.cos(angles), -np.sin(angles)], [np.sin(angles), np.cos(angles)]]).transpose(2, 0, 1)
    best = max(np.var((w @ turn) ** 2, axis=0).sum() for turn in turns)
    assert np.var((w @ varimax(w)) ** 2, axis=0).sum() >= best * (1 - 1e-12)


def test_turned_pairs_span_the_same_and_touch_two_columns():
    w = np.linalg.qr(np.random.default_rng(0).standard_normal((30, 4)))[0]
    points = turned_pairs(w, 3)
    assert len(points) == 3
    for point in points:
        assert np.allclose(point @ point.T, w @ w.T)
        assert np.sum(np.any(point != w, axis=0)) == 2
