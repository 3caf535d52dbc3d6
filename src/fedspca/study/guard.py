"""Keep a site connected: a guard beside the data that answers letters, and a node that carries them.

The guard is the process that ``fedspca site join`` is. It leaves its id in ``flower/guard.pid`` and what it last told
in ``flower/guard.json``, so that a later command finds it, asks how it does, or stops it. The node is its child, ends
when it does, and holds none of the site's secrets but the key by which Flower's server knows it.
"""

import contextlib
import json
import os
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from fedspca.door.endpoint import Endpoint
from fedspca.files import new_file
from fedspca.flower.commands import FlowerProcessError, executor_command
from fedspca.flower.processes import Process, keep_node_running, note_running, running, stop
from fedspca.flower.relay import Relay, serve
from fedspca.flower.versions import check_flower
from fedspca.study.flower_app import APP
from fedspca.study.owner import Listener, SiteFolder
from fedspca.study.papers import Invitation

GUARD, NODE = "guard", "supernode"
STATE = "guard.json"
CONNECTED = "connected"


@dataclass(frozen=True)
class Standing:
    """How a site is doing: the guard's process id if it runs, what it last told in words, and when."""

    pid: int | None
    told: str
    since: float | None

    @property
    def connected(self) -> bool:
        """Whether letters reach the site."""
        return self.pid is not None and self.told == CONNECTED


def node_command(folder: SiteFolder, invitation: Invitation, socket: Path, *, tied: bool = False) -> list[str]:
    """Return the command that starts the node of a site, which carries letters to the guard's socket."""
    return executor_command(
        f"{invitation.host}:{invitation.port}",
        _authority(folder, invitation),
        folder.path / "flower" / "node.key",
        socket,
        APP,
        tied=tied,
    )


def keep_guard(folder: SiteFolder, socket: Path, listener: Listener, stop_asked: threading.Event) -> None:
    """Answer letters at a socket until asked to stop; the node that brings them runs under an account of its own.

    The socket may be used by the group that its folder belongs to.
    """
    with _alone(folder), _door(folder.endpoint(listener), socket, mode=0o660):
        _note(folder, f"the guard listens at {socket}")
        stop_asked.wait()


def keep_connected(
    folder: SiteFolder, tell: Callable[[str], None], listener: Listener, stop_asked: threading.Event
) -> None:
    """Answer letters until asked to stop.

    Parameters
    ----------
    folder : SiteFolder
        The owner's folder.
    tell : callable
        Told in words whether the site is connected.
    listener : callable
        Told of every line of the log.
    stop_asked : Event
        Set it to end.
    """
    invitation = folder.invitation
    check_flower()

    def told(words: str) -> None:
        _note(folder, words)
        tell(words)

    # a socket's path must be short, and its folder the owner's alone
    with (
        _alone(folder),
        tempfile.TemporaryDirectory(prefix="fedspca-", dir=os.environ.get("XDG_RUNTIME_DIR")) as home,
        _door(folder.endpoint(listener), Path(home) / "guard") as door,
    ):
        flower = folder.path / "flower"
        command = node_command(folder, invitation, door.socket_path, tied=True)
        process = Process(NODE, command, flower, home=flower / "home", tied=True)
        address = f"{invitation.host}:{invitation.port}"
        keep_node_running(process, address, _authority(folder, invitation), told, stop_asked)


def standing(folder: SiteFolder) -> Standing:
    """Return how a site is doing, as its guard last noted it."""
    pid = running(folder.path / "flower", GUARD)
    try:
        noted = json.loads((folder.path / "flower" / STATE).read_text(encoding="utf-8"))
        return Standing(pid, str(noted["told"]), float(noted["since"]))
    except (OSError, ValueError, KeyError, TypeError):
        return Standing(pid, "nothing was noted yet", None)


def stop_site(folder: SiteFolder) -> bool:
    """Stop the guard and its node, or a node that its guard left behind; return whether there was one."""
    stopped = [stop(folder.path / "flower", name) for name in (GUARD, NODE)]
    return any(stopped)


@contextlib.contextmanager
def _alone(folder: SiteFolder) -> Iterator[None]:
    """Be the one guard of this folder. A node that an earlier guard left behind is stopped."""
    flower = folder.path / "flower"
    if (pid := running(flower, GUARD)) is not None:
        raise FlowerProcessError(
            f"The site is joined already, by process {pid}. Stop it first: fedspca site stop --site {folder.path}"
        )
    with folder.alone():  # two that start at the same moment both find no process
        stop(flower, NODE)
        note_running(flower, GUARD, os.getpid())
        try:
            yield
        finally:
            _note(folder, "not connected: it was stopped")
            (flower / f"{GUARD}.pid").unlink(missing_ok=True)


def _door(endpoint: Endpoint, socket: Path, mode: int = 0o600) -> Relay:
    def reported(words: str) -> None:
        endpoint.audit.add(verdict="refused", kind="flower", reason=words)

    return serve(endpoint.handle, socket, mode=mode, reported=reported)


def _note(folder: SiteFolder, words: str) -> None:
    with contextlib.suppress(OSError), new_file(folder.path / "flower" / STATE) as draft:  # a full disk stops no guard
        draft.write_text(json.dumps({"told": words, "since": time.time()}), encoding="utf-8")


def _authority(folder: SiteFolder, invitation: Invitation) -> Path:
    path = folder.path / "flower" / "authority.crt"
    path.write_text(invitation.authority, encoding="ascii")
    return path
