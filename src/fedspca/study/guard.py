"""Keep a site connected: a guard beside the data that answers letters, and a node that carries them.

The guard is the process that ``fedspca site join`` is. It leaves its id in ``flower/guard.pid`` and what it last told
in ``flower/guard.json``, so that a later command finds it, asks how it does, or stops it. The node is its child, ends
when it does, and holds none of the site's secrets but the key by which Flower's server knows it.
"""

import contextlib
import json
import os
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from fedspca.door.endpoint import Endpoint
from fedspca.files import disk_is_full, full_disk, new_file, remove_drafts
from fedspca.flower.commands import FlowerProcessError, executor_command
from fedspca.flower.keeping import HERE, NodeKeeper
from fedspca.flower.processes import Process, note_running, running, stop
from fedspca.flower.relay import LONGEST_PATH, Relay, RelayError, serve
from fedspca.flower.versions import check_flower
from fedspca.study.flower_app import APP
from fedspca.study.owner import Listener, SiteFolder
from fedspca.study.papers import Invitation

GUARD, NODE = "guard", "supernode"
STATE = "guard.json"
LEAST_SPACE = 1 << 20  # bytes: with less, the next answer may find no room in the log


@dataclass(frozen=True)
class Standing:
    """How a site is doing: its guard's process id if it runs, what that last told and when, and what is wrong."""

    pid: int | None
    told: str
    since: float | None
    trouble: str | None = None

    @property
    def connected(self) -> bool:
        """Whether letters reach the site and it can answer them."""
        return self.pid is not None and self.told == HERE and self.trouble is None


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


def keep_guard(
    folder: SiteFolder, socket: Path, tell: Callable[[str], None], listener: Listener, stop_asked: threading.Event
) -> None:
    """Answer letters at a socket until asked to stop; the node that brings them runs under an account of its own.

    The socket may be used by the group that its folder belongs to.
    """
    there = f"the guard listens at {socket}"

    def told(words: str) -> None:
        _note(folder, words)
        tell(words)

    with _alone(folder), _door(folder, folder.endpoint(listener), socket, told, there, mode=0o660):
        told(there)
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

    with (
        _alone(folder),
        _socket(folder) as socket,
        _door(folder, folder.endpoint(listener), socket, told, HERE) as door,
    ):
        flower = folder.path / "flower"
        command = node_command(folder, invitation, door.socket_path, tied=True)
        process = Process(NODE, command, flower, home=flower / "home", tied=True)
        address = f"{invitation.host}:{invitation.port}"
        NodeKeeper(process, address, _authority(folder, invitation), told).keep(stop_asked)


def standing(folder: SiteFolder) -> Standing:
    """Return how a site is doing, as its guard last noted it, and what its disk says now."""
    pid = running(folder.path / "flower", GUARD)
    full = shutil.disk_usage(folder.path).free < LEAST_SPACE
    trouble = f"here, but failing: {full_disk(folder.path / 'log.jsonl')}" if full else None
    try:
        noted = json.loads((folder.path / "flower" / STATE).read_text(encoding="utf-8"))
        return Standing(pid, str(noted["told"]), float(noted["since"]), trouble)
    except (OSError, ValueError, KeyError, TypeError):
        return Standing(pid, "nothing was noted yet", None, trouble)


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
        for home in (folder.path, flower):
            remove_drafts(home)
        note_running(flower, GUARD, os.getpid())
        try:
            yield
        finally:
            _note(folder, "not connected: it was stopped")
            (flower / f"{GUARD}.pid").unlink(missing_ok=True)


@contextlib.contextmanager
def _socket(folder: SiteFolder) -> Iterator[Path]:
    """Yield where the guard listens: in the site's folder, which is the owner's alone, if the path is short enough.

    Else it is in a temporary folder, which is noted, so that the next guard removes it if this one is killed.
    """
    inside, noted = folder.path / "flower" / "guard.socket", folder.path / "flower" / "socket.folder"
    if noted.exists():
        shutil.rmtree(noted.read_text(encoding="utf-8"), ignore_errors=True)
        noted.unlink()
    if len(os.fsencode(inside)) <= LONGEST_PATH:
        yield inside
        return
    with tempfile.TemporaryDirectory(prefix="fedspca-", dir=os.environ.get("XDG_RUNTIME_DIR")) as home:
        with new_file(noted, private=True) as draft:
            draft.write_text(home, encoding="utf-8")
        yield Path(home) / "guard"
    noted.unlink(missing_ok=True)


def _door(
    folder: SiteFolder,
    endpoint: Endpoint,
    socket: Path,
    tell: Callable[[str], None],
    well: str,
    mode: int = 0o600,
) -> Relay:
    """Return the guard's door. On a full disk it answers nothing and tells both sides; after it, it tells ``well``."""
    failing = False

    def reported(words: str) -> None:
        endpoint.audit.add(verdict="refused", kind="flower", reason=words)

    def answered(letter: bytes) -> bytes:
        nonlocal failing
        try:
            reply = endpoint.handle(letter)
        except OSError as error:
            if not disk_is_full(error):
                raise
            if not failing:
                tell(full_disk(error.filename or folder.path / "log.jsonl"))
            failing = True
            raise RelayError(f"disk full at site {endpoint.site.name}; it goes on when there is space again") from None
        if failing:
            failing = False
            tell(well)
        return reply

    return serve(answered, socket, mode=mode, reported=reported)


def _note(folder: SiteFolder, words: str) -> None:
    with contextlib.suppress(OSError), new_file(folder.path / "flower" / STATE) as draft:  # a full disk stops no guard
        draft.write_text(json.dumps({"told": words, "since": time.time()}), encoding="utf-8")


def _authority(folder: SiteFolder, invitation: Invitation) -> Path:
    path = folder.path / "flower" / "authority.crt"
    path.write_text(invitation.authority, encoding="ascii")
    return path
