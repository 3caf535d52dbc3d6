"""What owners signed is all that a site needs to run the study itself."""

import numpy as np
import pytest

from fedspca import ExactSPCA, LocalFederation, Site
from fedspca.door.agreement import Agreement
from fedspca.door.replay import Replay, Summed
from fedspca.linalg.compiled.library import library
from fedspca.solvers.rounds import Rounds
from fedspca.study import agreed
from fedspca.study.agreed import agreed_settings, agreed_work
from fedspca.study.settings import StudySettings

NAMES = ("east", "north", "south")
FIT = StudySettings(nonzero=3).fit_settings()


def agreement(**given):
    features = tuple(f"x{j}" for j in range(6))
    return Agreement(**{"study": "s", "coordinator": "key", "sites": dict.fromkeys(NAMES, "k"), "features": features,
                        "fit": FIT, **given})  # fmt: skip


def test_the_settings_are_those_that_were_signed():
    assert agreed_settings(agreement()).nonzero == 3


@pytest.mark.parametrize(
    "given",
    [
        {"fit": {}},
        {"fit": {**FIT, "more": 1}},
        {"fit": {name: value for name, value in FIT.items() if name != "seed"}},
        {"fit": {**FIT, "solver": "other"}},
        {"fit": {**FIT, "components": "two"}},
        {"privacy": {"epsilon": 1.0, "delta": 1e-6, "more": 1}},
    ],
)
def test_terms_that_do_not_say_what_is_run_are_refused(given):
    with pytest.raises(ValueError, match=r".+"):
        agreed_work(agreement(**given))


@pytest.mark.parametrize("folds", [None, 4])
def test_a_site_that_has_the_sums_has_the_model(folds):
    rows = [np.random.default_rng(k).standard_normal((20, 6)) for k in range(3)]
    sites = LocalFederation([Site(name, part) for name, part in zip(NAMES, rows, strict=True)])
    replay = Replay(agreed_work(agreement(fit={**FIT, "folds": folds})))
    while (query := replay.question()) is not None:
        replay.feed(Summed(sites.sum(query).arrays, NAMES))
    fitted = ExactSPCA(2, n_nonzero=3, scale=True, max_missing=0.2, random_state=0).fit_federation(sites)
    assert np.allclose(replay.result().components, fitted.components_, atol=1e-10)
    assert replay.result().facts["site_names"] == list(NAMES)


@pytest.mark.parametrize("masked", [True, False])
def test_sites_that_compare_results_compute_alike_with_and_without_a_compiler(masked, monkeypatch):
    seen = []

    def fitted(*_, **__):
        seen.append(library())
        raise ValueError("enough")

    monkeypatch.setattr(agreed, "fitted_model", fitted)
    with pytest.raises(ValueError, match="enough"):
        Replay(agreed_work(agreement(masked=masked))).question()
    assert seen == [None if masked else library()]


def test_a_site_knows_which_sample_is_asked_about_next():
    rows = [np.random.default_rng(k).standard_normal((20, 6)) for k in range(3)]
    sites = LocalFederation([Site(name, part) for name, part in zip(NAMES, rows, strict=True)])
    replay, asked = Replay(agreed_work(agreement(fit={**FIT, "sample": 2, "seed": 5}))), []
    while (query := replay.question()) is not None:
        asked.append((query.name, query.sample, query.scalars.get("deal")))
        replay.feed(Summed(sites.sum(query).arrays, NAMES))
    settings = {"n_nonzero": 3, "scale": True, "max_missing": 0.2, "random_state": 5, "sample": 2}
    fitted = ExactSPCA(2, **settings).fit_federation(Rounds(sites))
    assert asked[:3] == [("moments", 0, None), ("deviations", 0, None), ("gram", 2, 5)]
    assert asked[3] == ("gram_product", 0, None)
    assert np.allclose(replay.result().components, fitted.components_, atol=1e-10)
