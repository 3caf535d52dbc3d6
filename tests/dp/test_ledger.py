import json

import numpy as np
import pytest

from fedspca import Query, Site, SiteRefusal
from fedspca.dp.accounting import Budget, Cost, Purpose, epsilon_of
from fedspca.dp.ledger import BudgetSpent, Ledger
from fedspca.letters.audit import BrokenLog
from helpers.private import D, query


def test_the_ledger_refuses_at_the_limit_and_survives_a_restart(tmp_path):
    path = tmp_path / "ledger.jsonl"
    ledger = Ledger(Budget(1.0, 1e-6), path)
    ledger.charge(Cost(8.0, 0.0), "private_gram", "a")
    spent = ledger.spent()
    assert 0.4 < spent < 0.6
    again = Ledger(Budget(1.0, 1e-6), path)
    assert again.spent() == spent
    with pytest.raises(BudgetSpent, match="owner allows 1"):
        again.charge(Cost(4.3, 0.0), "private_gram", "b")
    assert again.spent() == spent
    again.charge(Cost(5.5, 0.0), "private_gram", "c")
    assert again.content()["epsilon"] <= 1.0
    assert [line["what"] for line in again.content()["releases"]] == ["private_gram"] * 2


@pytest.mark.parametrize("multiplier", [0.0, -1.0, np.inf, np.nan])
def test_a_release_that_nobody_can_price_is_refused(multiplier):
    ledger = Ledger(None)
    with pytest.raises(BudgetSpent, match="what this release costs"):
        ledger.charge(Cost(multiplier, 0.0), "private_gram", "a")
    assert not list(ledger.entries())


@pytest.mark.parametrize("how", ["change", "remove the last", "remove the first"])
def test_a_ledger_that_was_tampered_with_pays_for_nothing(tmp_path, how):
    path = tmp_path / "ledger.jsonl"
    ledger = Ledger(Budget(5.0, 1e-6), path)
    for question in "abc":
        ledger.charge(Cost(20.0, 0.0), "private_gram", question)
    lines = path.read_text().splitlines()
    if how == "change":
        lines[1] = json.dumps({**json.loads(lines[1]), "multiplier": 1e6})
    else:
        del lines[-1 if how == "remove the last" else 0]
        if how == "remove the last":
            del lines[-1]
    path.write_text("".join(f"{line}\n" for line in lines))
    with pytest.raises(BudgetSpent, match="tampered"):
        ledger.charge(Cost(20.0, 0.0), "private_gram", "d")
    with pytest.raises(BrokenLog):
        Ledger(Budget(5.0, 1e-6), path)


def test_a_study_has_a_limit_of_its_own_and_pays_once_for_an_answer():
    ledger = Ledger(Budget(10.0, 1e-6))
    purpose = Purpose("study", "run", 1, Budget(1.0, 1e-6), 1)
    ledger.charge(Cost(5.0, 0.0), "private_gram", "a", purpose)
    ledger.charge(Cost(5.0, 0.0), "private_gram", "a", purpose)  # the site was stopped before the answer left
    assert len(list(ledger.entries())) == 1
    later = Purpose("study", "run", 2, Budget(1.0, 1e-6), 1)
    with pytest.raises(BudgetSpent, match="study may spend 1"):
        ledger.charge(Cost(5.0, 0.0), "private_gram", "a", later)
    other = Purpose("another", "run", 2, Budget(1.0, 1e-6), 1)
    ledger.charge(Cost(5.0, 0.0), "private_gram", "a", other)
    assert ledger.spent("study") < ledger.spent()


def test_a_site_with_a_ledger_answers_nothing_without_noise_and_a_site_without_one_nothing_with_it():
    site = Site("s", np.ones((3, D)))
    with pytest.raises(SiteRefusal, match="no ledger"):
        site.answer(query("private_gram"))
    site.ledger = Ledger(Budget(5.0, 1e-6))
    with pytest.raises(SiteRefusal, match="only answers with noise"):
        site.answer(Query("moments"))
    with pytest.raises(SiteRefusal, match="noise of 4 sites was counted on"):
        site.answer(query("private_gram", among=4))
    assert not list(site.ledger.entries())
    site.answer(query("private_gram", sigma=50.0))
    assert len(list(site.ledger.entries())) == 1


# -- to the last detail ------------------------------------------------------------------------------------------------


def test_a_release_is_written_down_with_all_that_it_costs(tmp_path):
    ledger = Ledger(Budget(2.0, 1e-5), tmp_path / "ledger.jsonl")
    ledger.charge(Cost(8.0, 1e-12), "private_gram", "asked")
    purpose = Purpose("study", "run", 7, Budget(2.0, 1e-6), 1)
    ledger.charge(Cost(9.0, 1e-13), "private_lengths", "asked too", purpose)
    first, second = ledger.entries()
    assert {name: first[name] for name in ("study", "run", "round", "what", "question", "multiplier", "slack")} == {
        "study": "",
        "run": "",
        "round": 0,
        "what": "private_gram",
        "question": "asked",
        "multiplier": 8.0,
        "slack": 1e-12,
    }
    assert (second["study"], second["run"], second["round"]) == ("study", "run", 7)
    assert first["delta"] == second["delta"] == 1e-5  # the owner's
    assert first["epsilon_spent"] == epsilon_of([Cost(8.0, 1e-12)], 1e-5)
    assert second["epsilon_spent"] == epsilon_of([Cost(8.0, 1e-12), Cost(9.0, 1e-13)], 1e-5) == ledger.spent()


