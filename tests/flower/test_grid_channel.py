"""Letters in time, late, twice, or never: the channel's own clock, against a grid in memory."""

import itertools
import time
from threading import Event
from types import SimpleNamespace

import numpy as np
import pytest

from fedspca.flower import grid_channel as module
from fedspca.flower.grid_channel import FlowerChannel


@pytest.fixture(autouse=True)
def _plain_messages(monkeypatch):
    """Flower's messages can be made only inside a run of Flower."""
    monkeypatch.setattr(
        module, "_message", lambda letter, node, ttl: SimpleNamespace(letter=letter, node=node, ttl=ttl)
    )


class Error(SimpleNamespace):
    """What Flower says instead of an answer."""


class MemoryGrid:
    """Nodes that answer after a while. Only what the channel's timing needs: the real grid is met in the drills."""

    def __init__(self, nodes):
        self.nodes = nodes  # node id -> function of the letter: (seconds, answer) or None
        self.online = set(nodes)
        self.pushed, self.pulls = [], []
        self._waiting, self._numbers = {}, itertools.count()

    def get_node_ids(self):
        return sorted(self.online)

    def push_messages(self, messages):
        identifiers = []
        for message in messages:
            self.pushed.append((message.node, message.letter, message.ttl))
            outcome = self.nodes[message.node](message.letter)
            if outcome == "rejected":
                identifiers.append(None)
                continue
            identifiers.append(f"m{next(self._numbers)}")
            if outcome is not None:
                self._waiting[identifiers[-1]] = (time.monotonic() + outcome[0], outcome[1])
        return identifiers

    def pull_messages(self, message_ids):
        self.pulls.append(time.monotonic())
        ready = [key for key in message_ids if key in self._waiting and self._waiting[key][0] <= time.monotonic()]
        return [self._reply(key, self._waiting.pop(key)[1]) for key in ready]

    @staticmethod
    def _reply(answers, answer):
        failed = isinstance(answer, Error)
        return SimpleNamespace(
            metadata=SimpleNamespace(reply_to_message_id=answers),
            has_error=lambda: failed,
            error=answer,
            content={} if answer is None else {"letter": {"bytes": answer}},
        )


def named(name, seconds=0.0, answer=None):
    """A node that says its name to hello, and to all else, after a while, its name and the letter."""

    def node(letter):
        if letter == b"hello":
            return 0.0, name.encode()
        return seconds, answer if answer is not None else name.encode() + b":" + letter

    return node


def over(grid):
    return FlowerChannel(grid, b"hello", lambda answer: answer.decode() or None, hello_deadline=0.3)


def test_names_are_found_by_hello_and_letters_reach_their_site():
    channel = over(MemoryGrid({1: named("b"), 2: named("a"), 3: named("")}))
    assert channel.sites == ("a", "b")  # the third proved nothing
    assert channel.exchange({"a": b"1", "b": b"2"}, 1.0) == {"a": b"a:1", "b": b"b:2"}
    assert channel.failures == {}


def test_a_site_that_is_late_is_absent_at_the_deadline_and_its_late_answer_ignored():
    grid = MemoryGrid({1: named("a"), 2: named("b", seconds=1.5)})
    channel = over(grid)
    began = time.monotonic()
    assert channel.exchange({"a": b"1", "b": b"1"}, 0.3) == {"a": b"a:1"}
    assert 0.3 <= time.monotonic() - began < 1.3
    assert channel.failures == {"b": "no answer within 0 seconds"}
    grid.nodes[2] = named("b")
    time.sleep(1.5)  # now the late one waits to be pulled
    assert channel.exchange({"b": b"2"}, 1.0) == {"b": b"b:2"}


def test_a_reply_that_was_cut_off_holds_up_no_other():
    grid = MemoryGrid({1: named("a"), 2: named("b"), 3: named("c")})
    pull, released = grid.pull_messages, Event()

    def held_up(message_ids):
        replies = pull(message_ids)
        if any(reply.content["letter"]["bytes"] == b"b:1" for reply in replies):
            released.wait(20.0)  # as Flower does for a reply whose sender was lost while sending it
        return replies

    grid.pull_messages = held_up
    channel = over(grid)
    began = time.monotonic()
    assert channel.exchange(dict.fromkeys("abc", b"1"), 0.5) == {"a": b"a:1", "c": b"c:1"}
    assert time.monotonic() - began < 10.0
    assert channel.failures == {"b": "no answer within 0 seconds"}
    released.set()
    assert channel.exchange({"b": b"2"}, 1.0) == {"b": b"b:2"}


def test_a_grid_that_fails_is_told():
    grid = MemoryGrid({1: named("a")})
    channel = over(grid)
    channel.exchange({"a": b"1"}, 1.0)

    def gone(_):
        raise ConnectionError("the server is gone")

    grid.pull_messages = gone
    with pytest.raises(ConnectionError, match="the server is gone"):
        channel.exchange({"a": b"2"}, 5.0)


def test_flowers_errors_count_as_no_answer():
    broken = named("b", answer=Error(code=5, reason="Node Unavailable"))
    channel = over(MemoryGrid({1: named("a"), 2: broken}))
    assert channel.exchange({"a": b"1", "b": b"1"}, 1.0) == {"a": b"a:1"}
    assert channel.failures == {"b": "Node Unavailable (Flower's error 5)"}


