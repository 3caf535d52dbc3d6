from pathlib import Path

import pytest

from fedspca.experiments import reproduce
from fedspca.experiments.reproduce import EXPERIMENTS, plan


def test_a_plan_names_its_experiments_and_refuses_others():
    assert {task.experiment for task in plan(["beside", "smoothing"], quick=True)} == {"beside", "smoothing"}
    assert {task.experiment for task in plan()} == set(EXPERIMENTS)
    with pytest.raises(ValueError, match=r"no experiment 'dance'\. There are smoothing, iid-synthetic"):
        plan(["dance"])


def test_a_plan_can_be_for_one_method():
    whole, part = plan(quick=True), plan(quick=True, method="ExactSPCA")
    assert {task.experiment for task in part} == {"iid-wdbc", "noniid-synthetic", "noniid-wdbc", "beside", "literature"}
    assert 0 < len(part) < len(whole)
    assert all(task.method.startswith("ExactSPCA") for task in part)
    with pytest.raises(ValueError, match=r"No run fits 'PCA'\. There are .*ExactSPCA, FASPCA, FSSPCA"):
        plan(quick=True, method="PCA")


def test_one_method_is_made_again_only_beside_numbers_of_the_same_kind(tmp_path):
    with pytest.raises(ValueError, match=r"no full run whose other methods could be kept"):
        reproduce.reproduce(["noniid-wdbc"], out=tmp_path, method="ExactSPCA")
    assert list(tmp_path.iterdir()) == []


def test_nothing_is_written_when_a_run_fails(tmp_path, monkeypatch):
    def fail(*_):
        raise ValueError("a run failed")

    monkeypatch.setattr(reproduce, "run", fail)
    with pytest.raises(ValueError, match="a run failed"):
        reproduce.reproduce(["smoothing"], out=tmp_path)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_a_file_is_there_whole_or_not_at_all(tmp_path, monkeypatch):
    path = tmp_path / "page.md"
    reproduce.write_whole(path, b"before")
    monkeypatch.setattr(Path, "replace", lambda *_: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        reproduce.write_whole(path, b"after")
    assert [file.name for file in tmp_path.iterdir()] == ["page.md"]
    assert path.read_bytes() == b"before"
