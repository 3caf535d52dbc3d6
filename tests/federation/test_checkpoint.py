"""A fit that was interrupted ends with the same bits."""

import numpy as np
import pytest

from fedspca import FASPCA, FSSPCA, ExactSPCA, FederationError, LocalFederation, Query, Site
from fedspca.federation.base import Around
from fedspca.federation.checkpoint import CheckpointedFederation
from helpers.study_files import NAMES, make_rows

ESTIMATORS = {
    "exact": ExactSPCA(2, n_nonzero=3, scale=True),
    "faspca": FASPCA(2, lam=20.0, scale=True, block_sizes=[1, 1], tol=1e-4),
    "fsspca": FSSPCA(2, lam1=1.0, lam2=20.0, scale=True, tol=1e-3, max_rounds=40),
}


class Interrupted(Exception):
    pass


class Flaky(Around):
    """A federation that fails at one round."""

    def __init__(self, federation, at):
        super().__init__(federation)
        self.federation, self.at, self.asked = federation, at, 0

    def sum(self, query):
        self.asked += 1
        if self.asked == self.at:
            raise Interrupted
        return self.federation.sum(query)


def sites():
    parts = np.array_split(make_rows(300), 3)
    return [Site(name, part, feature_names=NAMES) for name, part in zip("abc", parts, strict=True)]


def fit(estimator, folder, at=None, pause=0.0):
    mine = sites()
    local = LocalFederation(mine)
    federation = CheckpointedFederation(Flaky(local, at), mine, folder, "study", pause=pause)
    return estimator.fit_federation(federation)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name", ESTIMATORS)
def test_interrupted_at_any_round_and_resumed_is_the_same_bits(name, tmp_path):
    from sklearn.base import clone

    whole = clone(ESTIMATORS[name]).fit_federation(LocalFederation(sites()))
    rounds = whole.n_rounds_
    for at in sorted({2, 3, rounds // 2, rounds - 1, rounds}):
        folder = tmp_path / f"{at}"
        with pytest.raises(Interrupted):
            fit(clone(ESTIMATORS[name]), folder, at)
        resumed = fit(clone(ESTIMATORS[name]), folder)
        assert resumed.components_.tobytes() == whole.components_.tobytes()
        assert resumed.explained_variance_.tobytes() == whole.explained_variance_.tobytes()
        assert [r.objective for r in resumed.history_] == [r.objective for r in whole.history_]


def test_a_fit_with_folds_too_and_it_is_as_sure_as_before(tmp_path):
    estimator = ExactSPCA(2, n_nonzero=3, scale=True, folds=4, search="products", proof_seconds=0.0)
    whole = estimator.fit_federation(LocalFederation(sites()))
    told = {name: getattr(whole, name) for name in ("selection_frequency_", "weight_interval_", "cv_score_")}
    with pytest.raises(Interrupted):
        fit(estimator, tmp_path, at=4)
    resumed = fit(estimator, tmp_path)
    assert all(getattr(resumed, name).tobytes() == value.tobytes() for name, value in told.items())


class Halfway(Flaky):
    """A federation that is interrupted when the first site has answered and the others have not."""

    def sum(self, query):
        self.asked += 1
        if self.asked == self.at:
            self.federation.sites[0].answer(query)
            raise KeyboardInterrupt
        return self.federation.sum(query)


@pytest.mark.parametrize("at", [1, 2, 9, 20])
def test_interrupted_in_the_middle_of_a_round(at, tmp_path):
    estimator = FASPCA(2, lam=20.0, scale=True)
    whole = estimator.fit_federation(LocalFederation(sites())).components_.tobytes()
    mine = sites()
    federation = CheckpointedFederation(Halfway(LocalFederation(mine), at), mine, tmp_path, "study", pause=1e9)
    with pytest.raises(KeyboardInterrupt):
        estimator.fit_federation(federation)
    federation.save()
    assert fit(estimator, tmp_path).components_.tobytes() == whole


def test_what_was_answered_is_not_asked_again(tmp_path):
    with pytest.raises(Interrupted):
        fit(ExactSPCA(2, n_nonzero=3, search="products"), tmp_path, at=5)
    mine = sites()
    counting = Flaky(LocalFederation(mine), None)
    federation = CheckpointedFederation(counting, mine, tmp_path, "study")
    fitted = ExactSPCA(2, n_nonzero=3, search="products").fit_federation(federation)
    assert federation.replayed == 4
    assert counting.asked == fitted.n_rounds_ - 4


def test_a_killed_fit_goes_on_from_its_last_snapshot(tmp_path):
    with pytest.raises(Interrupted):
        fit(FASPCA(2, lam=20.0, scale=True), tmp_path, at=30, pause=1e9)  # no snapshot but the rounds' files
    resumed = fit(FASPCA(2, lam=20.0, scale=True), tmp_path)
    whole = FASPCA(2, lam=20.0, scale=True).fit_federation(LocalFederation(sites()))
    assert resumed.components_.tobytes() == whole.components_.tobytes()


def test_a_checkpoint_of_something_else_is_refused(tmp_path):
    mine = sites()
    local = LocalFederation(mine)
    first = CheckpointedFederation(local, mine, tmp_path, "study")
    first.sum(Query("moments"))
    first.save()
    with pytest.raises(FederationError, match="other data, settings or versions"):
        CheckpointedFederation(local, mine, tmp_path, "another study")
    again = CheckpointedFederation(local, mine, tmp_path, "study")
    with pytest.raises(FederationError, match="round 1 asks something else"):
        again.sum(Query("deviations", {"mean": np.zeros(len(NAMES))}))
    again.remove()
    assert not tmp_path.exists()
