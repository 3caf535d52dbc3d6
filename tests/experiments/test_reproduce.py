from pathlib import Path

import pytest

from fedspca.experiments import reproduce
from fedspca.experiments.reproduce import EXPERIMENTS, plan


def test_a_plan_names_its_experiments_and_refuses_others():
    assert {task.experiment for task in plan(["beside", "smoothing"], quick=True)} == {"beside", "smoothing"}
    assert {task.experiment for task in plan()} == set(EXPERIMENTS)
    with pytest.raises(ValueError, match=r"no experiment 'dance'\. There are smoothing, iid-synthetic"):
        plan(["dance"])


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
