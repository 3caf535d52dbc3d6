import numpy as np
import pytest
import scipy.sparse as sp

from fedspca.linalg.gaps import GapModel, refitted

D, Q = 6, 2


@pytest.fixture
def model():
    rng = np.random.default_rng(0)
    return GapModel(rng.standard_normal(D), 1 + rng.random(D), rng.standard_normal((D, Q)), np.array([0.3]))


def rows(n=40, seed=1):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n, D)) + 1
    gaps = rng.random(x.shape) < 0.3
    gaps[:5] = False
    gaps[5] = True  # a row without any value is at the mean
    return np.where(gaps, np.nan, x)


def conditional(model, row):
    """E[a | aₒ] and its covariance from the whole covariance, as textbooks write it."""
    sigma = model.loadings @ model.loadings.T + model.noise * np.eye(D)
    a, gone = (row - model.mean) / model.scale, np.isnan(row)
    weights = sigma[np.ix_(gone, ~gone)] @ np.linalg.inv(sigma[np.ix_(~gone, ~gone)])
    a[gone] = weights @ a[~gone]
    spread = np.zeros((D, D))
    spread[np.ix_(gone, gone)] = sigma[np.ix_(gone, gone)] - weights @ sigma[np.ix_(~gone, gone)]
    return a, spread


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_missing_values_are_expected_as_a_gaussian_does(model, form, monkeypatch):
    monkeypatch.setattr("fedspca.linalg.gaps.BLOCK_BYTES", 500)  # a few rows at a time
    x = rows()
    found = [conditional(model, row) for row in x]
    sums, gram = model.moments(form(x))
    assert np.allclose(sums, np.sum([a for a, _ in found], axis=0))
    assert np.allclose(gram, np.sum([np.outer(a, a) + spread for a, spread in found], axis=0))
    filled = model.filled(x)
    assert np.allclose(filled, [a * model.scale + model.mean for a, _ in found])
    assert np.array_equal(filled[:5], x[:5])


def test_a_step_never_lowers_the_likelihood_of_the_values_that_are_there(model):
    x = rows(200)
    before = -np.inf
    for _ in range(20):
        sigma = np.outer(model.scale, model.scale) * (model.loadings @ model.loadings.T + model.noise * np.eye(D))
        likelihood = 0.0
        for row in x:
            there = ~np.isnan(row)
            left = (row - model.mean)[there]
            part = sigma[np.ix_(there, there)]
            likelihood -= 0.5 * (np.linalg.slogdet(part)[1] + left @ np.linalg.solve(part, left)) if there.any() else 0
        assert likelihood >= before - 1e-9
        before = likelihood
        model, s = refitted(model, *model.moments(x), len(x))
    assert np.linalg.eigvalsh(s)[0] > 0
