"""Processes of Flower that are started, found again by a later command, kept running and stopped."""

import contextlib
import os
import re
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from fedspca.files import new_file
from fedspca.flower.certificates import Certificates
from fedspca.flower.commands import (
    EVERYWHERE,
    LOOPBACK,
    TASK_POLL,
    FlowerProcessError,
    environment,
    free_port,
    gateway_command,
    simulation_command,
    superlink_command,
)
from fedspca.flower.reaching import try_connection

READY_SECONDS = 60.0
STOP_SECONDS = 10.0
LONGEST_LOG = 5_000_000  # bytes
COLOUR = re.compile(r"\x1b\[[0-9;]*m")


def rotate(log: Path, limit: int = LONGEST_LOG) -> bool:
    """Empty a log that is larger than the limit, even while a process writes it; the old content moves to ``.1``.

    Logs are opened in append mode, so a process continues at the beginning of the emptied file.
    """
    with contextlib.suppress(OSError):
        if log.stat().st_size > limit:
            shutil.copyfile(log, log.with_name(f"{log.name}.1"))
            os.truncate(log, 0)
            return True
    return False


class Process:
    """A process that is started in a group of its own, logs into a file, and leaves its id in another.

    Parameters
    ----------
    name : str
        ``folder/name.log`` and ``folder/name.pid`` are its files.
    command : sequence of str
        What to run.
    folder : Path
        Where its files are.
    home : Path
        Flower's home, under the study's or the site's folder.
    variables : mapping of str to str, optional
        Additional environment variables of the process.
    tied : bool
        Whether its standard input is a pipe that closes when this process ends, however it ends.
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        folder: Path,
        home: Path,
        variables: Mapping[str, str] | None = None,
        *,
        tied: bool = False,
    ) -> None:
        self.name, self.command, self.folder, self._tied = name, list(command), Path(folder), tied
        self._home, self._variables = Path(home), dict(variables or {})
        self._child: subprocess.Popen[bytes] | None = None

    @property
    def log(self) -> Path:
        """The file that it logs into."""
        return self.folder / f"{self.name}.log"

    def start(self) -> "Process":
        """Start it, unless one started earlier from this folder still runs."""
        if running(self.folder, self.name) is not None:
            raise FlowerProcessError(f"{self.name} already runs from {self.folder}; stop it first.")
        self._untie()
        self.folder.mkdir(parents=True, exist_ok=True)
        self._home.mkdir(parents=True, exist_ok=True, mode=0o700)
        rotate(self.log)
        with self.log.open("ab") as log:
            self._child = subprocess.Popen(
                self.command,
                stdin=subprocess.PIPE if self._tied else subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=environment(self._home) | self._variables,
                start_new_session=True,
            )
        note_running(self.folder, self.name, self._child.pid)
        return self

    @property
    def pid(self) -> int | None:
        """Its id while it runs."""
        return None if self._child is None or self._child.poll() is not None else self._child.pid

    def wait_until(self, ready: Callable[[], bool], seconds: float = READY_SECONDS) -> "Process":
        """Wait until it is ready, or raise with the last lines of its log."""
        end = time.monotonic() + seconds
        while not ready():
            if self.pid is None:
                raise FlowerProcessError(f"{self.name} ended at once. The end of {self.log}:\n{tail(self.log)}")
            if time.monotonic() > end:
                self.stop()
                raise FlowerProcessError(
                    f"{self.name} was not ready within {seconds:.0f} seconds. The end of {self.log}:\n{tail(self.log)}"
                )
            time.sleep(0.1)
        return self

    def wait(self, seconds: float | None = None) -> int | None:
        """Wait until it ends; its exit code, or None if it still runs."""
        if self._child is None:
            return None
        try:
            return self._child.wait(seconds)
        except subprocess.TimeoutExpired:
            return None

    def stop(self, seconds: float = STOP_SECONDS) -> None:
        """End it and all that it started: first by SIGTERM, after some seconds by SIGKILL."""
        stop(self.folder, self.name, seconds)
        if self._child is not None:
            self._child.wait()
            self._untie()

    def _untie(self) -> None:
        if self._child is not None and self._child.stdin is not None:
            self._child.stdin.close()

    def kill(self) -> None:
        """End the process alone by SIGKILL, as a power cut would."""
        if (pid := self.pid) is not None:
            os.kill(pid, signal.SIGKILL)
            self.wait()


def note_running(folder: Path, name: str, pid: int) -> None:
    """Leave the id of a process in ``folder/name.pid``, for :func:`running` and :func:`stop` to find."""
    with new_file(Path(folder) / f"{name}.pid") as draft:
        draft.write_text(f"{pid} {_started_at(pid)}\n", encoding="ascii")


def running(folder: Path, name: str) -> int | None:
    """The id of a process started from this folder, if it still runs: by this or by an earlier command."""
    try:
        pid, _, started = (Path(folder) / f"{name}.pid").read_text(encoding="ascii").strip().partition(" ")
    except (OSError, UnicodeError):
        return None
    # the system reuses process ids, so the start time must be the same too
    return int(pid) if pid.isdigit() and started and started == _started_at(int(pid)) else None


def stop(folder: Path, name: str, seconds: float = STOP_SECONDS) -> bool:
    """End a process started from this folder and all that it started; whether there was one."""
    pid = running(folder, name)
    if pid is not None:
        family = [pid, *_descendants(pid)]
        born = {member: _started_at(member) for member in family}  # an id may be reused while we wait

        def living() -> list[int]:
            return [member for member in family if _started_at(member) == born[member] != ""]

        # signal its helpers too: one of them waits until the process is reaped, but nothing here reaps it
        _signal(family, signal.SIGTERM)
        if not _until(lambda: not living(), seconds):
            _signal(living(), signal.SIGKILL)
            _until(lambda: not living(), 2.0)
    (Path(folder) / f"{name}.pid").unlink(missing_ok=True)
    return pid is not None


def listens(host: str, port: int) -> bool:
    """Whether something accepts connections there."""
    with contextlib.suppress(OSError), socket.create_connection((host, port), timeout=1.0):
        return True
    return False


def start_superlink(
    folder: Path, certificates: Certificates, port: int | None = None, secret: Path | None = None
) -> tuple[Process, int]:
    """Start the coordinator's SuperLink on loopback and wait until it answers; the process and its port."""
    port = port or free_port()
    command = superlink_command(certificates, Path(folder) / "superlink.sqlite", port, secret=secret)
    rarely = {TASK_POLL: "1"}  # it launches one app for a whole run
    process = Process("superlink", command, folder, Path(folder) / "home", rarely).start()
    return process.wait_until(lambda: try_connection(LOOPBACK, port, certificates.authority) is None), port


