import pytest

from fedspca.fit import FitSettings
from fedspca.fit.solvers import make_estimator


def test_sparsity_is_asked_for_in_one_way_that_the_solver_knows():
    for study, words in (
        (FitSettings(nonzero=3, lam=1.0), "more than one way: --nonzero, --lam"),
        (FitSettings(solver="faspca", nonzero=3), "does not take --nonzero; it takes --lam"),
        (FitSettings(solver="fsspca"), "needs --lam"),
        (FitSettings(solver="magic"), "no solver 'magic'"),
    ):
        with pytest.raises(ValueError, match=words):
            make_estimator(study, [])
