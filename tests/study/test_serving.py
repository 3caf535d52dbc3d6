"""A server that is kept running, and a run that was cut off."""

import threading
from types import SimpleNamespace

import pytest

from fedspca.study.serving import serve, was_cut_off


class Kept:
    """An engine whose server ends when the test says so."""

    def __init__(self, folder, events=()):
        self.folder = SimpleNamespace(journal=folder / "run", events=lambda: enumerate(events))
        self.runs, self.conducted, self.did = False, False, []

    def start(self):
        self.did.append("start")
        self.runs = True

    def begin(self, action):
        self.did.append(action)
        self.conducted = True

    def stop(self):
        self.did.append("stop")


def events(*names):
    return [
        {"event": "begun", "action": name} if name in {"run", "resume", "status"} else {"event": name} for name in names
    ]


@pytest.mark.parametrize(
    ("names", "cut_off"),
    [
        (("run",), True),
        (("run", "question"), True),
        (("run", "failed", "resume"), True),
        (("run", "done"), False),
        (("run", "failed"), False),
        (("status",), False),
        ((), False),
    ],
)
def test_a_run_that_neither_ended_nor_is_led_was_cut_off(tmp_path, names, cut_off):
    engine = Kept(tmp_path, events(*names))
    assert not was_cut_off(engine)  # there is nothing to go on from
    (tmp_path / "run").mkdir()
    assert was_cut_off(engine) == cut_off
    engine.conducted = True
    assert not was_cut_off(engine)


def test_what_ended_is_started_again_and_all_is_stopped_at_the_end(tmp_path, monkeypatch):
    monkeypatch.setattr("fedspca.study.serving.LOOK", 0.0)
    (tmp_path / "run").mkdir()
    engine, stop, told = Kept(tmp_path, events("run")), threading.Event(), []

    def tell(text):
        told.append(text)
        if len(told) == 2:
            engine.runs = False  # the server is killed
        if len(told) == 3:
            stop.set()

    serve(engine, tell, stop)
    assert engine.did == ["start", "resume", "start", "stop"]
