"""A node that is started again, and what is said of it meanwhile."""

import sys
import threading

import pytest

pytest.importorskip("cryptography")

from fedspca.flower import keeping
from fedspca.flower.commands import FlowerProcessError
from fedspca.flower.executor import CONNECTED
from fedspca.flower.keeping import HERE, NodeKeeper
from fedspca.flower.processes import Process

UP = f"import time; print({CONNECTED!r}, 7, flush=True); time.sleep(60)"


def node(tmp_path, code=""):
    (tmp_path / "authority.crt").write_text("")
    return Process("supernode", [sys.executable, "-c", code], tmp_path / "site", tmp_path / "home")


def told_of(tmp_path, monkeypatch, troubles, count, code=UP, clock=None):
    """What is told, first to last, until so much was: trouble by trouble, the last of them stays."""
    monkeypatch.setattr(keeping, "try_connection", lambda *_: troubles.pop(0) if len(troubles) > 1 else troubles[0])
    monkeypatch.setattr(keeping, "try_clock", lambda *_: clock)
    for name in ("PROBE", "LOOK", "WAIT", "LONGEST_WAIT"):
        monkeypatch.setattr(keeping, name, 0.01)
    told, stop = [], threading.Event()

    def tell(words):
        told.append(words)
        if len(told) == count:
            stop.set()

    NodeKeeper(node(tmp_path, code), "localhost:1", tmp_path / "authority.crt", tell).keep(stop)
    return told


def test_a_site_whose_folder_is_gone_stops_trying(tmp_path):
    process = node(tmp_path)
    (tmp_path / "authority.crt").unlink()
    with pytest.raises(FlowerProcessError, match="moved or deleted"):
        NodeKeeper(process, "localhost:1", tmp_path / "authority.crt", print).keep(threading.Event())
    assert not (tmp_path / "site").exists()


def test_a_connection_that_breaks_later_is_told_with_its_reason(tmp_path, monkeypatch):
    """A node that once was connected tries again in silence: who looks at the site must learn why."""
    troubles = [None, "the proxy is dead", None]
    told = told_of(tmp_path, monkeypatch, troubles, 3)
    assert told == [HERE, "not connected: the proxy is dead", HERE] or told[0].startswith("not connected")


def test_a_node_that_ends_says_why(tmp_path, monkeypatch):
    code = "print('Failed to activate SuperNode')"
    told = told_of(tmp_path, monkeypatch, [None], 1, code)
    assert told == ["not connected: the coordinator has not registered this site's key yet"]


def test_a_node_that_ends_because_of_the_clock_says_so(tmp_path, monkeypatch):
    told = told_of(tmp_path, monkeypatch, [None], 1, "print('it ended')", clock="the clock is wrong")
    assert told == ["not connected: the clock is wrong"]
