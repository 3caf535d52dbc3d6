import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from fedspca import ExactSPCA, StopFit, StopReason
from fedspca.experiments.data import sites_in_order
from fedspca.linalg.stiefel import orthonormality_error


def test_the_objective_never_rises(wdbc):
    for r, lam in ((2, 190), (4, 250)):
        fit = ExactSPCA(r, lam=lam, scale=True, search="products").fit(wdbc, sites=sites_in_order(569, 3))
        objectives = [record.objective for record in fit.history_ if record.objective is not None]
        assert len(objectives) >= 3
        assert np.all(np.diff(objectives) <= 1e-9 * np.abs(objectives[:-1]))


def test_asking_stops_with_the_certificate(wdbc):
    fit = ExactSPCA(2, lam=290, scale=True, search="products").fit(wdbc)
    certificates = [record.certificate for record in fit.history_ if record.certificate is not None]
    assert certificates[-1] <= fit.tol < min(certificates[:-1])


def test_the_first_question_is_a_seed_and_answers_may_be_rounded(wdbc):
    sites = sites_in_order(569, 10)
    whole = ExactSPCA(2, lam=290, scale=True, search="products").fit(wdbc, sites=sites)
    first = next(record for record in whole.history_ if record.query == "gram_sketch")
    assert first.bytes_down < 3 * 8 * 830  # mean and scale, and no directions
    single = {"precision": "float32", "search": "products"}
    rounded = ExactSPCA(2, lam=290, scale=True, tol=1e-5, **single).fit(wdbc, sites=sites)
    asked = [record for record in rounded.history_ if record.query.startswith("gram")]
    assert rounded.stop_reason_ is StopReason.CERTIFIED
    assert rounded.objective_ <= -8327.3
    assert asked[0].bytes_up == first.bytes_up / 2


def test_stopping_before_any_point_gives_the_leading_subspace(rows):
    def at_once(record):
        raise StopFit

    fit = ExactSPCA(2, lam=10.0, callbacks=[at_once], search="products").fit(rows)
    assert fit.stop_reason_ is StopReason.CALLBACK
    assert orthonormality_error(fit.components_.T) < 1e-8


def test_too_few_rounds_are_said(wdbc):
    with pytest.warns(ConvergenceWarning, match=r"after 5 rounds with a certificate of .*max_rounds"):
        ExactSPCA(2, lam=190, scale=True, max_rounds=5, search="products").fit(wdbc)
