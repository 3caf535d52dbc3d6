import numpy as np
import pytest
from scipy.optimize import minimize

from fedspca.linalg import certificate
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


def brute(w, gradient, lam, multiplier):
    """‖G − ξ − wL‖/‖G‖ and its largest entry at a given L, with the best ξ, entry by entry."""
    lam = np.broadcast_to(lam, w.shape[1:])
    slack = gradient - w @ multiplier
    left = np.zeros_like(slack)
    for i, j in np.ndindex(*slack.shape):
        if w[i, j] != 0.0:
            left[i, j] = slack[i, j] - lam[j] * np.sign(w[i, j])
        else:
            left[i, j] = np.sign(slack[i, j]) * max(abs(slack[i, j]) - lam[j], 0.0)
    size = np.linalg.norm(gradient) or 1.0
    return np.linalg.norm(left) / size, np.abs(left).max() / size


def a_point(seed, d=40, r=3, lam=1.0, off=0.0):
    """A sparse point with a third of its rows zero, and a gradient stationary up to ``off`` in the rows off support."""
    rng = np.random.default_rng(seed)
    w = np.where(rng.random((d, r)) < 0.5, rng.standard_normal((d, r)), 0.0)
    w[: d // 3] = 0.0
    w = retract(w)
    multiplier = rng.standard_normal((r, r))
    inside = np.where(w != 0, lam * np.sign(w), 0.9 * lam * rng.uniform(-1.0, 1.0, (d, r)))
    gradient = w @ (multiplier + multiplier.T) + inside
    gradient[: d // 3] *= 1.0 + off
    return w, gradient


@pytest.mark.parametrize("lam", [1.0, np.array([0.5, 1.0, 2.0])])
@pytest.mark.parametrize("seed", range(4))
def test_a_stationary_point_has_a_certificate_of_nothing(seed, lam):
    w, gradient = a_point(seed, lam=lam)
    found = certify(w, gradient, lam)
    assert found.residual < 1e-12
    assert found.largest < 1e-12
    assert np.allclose(found.multiplier, found.multiplier.T)


@pytest.mark.parametrize("seed", range(6))
def test_it_says_what_is_left_at_its_multiplier(seed):
    rng = np.random.default_rng(seed)
    w, gradient = a_point(seed, off=0.5)
    gradient += 0.3 * rng.standard_normal(gradient.shape)
    found = certify(w, gradient, 1.0)
    assert (found.residual, found.largest) == pytest.approx(brute(w, gradient, 1.0, found.multiplier), rel=1e-9)
    assert found.residual <= 1.001 * least_residual(w, gradient, 1.0)
    assert found.residual <= brute(w, gradient, 1.0, np.zeros((3, 3)))[0]


def test_rows_off_the_support_count():
    """A feature that no loading uses, with a gradient above the penalty, means that the point is not stationary."""
    w, gradient = a_point(0)
    assert not w[2].any()
    gradient[2] = [0.0, -1.7, 1.2]
    size = np.linalg.norm(gradient)
    found = certify(w, gradient, 1.0)
    assert found.residual == pytest.approx(np.hypot(0.7, 0.2) / size, rel=1e-9)
    assert found.largest == pytest.approx(0.7 / size, rel=1e-9)
    gradient[2] = 1.0  # as much as the penalty is no excess
    assert certify(w, gradient, 1.0).residual < 1e-12


def test_the_largest_entry_may_be_on_the_support():
    w = np.zeros((3, 1))
    w[:2, 0] = [0.6, 0.8]
    gradient = np.array([[10.0], [1.0], [1.1]])
    found = certify(w, gradient, 1.0)
    left = gradient[:2] - 1.0
    left = left - w[:2] * (w[:2].T @ left).item()
    assert found.multiplier.item() == pytest.approx(w[:2, 0] @ [9.0, 0.0], rel=1e-6)
    assert found.largest == pytest.approx(np.abs(left).max() / np.linalg.norm(gradient), rel=1e-6)
    assert found.residual == pytest.approx(np.sqrt(np.sum(left**2) + 0.01) / np.linalg.norm(gradient), rel=1e-6)


def test_no_gradient_is_told_in_its_own_units():
    w = np.eye(4, 2)
    found = certify(w, np.zeros((4, 2)), 0.0)
    assert (found.residual, found.largest) == (0.0, 0.0)
    # with a penalty, the multiplier that the diagonal needs is the penalty itself
    assert certify(w, np.zeros((4, 2)), 1.0).residual == pytest.approx(0.0, abs=1e-12)
    # and what no multiplier settles is told as it is: min over L of ‖(1, 1) + L(0.6, 0.8)‖
    left = certify(np.array([[0.6], [0.8]]), np.zeros((2, 1)), 1.0)
    assert (left.residual, left.largest) == pytest.approx((0.2, 0.16), rel=1e-6)


def test_few_steps_give_a_valid_bound_that_more_do_not_worsen():
    rng = np.random.default_rng(5)
    w = np.zeros((60, 4))
    for j in range(4):
        w[10 * j : 10 * j + 12, j] = rng.standard_normal(12)
    w = retract(w)
    gradient = 20.0 * rng.standard_normal((60, 4)) * (w != 0) + 0.9 * rng.standard_normal((60, 4))
    found = [certify(w, gradient, 1.0, max_iter=steps) for steps in (1, 2, 5, 100)]
    residuals = [one.residual for one in found]
    assert residuals == sorted(residuals, reverse=True)
    for one in found:
        assert one.residual == pytest.approx(brute(w, gradient, 1.0, one.multiplier)[0], rel=1e-9)
    assert residuals[-1] <= 1.001 * least_residual(w, gradient, 1.0)


def small_problem(seed):
    """A point with entries of very different sizes, where the support leaves much of L free; None if there is none."""
    rng = np.random.default_rng(seed)
    d, r = int(rng.integers(2, 12)), int(rng.integers(1, 4))
    w = np.where(rng.random((d, r)) < rng.choice([0.3, 0.6]), rng.standard_normal((d, r)), 0.0)
    w *= 10.0 ** rng.integers(-4, 1, (d, r))
    if r > d or not w.any(axis=0).all() or (w := retract(w)) is None:
        return None
    return w, rng.standard_normal((d, r)) * 10.0 ** rng.integers(-2, 3)


# the first few are ordinary; on the others full steps fail, and damped ones are taken
ORDINARY = [seed for seed in range(40) if small_problem(seed) is not None]
HARD = [38, 122, 200, 224, 232, 412, 480, 1787]


@pytest.mark.parametrize("seed", [*ORDINARY[:15], *HARD])
def test_small_problems_are_solved_however_unlike_their_entries(seed):
    w, gradient = small_problem(seed)
    found = certify(w, gradient, 1.0)
    assert found.residual <= 1.001 * least_residual(w, gradient, 1.0) + 1e-9
    assert found.residual == pytest.approx(brute(w, gradient, 1.0, found.multiplier)[0], rel=1e-9)


def steps_of(monkeypatch, problems):
    taken, made = [], certificate.NormalEquations.at
    monkeypatch.setattr(
        certificate.NormalEquations, "at", lambda *given, **settings: taken.append(1) or made(*given, **settings)
    )
    for w, gradient in problems:
        certify(w, gradient, 1.0)
    monkeypatch.undo()
    return len(taken)


def test_it_takes_few_steps(monkeypatch):
    """Ordinary problems take three or four; where steps are damped, there are more."""
    assert steps_of(monkeypatch, [small_problem(seed) for seed in ORDINARY]) <= 98
    assert steps_of(monkeypatch, [small_problem(seed) for seed in HARD]) <= 58
    assert steps_of(monkeypatch, [a_point(seed) for seed in range(10)]) <= 42


def test_a_known_multiplier_gives_the_residual_that_it_leaves_or_a_smaller_one():
    rng = np.random.default_rng(0)
    w = retract(np.where(rng.random((40, 5)) < 0.4, rng.standard_normal((40, 5)), 0.0))
    multiplier = rng.standard_normal((5, 5))
    multiplier = multiplier + multiplier.T
    inside = np.where(w != 0, np.sign(w), rng.uniform(-1.0, 1.0, w.shape))
    gradient = inside + w @ multiplier
    assert certify(w, gradient, 1.0, multiplier=multiplier).residual < 1e-15
    far = certify(w, gradient, 1.0, multiplier=multiplier + np.eye(5))
    assert far.residual < 1e-8
