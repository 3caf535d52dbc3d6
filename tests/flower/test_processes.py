"""The commands that people would type, and processes that are started, found again and stopped."""

import os
import signal
import subprocess
import sys
import time

import pytest

pytest.importorskip("cryptography")

from fedspca.flower.commands import (
    FlowerProcessError,
)
from fedspca.flower.processes import Process, rotate, running, stop, tail

PARENT = """
import signal, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], start_new_session=True)
print(child.pid, flush=True)
time.sleep(60)
"""


@pytest.fixture
def start(tmp_path):
    started = []

    def process(code, name="p"):
        started.append(Process(name, [sys.executable, "-c", code], tmp_path / "run", tmp_path / "home").start())
        return started[-1]

    yield process
    for one in started:
        one.stop(seconds=0.2)


def alive(pid):
    state = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False).stdout
    return bool(state.strip()) and not state.startswith("Z")


def test_a_process_is_found_again_and_stopped_by_its_folder(start, tmp_path):
    process = start("import time; print('up', flush=True); time.sleep(60)")
    process.wait_until(lambda: "up" in tail(process.log), 10)
    assert running(tmp_path / "run", "p") == process.pid
    with pytest.raises(FlowerProcessError, match="already runs"):
        Process("p", ["true"], tmp_path / "run", tmp_path / "home").start()
    assert stop(tmp_path / "run", "p")
    assert process.pid is None
    assert running(tmp_path / "run", "p") is None
    assert not stop(tmp_path / "run", "p")


def test_what_it_started_ends_with_it_in_whatever_session(start):
    process = start(PARENT)
    process.wait_until(lambda: tail(process.log).strip().isdigit(), 10)
    child = int(tail(process.log))
    process.stop()
    assert not alive(child)


def test_one_that_does_not_listen_is_killed(start):
    process = start("import signal, time; signal.signal(15, signal.SIG_IGN); print('up', flush=True); time.sleep(60)")
    process.wait_until(lambda: "up" in tail(process.log), 10)
    began = time.monotonic()
    process.stop(seconds=0.3)
    assert process.pid is None
    assert time.monotonic() - began < 5


def test_an_id_used_again_by_another_process_is_left_alone(tmp_path):
    (tmp_path / "p.pid").write_text(f"{os.getpid()} 1")
    assert running(tmp_path, "p") is None
    assert not stop(tmp_path, "p")
    for nonsense in ("", "x y", "\xff", "12"):
        (tmp_path / "p.pid").write_text(nonsense, encoding="latin-1")
        assert running(tmp_path, "p") is None


def test_one_that_ends_at_once_shows_its_log(start):
    process = start("print('no such option'); raise SystemExit(2)")
    with pytest.raises(FlowerProcessError, match=r"ended at once(.|\n)*no such option"):
        process.wait_until(lambda: False, 10)


def test_one_that_is_never_ready_is_stopped(start):
    process = start("import time; time.sleep(60)")
    with pytest.raises(FlowerProcessError, match="not ready within 0 seconds"):
        process.wait_until(lambda: False, 0.2)
    assert process.pid is None


def test_killed_as_by_a_power_cut(start):
    process = start("import time; time.sleep(60)")
    process.kill()
    assert process.wait() == -signal.SIGKILL


def test_a_log_that_grew_long_begins_anew_while_it_is_written(start, tmp_path):
    code = "import time\nwhile True: print('x' * 100, flush=True); time.sleep(0.01)"
    process = start(code)
    process.wait_until(lambda: process.log.stat().st_size > 2000, 10)
    assert not rotate(process.log)
    assert rotate(process.log, limit=1000)
    assert process.log.with_name("p.log.1").stat().st_size > 2000
    process.wait_until(lambda: process.log.stat().st_size > 100, 10)
    assert process.log.read_bytes()[:1] == b"x"  # and not a hole of zeros, as where a log is not appended to
