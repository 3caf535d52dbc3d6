import pytest

from fedspca import FASPCA, FSSPCA
from fedspca.fit import FitSettings
from fedspca.fit.solvers import make_estimator


def test_sparsity_is_asked_for_in_one_way_that_the_solver_knows():
    for study, words in (
        (FitSettings(nonzero=3, lam=1.0), "more than one way: --nonzero, --lam"),
        (FitSettings(solver="faspca", nonzero=3), "does not take --nonzero; it takes --lam"),
        (FitSettings(solver="fsspca"), "needs --lam"),
        (FitSettings(solver="fsspca", lam=190.0), "needs --lam1.*--lam1 10.*--lam1 0 is the method of Tan"),
        (FitSettings(lam=190.0, rho=1.0), "'exact' does not take --rho; it is for faspca, fsspca"),
        (FitSettings(solver="faspca", lam=1.0, local_steps=3), "does not take --local-steps; it is for fsspca"),
        (FitSettings(solver="faspca", lam=1.0, search="auto"), "does not take --search; it is for exact"),
        (FitSettings(preset="paper"), "Write --solver faspca or --solver fsspca"),
        (FitSettings(solver="faspca", lam=1.0, preset="book"), "no preset 'book'"),
        (FitSettings(solver="magic"), "no solver 'magic'"),
        # what is wrong is told before what is missing, here --lam and --lam1
        (FitSettings(solver="fsspca", direction="uphill"), "--direction must be one of steepest, conjugate, newton"),
        (FitSettings(solver="fsspca", line_search="bold"), "--line-search must be one of armijo, wolfe. Got 'bold'"),
    ):
        with pytest.raises(ValueError, match=words):
            make_estimator(study, [])


def test_the_papers_preset_is_the_papers_estimator_and_gives_way_to_what_is_given():
    made = make_estimator(FitSettings(solver="fsspca", preset="paper", components=3, lam=190.0, lam1=10.0), [])
    paper = FSSPCA.paper(3, lam1=10.0, lam2=190.0, scale=True, max_missing=0.2, callbacks=[])
    assert made.get_params() == paper.get_params()
    made = make_estimator(FitSettings(solver="faspca", preset="paper", lam=170.0, rho=5.0, block_sizes=(2,)), [])
    paper = FASPCA.paper(2, lam=170.0, rho=5.0, block_sizes=(2,), scale=True, max_missing=0.2, callbacks=[])
    assert made.get_params() == paper.get_params()


@pytest.mark.parametrize("given", [{}, {"variance_kept": 0.9}, {"nonzero": "auto"}])
def test_a_sample_needs_a_number_of_non_zeros_or_a_penalty(given):
    with pytest.raises(ValueError, match="--sample needs a number of non-zeros"):
        make_estimator(FitSettings(sample=20, **given), [])
    assert make_estimator(FitSettings(sample=20, nonzero=3), []).sample == 20
