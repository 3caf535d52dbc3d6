import numpy as np
import pytest
from scipy.optimize import minimize

from fedspca.linalg.certificate import certify
from fedspca.linalg.sparse_stiefel import retract


def least_residual(w, gradient, lam):
    """The same convex problem by a general method, far slower."""
    r = w.shape[1]
    upper = np.triu_indices(r)

    def value(entries):
        multiplier = np.zeros((r, r))
        multiplier[upper] = entries
        multiplier = multiplier + multiplier.T - np.diag(np.diag(multiplier))
        slack = gradient - w @ multiplier
        excess = slack - np.where(w != 0, lam * np.sign(w), np.clip(slack, -lam, lam))
        slope = -2.0 * w.T @ excess
        slope = slope + slope.T
        slope[np.diag_indices(r)] /= 2.0
        return float(np.vdot(excess, excess)), slope[upper]

    options = {"maxiter": 10_000, "maxfun": 50_000, "ftol": 1e-16, "gtol": 1e-12}
    found = minimize(value, np.zeros(len(upper[0])), jac=True, method="L-BFGS-B", options=options)
    return np.sqrt(found.fun) / np.linalg.norm(gradient)


@pytest.mark.parametrize("seed", range(12))
def test_the_certificate_is_the_least_residual_even_where_supports_hardly_meet(seed):
    rng = np.random.default_rng(seed)
    d, r, lam = 300, 8, 1.0
    w = np.where(rng.random((d, r)) < 0.12, rng.standard_normal((d, r)), 0.0)
    w[:, 1:] *= np.where(rng.random((d, 1)) < 0.2, 1.0, (w[:, :1] == 0))  # few rows are shared, some by tiny entries
    w *= np.where(rng.random((d, r)) < 0.3, 1e-3, 1.0)
    w = retract(w)
    multiplier = 20.0 * rng.standard_normal((r, r))
    inside = np.where(w != 0, lam * np.sign(w), rng.uniform(-1.0, 1.0, (d, r)) * lam)
    gradient = w @ (multiplier + multiplier.T) + inside + 1e-4 * rng.standard_normal((d, r))
    assert certify(w, gradient, lam).residual <= 1.01 * least_residual(w, gradient, lam)
