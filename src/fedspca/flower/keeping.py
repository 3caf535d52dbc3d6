"""Keep a site's node connected: start it again whenever it ends, and say in words why letters do not reach the site."""

import contextlib
import threading
import time
from collections.abc import Callable
from pathlib import Path

from fedspca.flower.commands import FlowerProcessError, split_address
from fedspca.flower.executor import CONNECTED
from fedspca.flower.processes import Process, rotate
from fedspca.flower.reaching import Unreachable, try_clock, try_connection

HERE = "connected"  # what is told when letters reach the site
LOOK = 0.5  # seconds between looks at the node
PROBE = 15.0  # seconds between checks that a connected node can still reach the server
WAIT, LONGEST_WAIT = 2.0, 15.0  # seconds before a node that ended is started again


class NodeKeeper:
    """Starts a site's node, again whenever it ends.

    A node waits for a server that is not there, but ends when its key is not registered, when the certificate is not
    accepted, and when the SuperLink does not know it any more. A node that was killed is admitted again only after
    the SuperLink has not heard from it for a minute.

    Parameters
    ----------
    process : Process
        The node.
    address : str
        The study's server, as host:port.
    authority : Path
        The certificate that proves the identity of the server.
    tell : callable
        Called with a text when the site becomes reachable or unreachable for letters.
    """

    def __init__(self, process: Process, address: str, authority: Path, tell: Callable[[str], None]) -> None:
        self._process, self._authority, self._tell = process, authority, tell
        self._host, self._port = split_address(address)
        self._said = ""

    def keep(self, stop_asked: threading.Event) -> None:
        """Keep the node running until ``stop_asked``."""
        wait = WAIT
        while not stop_asked.is_set():
            if not self._authority.exists():
                raise FlowerProcessError(f"{self._authority}: it is gone. Was the site's folder moved or deleted?")
            rotate(self._process.log)
            start = self._process.log.stat().st_size if self._process.log.exists() else 0
            self._process.start()
            try:
                was_connected = self._watch(start, stop_asked)
            finally:
                self._process.stop()
            if not stop_asked.is_set():
                trouble = self._trouble() or self._clock()
                self._say(f"not connected: {_why_ended(self._process.log, start, trouble)}")
                wait = WAIT if was_connected else wait
                stop_asked.wait(wait)
                wait = min(2 * wait, LONGEST_WAIT)

    def _watch(self, start: int, stop_asked: threading.Event) -> bool:
        """Look after a node that runs until it ends; return whether it was connected."""
        connected, next_probe = False, 0.0
        while self._process.pid is not None and not stop_asked.wait(LOOK):
            connected = connected or _connected(self._process.log, start)
            if time.monotonic() < next_probe:
                continue
            next_probe = time.monotonic() + (PROBE if connected else 2.0)
            trouble = self._trouble()
            if trouble is not None or connected:
                self._say(HERE if trouble is None else f"not connected: {trouble}")
        return connected

    def _trouble(self) -> str | None:
        return try_connection(self._host, self._port, self._authority)

    def _clock(self) -> str | None:
        """Return what is wrong with the clock: the server refuses a node whose clock differs, without a reason."""
        with contextlib.suppress(Unreachable):
            return try_clock(self._host, self._port, self._authority)
        return None

    def _say(self, words: str) -> None:
        if words != self._said:
            self._said = words
            self._tell(words)


def _connected(log: Path, start: int) -> bool:
    return CONNECTED in _since(log, start)


def _why_ended(log: Path, start: int, trouble: str | None) -> str:
    if trouble is not None:
        return trouble
    said = _since(log, start)
    if "Failed to activate SuperNode" in said:
        # Flower gives the same error for an unknown key and for a node that it believes to be still connected
        if _connected(log, 0):
            return "an earlier connection of this site broke off; the server will let it in again within a minute"
        return "the coordinator has not registered this site's key yet"
    if "Unable to parse the private key" in said:
        return "the site's private key cannot be read"
    return f"the node ended; the end of {log} says why"


def _since(log: Path, start: int) -> str:
    with contextlib.suppress(OSError), log.open("rb") as file:
        file.seek(start)
        return file.read(1 << 20).decode(errors="replace")
    return ""
