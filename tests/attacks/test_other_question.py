"""A coordinator that asks what the agreed study would not: each site runs the study beside, and refuses."""

import numpy as np
import pandas as pd
import pytest

from fedspca import Query, SiteRefusal
from fedspca.federation.channel import LocalChannel
from fedspca.federation.conversation import Conversation
from fedspca.federation.secure import SecureFederation
from fedspca.fit.settings import FitSettings
from fedspca.masking.fixed_point import WIDE, Coding
from fedspca.model import SparsePCAModel
from fedspca.study.owner import SiteFolder
from fedspca.study.run import run_study
from fedspca.study.settings import StudySettings
from fedspca.study.simulation import endpoints, make_simulation

SITES = ("east", "north", "south")
D = 8
NEXT = "not what the agreed study asks next"
NO_OTHER = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def tables(folder, n):
    """Files of three sites with n rows each."""
    rng = np.random.default_rng(0)
    files = []
    for name in SITES:
        rows = rng.standard_normal((n, D))
        rows[:, 1] += 2 * rows[:, 0]
        rows[:, 3] -= rows[:, 2]
        files.append(folder / f"{name}.csv")
        pd.DataFrame(rows, columns=[f"f{j}" for j in range(D)]).to_csv(files[-1], index=False)
    return FitSettings(files=tuple(map(str, files)))


@pytest.fixture
def data(tmp_path):
    return tables(tmp_path, 40)


def simulated(tmp_path, data, name="trial", **given):
    settings = StudySettings(**{"name": "trial", "sites": SITES, "nonzero": 3, "deadline": 30.0, **given})
    return make_simulation(tmp_path / name, settings, data)


class Recorded(SecureFederation):
    """A coordinator that notes what it asks, and changes one question if it is told to."""

    def __init__(self, *arguments, change=None, at=0, **given):
        super().__init__(*arguments, **given)
        self.asked, self.change, self.at = [], change, at

    def sum(self, query):
        self.asked.append(query)
        if self.change is not None and len(self.asked) == self.at:
            query = self.change(query)
        return super().sum(query)


def coordinator(folder, monkeypatch, **given):
    """Run the study with a coordinator of our own."""
    made = []

    def make(conversation, notice):
        made.append(Recorded(conversation, notice=notice, **given))
        return made[-1]

    monkeypatch.setattr("fedspca.study.run.make_federation", make)
    channel = LocalChannel(endpoints(folder))
    return lambda: (run_study(folder, channel, "run"), made[-1])


# -- honest runs -------------------------------------------------------------------------------------------------------


@NO_OTHER
@pytest.mark.parametrize(
    "given",
    [
        {"nonzero": 3, "path": True},
        {"nonzero": None, "variance_kept": 0.9},
        {"nonzero": None, "lam": 5.0, "components": 3},
        {"nonzero": None, "lam": 5.0, "solver": "faspca", "consensus_under_masks": True, "max_rounds": 6},
        {"nonzero": None, "lam": 5.0, "lam1": 0.1, "solver": "fsspca", "consensus_under_masks": True, "max_rounds": 6},
    ],
)
def test_an_honest_study_runs_and_every_site_ends_with_its_model(tmp_path, data, given):
    folder = simulated(tmp_path, data, **given)
    model = run_study(folder, LocalChannel(endpoints(folder)), "run")
    plain = simulated(tmp_path, data, "plain", masked=False, **given)
    without = run_study(plain, LocalChannel(endpoints(plain)), "run")
    assert np.abs(model.components - without.components).max() < 1e-8
    assert_every_site_ends_with(folder, model)


@NO_OTHER
@pytest.mark.parametrize("given", [{"mechanism": "gram"}, {"mechanism": "product", "clip": 4.0}])
def test_an_honest_private_study_runs_and_every_site_ends_with_its_model(tmp_path, given):
    data = tables(tmp_path, 2000)  # so many that the noise, which no seed fixes, never hides them
    folder = simulated(tmp_path, data, epsilon=15.0, **given)
    assert_every_site_ends_with(folder, run_study(folder, LocalChannel(endpoints(folder)), "run"))


def assert_every_site_ends_with(folder, model):
    for name in SITES:
        site = SiteFolder(folder.path / "sites" / name)
        own = SparsePCAModel.load(site.store.model_folder(folder.agreement().hash))
        assert np.array_equal(own.components, model.components)
        assert np.array_equal(own.covariance, model.covariance)
        assert own.facts["site_names"] == model.facts["site_names"]


def test_a_site_that_is_started_anew_for_every_letter_runs_the_study_again_from_its_sums(tmp_path, data):
    folder = simulated(tmp_path, data)

    class Restarting(LocalChannel):
        def exchange(self, letters, deadline):
            self.endpoints = endpoints(folder)
            return super().exchange(letters, deadline)

    whole = run_study(folder, LocalChannel(endpoints(folder)), "run")
    model = run_study(folder, Restarting(endpoints(folder)), "run")
    assert np.array_equal(model.components, whole.components)


# -- others ------------------------------------------------------------------------------------------------------------


def turned(query):
    """Another direction: the first feature alone, whose variance is then known to the last digit."""
    directions = np.linalg.qr(np.eye(D, query.arrays["directions"].shape[1]))[0]
    return Query(query.name, {**query.arrays, "directions": directions}, query.scalars)


def rounded(query):
    return Query(query.name, query.arrays, {**query.scalars, "precision": "float32"})


def other_mean(query):
    return Query(query.name, {"mean": query.arrays["mean"] + 1e-3})


def moments(query):
    return Query("moments")


