"""Keep a site connected: a guard beside the data that answers letters, and a node that carries them.

The guard is the process of ``fedspca site join``. It writes its process id to ``flower/guard.pid`` and its last status
to ``flower/guard.json``, so that a later command can find it, show its status, or stop it. The node is a child process
of the guard and ends with it. The node holds only one secret: the key by which Flower's server recognises it.
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
from fedspca.flower.commands import FlowerProcessError, executor_command, join_address
from fedspca.flower.keeping import HERE, NodeKeeper
from fedspca.flower.processes import Process, note_running, running, stop
from fedspca.flower.relay import LONGEST_PATH, Relay, RelayError
from fedspca.flower.versions import check_flower
from fedspca.study.flower_app import APP
from fedspca.study.owner import Listener, SiteFolder
from fedspca.study.papers import Invitation

GUARD, NODE = "guard", "supernode"
STATE = "guard.json"
LEAST_SPACE = 1 << 20  # bytes; with less, there may be no space to log the next answer


@dataclass(frozen=True)
class Standing:
    """The status of a site: the process id of a running guard, its last status and the time of it, and any problem."""

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
        join_address(invitation.host, invitation.port),
        _authority(folder, invitation),
        folder.path / "flower" / "node.key",
        socket,
        APP,
        tied=tied,
    )


def keep_guard(
    folder: SiteFolder, socket: Path, tell: Callable[[str], None], listener: Listener, stop_asked: threading.Event
) -> None:
    """Answer letters at a socket until asked to stop. The node that brings them runs under another account.

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
        Called with a text that says whether the site is connected.
    listener : callable
        Called with every line of the log.
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
        address = join_address(invitation.host, invitation.port)
        NodeKeeper(process, address, _authority(folder, invitation), told).keep(stop_asked)


def standing(folder: SiteFolder) -> Standing:
    """Return the status of a site: what its guard last recorded, and the free disk space now."""
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
    with folder.alone():  # two guards that start at the same moment would both find no process
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
    """Yield the path of the guard's socket: in the site's folder, which only the owner can read, if it is short enough.

    Otherwise the socket is in a temporary folder. Its path is recorded, so that the next guard can remove the folder if
    this guard is killed.
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
    """Return the guard's door. On a full disk it refuses letters and tells both sides; afterwards it tells ``well``."""
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

    return Relay(answered, socket, mode=mode, reported=reported)


def _note(folder: SiteFolder, words: str) -> None:
    with contextlib.suppress(OSError), new_file(folder.path / "flower" / STATE) as draft:  # the guard goes on
        draft.write_text(json.dumps({"told": words, "since": time.time()}), encoding="utf-8")


def _authority(folder: SiteFolder, invitation: Invitation) -> Path:
    path = folder.path / "flower" / "authority.crt"
    path.write_text(invitation.authority, encoding="ascii")
    return path