def test_what_a_site_says_of_an_error_does_not_reach_the_terminal_as_it_is():
    broken = named("a", answer=Error(code=2, reason="trace\nback " * 999 + "\x1b[31mKeyError: 'x'"))
    channel = over(MemoryGrid({1: broken}))
    channel.exchange({"a": b"1"}, 1.0)
    assert channel.failures["a"].endswith("[31mKeyError: 'x' (Flower's error 2)")
    assert channel.failures["a"].isprintable()
    assert len(channel.failures["a"]) < 350


def test_a_letter_that_flower_does_not_take_and_a_reply_without_one():
    def rejecting(letter):
        return (0.0, b"b") if letter == b"hello" else "rejected"

    def empty(letter):
        return 0.0, b"c" if letter == b"hello" else None

    channel = over(MemoryGrid({1: named("a"), 2: rejecting, 3: empty}))
    assert channel.exchange(dict.fromkeys("abc", b"1"), 1.0) == {"a": b"a:1"}
    assert "did not accept" in channel.failures["b"]
    assert "no letter" in channel.failures["c"]


def test_a_site_that_joins_later_is_found_when_it_is_missing():
    grid = MemoryGrid({1: named("a"), 2: named("b")})
    grid.online = {1}
    channel = over(grid)
    assert channel.sites == ("a",)
    assert channel.exchange({"a": b"1", "b": b"1"}, 0.5) == {"a": b"a:1"}
    assert channel.failures == {"b": "the site is not connected"}
    grid.online = {1, 2}
    assert channel.exchange({"a": b"2", "b": b"2"}, 0.5) == {"a": b"a:2", "b": b"b:2"}


def test_a_site_that_comes_back_as_another_node_is_followed_but_none_is_displaced():
    grid = MemoryGrid({1: named("a"), 2: named("a", answer=b"impostor"), 3: named("b")})
    grid.online = {1}
    channel = over(grid)
    assert channel.sites == ("a",)
    grid.online = {1, 2, 3}
    channel.refresh()
    assert channel.exchange({"a": b"1"}, 0.5) == {"a": b"a:1"}
    grid.nodes[2], grid.online = named("a"), {2, 3}
    grid.nodes[1] = lambda letter: None
    assert channel.exchange({"a": b"2"}, 0.1) == {}
    assert channel.exchange({"a": b"3"}, 0.5) == {"a": b"a:3"}


def test_a_known_site_is_not_greeted_again():
    grid = MemoryGrid({1: named("a")})
    channel = over(grid)
    for _ in range(3):
        channel.exchange({"a": b"1"}, 0.5)
    assert [letter for _, letter, _ in grid.pushed].count(b"hello") == 1


def test_a_site_whose_node_is_known_is_not_asked_who_it_is():
    grid = MemoryGrid({1: named("a"), 2: named("b")})
    channel = FlowerChannel(grid, b"hello", lambda answer: answer.decode() or None, {"a": 1, "c": 3})
    assert channel.sites == ("a", "b")  # one was asked, and one is not there
    assert channel.exchange(dict.fromkeys("ab", b"1"), 0.5) == {"a": b"a:1", "b": b"b:1"}
    assert [node for node, letter, _ in grid.pushed if letter == b"hello"] == [2]


def test_a_letter_lives_hardly_longer_than_its_deadline():
    grid = MemoryGrid({1: named("a")})
    over(grid).exchange({"a": b"1"}, 7.0)
    assert 7.0 < grid.pushed[-1][2] <= 8.0


def test_the_grid_is_asked_often_at_first_and_then_less():
    grid = MemoryGrid({1: lambda letter: None})
    channel = over(grid)
    channel._node_of = {"a": 1}
    channel.exchange({"a": b"1"}, 2.0)
    time.sleep(0.1)
    gaps = np.diff(grid.pulls)
    assert len(gaps) < 15
    assert min(gaps[:3]) < 0.2
    assert np.median(gaps[-3:]) > 2 * module.FIRST_WAIT


def test_a_known_site_that_is_late_is_seen_once_it_is_there():
    grid = MemoryGrid({1: lambda letter: (0, b"one"), 2: lambda letter: (0, b"two")})
    grid.online = {1}
    channel = FlowerChannel(grid, b"hello", bytes.decode, {"one": 1, "two": 2})
    assert channel.sites == ("one",)
    grid.online = {1, 2}
    assert channel.sites == ("one", "two")
    assert grid.pushed == []


def test_a_letter_that_the_server_drops_half_way_is_handed_over_again():
    class ObjectPushError(Exception):
        """Flower's own, by name."""

    grid = MemoryGrid({1: named("a")})
    channel = over(grid)
    push, failed = grid.push_messages, []

    def flaky(messages):
        if len(failed) < 2:
            failed.append(messages)
            raise ObjectPushError
        return push(messages)

    grid.push_messages = flaky
    assert channel.exchange({"a": b"1"}, 1.0) == {"a": b"a:1"}
    failed.clear()
    grid.push_messages = lambda messages: flaky(failed.clear() or messages)  # never taken
    assert channel.exchange({"a": b"2"}, 1.0) == {}
    assert "did not accept" in channel.failures["a"]


def test_another_error_of_flowers_is_not_hidden():
    grid = MemoryGrid({1: named("a")})
    channel = over(grid)

    def broken(messages):
        raise OSError("no connection")

    grid.push_messages = broken
    with pytest.raises(OSError, match="no connection"):
        channel.exchange({"a": b"1"}, 1.0)
