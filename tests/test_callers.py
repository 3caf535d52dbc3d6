"""A warning points at the line of the person's own code."""

import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.pipeline import make_pipeline

from fedspca import FASPCA, ConstantFeatureWarning, ExactSPCA
from fedspca._callers import warn_caller


@pytest.mark.parametrize("wrapped", [False, True])
def test_fits_warn_where_they_were_called(wrapped, rows):
    model = FASPCA(1, lam=5.0, max_rounds=2)
    with pytest.warns(ConvergenceWarning) as caught:
        (make_pipeline(model) if wrapped else model).fit(rows)
    assert wrapped or caught[0].filename == __file__
    assert "fedspca/estimators" not in caught[0].filename.replace("\\", "/")


def test_constant_features_are_warned_of_where_the_fit_was_called(rows):
    rows = np.column_stack([rows, np.ones(len(rows))])
    with pytest.warns(ConstantFeatureWarning) as caught:
        ExactSPCA(1, n_nonzero=2).fit(rows)
    assert caught[0].filename == __file__


def test_outside_the_package_the_line_itself_is_named():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warn_caller("so", UserWarning)
    assert caught[0].filename == __file__
