"""Keep a site connected: a guard beside the data that answers letters, and Flower's node that carries them."""

import os
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path

from fedspca.flower.commands import free_port, supernode_command
from fedspca.flower.processes import Process, keep_supernode_running
from fedspca.flower.relay import serve
from fedspca.study.owner import Listener, SiteFolder
from fedspca.study.papers import Invitation


def node_command(folder: SiteFolder, invitation: Invitation, socket: Path) -> list[str]:
    """Return the command that starts Flower's node of a site, which carries letters to the guard's socket."""
    return supernode_command(
        f"{invitation.host}:{invitation.port}",
        _authority(folder, invitation),
        folder.path / "flower" / "node.key",
        free_port(),
        socket,
    )


def keep_guard(folder: SiteFolder, socket: Path, listener: Listener, stop_asked: threading.Event) -> None:
    """Answer letters at a socket until asked to stop; the node that brings them runs under an account of its own.

    The socket may be used by the group that its folder belongs to.
    """
    with folder.alone(), serve(folder.endpoint(listener).handle, socket, mode=0o660):
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
    endpoint = folder.endpoint(listener)
    # a socket's path must be short, and its folder the owner's alone
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    with folder.alone(), tempfile.TemporaryDirectory(prefix="fedspca-", dir=runtime) as home:
        socket = Path(home) / "guard"
        with serve(endpoint.handle, socket):
            flower = folder.path / "flower"
            command = node_command(folder, invitation, socket)
            process = Process("supernode", command, flower, home=flower / "home")
            address = f"{invitation.host}:{invitation.port}"
            keep_supernode_running(process, address, _authority(folder, invitation), tell, stop_asked)


def _authority(folder: SiteFolder, invitation: Invitation) -> Path:
    path = folder.path / "flower" / "authority.crt"
    path.write_text(invitation.authority, encoding="ascii")
    return path
