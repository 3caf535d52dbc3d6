"""Carry letters between Flower's server and the guard, and run nothing that the server ships.

Flower's own node, the SuperNode, starts whatever app its server ships, in a new process for every message, under the
account that started it. This process stands in its place. It speaks Flower's Fleet protocol with Flower's own client,
takes the letter out of each message, hands it to the guard, and sends back the guard's reply. It never fetches the app,
so there is nothing to unpack, import or run. It opens no port. It keeps running, so no process has to start for a
message.

A message that is not a letter of a study is refused and reported to the guard, which writes it into the site's log.
"""

import argparse
import contextlib
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, NamedTuple

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import load_ssh_private_key

from fedspca.flower.grid_channel import MESSAGE_TYPE
from fedspca.flower.relay import RelayError, forward, report
from fedspca.flower.versions import check_flower

if TYPE_CHECKING:
    from flwr.app import Message
    from flwr.proto.message_pb2 import ObjectTree
    from flwr.supercore.run import Run

CONNECTED = "Connected to the study's server as node"  # the parent process waits for this line
OBJECTS = 3  # Flower stores one letter as three objects: Message, RecordDict, ConfigRecord
# The wait before the next poll is a share of the time since the last message: rounds are fast, owners take days
SHARE, SHORTEST, LONGEST = 0.15, 0.15, 1.0  # each poll costs the server 10 ms of one core
FIRST_RETRY = 0.05  # seconds before an object that has not arrived yet is requested again
REMEMBERED = 100
LAST_WORDS = 5.0  # seconds in which the server is told that this node leaves

log = logging.getLogger("fedspca.flower.executor")


class NotALetter(ValueError):
    """A message that this node does not carry."""


class Fleet(NamedTuple):
    """The parts of Flower's Fleet protocol that are used. The call that fetches the app is not one of them."""

    receive: "Callable[[], tuple[Message, ObjectTree] | None]"
    send: "Callable[[Message, ObjectTree, float], tuple[set[str], str]]"
    get_run: "Callable[[int], Run]"
    pull_object: Callable[[int, str], bytes]
    push_object: Callable[[int, str, str, bytes], None]
    confirm: Callable[[int, str], None]