def questions(folder):
    """The questions of an honest run, in order."""
    with pytest.MonkeyPatch.context() as patched:
        return coordinator(folder, patched)()[1].asked


def place(asked, name):
    return 1 + next(number for number, query in enumerate(asked) if query.name == name)


@pytest.mark.parametrize(
    ("name", "change", "words"),
    [
        ("gram_product", turned, "directions differs"),
        ("gram_product", rounded, "precision is 'float32'"),
        ("gram_product", moments, "asks 'moments' where the study asks 'gram_product'"),
        ("gram", rounded, "precision is 'float32'"),
        ("deviations", other_mean, "mean differs"),
        ("row_errors", turned, "directions differs"),
    ],
)
def test_another_question_ends_the_run(tmp_path, data, monkeypatch, name, change, words):
    folder = simulated(tmp_path, data, search="products" if name == "gram_product" else "auto")
    asked = questions(folder)
    with pytest.raises(SiteRefusal, match=NEXT) as caught:
        coordinator(folder, monkeypatch, change=change, at=place(asked, name))()
    assert words in str(caught.value)
    lines = list(SiteFolder(folder.path / "sites" / "east").audit().lines())
    assert (lines[-1]["verdict"], words in lines[-1]["reason"]) == ("refused", True)


def hostile(folder):
    """A coordinator that has the study's key and asks by hand."""
    channel = LocalChannel(endpoints(folder))
    return SecureFederation(Conversation(channel, folder.identity, folder.agreement(), "1" * 32))


def test_questions_in_another_order_are_refused(tmp_path, data):
    federation = hostile(simulated(tmp_path, data))
    with pytest.raises(SiteRefusal, match="where the study asks 'moments'"):
        federation.sum(Query("deviations", {"mean": np.zeros(D)}))


def test_a_question_more_is_refused(tmp_path, data):
    """The same question twice, and one after the study has ended."""
    folder = simulated(tmp_path, data)
    federation = hostile(folder)
    federation.sum(Query("moments"))
    with pytest.raises(SiteRefusal, match="where the study asks 'deviations'"):
        federation.sum(Query("moments"))
    with pytest.raises(SiteRefusal, match=NEXT):  # the run is over
        federation.sum(Query("deviations", {"mean": np.zeros(D)}))


def test_after_the_last_question_there_is_none(tmp_path, data, monkeypatch):
    folder = simulated(tmp_path, data)
    asked = questions(folder)
    federation = hostile(folder)
    for query in asked:
        federation.sum(query)
    with pytest.raises(SiteRefusal, match="the agreed study is over"):
        federation.sum(asked[-1])


def test_a_study_that_ends_early_is_told_so(tmp_path, data):
    federation = hostile(simulated(tmp_path, data))
    federation.sum(Query("moments"))
    with pytest.raises(SiteRefusal, match="not over: it asks 'deviations' next"):
        federation.finish()


@pytest.mark.parametrize("shift", [-8, 8])
def test_integers_of_another_scale_are_refused(tmp_path, data, monkeypatch, shift):
    """Else a coordinator would look for the scale that one site's numbers just exceed."""
    folder = simulated(tmp_path, data)
    asked = questions(folder)
    federation = hostile(folder)
    for query in asked[: place(asked, "gram") - 1]:
        federation.sum(query)
    honest = federation._scale.codings

    def moved(query, sites):
        return {name: Coding(1, coding.exponent + shift) for name, coding in honest(query, sites).items()}

    monkeypatch.setattr(federation._scale, "codings", moved)
    with pytest.raises(SiteRefusal, match="integers are not those that follow from the sums"):
        federation.sum(asked[place(asked, "gram") - 1])


def test_wide_integers_are_refused_where_a_bound_is_known(tmp_path, data, monkeypatch):
    folder = simulated(tmp_path, data)
    asked = questions(folder)
    federation = hostile(folder)
    for query in asked[: place(asked, "gram") - 1]:
        federation.sum(query)
    monkeypatch.setattr(federation._scale, "codings", lambda query, sites: {"gram": WIDE})
    with pytest.raises(SiteRefusal, match="integers are not those that follow from the sums"):
        federation.sum(asked[place(asked, "gram") - 1])


def test_terms_that_do_not_say_what_is_asked_are_not_proposed_to_anyone(tmp_path, data):
    from dataclasses import replace

    folder = simulated(tmp_path, data)
    agreement = replace(folder.agreement(), fit={})
    conversation = Conversation(LocalChannel(endpoints(folder)), folder.identity, agreement, "1" * 32)
    assert all("do not say what is asked" in said for said in conversation.propose().values())


def test_without_the_defence_a_coordinator_asks_what_it_likes(tmp_path, data):
    """What it wins where an owner turned the replay off: the variance of any feature, in any round."""
    folder = simulated(tmp_path, data, search="products")
    for name in SITES:
        policy = folder.path / "sites" / name / "policy.toml"
        policy.write_text(policy.read_text() + "replay = false\n")
    asked = questions(folder)
    federation = hostile(folder)
    for query in asked[:2]:
        federation.sum(query)
    query = next(query for query in asked if query.name == "gram_product")
    one = Query(query.name, {**query.arrays, "directions": np.eye(D, 1)}, query.scalars)
    product = federation.sum(one)["product"]
    rows = np.vstack([pd.read_csv(file) for file in data.files])
    assert np.isclose(product[0, 0], len(rows) - 1)  # standardised: its own variance, times n
    assert np.isclose(product[1, 0] / product[0, 0], np.corrcoef(rows.T)[0, 1])
