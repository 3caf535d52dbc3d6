import warnings

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.estimator_checks import parametrize_with_checks

from contracts.solver import owners
from fedspca import FSSPCA
from fedspca.linalg.stiefel import orthonormality_error


@parametrize_with_checks([FSSPCA(max_rounds=300)])
def test_scikit_learns_own_checks(estimator, check):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # some of its tables are pure noise
        check(estimator)


def test_the_objective_counts_the_smoothed_norm_once_a_site(rows):
    model = FSSPCA(2, lam1=2.0, lam2=7.0, mu=1e-3).fit(rows, sites=owners(len(rows), 3))
    w = model.components_.T
    centred = rows - rows.mean(axis=0)
    magnitude = np.abs(w)
    smooth = np.where(magnitude < 5e-4, magnitude**2 / 1e-3 + 2.5e-4, magnitude).sum()
    brute = -(np.linalg.norm(centred @ w) ** 2) + 3 * 2.0 * smooth + 7.0 * magnitude.sum()
    assert np.isclose(model.objective_, brute, rtol=1e-8)


def test_extending_keeps_what_was_found(rows):
    model = FSSPCA(2, lam2=15.0).fit(rows)
    first = model.components_.copy()
    model.extend(rows, 1)
    assert np.array_equal(model.components_[:2], first)
    assert orthonormality_error(model.components_.T) < 1e-8
