import numpy as np
from scipy.stats import invgamma, norm

from fedspca.linalg.combat import shrunk


def effect(n=12, d=30, seed=0):
    rng = np.random.default_rng(seed)
    return n, rng.normal(1, 0.5, d), (n - 1) * rng.gamma(4, 0.3, d)


def test_the_estimates_are_the_posterior_means_of_their_priors():
    n, shift, squares = effect()
    found = shrunk(n, shift, squares)
    raw = squares / (n - 1)
    m, s2 = raw.mean(), raw.var(ddof=1)
    prior = invgamma((2 * s2 + m**2) / s2, scale=(m * s2 + m**3) / s2)
    assert np.isclose(prior.mean(), m)
    assert np.isclose(prior.var(), s2)
    normal = norm(shift.mean(), shift.std(ddof=1))
    for j in range(3):  # each is the mean of its posterior, given the other, by numerical integration
        gammas = np.linspace(-4, 6, 20001)
        density = normal.pdf(gammas) * np.exp(-0.5 * n * (gammas - shift[j]) ** 2 / found.variance[j])
        assert np.isclose(found.shift[j], gammas @ density / density.sum(), rtol=1e-6)
        variances = np.linspace(1e-3, 40, 400001)
        about = squares[j] + n * (shift[j] - found.shift[j]) ** 2
        density = prior.pdf(variances) * variances ** (-n / 2) * np.exp(-0.5 * about / variances)
        assert np.isclose(found.variance[j], variances @ density / density.sum(), rtol=1e-5)


def test_estimates_move_towards_those_of_the_other_features_and_less_so_with_more_rows():
    _, shift, squares = effect()
    few, many = shrunk(12, shift, squares), shrunk(1200, shift, squares * 1199 / 11)
    for found in (few, many):
        assert np.all(np.abs(found.shift - shift.mean()) < np.abs(shift - shift.mean()))
    assert np.abs(many.shift - shift).max() < 0.1 * np.abs(few.shift - shift).max()


def test_features_that_agree_stay_where_they_are():
    found = shrunk(5, np.full(4, 2.0), np.full(4, 8.0))
    assert np.allclose(found.shift, 2.0)
    assert np.allclose(found.variance, 2.0)
    assert np.allclose(shrunk(5, np.zeros(4), np.full(4, 8.0)).shift, 0.0)