def test_the_delta_is_the_owners_or_else_the_studys_or_else_a_millionth():
    assert Ledger(Budget(1.0, 1e-4)).delta == 1e-4
    ledger = Ledger(None)
    assert ledger.delta == 1e-6
    assert ledger.spent() == 0.0
    ledger.charge(Cost(8.0, 0.0), "private_gram", "a")
    assert next(ledger.entries())["delta"] == 1e-6
    for delta in (1e-5, 1e-7):
        ledger.charge(Cost(8.0, 0.0), "private_gram", "a", Purpose("study", "run", 1, Budget(9.0, delta), 1))
        if delta == 1e-5:
            assert ledger.delta == 1e-5
            ledger.charge(Cost(8.0, 0.0), "private_gram", "b", Purpose("study", "run", 2, Budget(9.0, 1e-7), 1))
    assert ledger.delta == 1e-7  # of the last release


def test_without_an_owners_budget_only_the_studys_counts():
    ledger = Ledger(None)
    ledger.charge(Cost(0.5, 0.0), "private_gram", "a")
    with pytest.raises(BudgetSpent, match="the study may spend 1"):
        ledger.charge(Cost(0.5, 0.0), "private_gram", "b", Purpose("study", "run", 1, Budget(1.0, 1e-6), 1))
    assert ledger.content()["limit"] is None
    assert ledger.spent("study") == 0.0


def test_other_studies_count_for_the_owner_and_not_for_a_study():
    ledger = Ledger(Budget(1.5, 1e-6))
    for study in ("one", "other"):
        ledger.charge(Cost(7.0, 0.0), "private_gram", "a", Purpose(study, "run", 1, Budget(0.8, 1e-6), 1))
    assert ledger.spent("one") == epsilon_of([Cost(7.0, 0.0)], 1e-6)
    assert ledger.spent() == epsilon_of([Cost(7.0, 0.0)] * 2, 1e-6)
    with pytest.raises(BudgetSpent, match=r"ε would be 1\.\d+ at δ = 1e-06, and the owner allows 1.5"):
        ledger.charge(Cost(3.4, 0.0), "private_gram", "a", Purpose("third", "run", 1, Budget(1.4, 1e-6), 1))


def test_a_budget_may_be_spent_to_its_end_and_no_further():
    exactly = epsilon_of([Cost(6.0, 0.0)], 1e-6)
    Ledger(Budget(exactly, 1e-6)).charge(Cost(6.0, 0.0), "private_gram", "a")
    Ledger(Budget(exactly * (1 - 1e-10), 1e-6)).charge(Cost(6.0, 0.0), "private_gram", "a")  # rounding is forgiven
    for less in (exactly * (1 - 1e-8), 0.5 * exactly, 0.9 * exactly):
        with pytest.raises(BudgetSpent):
            Ledger(Budget(less, 1e-6)).charge(Cost(6.0, 0.0), "private_gram", "a")


@pytest.mark.parametrize("other", [{"study": "other"}, {"run": "other"}, {"round": 2}])
def test_only_the_very_same_question_of_the_same_round_is_free(other):
    ledger = Ledger(None)
    mine = {"study": "study", "run": "run", "round": 1, "budget": Budget(9.0, 1e-6), "among": 1}
    ledger.charge(Cost(8.0, 0.0), "private_gram", "a", Purpose(**mine))
    ledger.charge(Cost(8.0, 0.0), "private_gram", "a", Purpose(**mine))
    assert len(list(ledger.entries())) == 1
    ledger.charge(Cost(8.0, 0.0), "private_gram", "b", Purpose(**mine))
    ledger.charge(Cost(8.0, 0.0), "private_gram", "a", Purpose(**mine | other))
    assert len(list(ledger.entries())) == 3
    ledger.charge(Cost(8.0, 0.0), "private_gram", "a")  # without a purpose nothing is the same
    ledger.charge(Cost(8.0, 0.0), "private_gram", "a")
    assert len(list(ledger.entries())) == 5


def test_a_report_has_the_budget_and_every_release():
    ledger = Ledger(Budget(3.0, 1e-5))
    ledger.charge(Cost(8.0, 0.0), "private_gram", "a", Purpose("study", "run", 1, Budget(2.0, 1e-6), 1))
    content = ledger.content()
    (release,) = content.pop("releases")
    assert content == {"epsilon": ledger.spent(), "delta": 1e-5, "limit": 3.0}
    assert set(release) == {"time", "study", "what", "multiplier", "epsilon_spent"}
    assert (release["study"], release["what"], release["multiplier"]) == ("study", "private_gram", 8.0)
