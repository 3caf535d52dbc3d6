import csv
import json

import numpy as np
import pytest

from fedspca.cli import app
from fedspca.experiments.figures import DRAWINGS
from fedspca.experiments.reproduce import EXPERIMENTS


def fedspca(*arguments):
    """Exit code of the command, run in this process."""
    with pytest.raises(SystemExit) as caught:
        app.run([str(argument) for argument in arguments])
    return caught.value.code or 0


def numbers(folder):
    return {name: (folder / "reproduction" / f"{name}.json").read_bytes() for name in EXPERIMENTS}


@pytest.fixture(scope="module")
def quick(tmp_path_factory):
    out = tmp_path_factory.mktemp("quick")
    assert fedspca("reproduce", "--quick", "--out", out, "--jobs", 2) == 0
    return out


def test_a_quick_run_writes_everything_whole(quick):
    wanted = {f"{figure}.svg" for drawings in DRAWINGS.values() for figure in drawings}
    wanted |= {f"{name}.json" for name in EXPERIMENTS} | {f"{name}-times.json" for name in EXPERIMENTS}
    wanted -= {"smoothing-times.json"}  # it has nothing to time
    wanted |= {"times.md"}
    assert {path.name for path in (quick / "reproduction").iterdir()} == wanted
    assert "A quick run" in (quick / "reproduction.md").read_text(encoding="utf-8")
    assert {path.name for path in quick.iterdir()} == {"reproduction", "reproduction.md"}
    assert all(b"seconds" not in found for found in numbers(quick).values())


def test_running_one_experiment_again_changes_nothing_on_the_page(quick):
    before, page = numbers(quick), (quick / "reproduction.md").read_bytes()
    assert fedspca("reproduce", "iid-synthetic", "smoothing", "--quick", "--out", quick, "--jobs", 1) == 0
    assert numbers(quick) == before
    assert (quick / "reproduction.md").read_bytes() == page


def test_an_unknown_experiment_is_refused_before_anything_is_written(tmp_path, capsys):
    assert fedspca("reproduce", "dance", "--out", tmp_path / "out") == 2
    assert "There is no experiment 'dance'" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_without_matplotlib_it_says_what_to_install(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("fedspca.cli.reproduce.find_spec", lambda name: None)
    assert fedspca("reproduce", "--out", tmp_path / "out") == 2
    assert "pip install 'fedspca[cli,reproduce]'" in capsys.readouterr().err.replace("\n", " ")


def test_a_place_that_cannot_be_written_is_one_paragraph(tmp_path, capsys):
    (tmp_path / "out").write_text("a file")
    assert fedspca("reproduce", "smoothing", "--quick", "--out", tmp_path / "out") == 2
    assert capsys.readouterr().err.strip().splitlines()[-1].startswith("Error: ")


@pytest.fixture
def table(tmp_path):
    rng = np.random.default_rng(0)
    path = tmp_path / "table.csv"
    with path.open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(["age", "marker", "arm"])
        writer.writerows([f"{a:.4f}", f"{b:.4f}", "xy"[k % 2]] for k, (a, b) in enumerate(rng.random((40, 2))))
    return path


@pytest.mark.parametrize(
    "how",
    [
        ["order"],
        ["label", "--column", "arm"],
        ["dirichlet", "--column", "arm", "--alpha", "2"],
        ["quantity"],
        ["feature", "--column", "age"],
        ["score", "--column", "arm"],
    ],
)
def test_a_table_is_dealt_out_whole(table, tmp_path, how):
    assert fedspca("partition", table, "--sites", 3, "--out", tmp_path / "sites", "--by", *how) == 0
    files = sorted((tmp_path / "sites").iterdir())
    assert [file.name for file in files] == ["site-1.csv", "site-2.csv", "site-3.csv"]
    parts = [file.read_text().splitlines() for file in files]
    assert all(part[0] == "age,marker,arm" for part in parts)
    assert sorted(line for part in parts for line in part[1:]) == sorted(table.read_text().splitlines()[1:])


@pytest.mark.parametrize(
    ("how", "words"),
    [
        (["label"], "--by label needs --column, one of: age, marker, arm."),
        (["label", "--column", "sex"], "There is no column 'sex'"),
        (["score"], "Column 'arm' is not all numbers"),
        (["feature", "--column", "age", "--strength", "3"], "'strength' must lie between 0 and 1"),
    ],
)
def test_a_partition_that_cannot_be_is_one_paragraph(table, tmp_path, capsys, how, words):
    assert fedspca("partition", table, "--sites", 3, "--out", tmp_path / "sites", "--by", *how) == 2
    assert words in capsys.readouterr().err
    assert not (tmp_path / "sites").exists()


def test_a_partition_replaces_no_file_unasked(table, tmp_path, capsys):
    how = ("partition", table, "--sites", 2, "--out", tmp_path / "sites", "--by", "order")
    assert fedspca(*how) == 0
    (tmp_path / "sites" / "site-1.csv").write_text("mine")
    assert fedspca(*how) != 0
    assert "site-1.csv: it is there already" in capsys.readouterr().err
    assert (tmp_path / "sites" / "site-1.csv").read_text() == "mine"
    assert fedspca(*how, "--force") == 0
    assert (tmp_path / "sites" / "site-1.csv").read_text() != "mine"


def test_times_stand_apart(quick):
    times = json.loads((quick / "reproduction" / "iid-wdbc-times.json").read_text())
    assert all(record["seconds"] > 0 for record in times)
