import numpy as np
import pytest
from scipy.optimize import minimize

from contracts.literature import FEW, STEPS, LiteratureContract, centred
from fedspca.literature import SCoTLASS
from fedspca.literature.scotlass import most_aligned


def aligned(x, t):
    """The soft threshold with ‖v‖₁ = t, by bisection on a grid that halves."""
    low, high = 0.0, np.abs(x).max()
    for _ in range(200):
        level = (low + high) / 2
        v = np.sign(x) * np.maximum(np.abs(x) - level, 0)
        v /= np.linalg.norm(v)
        low, high = (level, high) if np.abs(v).sum() > t else (low, level)
    return v


class TestSCoTLASS(LiteratureContract):
    def make(self, **settings):
        return SCoTLASS(2, t=1.6, **FEW, **settings)

    def reference(self, a):
        s, found = a.T @ a, []
        for _ in range(2):
            first = s[:, np.argmax(np.diag(s))].copy()
            v = aligned(first, 1.6)
            for _ in range(STEPS):
                v = aligned(s @ v, 1.6)
            found.append(v)
            q = v if len(found) == 1 else v - found[0] * (found[0] @ v)
            p = np.eye(len(s)) - np.outer(q, q) / (q @ q)
            s = p @ s @ p
        return np.array(found)


def test_the_first_loading_is_a_constrained_maximum(rows):
    s = centred(rows).T @ centred(rows)
    found = SCoTLASS(1, t=1.6, tol=1e-8).fit(rows).components_[0]
    assert np.abs(found).sum() <= 1.6 + 1e-9
    bounds = [
        {"type": "ineq", "fun": lambda v: 1 - v @ v},
        {"type": "ineq", "fun": lambda v: 1.6 - np.sqrt(v**2 + 1e-16).sum()},
    ]
    better = minimize(lambda v: -(v @ s @ v) / 1e3, found, constraints=bounds, method="SLSQP")
    assert -better.fun * 1e3 <= found @ s @ found * (1 + 1e-6)


@pytest.mark.parametrize("t", [1.0, 1.2, 2.0, 10.0])
def test_most_aligned_keeps_both_norms(t):
    for x in (np.array([3.0, -2.0, 1.0, 0.5]), np.array([1.0, 1.0, 0.2, 0.0])):
        v = most_aligned(x, t)
        assert np.linalg.norm(v) <= 1 + 1e-12
        assert np.abs(v).sum() <= t + 1e-6
