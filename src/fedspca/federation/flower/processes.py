"""Drive Flower's own processes, so that nobody needs to learn their flags.

A *SuperLink* runs on the coordinator's machine, a *SuperNode* on each site's. Each command is made by a function that
returns it as a list, so that it can be printed for those who want to run it themselves.

Ports. A SuperLink serves three things on one port: Fleet (what SuperNodes talk to, each request signed by the
node's key), Runtime (its own app processes) and Control (`flwr run`, `flwr supernode register`), and the open-source
SuperLink lets *everyone* who reaches the port use Control, that is, run code. So it listens on loopback only, and
:mod:`fedspca.federation.flower.gateway` is what listens to the network and lets only Fleet pass. Sites open no port: a
SuperNode connects out, and its own Runtime port is on loopback.
"""

import contextlib
import json
import os
import shlex
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedspca.federation.flower.certificates import Certificates, try_connection
from fedspca.files import new_file

LOOPBACK = "127.0.0.1"
PROFILE = "fedspca"
TASK_POLL = "FLWR_SUPEREXEC_TASK_POLL_INTERVAL"
TASK_POLL_SECONDS = 0.2  # how often a site's launcher asks for work; Flower's default is a second, for every message
READY_SECONDS = 60.0
STOP_SECONDS = 10.0


class FlowerProcessError(ChildProcessError):
    """A process of Flower did not start, did not stop or did not do what was asked."""


def environment(home: Path) -> dict[str, str]:
    """The environment of every Flower process: its files under ``home``, nothing reported to anyone."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith("FLWR_")}
    programs = str(Path(sys.executable).parent)  # Flower starts its helpers by name, from the same installation
    return kept | {
        "PATH": os.pathsep.join(filter(None, [programs, os.environ.get("PATH")])),
        "FLWR_HOME": str(home),
        "FLWR_TELEMETRY_ENABLED": "0",
        "FLWR_DISABLE_UPDATE_CHECK": "1",
        "RAY_USAGE_STATS_ENABLED": "0",
        TASK_POLL: str(TASK_POLL_SECONDS),
        "PYTHONUNBUFFERED": "1",
    }


def superlink_command(certificates: Certificates, database: Path, port: int, host: str = LOOPBACK) -> list[str]:
    """The command that starts the coordinator's SuperLink, with TLS and with nodes that must be registered."""
    return [
        _program("flower-superlink"),
        *("--host", host, "--port", str(port)),
        *("--ssl-ca-certfile", str(certificates.authority)),
        *("--ssl-certfile", str(certificates.certificate), "--ssl-keyfile", str(certificates.key)),
        "--enable-supernode-auth",
        *("--database", str(database)),
        "--disable-runtime-dependency-installation",
    ]


def simulation_command(database: Path, port: int) -> list[str]:
    """The command that starts Flower's simulation engine: sites that are all on this machine, and no network."""
    return [
        _program("flower-superlink"),
        *("--simulation", "--insecure", "--host", LOOPBACK, "--port", str(port)),
        *("--database", str(database)),
        "--disable-runtime-dependency-installation",
    ]


def gateway_command(certificates: Certificates, port: int, superlink_port: int, host: str = "0.0.0.0") -> list[str]:
    """The command that opens a port to the sites, through which they reach the SuperLink's Fleet and nothing else."""
    return [
        *(sys.executable, "-m", "fedspca.federation.flower.gateway"),
        *("--host", host, "--port", str(port), "--superlink-port", str(superlink_port)),
        *("--authority", str(certificates.authority)),
        *("--certificate", str(certificates.certificate), "--key", str(certificates.key)),
    ]


def supernode_command(address: str, authority: Path, private_key: Path, port: int, guard: Path) -> list[str]:
    """The command that connects a site: ``address`` as host:port, and the socket at which its guard listens."""
    if set('"\\\n') & set(str(guard)):
        raise FlowerProcessError(f"Flower cannot read a path with quotes or backslashes: {guard}")
    return [
        _program("flower-supernode"),
        *("--superlink", address),
        *("--root-certificates", str(authority)),
        *("--auth-supernode-private-key", str(private_key)),
        *("--host", LOOPBACK, "--port", str(port)),
        *("--node-config", f'socket="{guard}"'),
    ]


def shown(command: Sequence[str]) -> str:
    """A command as a person would type it."""
    return shlex.join(command)


def free_port(host: str = LOOPBACK) -> int:
    """A port that nobody listens on now."""
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
        probe.bind((host, 0))
        return int(probe.getsockname()[1])


