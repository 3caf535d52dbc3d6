"""What an owner reads before the decision is what the site then allows."""

import pytest

from fedspca.door.agreement import Agreement
from fedspca.letters.identity import Identity
from fedspca.study.words import in_words

ROSTER = {name: Identity.new().public for name in ("east", "north", "south", "west")}


def told(**given):
    settings = {
        "study": "trial",
        "coordinator": Identity.new().public,
        "sites": ROSTER,
        "features": ("f0", "f1"),
        "questions": ("gram",),
        "fit": {"components": 1, "nonzero": 2, "solver": "exact"},
        "max_rounds": 10,
        "max_components": 2,
        "masked": True,
    }
    return " ".join(in_words(Agreement(**{**settings, **given}), "north"))


NOISE = {"epsilon": 1.0, "delta": 1e-6}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, ("Every sum is over all of them", "totals over all 4 sites only", "the sum over 3 sites, this one")),
        (
            {"privacy": NOISE},
            ("at least 3 of them", "totals over at least 3 of 4 sites only", "the sum over at least 2 sites"),
        ),
        ({"privacy": NOISE}, ("guesses right at best 73.11 times in 100",)),
        ({"masked": False}, ("A sum is over at least 3 of them", "covariance matrix exactly", "hand them on")),
        ({"masked": False, "privacy": NOISE}, ("own terms, each with noise",)),
        (
            {"fit": {"components": 1, "nonzero": 2, "solver": "exact", "folds": 4}},
            ("figures over each of 4 parts of the rows", "(3 numbers a part for 2 features)"),
        ),
    ],
)
def test_it_says_over_whom_sums_are_and_who_sees_them(given, expected):
    words = told(**given)
    assert all(one in words for one in expected), words


def test_what_leaves_at_the_end_is_told_before():
    assert "components that it computed from them" in told()
    assert "components that it computed from them" not in told(masked=False)
    assert "what has left before cannot be called back" in told()
    assert "only the question that is due next" in told()
    assert "only the question that is due next" not in told(masked=False)