def start_simulation(folder: Path, port: int | None = None) -> tuple[Process, int]:
    """Start Flower's simulation engine and wait until it answers; the process and its port."""
    port = port or free_port()
    command = simulation_command(Path(folder) / "simulation.sqlite", port)
    process = Process("simulation", command, folder, Path(folder) / "home").start()
    return process.wait_until(lambda: listens(LOOPBACK, port)), port


def start_gateway(
    folder: Path, certificates: Certificates, port: int, superlink_port: int, host: str = EVERYWHERE
) -> Process:
    """Open the port to the sites, and wait until it answers."""
    process = Process(
        "gateway", gateway_command(certificates, port, superlink_port, host), folder, Path(folder) / "home"
    )
    here = LOOPBACK if host == EVERYWHERE else host
    return process.start().wait_until(lambda: listens(here, port))


def tail(path: Path, lines: int = 15) -> str:
    """The last lines of a log, without the colours that Flower writes into it."""
    with contextlib.suppress(OSError):
        text = COLOUR.sub("", path.read_text(encoding="utf-8", errors="replace"))
        return "\n".join(text.splitlines()[-lines:])
    return ""


def _started_at(pid: int) -> str:
    """When a process started, as one word; empty if the process is gone or has ended unreaped."""
    try:
        # the fields after the name in brackets; the name itself may contain spaces and brackets
        state, *fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        return "" if state == "Z" else fields[18]
    except (OSError, IndexError):
        if Path("/proc/self").exists():
            return ""
    said = _ps("-o", "stat=,lstart=", "-p", str(pid)).split()
    return "" if not said or said[0].startswith("Z") else "-".join(said[1:])


def _descendants(pid: int) -> list[int]:
    children: dict[int, list[int]] = {}
    for line in _ps("-A", "-o", "pid=,ppid=").splitlines():
        child, parent = map(int, line.split())
        children.setdefault(parent, []).append(child)
    found, ahead = [], [pid]
    while ahead:
        below = children.get(ahead.pop(), [])
        found += below
        ahead += below
    return found


def _ps(*arguments: str) -> str:
    plain = os.environ | {"LC_ALL": "C"}
    return subprocess.run(["ps", *arguments], capture_output=True, text=True, env=plain, check=False).stdout


def _signal(pids: Sequence[int], number: signal.Signals) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def _until(done: Callable[[], bool], seconds: float) -> bool:
    end = time.monotonic() + seconds
    while not done():
        if time.monotonic() > end:
            return False
        time.sleep(0.1)
    return True
