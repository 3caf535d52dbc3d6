"""Masks and noise between real processes, with a site killed in each stage of a round."""

import numpy as np
import pytest

from fedspca import ExactSPCA
from fedspca.institutions.owner import SiteFolder
from fedspca.model import SparsePCAModel
from institutions.conftest import institutions

STAGES = ("keys", "shares", "masked", "unmask")  # a site is killed once it has answered such a letter

# few rows need much ε; another seed is another study, with a budget of its own
PRIVATE = {"epsilon": 20.0, "clip": 3.0, "deadline": 20.0}


@pytest.fixture(scope="module")
def four():
    yield from institutions(("east", "north", "south", "west"))


def model(study):
    return SparsePCAModel.load(study.home / "trial" / "model")


def here(study):
    owners = np.repeat(study.sites, [len(study.data[name]) for name in study.sites])
    return ExactSPCA(2, n_nonzero=2, scale=True).fit(
        np.vstack([study.data[name] for name in study.sites]), sites=owners
    )


def lose_after(study, kind):
    """Start a run, and kill the site `north` as soon as it has answered a letter of this kind."""

    def answered():
        return sum(line.get("kind") == kind and line["verdict"] == "answered" for line in study.log("north"))

    before = answered()
    run = study.start("study", "run", "trial")
    study.wait(lambda: answered() > before, 240)
    study.kill("north")
    return run


def test_under_masks_the_loadings_are_those_of_one_process(four):
    four.approve()
    four.run("study", "run", "trial")
    assert np.allclose(model(four).components, here(four).components_, atol=1e-8)
    kinds = {line["kind"] for line in four.log("east")}
    assert set(STAGES) <= kinds
    assert "ask" not in kinds
    assert "unbroken" in four.run("site", "log", "--site", "north", "--verify")


def test_a_site_killed_in_the_middle_of_a_round_is_waited_for(four):
    run = lose_after(four, "masked")
    four.back("north")
    said = run.communicate(timeout=900)[0]
    assert run.returncode == 0, said
    assert np.allclose(model(four).components, here(four).components_, atol=1e-8)


@pytest.mark.parametrize("kind", STAGES)
def test_a_private_study_waits_for_a_site_that_was_killed_and_pays_once(four, kind):
    four.change(**PRIVATE, on_dropout="wait", seed=20 + STAGES.index(kind))
    run = lose_after(four, kind)
    four.back("north")
    said = run.communicate(timeout=400)[0]
    assert run.returncode == 0, said
    assert not model(four).facts["institutions"]["lost"]
    agreement = four.folder.agreement()
    for name in four.sites:
        paid = [line for line in SiteFolder(four.home / name).ledger().entries() if line["study"] == agreement.hash]
        assert len(paid) == 1


@pytest.mark.parametrize("kind", STAGES)
def test_a_private_study_needs_no_site_that_was_killed(four, kind):
    four.change(**PRIVATE, on_dropout="continue", seed=10 + STAGES.index(kind))
    run = lose_after(four, kind)
    said = run.communicate(timeout=400)[0]
    assert run.returncode == 0, said
    assert "cos²" in said
    facts = model(four).facts["institutions"]
    assert facts["privacy"]["epsilon"] <= 20.0
    assert set(facts["lost"]) <= {"north"}
    if kind in ("keys", "shares"):
        assert facts["lost"]
    agreement = four.folder.agreement()
    assert SiteFolder(four.home / "east").ledger().spent(agreement.hash) == pytest.approx(facts["privacy"]["epsilon"])
    four.back("north")