class Executor:
    """Answers one message after the other.

    Parameters
    ----------
    fleet : Fleet
        The connection to Flower's server.
    ask : callable
        Hands a letter to the guard, with the seconds that are left; returns its reply or raises :class:`RelayError`.
    tell : callable
        Tells the guard in words what was refused.
    app : str
        The one app, as ``publisher/name``, in whose runs letters travel.
    """

    def __init__(
        self, fleet: Fleet, ask: Callable[[bytes, float], bytes], tell: Callable[[str], object], app: str
    ) -> None:
        self._fleet, self._ask, self._tell, self._app = fleet, ask, tell, app
        self._objections: dict[int, str] = {}

    def step(self) -> bool:
        """Answer the next message; return whether there was one."""
        from flwr.supercore.inflatable.inflatable_utils import ObjectPullError, ObjectPushError
        from flwr.supercore.run import RunNotRunningException

        try:
            received = self._received()
            if received is None:
                return False
            self._send(self._reply(*received))
        except (ObjectPullError, ObjectPushError) as error:  # the coordinator or this site stopped during the transfer
            log.warning("A message is dropped. %s", error)
        except RunNotRunningException:  # Flower's, not a subclass of Exception: nobody waits for the reply
            log.info("The run is over; its message is dropped.")
        return True

    def _received(self) -> "tuple[Message, ObjectTree] | None":
        try:
            return self._fleet.receive()
        except (ValueError, TypeError, KeyError, IndexError) as error:  # an honest Flower server does not send this
            self._refuse(f"Flower's server sent a malformed message ({type(error).__name__}). Nothing was run.")
            return None

    def _reply(self, message: "Message", tree: "ObjectTree") -> "Message":
        from flwr.app import ConfigRecord, Error, Message, RecordDict
        from flwr.common.constant import ErrorCode

        began = time.monotonic()
        try:
            letter = self._letter(message, tree)
            answer = self._ask(letter, _left(message))
        except NotALetter as error:
            self._refuse(f"{error} Nothing was run.")
            return Message(Error(ErrorCode.CLIENT_APP_RAISED_EXCEPTION, f"refused: {error}"), reply_to=message)
        except RelayError as error:
            log.warning("%s", error)
            return Message(Error(ErrorCode.CLIENT_APP_RAISED_EXCEPTION, str(error)), reply_to=message)
        log.info("A letter of %d bytes was answered in %.2f s.", len(letter), time.monotonic() - began)
        return Message(RecordDict({"letter": ConfigRecord({"bytes": answer})}), reply_to=message)

    def _letter(self, message: "Message", tree: "ObjectTree") -> bytes:
        """The letter in a message of a run of the one app, or raise :class:`NotALetter`."""
        number, kind = message.metadata.run_id, message.metadata.message_type
        if objection := self._objection(number):
            raise NotALetter(objection)
        if kind != MESSAGE_TYPE:
            raise NotALetter(f"Flower's server sent a message of kind {_short(kind)}.")
        try:
            return self._pulled(number, tree, _left(message))
        finally:
            self._fleet.confirm(number, message.metadata.message_id)

    def _objection(self, number: int) -> str:
        """Why nothing of a run is taken; empty if it is of the one app."""
        if number not in self._objections:
            run = self._fleet.get_run(number)
            named = f"{_short(run.fab_id)} ({_short(run.primary_task_type)}, hash {_short(run.fab_hash[:16])})"
            known = run.fab_id == self._app and run.primary_task_type == "flwr-serverapp"
            if len(self._objections) >= REMEMBERED:
                self._objections.pop(next(iter(self._objections)))
            self._objections[number] = "" if known else f"Flower's server shipped another app, {named}."
        return self._objections[number]

    def _pulled(self, number: int, tree: "ObjectTree", seconds: float) -> bytes:
        """Fetch the letter of a message: only the object that holds the letter is requested."""
        from flwr.supercore.inflatable.inflatable_object import iterate_object_tree
        from flwr.supercore.inflatable.inflatable_utils import pull_objects

        count = sum(1 for _ in iterate_object_tree(tree))
        if count != OBJECTS or len(tree.children) != 1:
            raise NotALetter(f"Flower's server sent a message of {count} objects; a letter has {OBJECTS}.")
        leaf = tree.children[0].children[0].object_id
        pull = partial(self._fleet.pull_object, number)
        contents = pull_objects([leaf], pull, max_time=seconds, initial_backoff=FIRST_RETRY, backoff_cap=LONGEST)
        return _letter_in(contents[leaf])

    def _send(self, reply: "Message") -> None:
        from flwr.supercore.inflatable.inflatable_object import (
            get_all_nested_objects,
            get_object_tree,
            no_object_id_recompute,
        )

        number = reply.metadata.run_id
        reply.metadata.__dict__["_message_id"] = reply.object_id  # as Flower's own node does
        with no_object_id_recompute():
            objects = {name: thing.deflate() for name, thing in get_all_nested_objects(reply).items()}
            wanted, session = self._fleet.send(reply, get_object_tree(reply), 0.0)
        for name, content in objects.items():
            if name in wanted:
                self._fleet.push_object(number, session, name, content)

    def _refuse(self, words: str) -> None:
        log.warning("Refused: %s", words)
        try:
            self._tell(words)
        except RelayError as error:
            log.warning("It is not in the site's log: %s", error)


def carry(executor: Executor, stop_asked: threading.Event) -> None:
    """Answer messages until asked to stop, and poll less often the longer no message has come."""
    last = time.monotonic()
    while not stop_asked.is_set():
        if executor.step():
            last = time.monotonic()
        else:
            silence = time.monotonic() - last
            stop_asked.wait(min(max(SHARE * silence, SHORTEST), LONGEST))


