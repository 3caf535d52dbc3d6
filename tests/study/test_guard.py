"""One guard a folder: found by a later command, asked how it does, stopped; and what it left behind is ended."""

import contextlib
import errno
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

pytest.importorskip("cryptography")

from fedspca.flower.commands import FlowerProcessError
from fedspca.flower.keeping import HERE
from fedspca.flower.processes import Process, note_running, running
from fedspca.flower.relay import RelayError, forward, report
from fedspca.letters.audit import Audit
from fedspca.letters.identity import signed_payload
from fedspca.letters.wire import Message, decode, encode
from fedspca.study import guard
from fedspca.study.guard import GUARD, NODE, keep_guard, standing, stop_site

SLEEP = [sys.executable, "-c", "import time; time.sleep(60)"]


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "flower").mkdir()
    return SimpleNamespace(path=tmp_path, alone=contextlib.nullcontext)


@pytest.fixture
def other():
    """A process that stands for another command's."""
    with subprocess.Popen(SLEEP) as process:
        yield process
        process.kill()


def test_a_site_that_never_ran_is_not_connected(folder):
    how = standing(folder)
    assert (how.pid, how.connected) == (None, False)


def test_a_guard_is_connected_when_it_said_so_and_lives(folder, other):
    guard._note(folder, "connected")
    assert not standing(folder).connected  # what a guard noted that was killed
    note_running(folder.path / "flower", GUARD, other.pid)
    assert standing(folder).connected
    guard._note(folder, "not connected: nothing answers")
    assert not standing(folder).connected


def test_a_torn_note_is_no_error(folder):
    (folder.path / "flower" / "guard.json").write_text('{"told": "conn')
    assert standing(folder).told == "nothing was noted yet"


def test_a_second_guard_is_refused_and_says_how_to_stop_the_first(folder, other):
    note_running(folder.path / "flower", GUARD, other.pid)
    with (
        pytest.raises(FlowerProcessError, match=f"joined already, by process {other.pid}.*fedspca site stop"),
        guard._alone(folder),
    ):
        pytest.fail("it was let in")


def test_a_node_that_a_killed_guard_left_behind_is_ended(folder):
    left = Process(NODE, SLEEP, folder.path / "flower", folder.path / "home").start()
    with guard._alone(folder):
        assert left.wait(10) is not None
        assert running(folder.path / "flower", GUARD) == os.getpid()
    assert running(folder.path / "flower", GUARD) is None
    assert "stopped" in standing(folder).told


def test_stopping_ends_guard_and_node(folder):
    processes = [Process(name, SLEEP, folder.path / "flower", folder.path / "home").start() for name in (GUARD, NODE)]
    assert stop_site(folder)
    assert all(process.wait(10) is not None for process in processes)
    assert not stop_site(folder)


def test_what_the_node_refused_is_in_the_sites_log(tmp_path_factory):
    audit, socket = Audit(), tmp_path_factory.mktemp("g") / "s"
    with guard._door(None, SimpleNamespace(handle=bytes, audit=audit), socket, print, "well"):
        report(socket, "Flower's server shipped another app, 'evil/app'." + "x" * 5000)
    [line] = audit.lines()
    assert (line["verdict"], line["kind"]) == ("refused", "flower")
    assert line["reason"].startswith("Flower's server shipped another app, 'evil/app'.")
    assert len(line["reason"]) <= 1000


def test_the_guard_alone_answers_at_its_socket(between):
    folder, sites, _ = between
    stop = threading.Event()
    with tempfile.TemporaryDirectory(prefix="fs-") as home:
        socket = Path(home) / "guard"
        keeper = threading.Thread(target=keep_guard, args=(sites["north"], socket, print, lambda line: None, stop))
        keeper.start()
        try:
            until = time.monotonic() + 20
            while not socket.exists() and time.monotonic() < until:
                time.sleep(0.02)
            hello = folder.identity.sign(encode(Message("hello", {"study": ""})))
            answer = decode(signed_payload(forward(socket, hello), sites["north"].identity.public, "north"))
        finally:
            stop.set()
            keeper.join()
    assert (answer.kind, answer.fields["sender"]) == ("hello", "north")


def test_a_full_disk_is_told_to_both_sides_and_so_is_its_end(tmp_path_factory, folder):
    """One line at the guard, words for the coordinator, and no traceback; then the site goes on by itself."""
    socket, told, full = tmp_path_factory.mktemp("g") / "s", [], [True]

    def handle(letter):
        if full[0]:
            raise OSError(errno.ENOSPC, "No space left on device", str(folder.path / "log.jsonl"))
        return letter

    endpoint = SimpleNamespace(handle=handle, site=SimpleNamespace(name="north"))
    with guard._door(folder, endpoint, socket, told.append, HERE):
        for _ in range(2):
            with pytest.raises(RelayError, match="disk full at site north"):
                forward(socket, b"letter")
        full[0] = False
        assert forward(socket, b"letter") == b"letter"
    assert len(told) == 2
    assert "log.jsonl could not be written" in told[0]
    assert told[1] == HERE


def test_a_folder_for_the_socket_that_a_killed_guard_left_is_removed(tmp_path):
    deep = tmp_path / ("d" * 120)
    (deep / "flower").mkdir(parents=True)
    place = SimpleNamespace(path=deep)
    left = tmp_path / "left"
    left.mkdir()
    (deep / "flower" / "socket.folder").write_text(str(left))
    with guard._socket(place) as socket:
        assert not left.exists()
        assert socket.parent.is_dir()
        assert (deep / "flower" / "socket.folder").read_text() == str(socket.parent)
    assert not socket.parent.exists()
    (tmp_path / "flower").mkdir()
    with guard._socket(SimpleNamespace(path=Path("/tmp/s"))) as socket:
        assert socket == Path("/tmp/s/flower/guard.socket")
