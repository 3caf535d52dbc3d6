"""A study's Flower processes on loopback, with TLS and node authentication, for the drills.

A :class:`DrillStudy` is one SuperLink with its gateway; its ``site(name)`` adds a site with a guard and a SuperNode.
What the coordinator's app does is written as a Python function body, shipped as a Flower app of its own, and what it
reports comes back as JSON, because a ServerApp's output goes to the SuperLink.
"""

import json
import textwrap
import time
from pathlib import Path

from fedspca.flower.certificates import Certificates, make_certificates, make_node_key
from fedspca.flower.commands import executor_command, free_port
from fedspca.flower.control import SuperLinkControl
from fedspca.flower.processes import Process, start_gateway, start_superlink
from fedspca.flower.relay import Relay
from fedspca.study.flower_app import APP

SERVER = '''\
"""The coordinator's side of a drill."""
import json, time, traceback
from pathlib import Path

from flwr.serverapp import ServerApp
from fedspca.flower.grid_channel import FlowerChannel

app = ServerApp()


@app.main()
def main(grid, context):
    out = Path(context.run_config["out"])

    def report(**said):
        with out.open("a") as file:
            file.write(json.dumps(said) + "\\n")

    try:
        channel = FlowerChannel(grid, b"hello", lambda answer: answer.decode())
        body(channel, report, json.loads(context.run_config["given"]))
        report(done=True)
    except BaseException:
        report(done=True, error=traceback.format_exc())
        raise


def body(channel, report, given):
'''

PYPROJECT = """\
[project]
name = "fedspca-study"
version = "0.1.0"
description = "a drill"
license = "BSD-3-Clause"
[tool.flwr.app]
publisher = "fedspca"
[tool.flwr.app.components]
serverapp = "drill_server:app"
clientapp = "{client}"
[tool.flwr.app.config]
out = ""
given = "{{}}"
"""


def write_drill(folder: Path, body: str, client: str = "fedspca.study.client_app:app", **modules: str) -> Path:
    """A Flower app whose ServerApp runs ``body(channel, report, given)``."""
    folder.mkdir(parents=True)
    (folder / "pyproject.toml").write_text(PYPROJECT.format(client=client))
    (folder / "drill_server.py").write_text(SERVER + textwrap.indent(textwrap.dedent(body), "    "))
    for name, code in modules.items():
        (folder / f"{name}.py").write_text(textwrap.dedent(code))
    return folder


class DrillSite:
    """A site: its guard in this process, its SuperNode as a process of its own."""

    def __init__(self, name: str, folder: Path, address: str, authority: Path, handle=None, **relay) -> None:
        self.name, self.folder = name, folder
        self.letters: list[bytes] = []
        self.private_key, self.public_key = make_node_key(folder)
        self._answer = handle or (lambda letter: letter)
        self.guard = Relay(self._handle, folder / "s", **relay)
        command = executor_command(address, authority, self.private_key, folder / "s", APP, tied=True)
        self.supernode = Process("supernode", command, folder, folder / "home", tied=True)

    def _handle(self, letter: bytes) -> bytes:
        if letter == b"hello":
            return self.name.encode()
        self.letters.append(letter)
        return self._answer(letter)

    def stop(self) -> None:
        self.supernode.stop(seconds=5)
        self.guard.stop()


class DrillRun:
    """A run of a drill's app, and what it has reported so far."""

    def __init__(self, run_id: int, out: Path) -> None:
        self.run_id, self._out = run_id, out

    @property
    def said(self) -> list[dict]:
        return [json.loads(line) for line in self._out.read_text().splitlines()] if self._out.exists() else []

    def wait(self, seconds: float = 120.0, until=lambda said: said.get("done")) -> list[dict]:
        """What was reported, once a report satisfies ``until``."""
        end = time.monotonic() + seconds
        while not any(map(until, self.said)):
            assert not any(said.get("error") for said in self.said), self.said
            assert time.monotonic() < end, f"the drill's run did not end within {seconds} s; it said {self.said}"
            time.sleep(0.2)
        assert not any(said.get("error") for said in self.said), self.said
        return self.said


class DrillStudy:
    """A SuperLink, its gateway and its sites."""

    def __init__(self, folder: Path, certificates: Certificates | None = None) -> None:
        self.folder = folder
        self.certificates = certificates or make_certificates(folder / "tls", ["127.0.0.1"])
        self.sites: dict[str, DrillSite] = {}
        self._runs = 0
        self.superlink, self.port = start_superlink(folder / "study", self.certificates)
        self.gateway = start_gateway(folder / "study", self.certificates, free_port(), self.port, host="127.0.0.1")
        self.address = f"127.0.0.1:{self.gateway.command[self.gateway.command.index('--port') + 1]}"
        self.control = SuperLinkControl(f"127.0.0.1:{self.port}", self.certificates.authority)

    def site(
        self, name: str, handle=None, *, register=True, start=True, authority=None, address=None, **relay
    ) -> DrillSite:
        authority, address = authority or self.certificates.authority, address or self.address
        site = DrillSite(name, self.folder / name, address, authority, handle, **relay)
        self.sites[name] = site
        if register:
            site.node_id = self.control.register(site.public_key)
        if start:
            site.supernode.start()
        return site

    def restart_superlink(self) -> None:
        self.superlink, _ = start_superlink(self.folder / "study", self.certificates, self.port)

    def run(self, body: str, given=None) -> DrillRun:
        return self.run_app(write_drill(self.folder / f"drill{self._runs}", body), given)

    def run_app(self, app: Path, given=None) -> DrillRun:
        self._runs += 1
        out = self.folder / f"said{self._runs}.jsonl"
        run_id = self.control.start_run(app, {"out": str(out), "given": json.dumps(given or {})})
        return DrillRun(run_id, out)

    def stop(self) -> None:
        for site in self.sites.values():
            site.stop()
        self.control.close()
        self.gateway.stop()
        self.superlink.stop()
