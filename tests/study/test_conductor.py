"""A run is led by a process of ours: what goes wrong before it begins is told, and an earlier one is ended."""

import contextlib
import json
from pathlib import Path
from types import SimpleNamespace

import pytest

pytest.importorskip("cryptography")

from fedspca.flower.commands import FlowerProcessError
from fedspca.study import conductor


class Control:
    """Flower's server, as it is told what to do."""

    def __init__(self, *_):
        self.stopped = []
        Control.last = self

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def start_run(self, app):
        return 8

    def stop_run(self, number):
        self.stopped.append(number)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(conductor, "SuperLinkControl", Control)
    monkeypatch.setattr(conductor, "write_app", Path)
    told = []
    return SimpleNamespace(
        path=tmp_path,
        settings=SimpleNamespace(control_port=1),
        certificates=SimpleNamespace(authority=tmp_path / "ca.crt"),
        flower=tmp_path,
        secret=tmp_path / "secret",
        current_run=tmp_path / "current-run.json",
        told=told,
        tell=lambda event, **about: told.append((event, about)),
    )


def test_an_action_is_led_over_the_run_that_was_started(folder, monkeypatch):
    led = []

    @contextlib.contextmanager
    def lead_run(address, authority, secret, number):
        assert json.loads(folder.current_run.read_text()) == {"run": number}
        led.append((address, secret, number))
        yield "grid"

    monkeypatch.setattr(conductor, "lead_run", lead_run)
    monkeypatch.setattr(conductor, "lead", lambda path, action, channel: led.append((path, action)))
    folder.current_run.write_text('{"run": 7}')  # of a process that was killed
    conductor.conduct(folder, "resume:0")
    assert led == [("127.0.0.1:1", folder.secret, 8), (folder.path, "resume:0")]
    assert Control.last.stopped == [7]
    assert not folder.current_run.exists()


def test_a_server_that_does_not_hand_out_the_run_is_told_of(folder, monkeypatch):
    def refuse(*_):
        raise FlowerProcessError("Flower's server did not hand out run 8")

    monkeypatch.setattr(conductor, "lead_run", refuse)
    with pytest.raises(FlowerProcessError):
        conductor.conduct(folder, "run")
    assert folder.told == [("failed", {"error": "Flower's server did not hand out run 8"})]
