import warnings

import numpy as np
import pytest
from sklearn.datasets import load_wine
from sklearn.exceptions import ConvergenceWarning

from contracts.solver import SolverContract, owners
from fedspca import FASPCA, FSSPCA, StopReason
from fedspca.experiments.data import sites_in_order
from fedspca.linalg.stiefel import orthonormality_error


class TestFSSPCA(SolverContract):
    penalty = "lam2"

    def make(self, n_components=2, *, penalty=0.0, **settings):
        return FSSPCA(n_components, lam2=penalty, **settings)


@pytest.mark.parametrize("k", [1, 3, 5, 10])
def test_wdbc_star_converges_at_the_papers_penalties(wdbc, k):
    model = FSSPCA(2, lam1=10, lam2=190, scale=True).fit(wdbc, sites=sites_in_order(569, k))
    assert model.stop_reason_ is StopReason.CONVERGED
    assert np.count_nonzero(model.components_) < 400
    assert orthonormality_error(model.components_.T) < 1e-8


def test_without_smoothing_it_reaches_faspcas_optimum(wdbc):
    sites = sites_in_order(569, 3)
    smooth = FSSPCA(2, lam1=0, lam2=290, scale=True).fit(wdbc, sites=sites)
    linear = FASPCA(2, lam=290, scale=True).fit(wdbc, sites=sites)
    assert np.isclose(smooth.objective_, linear.objective_, rtol=1e-6)
    assert np.array_equal(smooth.components_ != 0, linear.components_ != 0)


@pytest.mark.parametrize("line_search", ["armijo", "wolfe"])
@pytest.mark.parametrize("retraction", ["qr", "polar"])
@pytest.mark.parametrize("block_sizes", [None, [1, 2], [1, 1, 1]])
def test_every_choice_of_the_paper(rows, line_search, retraction, block_sizes):
    model = FSSPCA(3, lam1=1.0, lam2=10.0, line_search=line_search, retraction=retraction, block_sizes=block_sizes)
    model.fit(rows, sites=owners(len(rows), 3))
    assert model.stop_reason_ is StopReason.CONVERGED
    assert orthonormality_error(model.components_.T) < 1e-8
    reference = FSSPCA(3, lam1=1.0, lam2=10.0, block_sizes=block_sizes).fit(rows, sites=owners(len(rows), 3))
    assert np.isclose(model.objective_, reference.objective_, rtol=1e-4)


def test_the_choices_reach_the_sites(rows):
    """Different choices take different ways to the same place."""
    settings = {"lam1": 1.0, "lam2": 10.0, "block_sizes": [1, 2]}
    ways = {}
    for choice in (
        {},
        {"line_search": "wolfe"},
        {"retraction": "polar"},
        {"deflation": "generalized"},
        {"local_tol": 1e-9},
    ):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model = FSSPCA(3, **settings, **choice).fit(rows, sites=owners(len(rows), 3))
        ways[tuple(choice)] = [record.objective for record in model.history_ if record.objective is not None]
        assert orthonormality_error(model.components_.T) < 1e-8
    for choice, way in ways.items():
        assert not choice or way != ways[()], choice


def test_deflation_stays_in_the_complement_however_many_rounds():
    """A rounding error along what was removed must not grow from round to round."""
    data = load_wine().data
    sites = np.arange(len(data)) % 4
    model = FSSPCA(4, block_sizes=[1] * 4, scale=True, lam2=20).fit(data, sites=sites)
    linear = FASPCA(4, block_sizes=[1] * 4, scale=True, lam=20).fit(data, sites=sites)
    assert model.converged_
    assert np.isclose(model.objective_, linear.objective_, rtol=1e-5)


def test_smoothing_shrinks_too(rows):
    plain = FSSPCA(2, lam1=0.0, lam2=5.0).fit(rows, sites=owners(len(rows), 3))
    smooth = FSSPCA(2, lam1=20.0, lam2=5.0).fit(rows, sites=owners(len(rows), 3))
    assert np.abs(smooth.components_).sum() < np.abs(plain.components_).sum()
