"""A private study between real processes needs no site that was killed, whatever the stage of the round."""

import pytest

from fedspca.model import SparsePCAModel
from fedspca.study.owner import SiteFolder

STAGES = ("keys", "shares", "masked", "unmask")


@pytest.mark.parametrize("kind", STAGES)
def test_a_private_study_goes_on_without_a_site_that_was_killed_in_any_stage(masked, kind):
    # few rows need much ε; another seed is another study, with a budget of its own
    masked.change(epsilon=20.0, clip=3.0, on_dropout="continue", deadline=50.0, seed=10 + STAGES.index(kind))
    agreement = masked.folder.agreement()
    run = masked.start("study", "run", "trial", "--wait", "60")

    masked.wait(lambda: masked.answered("north", kind), 240)
    masked.kill("north", node=False)  # as soon as it has answered such a letter
    said = run.communicate(timeout=400)[0]
    assert run.returncode == 0, said
    facts = SparsePCAModel.load(masked.home / "trial" / "model").facts["institutions"]
    assert 0 < facts["privacy"]["epsilon"] <= 20.0
    assert set(facts["lost"]) <= {"north"}
    if kind in ("keys", "shares"):
        assert facts["lost"]
    for name in ("east", "south", "west"):
        spent = SiteFolder(masked.home / name).ledger().spent(agreement.hash)
        assert spent == pytest.approx(facts["privacy"]["epsilon"])
