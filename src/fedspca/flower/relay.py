"""Hand one letter to the guard beside the data and bring back its answer, over a Unix socket.

The process that talks to the network must not hold the data. So the data, the keys and the policy are in a separate
process, the *guard*, which may run under another account. The node (:mod:`fedspca.flower.executor`) only carries bytes
to it. The node also reports messages that are not letters, and the guard writes them to the log.

A frame is one byte for its kind, eight bytes for the length of its content (big-endian), and then the content.
"""

import contextlib
import logging
import os
import socket
import stat
import struct
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

LETTER, FAILURE, REPORT = b"L", b"F", b"R"
HEADER = struct.Struct(">cQ")
CHUNK = 1 << 20
MAX_CONNECTIONS = 8  # each may hold one letter in memory
MAX_BYTES = 1 << 30
LONGEST_REPORT = 1000
LONGEST_PATH = 103  # of a Unix socket: 104 bytes with the closing zero on macOS, 108 on Linux

log = logging.getLogger(__name__)


class RelayError(RuntimeError):
    """The guard could not be reached, did not accept the letter, or failed on it."""


class Relay:
    """The guard's door: a server on a Unix socket that gives one letter at a time to ``handle``.

    It serves in threads of its own, from when it is made until its ``stop()``.

    Parameters
    ----------
    handle : callable
        Takes a letter and returns the answer. An exception is logged here, and only the name of its class is sent:
        the text of an exception may quote data.
    socket_path : Path
        Where to listen. Its folder is made with mode 0700 if it is not there.
    max_bytes : int
        The longest letter and the longest answer.
    timeout : float
        Seconds that a peer has to hand over a whole letter, or to take a whole answer.
    mode : int
        Who may connect: 0600 for this account, 0660 for its group when the node runs under another account.
    reported : callable, optional
        Called with a text about what the node refused. No answer is expected.
    """

    def __init__(
        self,
        handle: Callable[[bytes], bytes],
        socket_path: Path,
        max_bytes: int = MAX_BYTES,
        *,
        timeout: float = 60.0,
        mode: int = 0o600,
        reported: Callable[[str], object] = log.warning,
    ) -> None:
        self._handle, self._max_bytes, self._timeout = handle, max_bytes, timeout
        self._reported = reported
        self.socket_path = Path(socket_path)
        self._one_at_a_time = threading.Lock()
        self._places = threading.BoundedSemaphore(MAX_CONNECTIONS)
        self._listener = _listen(self.socket_path, mode)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._accept, name="fedspca-relay", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop listening. A letter that is being handled is finished, but nobody may be left to take its answer."""
        if self._stopping.is_set():
            return
        self._stopping.set()
        with contextlib.suppress(OSError):  # closing alone does not wake a thread that waits in accept
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(timeout=5)
        self.socket_path.unlink(missing_ok=True)

    def __enter__(self) -> "Relay":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _accept(self) -> None:
        while not self._stopping.is_set():
            try:
                connection, _ = self._listener.accept()
            except OSError:
                if not self._stopping.is_set():
                    time.sleep(0.1)  # for example, no file descriptor is free; others may soon be closed
                continue
            if not self._places.acquire(blocking=False):
                connection.close()
                continue
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        try:
            with connection:
                try:
                    kind, content = _receive(connection, (LETTER, REPORT), self._max_bytes, self._timeout)
                    _send(connection, LETTER, self._respond(kind, content), self._timeout)
                except RelayError as error:
                    _send(connection, FAILURE, str(error).encode(), self._timeout)
        except OSError as error:
            log.info("A relay went away before its answer was handed over: %s", error)
        except RelayError as error:
            log.info("%s", error)
        finally:
            self._places.release()

    def _respond(self, kind: bytes, content: bytes) -> bytes:
        if kind == LETTER:
            return self._answer(content)
        self._reported(content[:LONGEST_REPORT].decode(errors="replace"))
        return b""

    def _answer(self, letter: bytes) -> bytes:
        try:
            with self._one_at_a_time:
                answer = self._handle(letter)
        except RelayError:  # its text may be sent
            raise
        except Exception as error:
            log.exception("The guard failed on a letter of %d bytes", len(letter))
            raise RelayError(
                f"the guard failed on the letter ({type(error).__name__}); its own log says why"
            ) from error
        if len(answer) > self._max_bytes:
            raise RelayError(f"the guard's answer has {len(answer)} bytes; at most {self._max_bytes} may leave")
        return answer


def forward(socket_path: str | Path, letter: bytes, max_bytes: int = MAX_BYTES, timeout: float = 3600.0) -> bytes:
    """Hand a letter to the guard and return its answer, or raise :class:`RelayError`."""
    return _ask(socket_path, LETTER, letter, max_bytes, timeout)


def report(socket_path: str | Path, words: str, timeout: float = 60.0) -> None:
    """Tell the guard in words what was refused, for the site's log, or raise :class:`RelayError`."""
    _ask(socket_path, REPORT, words[:LONGEST_REPORT].encode(errors="replace"), MAX_BYTES, timeout)


