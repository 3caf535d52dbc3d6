import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.estimator_checks import parametrize_with_checks

from contracts.solver import owners
from fedspca import FASPCA, LocalFederation, Site, StopReason
from fedspca.experiments.data import sites_in_order
from fedspca.linalg.stiefel import orthonormality_error
from fedspca.metrics import recovery_error


@parametrize_with_checks([FASPCA(max_rounds=300)])
def test_scikit_learns_own_checks(estimator, check):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # some of its tables are pure noise
        check(estimator)


def test_the_objective_is_what_it_says(wdbc, wdbc_standardised):
    model = FASPCA(2, lam=290, scale=True).fit(wdbc, sites=sites_in_order(569, 10))
    w = model.components_.T
    brute = -(np.linalg.norm(wdbc_standardised @ w) ** 2) + 290 * np.abs(w).sum()
    assert np.isclose(model.objective_, brute, rtol=1e-10)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"lam": [1.0, 2.0, 3.0]}, "each of the 2 components"),
        ({"lam": [1.0, -2.0]}, "non-negative"),
        ({"rho": -1.0}, "rho"),
        ({"rho": [1.0, 2.0]}, r"each of the 1 stage"),
        ({"block_sizes": [1, 2]}, "add up to n_components=2"),
        ({"block_sizes": [2, 0]}, "positive integers"),
        ({"init": np.ones((2, 12))}, "linearly independent"),
        ({"init": np.ones((3, 12))}, "Got shape"),
        ({"init": "cold"}, "init"),
    ],
)
def test_settings_that_do_not_fit_are_named(rows, settings, words):
    with pytest.raises(ValueError, match=words):
        FASPCA(2, **settings).fit(rows)


def test_a_given_start_is_used(rows):
    reference = FASPCA(2, lam=20.0).fit(rows)
    again = FASPCA(2, lam=20.0, init=reference.components_).fit(rows)
    assert np.isclose(again.objective_, reference.objective_, rtol=1e-6)
    assert again.n_rounds_ < reference.n_rounds_


def test_extending_keeps_what_was_found(rows):
    sites = owners(len(rows), 3)
    model = FASPCA(1, lam=15.0).fit(rows, sites=sites)
    first = model.components_.copy()
    rounds = model.n_rounds_
    model.extend(rows, 2, sites=sites)
    assert np.array_equal(model.components_[:1], first)
    assert model.components_.shape == (3, 12)
    assert orthonormality_error(model.components_.T) < 1e-8
    assert model.n_rounds_ == len(model.history_) > rounds
    whole = FASPCA(3, lam=15.0, block_sizes=[1, 2]).fit(rows, sites=sites)
    assert np.isclose(model.objective_, whole.objective_, rtol=1e-5)
    assert recovery_error(model.components_, whole.components_) < 1e-6
    assert model.transform(rows).shape == (60, 3)
    with pytest.raises(ValueError, match="less the 3 found already"):
        model.extend(rows, 10, sites=sites)


def test_extending_wants_the_same_rows_and_features(rows):
    model = FASPCA(1, lam=15.0).fit(pd.DataFrame(rows, columns=[f"g{j}" for j in range(12)]))
    backwards = Site("all", rows, feature_names=[f"g{11 - j}" for j in range(12)])
    with pytest.raises(ValueError, match="not those that the model was fitted to"):
        model.extend_federation(LocalFederation([backwards]), 1)
    with pytest.raises(ValueError, match=r"fitted to 60 rows, and these are others \(20 rows"):
        model.extend(pd.DataFrame(rows[:20], columns=model.feature_names_in_), 1)


def test_extending_takes_the_last_rho_and_remembers_how_the_first_ended(rows):
    model = FASPCA(2, lam=15.0, block_sizes=[1, 1], rho=[900.0, 800.0], max_rounds=3, tol=1e-12)
    with pytest.warns(ConvergenceWarning):
        model.fit(rows)
    model.set_params(max_rounds=1000, tol=1e-6).extend(rows, 1)
    assert list(model.rho_) == [900.0, 800.0, 800.0]
    assert model.stop_reason_ is StopReason.MAX_ROUNDS
    assert [record.stage for record in model.history_][-2] == 2
