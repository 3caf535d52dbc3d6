import numpy as np
import pytest

from contracts.literature import LiteratureContract, centred
from fedspca import FederationError, LocalFederation, Policy, Site
from fedspca.literature import FantopePS
from fedspca.metrics import recovery_error


def onto_fantope(x, r):
    values, vectors = np.linalg.eigh(x)
    low, high = values[0] - 1, values[-1]
    for _ in range(200):
        theta = (low + high) / 2
        low, high = (theta, high) if np.clip(values - theta, 0, 1).sum() > r else (low, theta)
    return (vectors * np.clip(values - theta, 0, 1)) @ vectors.T


def relaxation(s, r, lam, steps=3000):
    """Algorithm 1 of the source, with ρ of the size of S."""
    rho = 0.3 * np.linalg.norm(s, 2)
    y, u = np.zeros_like(s), np.zeros_like(s)
    for _ in range(steps):
        x = onto_fantope(y - u + s / rho, r)
        y_before, y = y, np.sign(x + u) * np.maximum(np.abs(x + u) - lam / rho, 0)
        u = u + x - y
        if np.abs(y - y_before).max() + np.abs(x - y).max() < 1e-13:
            break
    return y


class TestFantope(LiteratureContract):
    distance = staticmethod(recovery_error)  # a subspace is what it returns: eigenvalues of H are equal

    def make(self, **settings):
        lam = 3.0 if settings.get("scale") else 30.0
        return FantopePS(2, lam=lam, **{"tol": 1e-10, "max_rounds": 20000, **settings})

    def reference(self, a):
        return np.linalg.eigh(relaxation(a.T @ a, 2, 30.0))[1][:, ::-1][:, :2].T

    def test_the_value_is_between_any_point_and_the_dual_value(self, rows):
        s = centred(rows).T @ centred(rows)
        model = self.make().fit(rows)
        value = np.sum(s * model.projection_) - 30.0 * np.abs(model.projection_).sum()
        assert value <= model.dual_value_ * (1 + 1e-9)
        assert np.isclose(value, model.dual_value_, rtol=1e-6)

    def test_a_site_that_keeps_its_covariance_is_heard(self, rows):
        closed = LocalFederation([Site("a", rows, policy=Policy(max_gram_features=5))])
        with pytest.raises(FederationError, match="whole covariance of 12 features"):
            self.make().fit_federation(closed)
