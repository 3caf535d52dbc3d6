"""A hostile coordinator ships an app whose client code writes a file: no site runs it, and every site's log has it.

The plant is Flower's own node, as sites ran it before: there the same app does write the file, so the drill would
notice.
"""

import time

import pytest

from fedspca.flower.commands import free_port, program
from fedspca.flower.processes import Process, tail
from fedspca.letters.audit import Audit
from fedspca.study.flower_app import APP
from flower_study import DrillStudy, write_drill

HOSTILE = """
from pathlib import Path

Path({proof!r}).write_text("run at import")

from flwr.app import ConfigRecord, Message, RecordDict
from flwr.clientapp import ClientApp

app = ClientApp()


@app.query("fedspca")
@app.query("other")
@app.train()
def answer(message, context):
    Path({proof!r}).write_text("run")
    return Message(RecordDict({{"letter": ConfigRecord({{"bytes": b"owned"}})}}), reply_to=message)
"""
# past the channel: messages of other kinds, and one with no letter in it, straight over Flower's grid
BODY = """
from flwr.app import ConfigRecord, Message, RecordDict

grid = channel._grid
end = time.monotonic() + 60.0
while not (nodes := list(grid.get_node_ids())) and time.monotonic() < end:
    time.sleep(0.5)
records = RecordDict({"letter": ConfigRecord({"bytes": b"not signed"})})
empty = RecordDict({"something": ConfigRecord({"else": 1})})
sent = [("query.fedspca", records), ("query.other", records), ("train", records), ("query.fedspca", empty)]
for kind, content in sent:
    replies = []
    for message in [Message(content, node, kind, ttl=given["patience"]) for node in nodes]:
        [identifier] = grid.push_messages([message])
        end = time.monotonic() + given["patience"]
        while not (found := list(grid.pull_messages([identifier]))) and time.monotonic() < end:
            time.sleep(0.2)
        replies += [reply.error.reason if reply.has_error() else reply.content["letter"]["bytes"].decode()
                    for reply in found]
    report(kind=kind, replies=replies)
"""


@pytest.fixture
def attacked(short_folder, tmp_path):
    """A study whose coordinator is hostile, with one site that keeps a log as a real one does."""
    study = DrillStudy(short_folder / "hostile")
    study.audit = Audit(tmp_path / "log.jsonl")
    study.proof = tmp_path / "proof"
    try:
        yield study
    finally:
        study.stop()


def ship(study, name, patience=60.0):
    app = write_drill(study.folder / f"app-{name}", BODY, "hostile:app", hostile=HOSTILE.format(proof=str(study.proof)))
    if name != APP.split("/")[1]:
        settings = app / "pyproject.toml"
        settings.write_text(settings.read_text().replace("fedspca-study", name))
    return study.run_app(app, {"patience": patience}).wait(240)


def handle(study):
    def refuse(letter):
        study.audit.add(verdict="refused", kind="letter", reason="it is not signed")
        return b"refused"

    return refuse


def reported(study):
    return lambda words: study.audit.add(verdict="refused", kind="flower", reason=words)


def test_nothing_that_is_shipped_is_run_and_the_attempts_are_in_the_log(attacked):
    attacked.site("oslo", handle(attacked), reported=reported(attacked))
    said = [one["replies"] for one in ship(attacked, "evil") if "kind" in one]
    assert [len(replies) for replies in said] == [1, 1, 1, 1]
    assert not attacked.proof.exists()
    assert all("shipped another app, 'fedspca/evil'" in reply for replies in said for reply in replies)
    assert len(list(attacked.audit.lines())) == 4
    # the same code under the name that sites expect: letters pass to the guard, which refuses them; no code is run
    ship(attacked, "fedspca-study")
    assert not attacked.proof.exists()
    reasons = [line["reason"] for line in attacked.audit.lines()][4:]
    assert reasons[0] == "it is not signed"
    assert "kind 'query.other'" in reasons[1]
    assert "kind 'train'" in reasons[2]
    assert "without a letter" in reasons[3]
    assert all("Nothing was run" in reason for reason in reasons[1:])
    assert attacked.audit.verify() == 8
    home = attacked.sites["oslo"].folder / "home"
    assert not [path for path in home.rglob("*") if path.is_file()]  # not even unpacked


def test_the_plant_flowers_own_node_runs_what_is_shipped(attacked):
    site = attacked.site("oslo", handle(attacked), start=False)
    command = [program("flower-supernode"), "--superlink", attacked.address]
    command += ["--root-certificates", str(attacked.certificates.authority)]
    command += [
        "--auth-supernode-private-key",
        str(site.private_key),
        "--host",
        "127.0.0.1",
        "--port",
        str(free_port()),
    ]
    stock = Process("stock", command, site.folder, site.folder / "home").start()
    try:
        app = write_drill(
            attacked.folder / "plant", BODY, "hostile:app", hostile=HOSTILE.format(proof=str(attacked.proof))
        )
        attacked.run_app(app, {"patience": 60.0})
        end = time.monotonic() + 180
        while not attacked.proof.exists():
            assert time.monotonic() < end, tail(stock.log)
            time.sleep(0.5)
    finally:
        stock.stop()
    assert list(attacked.audit.lines()) == []  # and its owner never hears of it
