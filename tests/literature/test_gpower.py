import numpy as np
import pytest

from contracts.literature import FEW, STEPS, LiteratureContract
from fedspca.experiments.alternatives import span_error
from fedspca.literature import GPower


def polar(x):
    left, _, right = np.linalg.svd(x, full_matrices=False)
    return left @ right


def thresholded(seen, penalty, gamma):
    if penalty == "l1":
        return np.sign(seen) * np.maximum(np.abs(seen) - gamma, 0)
    return np.where(seen**2 > gamma, seen, 0)


def single(a, penalty, gamma):
    """Algorithms 2 and 3 of the source, with x in the sphere of the rows."""
    j = np.argmax(np.linalg.norm(a, axis=0))
    x = a[:, j] / np.linalg.norm(a[:, j])
    for _ in range(STEPS):
        x = a @ thresholded(a.T @ x, penalty, gamma)
        x /= np.linalg.norm(x)
    v = thresholded(a.T @ x, penalty, gamma)
    return v / np.linalg.norm(v)


class TestSingleL1(LiteratureContract):
    penalty, gamma = "l1", 6.0

    def make(self, **settings):
        return GPower(
            2, penalty=self.penalty, gamma=self.gamma if not settings.get("scale") else 1.0, **FEW, **settings
        )

    def reference(self, a):
        first = single(a, self.penalty, self.gamma)
        second = single(a - np.outer(a @ first, first), self.penalty, self.gamma)
        return np.array([first, second])


class TestSingleL0(TestSingleL1):
    penalty, gamma = "l0", 150.0


class TestBlockL0(LiteratureContract):
    """Algorithms 4 and 5 of the source, with X in St(n, r)."""

    penalty, gamma, mu = "l0", 20.0, "distinct"

    def make(self, **settings):
        gamma = self.gamma if not settings.get("scale") else 1.0
        return GPower(2, penalty=self.penalty, block=True, mu=self.mu, gamma=gamma, **FEW, **settings)

    def reference(self, a):
        weights = np.array([1.0, 0.5 if self.mu == "distinct" else 1.0])
        x = polar(a @ np.linalg.eigh(a.T @ a)[1][:, ::-1][:, :2])
        for _ in range(STEPS):
            x = polar(a @ (weights * thresholded(weights * (a.T @ x), self.penalty, self.gamma)))
        v = weights * thresholded(weights * (a.T @ x), self.penalty, self.gamma)
        return (v / np.linalg.norm(v, axis=0)).T


class TestBlockL1(TestBlockL0):
    penalty, gamma, mu = "l1", 4.0, "equal"


def test_a_number_of_nonzeros_may_stand_in_the_place_of_gamma(rows):
    for penalty in ("l1", "l0"):
        for block in (False, True):
            model = GPower(2, penalty=penalty, block=block, n_nonzero=3).fit(rows)
            assert [np.count_nonzero(w) for w in model.components_] == [3, 3]
    for given in ({}, {"gamma": 1.0, "n_nonzero": 3}):
        with pytest.raises(ValueError, match="one of the 'gamma' and 'n_nonzero'"):
            GPower(**given).fit(rows)
    with pytest.raises(ValueError, match="without any weight"):
        GPower(1, gamma=1e9).fit(rows)


def test_wdbc_star_at_thirty_nonzeros(wdbc, wdbc_standardised):
    """What a prototype of seven lines reached: 679.232 in 23 rounds."""
    model = GPower(2, penalty="l0", block=True, n_nonzero=15, scale=True, tol=1e-6).fit(wdbc)
    assert np.count_nonzero(model.components_) == 30
    assert span_error(wdbc_standardised, model.components_) < 679.3