def _ask(socket_path: str | Path, kind: bytes, content: bytes, max_bytes: int, timeout: float) -> bytes:
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(timeout)
            connection.connect(str(socket_path))
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # the guard may have sent a reason first
                _send(connection, kind, content, timeout)
            return _receive(connection, (LETTER,), max_bytes, timeout)[1]
    except TimeoutError:
        raise RelayError(f"the guard did not answer within {timeout:.0f} seconds") from None
    except OSError as error:
        raise RelayError(f"the guard cannot be reached at its socket: {error.strerror or error}") from None


def _listen(path: Path, mode: int) -> socket.socket:
    if len(os.fsencode(path)) > LONGEST_PATH:
        raise RelayError(f"the socket's path may have at most {LONGEST_PATH} bytes; use a shorter one than {path}")
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    _remove_stale(path)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        listener.bind(str(path))
        path.chmod(mode)
        listener.listen(MAX_CONNECTIONS)
    except OSError as error:
        listener.close()
        raise RelayError(f"cannot listen at {path}: {error.strerror or error}") from error
    return listener


def _remove_stale(path: Path) -> None:
    """Remove the socket that a killed guard left behind, but never the socket of a running guard."""
    try:
        if not stat.S_ISSOCK(path.lstat().st_mode):
            raise RelayError(f"{path} is not a socket; it is left as it is, so choose another path")
    except FileNotFoundError:
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(1.0)
        try:
            probe.connect(str(path))
        except (ConnectionRefusedError, FileNotFoundError):
            path.unlink(missing_ok=True)
            return
        except OSError:
            pass  # alive, but busy
    raise RelayError(f"another guard already listens at {path}")


def _send(connection: socket.socket, kind: bytes, payload: bytes, timeout: float) -> None:
    connection.settimeout(timeout)
    connection.sendall(HEADER.pack(kind, len(payload)))
    connection.sendall(payload)


def _receive(
    connection: socket.socket, expected: tuple[bytes, ...], max_bytes: int, timeout: float
) -> tuple[bytes, bytes]:
    """Kind and content of one frame; memory is taken only as bytes arrive, and never beyond the limit."""
    deadline = time.monotonic() + timeout
    kind, length = HEADER.unpack(_receive_exactly(connection, HEADER.size, deadline))
    if kind not in (*expected, FAILURE):
        raise RelayError("this is not a frame of the relay")
    if length > max_bytes:
        raise RelayError(f"the letter has {length} bytes; at most {max_bytes} are accepted")
    payload = _receive_exactly(connection, length, deadline)
    if kind == FAILURE:
        raise RelayError(payload[:1000].decode(errors="replace"))
    return kind, payload


def _receive_exactly(connection: socket.socket, length: int, deadline: float) -> bytes:
    received = bytearray()
    while len(received) < length:
        left = deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError
        connection.settimeout(left)
        piece = connection.recv(min(length - len(received), CHUNK))
        if not piece:
            raise RelayError("the connection closed in the middle of a letter")
        received += piece
    return bytes(received)
