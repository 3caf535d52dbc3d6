import numpy as np
import pytest

from fedspca.linalg.quadratic import DenseQuadratic, Quadratic


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
