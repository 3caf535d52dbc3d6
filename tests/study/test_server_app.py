"""The ServerApp, called as Flower calls it."""

from types import SimpleNamespace

import pytest

pytest.importorskip("flwr")

from fedspca.flower.grid_channel import FlowerChannel
from fedspca.study import server_app
from fedspca.study.flower_app import failure_file


@pytest.fixture
def context(tmp_path):
    return SimpleNamespace(run_id=7, run_config={"folder": str(tmp_path), "action": "run"}, node_config={})


def test_an_action_gets_its_folder_and_a_channel(context, tmp_path, monkeypatch):
    called = []
    monkeypatch.setattr(server_app, "lead", lambda *arguments: called.append(arguments))
    server_app.main(SimpleNamespace(), context)
    [(folder, action, factory)] = called
    assert (folder, action) == (tmp_path, "run")
    assert isinstance(factory(b"hello", bytes.decode), FlowerChannel)
    assert not failure_file(tmp_path, 7).exists()


def test_what_goes_wrong_is_told_in_the_studys_folder(context, tmp_path, monkeypatch):
    def fail(*arguments):
        raise ValueError("the study has no settings")

    monkeypatch.setattr(server_app, "lead", fail)
    with pytest.raises(ValueError, match="no settings"):
        server_app.main(SimpleNamespace(), context)
    told = failure_file(tmp_path, 7).read_text()
    assert told.startswith("ValueError: the study has no settings\n")
    assert "Traceback" in told
