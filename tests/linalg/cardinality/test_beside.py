"""One column beside the span of others: refits by powers and by LAPACK."""

import numpy as np
import pytest

from fedspca.linalg.cardinality import beside as module
from fedspca.linalg.cardinality.beside import Beside
from fedspca.linalg.cardinality.points import bases


def problem(rng, d, q):
    """Return a covariance, three stacked bases of sparse columns, and supports, some of them within a basis."""
    x = rng.standard_normal((3 * d, d))
    x[:, 1] = x[:, 0] + 1e-7 * x[:, 1]  # nearly copies: eigenvalues that are nearly equal
    w = np.zeros((3, d, q))
    for point in w:
        for column in point.T:
            column[rng.choice(d, 3, replace=False)] = rng.standard_normal(3)
    w[0, :, 0] = np.eye(d)[5]
    supports = np.array([np.sort(rng.choice(d, 4, replace=False)) for _ in range(90)])
    return x.T @ x, bases(w), supports, np.arange(90) % 3


@pytest.mark.parametrize("orthogonal", [True, False])
@pytest.mark.parametrize("q", [1, 2, 6])
def test_powers_give_what_lapack_gives(orthogonal, q, monkeypatch):
    s, basis, supports, of = problem(np.random.default_rng(q), 9, q)
    gains, weights = Beside(s, basis, orthogonal).refit(supports, of)
    monkeypatch.setattr(module, "_MANY", 10**9)
    exact, vectors = Beside(s, basis, orthogonal).refit(supports, of)
    assert np.array_equal(np.isfinite(gains), np.isfinite(exact))
    able = np.isfinite(exact)
    assert gains[able] == pytest.approx(exact[able], rel=1e-9, abs=1e-9 * s.max())
    clear = able & (exact > 1e-3 * s.max())
    assert np.abs(np.einsum("mk,mk->m", weights, vectors))[clear] == pytest.approx(1.0, abs=1e-5)


def test_a_support_that_others_fill_has_no_orthogonal_column_however_it_is_computed():
    s = np.diag([4.0, 3.0, 2.0, 1.0])
    supports = np.array([[0, 1]] * 200 + [[2, 3]] * 200)
    gains, _ = Beside(s, np.eye(4)[:, :2], orthogonal=True).refit(supports)
    assert (gains[:200] == -np.inf).all()
    assert gains[200:] == pytest.approx(2.0)


def test_blocks_without_variance_have_unit_weights():
    gains, weights = Beside(np.diag([1.0] + [0.0] * 8), np.zeros((9, 0)), True).refit(np.array([[5, 6, 7]] * 100))
    assert gains == pytest.approx(0.0)
    assert np.linalg.norm(weights, axis=1) == pytest.approx(1.0)


@pytest.mark.parametrize("q", [1, 3])
def test_one_support_beside_one_basis_is_refitted_alike(q):
    """Also where the support contains a whole column of the basis."""
    s, basis, supports, of = problem(np.random.default_rng(q), 9, q)
    for support, owner in zip(supports, of, strict=True):
        b = basis[owner]
        gain, x = module.best_beside(s[np.ix_(support, support)], b[support], (s @ b)[support], b.T @ s @ b)
        column = Beside(s, b, orthogonal=False).column(support)
        assert gain == pytest.approx(column.gain, rel=1e-7, abs=1e-7 * s.max())
        assert np.linalg.norm(x) == pytest.approx(1.0)
