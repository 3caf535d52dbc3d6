from dataclasses import replace

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from fedspca import ExactSPCA, StopFit, StopReason
from fedspca.experiments.data import sites_in_order
from fedspca.linalg import nystrom
from fedspca.linalg.quadratic import Quadratic
from fedspca.linalg.stiefel import orthonormality_error
from fedspca.solvers.exact import loop
from fedspca.solvers.exact.cardinality import Cardinality
from fedspca.solvers.exact.columns import Fit, explained_by, refine, truncate
from fedspca.solvers.exact.problem import Incumbent


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


def a_problem(seed=0, d=30):
    rng = np.random.default_rng(seed)
    factor = rng.standard_normal((d, 40)) * np.linspace(2.0, 0.5, d)[:, None]
    return factor @ factor.T, Cardinality((3, 3), orthogonal=False, tol=1e-6)


def late(problem, s, cautious, seed=0):
    """States after the searches: one whose candidate is better than the best so far, and one whose is worse."""
    rng = np.random.default_rng(seed)
    state = loop.begin(problem, len(s), 2, float(np.trace(s)), rng, n_rotations=2, max_rounds=50, rank_tol=1e-11)
    state = loop.advance(problem, state, s @ loop.question(state))
    points = [truncate(rng.standard_normal((len(s), 2)), (3, 3)) for _ in range(20)]
    points.sort(key=lambda w: -explained_by(w, s @ w))
    better, worse = points[0], points[-1]

    def at(best, candidate):
        verdict = problem.assess(best, s @ best, state.model)
        incumbent = Incumbent(best, s @ best, verdict.objective, verdict.certificate, verdict.holds, cautious)
        known, asked = np.linalg.qr(best)[0], np.linalg.qr(candidate)[0]
        model = nystrom.expand(state.model, known, s @ known)
        return replace(state, model=model, round=20, incumbent=incumbent, candidates=(candidate,), asked=asked)

    return at(worse, better), at(better, worse)


def test_caution_begins_where_a_prediction_fails():
    s, problem = a_problem()
    gains, fails = late(problem, s, cautious=False)
    assert not loop.advance(problem, gains, s @ gains.asked).incumbent.cautious
    after = loop.advance(problem, fails, s @ fails.asked).incumbent
    assert after.cautious
    assert after.w is fails.incumbent.w


def test_caution_is_not_forgotten_with_a_better_point():
    s, problem = a_problem()
    gains, _ = late(problem, s, cautious=True)
    after = loop.advance(problem, gains, s @ gains.asked).incumbent
    assert after.objective < gains.incumbent.objective
    assert after.cautious


def test_with_caution_nothing_is_promised_that_does_not_hold():
    """The majoriser never promises more than there is; the predictor does, and some of its points are worse."""
    worse = 0
    for seed in range(8):
        s, problem = a_problem(seed, d=60)
        gains, _ = late(problem, s, cautious=True, seed=seed)
        start = gains.candidates[0]
        truth = Quadratic(np.linalg.cholesky(s + 1e-9 * np.eye(60)))
        there = Fit(start, explained_by(start, s @ start))
        w = refine(truth, there, problem.k, orthogonal=False, tuning=problem.tuning).w
        known = np.linalg.qr(w)[0]
        model = nystrom.expand(gains.model, known, s @ known)
        at = replace(gains.incumbent, w=w, product=s @ w, objective=-explained_by(w, s @ w))
        for found in problem.improve(model, at):
            assert explained_by(found, s @ found) >= -at.objective * (1 - 1e-9)
        for found in problem.improve(model, replace(at, cautious=False)):
            worse += explained_by(found, s @ found) < -at.objective
    assert worse  # else this would show nothing


def test_models_that_were_saved_with_other_words_know_why_they_stopped():
    assert StopReason("nothing better is in sight") is StopReason.STATIONARY
    assert all(StopReason(reason.value) is reason for reason in StopReason)
    with pytest.raises(ValueError, match="because of the weather"):
        StopReason("because of the weather")
