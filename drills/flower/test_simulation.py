"""The same app and the same channel under Flower's simulation engine."""

import json

import pytest

pytest.importorskip("ray")

from fedspca.flower.control import SuperLinkControl
from fedspca.flower.processes import start_simulation
from flower_study import DrillRun, write_drill

# there is no guard here: a site is built where its message is, from the node's number
SITE = """
from flwr.app import ConfigRecord, Message, RecordDict
from flwr.clientapp import ClientApp

app = ClientApp()


@app.query("fedspca")
def answer(message, context):
    name = f"site{context.node_config['partition-id']}".encode()
    letter = message.content["letter"]["bytes"]
    reply = name if letter == b"hello" else name + b":" + letter
    return Message(RecordDict({"letter": ConfigRecord({"bytes": reply})}), reply_to=message)
"""
BODY = """
end = time.monotonic() + 60.0
while len(channel.sites) < 3 and time.monotonic() < end:
    channel.refresh()
    time.sleep(0.5)
sites = channel.sites
report(sites=sites)
for number in range(3):
    began = time.monotonic()
    answers = channel.exchange(dict.fromkeys(sites, b"%d" % number), 60.0)
    report(answers={name: answer.decode() for name, answer in answers.items()}, seconds=time.monotonic() - began)
"""


def test_three_simulated_sites_round_trip(short_folder):
    folder = short_folder / "simulation"
    engine, port = start_simulation(folder)
    try:
        app = write_drill(folder / "app", BODY, "drill_site:app", drill_site=SITE)
        out = folder / "said.jsonl"
        settings = {"out": str(out), "given": json.dumps({"a": 'quo"ted'})}
        with SuperLinkControl(f"127.0.0.1:{port}", None) as control:
            run = DrillRun(control.start_run(app, settings, simulated_nodes=3), out)
            said = run.wait(120)
            assert control.wait_for_run(run.run_id, 30).completed
    finally:
        engine.stop()
    assert said[0]["sites"] == ["site0", "site1", "site2"]
    for number, round_ in enumerate(said[1:4]):
        assert round_["answers"] == {f"site{one}": f"site{one}:{number}" for one in range(3)}
