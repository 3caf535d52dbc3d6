"""What is said of how far a run is, against runs as they are."""

import pytest

from fedspca.federation.channel import LocalChannel
from fedspca.fit.settings import FitSettings
from fedspca.study.progress import expected_questions, in_words, seconds_left
from fedspca.study.run import run_study
from fedspca.study.simulation import endpoints, make_simulation
from helpers.studies import SITES, study, told


@pytest.mark.parametrize(("settings", "at_most"), [({}, 1), ({"path": True}, 1), ({"search": "products"}, 4)])
def test_every_sum_is_told_and_their_number_is_about_as_expected(files, settings, at_most):
    data = FitSettings(files=tuple(str(files / f"{name}.csv") for name in SITES))
    folder = make_simulation(files / "trial", study(**settings), data)
    model = run_study(folder, LocalChannel(endpoints(folder)), "run")
    asked = told(folder, "question")
    assert [line["number"] for line in asked] == list(range(1, len(asked) + 1))
    assert len(asked) == len(model.facts["history"]) + len(model.facts["asked_after"])
    assert abs(len(asked) - expected_questions(folder.agreement())) <= at_most
    assert asked[0]["left"] > 0
    assert asked[-1]["bytes_up"] > 0


def test_words():
    assert in_words(3, 7, "gram", 1.24, 5.0) == "question 3 of about 7: gram, 1.2 s; about 5 s left"
    assert in_words(8, 7, "gram", 1.0, None) == "question 8, more than usual: gram, 1.0 s"
    assert in_words(8, None, "gram", 1.0, None) == "question 8: gram, 1.0 s"
    assert seconds_left(2, 7, [1.0, 3.0, 2.0]) == 10.0
    assert seconds_left(7, 7, [1.0]) is None
    assert in_words(1, 100, "gram", 1.0, 300.0).endswith("about 5 min left")
