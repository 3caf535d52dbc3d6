"""The commands of Flower's own processes, so that nobody needs to learn their flags.

A *SuperLink* runs on the coordinator's machine; at each site, :mod:`fedspca.flower.executor` stands in the place of
Flower's *SuperNode*. Each command is made by a function that returns it as a list, so that it can be printed for those
who want to run it themselves.

Ports. A SuperLink serves three things on one port: Fleet (what SuperNodes talk to, each request signed by the
node's key), Runtime (its own app processes) and Control (`flwr run`, `flwr supernode register`), and the open-source
SuperLink lets *everyone* who reaches the port use Control, that is, run code. So it listens on loopback only, and
:mod:`fedspca.flower.gateway` is what listens to the network and lets only Fleet pass. Sites open no port,
not even on loopback: a node connects out.
"""

import os
import shlex
import socket
import sys
from collections.abc import Sequence
from pathlib import Path

from fedspca.flower.certificates import Certificates

LOOPBACK = "127.0.0.1"
EVERYWHERE = "::"  # every address of this machine, of IPv4 too
# what keeps Flower and Ray from reporting to anyone
SILENT = {"FLWR_TELEMETRY_ENABLED": "0", "FLWR_DISABLE_UPDATE_CHECK": "1", "RAY_USAGE_STATS_ENABLED": "0"}
TASK_POLL = "FLWR_SUPEREXEC_TASK_POLL_INTERVAL"
TASK_POLL_SECONDS = 0.2  # how often Flower's launcher asks for work; Flower's default is one second


class FlowerProcessError(ChildProcessError):
    """A process of Flower did not start, did not stop or did not do what was asked."""


def environment(home: Path) -> dict[str, str]:
    """The environment of every Flower process: its files under ``home``, nothing reported to anyone."""
    spare_loopback()
    kept = {key: value for key, value in os.environ.items() if not key.startswith("FLWR_")}
    programs = str(Path(sys.executable).parent)  # Flower starts its helpers by name, from the same installation
    return kept | {
        "PATH": os.pathsep.join(filter(None, [programs, os.environ.get("PATH")])),
        "FLWR_HOME": str(home),
        **SILENT,
        TASK_POLL: str(TASK_POLL_SECONDS),
        "PYTHONUNBUFFERED": "1",
    }


def spare_loopback() -> None:
    """Exclude loopback from the proxy settings, so that local processes connect directly."""
    for name in ("NO_PROXY", "no_proxy"):
        known = os.environ.get(name, "")
        missing = [host for host in ("127.0.0.1", "localhost", "::1") if host not in known.split(",")]
        os.environ[name] = ",".join(filter(None, [known, *missing]))


def superlink_command(
    certificates: Certificates, database: Path, port: int, host: str = LOOPBACK, secret: Path | None = None
) -> list[str]:
    """The command that starts the coordinator's SuperLink, with TLS and with nodes that must be registered.

    With a ``secret`` it starts no apps: it hands a run only to a process that can read the secret's file. Without one
    it starts whatever app it is sent, with a token among its arguments.
    """
    isolation = [] if secret is None else ["--isolation", "process", "--superexec-auth-secret-file", str(secret)]
    return [
        program("flower-superlink"),
        *("--host", host, "--port", str(port)),
        *("--ssl-ca-certfile", str(certificates.authority)),
        *("--ssl-certfile", str(certificates.certificate), "--ssl-keyfile", str(certificates.key)),
        "--enable-supernode-auth",
        *("--database", str(database)),
        "--disable-runtime-dependency-installation",
        *isolation,
    ]


def simulation_command(database: Path, port: int) -> list[str]:
    """The command that starts Flower's simulation engine: sites that are all on this machine, and no network."""
    return [
        program("flower-superlink"),
        *("--simulation", "--insecure", "--host", LOOPBACK, "--port", str(port)),
        *("--database", str(database)),
        "--disable-runtime-dependency-installation",
    ]


def gateway_command(certificates: Certificates, port: int, superlink_port: int, host: str = EVERYWHERE) -> list[str]:
    """The command that opens a port to the sites, through which they reach the SuperLink's Fleet and nothing else."""
    return [
        *(sys.executable, "-m", "fedspca.flower.gateway"),
        *("--host", host, "--port", str(port), "--superlink-port", str(superlink_port)),
        *("--authority", str(certificates.authority)),
        *("--certificate", str(certificates.certificate), "--key", str(certificates.key)),
    ]


def executor_command(
    address: str, authority: Path, private_key: Path, guard: Path, app: str, *, tied: bool = False
) -> list[str]:
    """The command that connects a site: ``address`` as host:port, and the socket at which its guard listens.

    It stands in the place of Flower's own node, and runs no app. With ``tied``, it ends when its parent process ends.
    """
    return [
        *(sys.executable, "-m", "fedspca.flower.executor"),
        *("--superlink", address, "--authority", str(authority)),
        *("--key", str(private_key), "--socket", str(guard), "--app", app),
        *(["--tied"] if tied else []),
    ]


def shown(command: Sequence[str]) -> str:
    """A command as a person would type it, with the settings that keep it from reporting to anyone."""
    return shlex.join(["env", *(f"{name}={value}" for name, value in SILENT.items()), *command])


def free_port(host: str = LOOPBACK) -> int:
    """A port that nobody listens on now."""
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
        probe.bind((host, 0))
        return int(probe.getsockname()[1])


def join_address(host: str, port: int) -> str:
    """The address ``host:port``, or ``[v6]:port``."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def split_address(address: str) -> tuple[str, int]:
    """Host and port of ``host:port`` or ``[v6]:port``."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit():
        raise FlowerProcessError(f"An address reads host:port, not {address!r}.")
    return host.strip("[]"), int(port)


def program(name: str) -> str:
    """Where a program of this installation is."""
    return str(Path(sys.executable).parent / name)
