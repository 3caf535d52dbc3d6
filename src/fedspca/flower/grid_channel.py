"""Carry one letter to each site over Flower and bring back the answers that come in time.

Flower's own ``send_and_receive`` asks for replies every three seconds; a round of sparse PCA takes less than that. So
letters are pushed, and replies pulled with a short back-off until all are there or the deadline has passed. Each reply
is pulled by a thread of its own: if a sender is lost while it sends, Flower waits for minutes, and the replies of the
other sites would expire meanwhile. This module does not read the letters. The layer above checks signatures, rounds and
shapes, for all channels.
"""

import time
from collections.abc import Callable, Iterable, Mapping
from queue import Empty, SimpleQueue
from threading import Thread
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from flwr.app import Message
    from flwr.serverapp import Grid

MESSAGE_TYPE = "query.fedspca"
FIRST_WAIT, LONGEST_WAIT = 0.1, 0.5
HELLO_DEADLINE = 60.0  # seconds; on a busy machine, the app of a simulated site takes long to start
LONGEST_REASON = 300
TRIES = 3  # attempts to hand a letter to the server
DROPPED = "ObjectPushError"  # by name, so that the channel can be tested without Flower


class FlowerChannel:
    """Letters to named sites over a Flower grid.

    Parameters
    ----------
    grid : Grid
        What Flower hands to a ServerApp.
    hello : bytes
        A letter that every site answers with its name.
    identify : callable
        Returns the name of the site that signed an answer to ``hello``, or None if the answer proves nothing.
    known : mapping of str to int, optional
        The nodes of sites that need not be asked who they are. The layer above still checks their signatures.
    hello_deadline : float
        Seconds that a site has to answer ``hello``.

    Attributes
    ----------
    failures : dict of str to str
        Why sites did not answer in the last exchange.
    """

    def __init__(
        self,
        grid: "Grid",
        hello: bytes,
        identify: Callable[[bytes], str | None],
        known: Mapping[str, int] | None = None,
        hello_deadline: float = HELLO_DEADLINE,
    ) -> None:
        self._grid, self._hello, self._identify = grid, hello, identify
        self._hello_deadline = hello_deadline
        self._node_of = dict(known or {})
        self._online: set[int] | None = None
        self.failures: dict[str, str] = {}

    @property
    def sites(self) -> tuple[str, ...]:
        """The names of the sites that are connected, sorted. If known ones are missing, look again."""
        if self._online is None or not self._online.issuperset(self._node_of.values()):
            self.refresh()
        return tuple(sorted(name for name, node in self._node_of.items() if node in (self._online or ())))

    def refresh(self, deadline: float | None = None) -> None:
        """Look who is connected, and ask new nodes which site they are."""
        self._online = online = set(self._grid.get_node_ids())
        if strangers := online - set(self._node_of.values()):
            answers, _ = self._carry(dict.fromkeys(sorted(strangers), self._hello), deadline or self._hello_deadline)
            for node, answer in sorted(answers.items()):
                name = self._identify(answer)
                # a site may come back as another node, but no node may replace a connected one
                if name is not None and self._node_of.get(name) not in online:
                    self._node_of[name] = node

    def exchange(self, letters: Mapping[str, bytes], deadline: float) -> dict[str, bytes]:
        """Send one letter to each named site; return the answers that came within ``deadline`` seconds, by site.

        A site that did not answer is absent, and :attr:`failures` says why.
        """
        end = time.monotonic() + deadline
        if any(name not in self._node_of or name in self.failures for name in letters):
            self.refresh(min(self._hello_deadline, deadline))
        name_of = {node: name for name, node in self._node_of.items() if name in letters}
        by_node = {node: letters[name] for node, name in name_of.items()}
        answers, reasons = self._carry(by_node, end - time.monotonic())
        self.failures = {name: "the site is not connected" for name in letters if name not in self._node_of}
        self.failures |= {name_of[node]: reason for node, reason in reasons.items()}
        return {name_of[node]: answer for node, answer in answers.items()}

    def _carry(self, letters: Mapping[int, bytes], deadline: float) -> tuple[dict[int, bytes], dict[int, str]]:
        """The answers by node, and for every other node the reason why there is none."""
        end = time.monotonic() + deadline
        node_of_message, reasons = self._push(letters, deadline)
        answers: dict[int, bytes] = {}
        arrived: SimpleQueue[tuple[str, Message | Exception]] = SimpleQueue()
        for identifier in node_of_message:  # these threads are not joined: one may block long after the round
            Thread(target=self._await, args=(identifier, end, arrived), daemon=True).start()
        while node_of_message:
            try:
                identifier, reply = arrived.get(timeout=max(end - time.monotonic(), 0.0))
            except Empty:
                break
            if isinstance(reply, Exception):
                raise reply
            _sort(reply, node_of_message.pop(identifier), answers, reasons)
        reasons |= dict.fromkeys(node_of_message.values(), f"no answer within {deadline:.0f} seconds")
        return answers, reasons

    def _await(self, identifier: str, end: float, arrived: "SimpleQueue[tuple[str, Message | Exception]]") -> None:
        """Ask for the reply to one message, less and less often, until it is there or the time is over."""
        wait = FIRST_WAIT
        try:
            while True:
                for reply in self._grid.pull_messages([identifier]):
                    # identified by the message it answers, not by the sender that the reply claims
                    if reply.metadata.reply_to_message_id == identifier:
                        arrived.put((identifier, reply))
                        return
                left = end - time.monotonic()
                if left <= 0:
                    return
                time.sleep(min(wait, left))
                wait = min(1.5 * wait, LONGEST_WAIT)
        except Exception as error:  # reported where the reply is awaited
            arrived.put((identifier, error))

    def _push(self, letters: Mapping[int, bytes], deadline: float) -> tuple[dict[str, int], dict[int, str]]:
        node_of_message, reasons = {}, {}
        for node, letter in letters.items():
            # one by one, as Flower recommends for long letters
            identifier = self._pushed(letter, node, max(deadline, 0.0) + 1.0)
            if identifier:
                node_of_message[identifier] = node
            else:
                reasons[node] = "Flower did not accept the letter: the node may just have left"
        return node_of_message, reasons

    def _pushed(self, letter: bytes, node: int, ttl: float) -> str | None:
        """Hand one letter to Flower's server and return its number; None if the server does not take it.

        A busy server may drop a letter during the transfer, and reports it. A site answers the same letter only
        once, so it is safe to send the letter again.
        """
        for _ in range(TRIES):
            try:
                identifiers: Iterable[str | None] = self._grid.push_messages([_message(letter, node, ttl)])
                return next(iter(identifiers), None)
            except Exception as error:
                if type(error).__name__ != DROPPED:
                    raise
        return None


def _message(letter: bytes, node: int, ttl: float) -> "Message":
    from flwr.app import ConfigRecord, Message, RecordDict

    return Message(RecordDict({"letter": ConfigRecord({"bytes": letter})}), node, MESSAGE_TYPE, ttl=ttl)


def _sort(reply: "Message", node: int, answers: dict[int, bytes], reasons: dict[int, str]) -> None:
    if reply.has_error():
        reasons[node] = f"{_plain(reply.error.reason) or 'Flower gave no reason'} (Flower's error {reply.error.code})"
        return
    try:
        answer = reply.content["letter"]["bytes"]
    except (KeyError, TypeError):
        answer = None
    if isinstance(answer, bytes):
        answers[node] = answer
    else:
        reasons[node] = "the reply holds no letter"


def _plain(reason: str | None) -> str:
    """The end of a site's error text, which holds the cause, made safe for a terminal."""
    line = " ".join((reason or "").split())[-LONGEST_REASON:]
    return "".join(letter for letter in line if letter.isprintable())