def split_address(address: str) -> tuple[str, int]:
    """Host and port of ``host:port`` or ``[v6]:port``."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit():
        raise FlowerProcessError(f"An address reads host:port, not {address!r}.")
    return host.strip("[]"), int(port)


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
        More of the process's environment.
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        folder: Path,
        home: Path,
        variables: Mapping[str, str] | None = None,
    ) -> None:
        self.name, self.command, self.folder = name, list(command), Path(folder)
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
        self.folder.mkdir(parents=True, exist_ok=True)
        self._home.mkdir(parents=True, exist_ok=True, mode=0o700)
        with self.log.open("ab") as log:
            self._child = subprocess.Popen(
                self.command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=environment(self._home) | self._variables,
                start_new_session=True,
            )
        with new_file(self.folder / f"{self.name}.pid") as draft:
            draft.write_text(f"{self._child.pid} {_started_at(self._child.pid)}\n", encoding="ascii")
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
        """End it and all that it started: first asked, then told."""
        stop(self.folder, self.name, seconds)
        if self._child is not None:
            self._child.wait()

    def kill(self) -> None:
        """End the process alone, as a power cut would."""
        if (pid := self.pid) is not None:
            os.kill(pid, signal.SIGKILL)
            self.wait()


def running(folder: Path, name: str) -> int | None:
    """The id of a process started from this folder, if it still runs: by this or by an earlier command."""
    try:
        pid, _, started = (Path(folder) / f"{name}.pid").read_text(encoding="ascii").strip().partition(" ")
    except (OSError, UnicodeError):
        return None
    # ids are used again, so the time at which the process started must agree too
    return int(pid) if pid.isdigit() and started and started == _started_at(int(pid)) else None


def stop(folder: Path, name: str, seconds: float = STOP_SECONDS) -> bool:
    """End a process started from this folder and all that it started; whether there was one."""
    pid = running(folder, name)
    if pid is not None:
        family = [pid, *_descendants(pid)]
        born = {member: _started_at(member) for member in family}  # an id may be used again while we wait

        def living() -> list[int]:
            return [member for member in family if _started_at(member) == born[member] != ""]

        _signal(
            family, signal.SIGTERM
        )  # its helpers too: one of them waits for its end, in vain while nobody buries it
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


def start_superlink(folder: Path, certificates: Certificates, port: int | None = None) -> tuple[Process, int]:
    """Start the coordinator's SuperLink on loopback and wait until it answers; the process and its port."""
    port = port or free_port()
    command = superlink_command(certificates, Path(folder) / "superlink.sqlite", port)
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
    folder: Path, certificates: Certificates, port: int, superlink_port: int, host: str = "0.0.0.0"
) -> Process:
    """Open the port to the sites, and wait until it answers."""
    process = Process(
        "gateway", gateway_command(certificates, port, superlink_port, host), folder, Path(folder) / "home"
    )
    here = LOOPBACK if host in {"0.0.0.0", "::"} else host
    return process.start().wait_until(lambda: listens(here, port))


@dataclass(frozen=True)
class Node:
    """A SuperNode as the SuperLink knows it. ``status`` is registered, online, offline or unregistered."""

    node_id: int
    status: str


@dataclass(frozen=True)
class Run:
    """A run as the SuperLink knows it, such as ``"finished:completed"``."""

    run_id: int
    status: str

    @property
    def over(self) -> bool:
        """Whether it has ended, well or not."""
        return self.status.startswith("finished")

    @property
    def completed(self) -> bool:
        """Whether it has ended well."""
        return self.status == "finished:completed"


