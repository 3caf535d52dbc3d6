import json

import pytest

from fedspca.experiments import literature as experiment
from fedspca.experiments.literature import EXPRESSION, METHODS, cells_file, data, run, tasks
from fedspca.experiments.reproduce import FOLDER
from fedspca.experiments.sections_literature import literature, literature_times
from helpers.experiments import DOCS


@pytest.mark.parametrize("method", ["ExactSPCA", "truncated power", "SCoTLASS", "Fantope", "merging, truncated"])
def test_a_method_is_judged_at_equal_nonzeros(method):
    (record,) = run(method, "diabetes")
    assert 0.3 < record["explained"] < 0.55
    assert record["rounds"] > 2
    assert record["reveals"]


def test_a_coordinator_that_works_on_s_is_spared_very_many_features():
    (record,) = run("Fantope", "wide spikes")
    assert (record["what"], record["method"], record["data"]) == ("left out", "Fantope", "wide spikes")
    assert data("wide spikes").truth.shape == (3, 3000)
    assert data("digits").rows.shape[1] < 64


def test_a_penalty_is_sought_that_leaves_enough_weights():
    (record,) = run("FASPCA", "diabetes")
    assert 8 <= record["nonzeros"] <= 10


def test_what_noise_changes_stands_apart():
    (record,) = run("private truncated power, ε = 10", "diabetes")
    assert record["what"] == "private"
    assert len({fit["explained"] for fit in record["varying"]}) == 5
    assert "explained" not in record


def test_what_is_sent_outside_of_sums_is_counted():
    (record,) = run("merging, truncated", "diabetes")
    assert record["bytes_up"] > 8 * 10 * 10  # ten singular vectors of ten features


def test_the_page_says_where_ours_does_not_win():
    better = {"what": "fit", "data": "d", "nonzeros": 4, "rounds": 3, "bytes_up": 9, "converged": True, "reveals": "x"}
    page = literature(
        [
            {**better, "method": "ExactSPCA", "explained": 0.5, "recovery": 0.2},
            {**better, "method": "rival", "explained": 0.6, "recovery": 0.1},
        ]
    )
    assert "more variance than ExactSPCA's 50.00 % by rival (60.00)" in page
    assert "nearer to the truth than ExactSPCA's 0.200 by rival (0.100)" in page
    assert len(METHODS) > 15


def test_expression_data_are_taken_where_scanpy_is_installed(monkeypatch):
    assert all(task.arguments["name"] != EXPRESSION for task in tasks(quick=True))
    monkeypatch.setattr(experiment, "cells_file", lambda: None)
    without = {task.arguments["name"] for task in tasks(quick=False)}
    assert EXPRESSION not in without
    monkeypatch.undo()
    if cells_file() is None:
        pytest.skip("scanpy is not installed")
    assert {task.arguments["name"] for task in tasks(quick=False)} == {*without, EXPRESSION}
    assert data(EXPRESSION).rows.shape == (700, 765)


def test_the_page_of_times_says_what_the_times_say():
    times = json.loads((DOCS / FOLDER / "literature-times.json").read_text(encoding="utf-8"))
    page = (DOCS / FOLDER / "literature-times.md").read_text(encoding="utf-8")
    assert page == literature_times(times)
    assert f"| ExactSPCA | {times[0]['seconds']:.2g} |" in page
