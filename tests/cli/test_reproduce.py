import json

import pytest

from fedspca.experiments.figures import DRAWINGS
from fedspca.experiments.reproduce import EXPERIMENTS
from helpers.exit_code import fedspca

pytestmark = pytest.mark.xdist_group("reproduce")


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
    wanted -= {"smoothing-times.json", "stability-times.json"}  # they have nothing to time
    wanted |= {"times.md", "literature-times.md"}
    assert {path.name for path in (quick / "reproduction").iterdir()} == wanted
    assert "A quick run" in (quick / "reproduction.md").read_text(encoding="utf-8")
    assert {path.name for path in quick.iterdir()} == {"reproduction", "reproduction.md"}
    assert all(b"seconds" not in found for found in numbers(quick).values())


def test_running_one_experiment_again_changes_nothing_on_the_page(quick):
    before, page = numbers(quick), (quick / "reproduction.md").read_bytes()
    assert fedspca("reproduce", "iid-synthetic", "smoothing", "--quick", "--out", quick, "--jobs", 1) == 0
    assert numbers(quick) == before
    assert (quick / "reproduction.md").read_bytes() == page


def test_the_runs_of_one_method_can_be_made_again(quick):
    folder = quick / "reproduction"
    before, page = numbers(quick), (quick / "reproduction.md").read_bytes()
    stored = json.loads(before["iid-wdbc"])
    places = [k for k, record in enumerate(stored["records"]) if record.get("method") == "ExactSPCA"]
    assert places
    for place in places:
        stored["records"][place]["error"] = 1.0
    (folder / "iid-wdbc.json").write_text(json.dumps(stored))
    command = ("reproduce", "iid-wdbc", "--quick", "--out", quick, "--jobs", 1)
    assert fedspca(*command, "--method", "ExactSPCA") == 0
    assert numbers(quick) == before
    assert (quick / "reproduction.md").read_bytes() == page
    assert len(json.loads((folder / "iid-wdbc-times.json").read_text())) > len(places)


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


def test_times_stand_apart(quick):
    times = json.loads((quick / "reproduction" / "iid-wdbc-times.json").read_text())
    assert all(record["seconds"] > 0 for record in times)
