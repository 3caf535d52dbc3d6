"""The commands as a user runs them, on small files."""

import json

import pytest

from helpers.commands import fedspca
from helpers.small_study import FIT


def test_json_is_offered_by_what_writes_files_too(study):
    assert json.loads(fedspca("init", "north.csv", "--json").out) == {"output": "fit.toml", "files": ["north.csv"]}
    fedspca(*FIT, "-o", "model")
    reported = json.loads(fedspca("report", "model", "--json").out)
    assert reported == {"output": "model.html", "rows_drawn": 0, "figures": []}
    told = json.loads(fedspca("cache", "--cache", "cache", "--json").out)
    assert told == {"folder": "cache", "copies": 0, "bytes": 0, "deleted": False}


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (("fit", "none.csv"), "none.csv: there is no such file"),
        (("fit", "north.csv", "-r", "x"), "--components must be a whole number or auto. Got 'x' instead."),
        (("fit", "north.csv", "--nonzeros", "3"), "--nonzeros"),
        (("check", "north.csv", "--against", "none.json"), "none.json: there is no such file"),
        (("check", "north.csv", "--against", "north.csv"), "north.csv: This is not a schema"),
        (("show", "none"), "not a model"),
    ],
)
def test_with_json_a_mistake_is_json_too(study, command, words):
    ran = fedspca(*command, "--json")
    assert ran.code == 2
    assert words in json.loads(ran.out)["error"]
    assert words in ran.err


def test_every_command_has_help_with_an_example():
    for name in ("init", "check", "fit", "path", "show", "report", "transform", "score", "compare", "cache"):
        ran = fedspca(name, "--help")
        assert ran.code == 0
        assert f"fedspca {name}" in ran.out.replace("Usage: fedspca", "", 1)
