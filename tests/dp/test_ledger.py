import json

import numpy as np
import pytest

from fedspca import Query, Site, SiteRefusal
from fedspca.dp.accounting import Budget, Cost, Purpose
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
