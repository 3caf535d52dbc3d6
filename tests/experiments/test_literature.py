import json

import pytest

from fedspca.experiments import literature as experiment
from fedspca.experiments.literature import EXPRESSION, METHODS, cells_file, data, hard_spikes, run, tasks
from fedspca.experiments.reproduce import FOLDER
from fedspca.experiments.sections_literature import literature, literature_times
from helpers.experiments import DOCS


@pytest.mark.parametrize("method", ["ExactSPCA", "truncated power", "SCoTLASS", "Fantope", "merging, truncated"])
def test_a_method_is_judged_at_equal_nonzeros(method):
    (record,) = run(method, "diabetes")
    assert 0.3 < record["explained"] < 0.55
    assert record["rounds"] > 2
    assert record["reveals"]


def test_large_tables_are_left_to_methods_that_can():
    assert run("Fantope", "hard spikes") == [{"what": "left out", "method": "Fantope", "data": "hard spikes"}]
    assert hard_spikes().truth.shape == (3, 400)
    assert data("digits").rows.shape[1] < 64


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
