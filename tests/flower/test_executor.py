"""What stands in the place of Flower's node: letters pass, and nothing that the server ships is fetched or run."""

import subprocess
import sys
import threading
import time
from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("flwr")

from flwr.app import Array, ArrayRecord, ConfigRecord, Message, Metadata, MetricRecord, RecordDict
from flwr.supercore.inflatable.inflatable_object import get_all_nested_objects, get_object_tree
from flwr.supercore.inflatable.inflatable_utils import ObjectUnavailableError, inflate_object_from_contents
from flwr.supercore.run import RunNotRunningException

from fedspca.flower import executor
from fedspca.flower.certificates import make_certificates, make_node_key
from fedspca.flower.commands import executor_command, free_port
from fedspca.flower.executor import Executor, Fleet, carry
from fedspca.flower.grid_channel import MESSAGE_TYPE
from fedspca.flower.relay import RelayError
from fedspca.study.flower_app import APP

PARENT = """
import sys
from pathlib import Path
from fedspca.flower.processes import Process
process = Process("node", sys.argv[2:], Path(sys.argv[1]), Path(sys.argv[1]) / "home", tied=True).start()
print(process.pid, flush=True)
process.wait()
"""


class Server:
    """Flower's server as a node sees it: one message to give, and what comes back."""

    def __init__(self, content, kind=MESSAGE_TYPE, app=APP, task="flwr-serverapp"):
        self.app, self.task = app, task
        self.objects, self.replies, self.confirmed, self.asked = {}, [], [], 0
        metadata = Metadata(7, "", 1, 5, "", "", time.time(), 60.0, kind)
        message = Message(content=content, metadata=metadata)
        metadata.__dict__["_message_id"] = message.object_id
        self.waiting = [(message, get_object_tree(message))]
        self.stored = {name: thing.deflate() for name, thing in get_all_nested_objects(message).items()}
        self.fleet = Fleet(
            lambda: self.waiting.pop() if self.waiting else None,
            self.send,
            self.get_run,
            lambda run, name: self.stored[name],
            lambda run, session, name, content: self.objects.update({name: content}),
            lambda run, name: self.confirmed.append(name),
        )

    def send(self, message, tree, seconds):
        self.replies.append(message)
        return set(get_all_nested_objects(message)), "session"

    def get_run(self, number):
        self.asked += 1
        return SimpleNamespace(fab_id=self.app, primary_task_type=self.task, fab_hash="0" * 64)

    @property
    def reply(self):
        [reply] = self.replies
        found = inflate_object_from_contents(reply.metadata.message_id, dict(self.objects))
        assert reply.metadata.reply_to_message_id
        return found


def letter(content=b"a letter"):
    return RecordDict({"letter": ConfigRecord({"bytes": content})})


def step(server, ask=lambda letter, seconds: letter[::-1]):
    told = []
    Executor(server.fleet, ask, told.append, APP).step()
    return told


def test_a_letter_goes_to_the_guard_and_its_reply_back():
    server, left = Server(letter()), []
    told = step(server, lambda letter, seconds: left.append(seconds) or letter.upper())
    assert server.reply.content["letter"]["bytes"] == b"A LETTER"
    assert len(server.confirmed) == 1
    assert told == []
    assert 50 < left[0] <= 60  # the guard has the time that the coordinator waits


def test_the_app_cannot_be_fetched():
    assert not any("fab" in name for name in Fleet._fields)
    assert "get_fab" not in executor.__dict__


@pytest.mark.parametrize(
    ("app", "task"), [("evil/app", "flwr-serverapp"), ("fedspca/other", "flwr-serverapp"), (APP, "flwr-agentapp")]
)
def test_another_app_is_refused_and_reported_whatever_it_sends(app, task):
    server = Server(letter(), app=app, task=task)
    [told] = step(server, lambda *_: pytest.fail("the guard was asked"))
    assert f"shipped another app, '{app}'" in told
    assert told.endswith("Nothing was run.")
    assert "refused" in server.reply.error.reason


@pytest.mark.parametrize("kind", ["train", "evaluate", "query", "query.other"])
def test_another_kind_of_message_is_refused_and_reported(kind):
    server = Server(letter(), kind)
    assert step(server) == [f"Flower's server sent a message of kind '{kind}'. Nothing was run."]
    assert server.reply.has_error()


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (RecordDict(), "1|2 objects"),
        (RecordDict({"letter": ConfigRecord({"bytes": "text"})}), "'ConfigRecord' without a letter in bytes"),
        (RecordDict({"letter": ConfigRecord({})}), "without a letter"),
        (RecordDict({"letter": MetricRecord({"bytes": 1})}), "'MetricRecord'"),
        (RecordDict({"letter": ArrayRecord({"a": Array(np.zeros(1))})}), "objects"),
        (RecordDict({"letter": ConfigRecord({"bytes": b"x"}), "more": ConfigRecord({})}), "4 objects"),
    ],
)
def test_a_message_without_a_letter_is_refused_and_reported(content, words):
    server = Server(content)
    [told] = step(server, lambda *_: pytest.fail("the guard was asked"))
    assert any(word in told for word in words.split("|"))
    assert server.reply.has_error()