def main() -> None:
    """Connect to the study's server and carry letters until told to stop."""
    given = _arguments()
    logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s", level=logging.INFO, stream=sys.stderr)
    logging.getLogger("httpx").setLevel(logging.WARNING)  # it logs every request
    try:
        check_flower()
        key = _node_key(given.key)
    except (ValueError, OSError) as error:
        sys.exit(str(error))
    stop_asked = threading.Event()
    signal.signal(signal.SIGTERM, partial(_leave, stop_asked))
    if given.tied:
        threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        _connect(given, key, stop_asked)
    except KeyboardInterrupt:  # Flower's client raises it when the server no longer knows the key
        sys.exit("The node ended: it was interrupted, or its key is registered no more.")


def _connect(given: argparse.Namespace, key: ec.EllipticCurvePrivateKey, stop_asked: threading.Event) -> None:
    from flwr.supernode.fleet_http_connection import http_request_response

    address, keys = given.superlink, (key, key.public_key())
    with http_request_response(address, False, str(given.authority), keys) as connection:
        number, receive, send, get_run, _, pull_object, push_object, confirm = connection
        log.info("%s %d", CONNECTED, number)
        fleet = Fleet(receive, send, get_run, pull_object, push_object, confirm)

        def ask(letter: bytes, seconds: float) -> bytes:
            return forward(given.socket, letter, timeout=seconds)

        carry(Executor(fleet, ask, partial(report, given.socket), given.app), stop_asked)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m fedspca.flower.executor",
        description="Carry letters between a study's server and the guard beside the data. No app is fetched or run.",
    )
    parser.add_argument("--superlink", required=True, metavar="HOST:PORT", help="where the study's server is")
    parser.add_argument("--authority", required=True, type=Path, help="the certificate by which it is known")
    parser.add_argument("--key", required=True, type=Path, help="this node's private key")
    parser.add_argument("--socket", required=True, type=Path, help="where the guard listens")
    parser.add_argument("--app", required=True, metavar="PUBLISHER/NAME", help="the app in whose runs letters travel")
    parser.add_argument("--tied", action="store_true", help="end when standard input closes, that is, with the parent")
    return parser.parse_args()


def _node_key(path: Path) -> ec.EllipticCurvePrivateKey:
    with contextlib.suppress(ValueError, UnsupportedAlgorithm):
        key = load_ssh_private_key(path.read_bytes(), None)
        if isinstance(key, ec.EllipticCurvePrivateKey):
            return key
    raise ValueError(f"Unable to parse the private key {path}.")


def _leave(stop_asked: threading.Event, *_: int | FrameType | None) -> None:
    """End now, but tell the server first. Otherwise the server waits a minute for this node."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    stop_asked.set()
    threading.Thread(target=_end_soon, daemon=True).start()
    sys.exit(0)


def _end_with_parent() -> None:
    with contextlib.suppress(OSError):
        while os.read(0, 1):
            pass
    os.kill(os.getpid(), signal.SIGTERM)


def _end_soon() -> None:
    time.sleep(LAST_WORDS)
    os._exit(0)


def _left(message: "Message") -> float:
    """The seconds until the deadline of a message."""
    return max(float(message.metadata.created_at + message.metadata.ttl) - time.time(), 1.0)


def _letter_in(content: bytes) -> bytes:
    from flwr.app import ConfigRecord
    from flwr.supercore.inflatable.inflatable_object import get_object_type_from_object_content

    try:
        kind = get_object_type_from_object_content(content)
        letter = ConfigRecord.inflate(content)["bytes"] if kind == "ConfigRecord" else None
    except Exception as error:  # malformed bytes may raise anything
        raise NotALetter(f"Flower's server sent a message without a letter ({type(error).__name__}).") from None
    if not isinstance(letter, bytes):
        raise NotALetter(f"Flower's server sent a {_short(kind)} without a letter in bytes.")
    return letter


def _short(text: str) -> str:
    """Shorten a text from the server, for a log that people read."""
    return repr(text[:60])


if __name__ == "__main__":
    main()
