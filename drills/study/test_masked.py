"""Masked and private studies between institutions, with a site killed in each stage of a round."""

import numpy as np

from fedspca import ExactSPCA
from fedspca.estimators.certainty import plain_certainty
from fedspca.model import SparsePCAModel
from fedspca.study.owner import SiteFolder


def test_a_site_killed_in_every_stage_comes_back_and_the_result_is_the_same(masked):
    masked.change()
    run = masked.start("study", "run", "trial", "--wait", "60")
    for stage, number in (("keys", 1), ("shares", 1), ("masked", 2), ("unmask", 3)):
        masked.wait(
            lambda stage=stage, number=number: any(
                line.get("round", 0) >= number for line in masked.answered("north", stage)
            ),
            240,
        )
        masked.kill("north", node=False)
        masked.back("north")
    said = run.communicate(timeout=500)[0]
    assert run.returncode == 0, said
    x = np.vstack([masked.data[name] for name in masked.sites])
    here = ExactSPCA(2, n_nonzero=3, scale=True).fit(x, sites=np.repeat(masked.sites, 20))
    model = SparsePCAModel.load(masked.home / "trial" / "model")
    assert np.allclose(model.components, here.components_, atol=1e-8)
    assert model.facts["institutions"]["masked"] is True
    lines = [line for line in masked.log("east") if line.get("study") == masked.folder.agreement().hash]
    released = {name for line in lines for name, *_ in line.get("released", [])}
    assert not released & {"product", "sums", "squares", "captured", "rows", "counts"}  # no term left as it is
    assert "unbroken" in masked.run("site", "log", "--site", "north", "--verify")


def test_sums_by_fold_tell_how_sure_a_study_is(masked):
    masked.change(folds=4)
    masked.run("study", "run", "trial", "--wait", "60")
    x = np.vstack([masked.data[name] for name in masked.sites])
    settings = {"n_nonzero": 3, "scale": True, "folds": 4}
    here = plain_certainty(ExactSPCA(2, **settings).fit(x, sites=np.repeat(masked.sites, 20)))
    there = SparsePCAModel.load(masked.home / "trial" / "model").facts["certainty"]
    for mine, theirs in zip(here["components"], there["components"], strict=True):
        assert [each["feature"] for each in mine["features"]] == [each["feature"] for each in theirs["features"]]
        assert [each["frequency"] for each in mine["features"]] == [each["frequency"] for each in theirs["features"]]
    # of both components: which of two equal ones is first is a matter of the last digits
    assert np.allclose(here["cv_score"][-1], there["cv_score"][-1], atol=1e-6)


def test_a_private_study_spends_its_budget_once(masked):
    masked.change(epsilon=8.0, scale=False)
    said = masked.run("study", "run", "trial", "--wait", "60")
    assert "one release of the Gram matrix" in said
    facts = SparsePCAModel.load(masked.home / "trial" / "model").facts["institutions"]
    assert 0 < facts["privacy"]["epsilon"] <= 8.0
    study = masked.folder.agreement().hash
    for name in masked.sites:
        ledger = SiteFolder(masked.home / name).ledger()
        spent = [line["what"] for line in ledger.entries() if line["study"] == study]
        assert spent == ["private_lengths", "private_gram"]
        assert ledger.spent(study) <= 8.0
    asked = {line["query"] for line in masked.log("east") if line.get("study") == study and "query" in line}
    assert asked <= {"private_lengths", "private_gram"}
    assert "the study may spend 8" in masked.run("study", "run", "trial", code=2)