def test_bytes_that_are_no_object_are_refused():
    server = Server(letter())
    server.stored = dict.fromkeys(server.stored, b"\x80\x04\x95 pickled")
    [told] = step(server)
    assert "without a letter" in told


def test_a_malformed_message_is_reported_and_stops_nothing():
    def malformed():
        raise ValueError("Invalid message type")

    told = []
    assert not Executor(Server(letter()).fleet._replace(receive=malformed), pytest.fail, told.append, APP).step()
    assert told == ["Flower's server sent a malformed message (ValueError). Nothing was run."]


def test_a_guard_that_fails_is_named_to_the_coordinator():
    def fail(letter, seconds):
        raise RelayError("the guard failed on the letter (ZeroDivisionError)")

    server = Server(letter())
    assert step(server, fail) == []
    assert "ZeroDivisionError" in server.reply.error.reason


def test_a_refusal_that_cannot_be_reported_stops_nothing():
    def fail(words):
        raise RelayError("the guard cannot be reached")

    server = Server(letter(), "train")
    assert Executor(server.fleet, pytest.fail, fail, APP).step()
    assert server.reply.has_error()


def test_a_run_that_is_over_stops_nothing():
    def over(*_):
        raise RunNotRunningException

    server = Server(letter())
    assert Executor(server.fleet._replace(send=over), lambda letter, _: letter, pytest.fail, APP).step()


def test_a_letter_that_was_not_sent_to_its_end_is_dropped_when_nobody_waits_any_more(monkeypatch):
    def missing(run, name):
        raise ObjectUnavailableError(name)

    monkeypatch.setattr(executor, "_left", lambda message: 0.2)
    server = Server(letter())
    assert Executor(server.fleet._replace(pull_object=missing), pytest.fail, pytest.fail, APP).step()
    assert server.replies == []


def test_a_run_is_asked_about_once_and_not_many_are_remembered():
    server = Server(letter())
    node = Executor(server.fleet, lambda letter, _: letter, pytest.fail, APP)
    for number in [*range(2 * executor.REMEMBERED), 2 * executor.REMEMBERED - 1]:
        assert node._objection(number) == ""
    assert server.asked == 2 * executor.REMEMBERED
    assert len(node._objections) == executor.REMEMBERED


def test_messages_are_asked_for_less_often_the_longer_none_came(monkeypatch):
    waits, clock = [], iter(range(1000))
    monkeypatch.setattr(executor.time, "monotonic", lambda: next(clock))
    stop = SimpleNamespace(is_set=lambda: len(waits) > 20, wait=waits.append)
    steps = iter([False, True] + [False] * 30)
    carry(SimpleNamespace(step=lambda: next(steps)), stop)
    assert waits[0] == executor.SHARE
    assert waits == sorted(waits)
    assert waits[-1] == executor.LONGEST


def test_the_node_ends_with_its_guard_however_that_ends(tmp_path):
    made = make_certificates(tmp_path / "tls", ["127.0.0.1"])
    private, _ = make_node_key(tmp_path)
    nobody = f"127.0.0.1:{free_port()}"
    command = executor_command(nobody, made.authority, private, tmp_path / "s", APP, tied=True)
    arguments = [sys.executable, "-c", PARENT, str(tmp_path / "run"), *command]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True) as guard:
        pid = guard.stdout.readline().strip()
        guard.kill()
    end = time.monotonic() + 60
    while subprocess.run(["ps", "-o", "stat=", "-p", pid], capture_output=True, text=True, check=False).stdout.strip(
        " Z\n"
    ):
        assert time.monotonic() < end, (tmp_path / "run" / "node.log").read_text()
        time.sleep(0.1)


def test_a_key_that_cannot_be_read_is_named(tmp_path):
    (tmp_path / "key").write_text("no key")
    command = executor_command("127.0.0.1:1", tmp_path / "ca", tmp_path / "key", tmp_path / "s", APP)
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "Unable to parse the private key" in done.stderr


def test_nothing_is_carried_once_asked_to_stop():
    stop = threading.Event()
    stop.set()
    carry(SimpleNamespace(step=pytest.fail), stop)
