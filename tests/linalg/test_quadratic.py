import numpy as np
import pytest

from fedspca.linalg.quadratic import DenseQuadratic, Quadratic
from fedspca.linalg.rotations import turned_pairs, varimax


def make(shift):
    rng = np.random.default_rng(0)
    factor, basis = rng.standard_normal((200, 70)), np.linalg.qr(rng.standard_normal((200, 9)))[0]
    q = Quadratic.difference(factor, basis, shift) if shift else Quadratic(factor)
    return q, factor @ factor.T - shift * basis @ basis.T


@pytest.mark.parametrize("shift", [0.0, 2.5])
@pytest.mark.parametrize("n", [200, 150, 40])
def test_thin_and_dense_say_the_same(shift, n):
    q, matrix = make(shift)
    index = np.sort(np.random.default_rng(1).permutation(200)[:n])
    part, expected = q.rows(index), matrix[np.ix_(index, index)]
    assert isinstance(part, DenseQuadratic) == (n == 40)
    w = np.random.default_rng(2).standard_normal((n, 3))
    energy, half_way = part.inner(w)
    assert np.allclose(part @ w, expected @ w)
    assert np.allclose(part.outer(half_way), expected @ w)
    assert np.isclose(energy, np.vdot(w, expected @ w))
    assert np.isclose(part.energy(w), energy)
    assert np.allclose(part.diagonal(), np.diag(expected))
    some = np.arange(0, n, 3)
    assert np.allclose(part.block(some), expected[np.ix_(some, some)])
    assert np.allclose(part.rows(some) @ w[some], expected[np.ix_(some, some)] @ w[some])


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