class Control:
    """Tell a SuperLink what to do, through Flower's own command line.

    Parameters
    ----------
    home : Path
        Flower's home; gets the profile that says where the SuperLink is.
    address : str
        The SuperLink's own address on this machine.
    authority : Path or None
        The authority's certificate; None for the simulation engine, which is spoken to without TLS on this machine.
    """

    def __init__(self, home: Path, address: str, authority: Path | None) -> None:
        self._home = Path(home)
        profile: dict[str, str | bool] = {"address": address}
        profile |= {"insecure": True} if authority is None else {"root-certificates": str(Path(authority).absolute())}
        with new_file(self._home / "config.toml") as draft:
            draft.write_text(
                f"[superlink]\ndefault = {json.dumps(PROFILE)}\n\n[superlink.{PROFILE}]\n" + _toml(profile),
                encoding="utf-8",
            )

    def register(self, public_key: Path, name: str | None = None) -> int:
        """Let the holder of this key connect; its node id, which stays tied to the key. The name is shown nowhere."""
        said = self._flwr("supernode", "register", str(public_key), PROFILE, *(["--name", name] if name else []))
        return int(said["node-id"])

    def unregister(self, node_id: int) -> None:
        """Let the holder of this node's key connect no more."""
        self._flwr("supernode", "unregister", str(node_id), PROFILE)

    def nodes(self) -> list[Node]:
        """The SuperNodes that are registered."""
        said = self._flwr("supernode", "list", PROFILE)
        return [Node(int(node["node-id"]), str(node["status"])) for node in said["nodes"]]

    def start_run(
        self,
        app: Path,
        settings: Mapping[str, str | int | float | bool] | None = None,
        simulated_nodes: int | None = None,
    ) -> int:
        """Start a run of an app with these settings, and in the simulation engine with so many nodes; its id."""
        overrides = self._home / "run.toml"  # on the command line Flower cannot read every string
        with new_file(overrides) as draft:
            draft.write_text(_toml(settings or {}), encoding="utf-8")
        more = ["--run-config", str(overrides)]
        if simulated_nodes is not None:
            more += ["--federation-config", f"num-supernodes={simulated_nodes} client-resources-num-cpus=1"]
        return int(self._flwr("run", str(app), PROFILE, *more)["run-id"])

    def run_status(self, run_id: int) -> Run:
        """How a run is doing."""
        (run,) = self._flwr("list", PROFILE, "--run-id", str(run_id))["runs"]
        return Run(run_id, str(run["status"]))

    def stop_run(self, run_id: int) -> None:
        """End a run before its time."""
        self._flwr("stop", str(run_id), PROFILE)

    def wait_for_run(self, run_id: int, seconds: float, poll: float = 1.0) -> Run:
        """Wait until a run is over; how it is doing then."""
        end = time.monotonic() + seconds
        while not (run := self.run_status(run_id)).over and time.monotonic() < end:
            time.sleep(poll)
        return run

    def _flwr(self, *arguments: str) -> dict[str, Any]:
        command = [_program("flwr"), *arguments, "--format", "json"]
        done = subprocess.run(
            command,
            env=environment(self._home),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        try:
            said: dict[str, Any] = json.loads(done.stdout)
        except ValueError:
            said = {}
        if done.returncode or not said.get("success", True):
            reason = said.get("error-message") or (done.stderr or done.stdout).strip()[-2000:] or "it said nothing"
            raise FlowerProcessError(f"`flwr {' '.join(arguments[:2])}` failed: {reason}")
        return said


def keep_supernode_running(
    process: Process,
    address: str,
    authority: Path,
    tell: Callable[[str], None],
    stop_asked: threading.Event,
    first_wait: float = 2.0,
    longest_wait: float = 15.0,
) -> None:
    """Start the SuperNode, again whenever it ends, until ``stop_asked``; ``tell`` in words whenever that changes.

    Flower's SuperNode waits for a server that is not there, but ends when its key is not registered, when the
    certificate is not accepted, and when the SuperLink does not know it any more. One that was killed is let in again
    only when the SuperLink has missed it for a minute.
    """
    host, port = split_address(address)
    said, wait = "", first_wait

    def say(words: str) -> None:
        nonlocal said
        if words != said:
            said = words
            tell(words)

    while not stop_asked.is_set():
        start_of_log = process.log.stat().st_size if process.log.exists() else 0
        process.start()
        try:
            while process.pid is not None and not stop_asked.wait(0.5):
                if _connected(process.log, start_of_log):
                    say("connected")
                    wait = first_wait
                elif trouble := try_connection(host, port, authority):
                    say(f"not connected: {trouble}")
                    stop_asked.wait(2.0)
        finally:
            process.stop()
        if not stop_asked.is_set():
            say(f"not connected: {_why_ended(process.log, start_of_log, try_connection(host, port, authority))}")
            stop_asked.wait(wait)
            wait = min(2 * wait, longest_wait)


def tail(path: Path, lines: int = 15) -> str:
    """The last lines of a log."""
    with contextlib.suppress(OSError):
        return "\n".join(path.read_text(encoding="utf-8", errors="replace").splitlines()[-lines:])
    return ""


def _connected(log: Path, start: int) -> bool:
    return "SuperNode ID:" in _since(log, start)


def _why_ended(log: Path, start: int, trouble: str | None) -> str:
    if trouble is not None:
        return trouble
    said = _since(log, start)
    if "Failed to activate SuperNode" in said:
        # Flower says the same of a key that it does not know and of a node that it still believes to be there
        if _connected(log, 0):
            return "an earlier connection of this site broke off; the server will let it in again within a minute"
        return "the coordinator has not registered this site's key yet"
    if "Unable to parse the private key" in said:
        return "the site's private key cannot be read"
    return f"the SuperNode ended; the end of {log} says why"


def _since(log: Path, start: int) -> str:
    with contextlib.suppress(OSError), log.open("rb") as file:
        file.seek(start)
        return file.read(1 << 20).decode(errors="replace")
    return ""


def _toml(settings: Mapping[str, str | int | float | bool]) -> str:
    # a scalar of JSON is one of TOML, if letters beyond ASCII stay as they are
    return "".join(f"{key} = {json.dumps(value, ensure_ascii=False)}\n" for key, value in settings.items())


def _program(name: str) -> str:
    return str(Path(sys.executable).parent / name)


def _started_at(pid: int) -> str:
    """When a process started, as one word; empty if it is gone or only waits to be buried."""
    try:
        # what follows the name in brackets, which may itself hold spaces and brackets
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
