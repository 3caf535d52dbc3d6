"""Institutions on loopback: a coordinator and sites, each driven by the commands that a person types."""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("flwr")

from fedspca.flower.commands import free_port
from fedspca.flower.processes import running, stop
from fedspca.study.coordinator import StudyFolder
from fedspca.study.owner import SiteFolder

PROGRAM = [sys.executable, "-m", "fedspca"]
NAMES = [f"f{j}" for j in range(6)]


def rows(sites):
    rng = np.random.default_rng(5)
    x = rng.standard_normal((20 * len(sites), 6))
    x[:, 1] += 2 * x[:, 0]
    x[:, 4] -= x[:, 3]
    return dict(zip(sites, np.array_split(x, len(sites)), strict=True))


class Institutions:
    """A study and its sites, in folders of their own."""

    def __init__(self, home, sites, **settings):
        """Go from the invitation to sites that are connected."""
        self.home, self.sites = home, sites
        self.ports = free_port(), free_port()
        self.data = rows(sites)
        self.people, self.runs = {}, []
        given = {"port": self.ports[0], "control-port": self.ports[1], "deadline": 30, "nonzero": 3, **settings}
        options = [text for name, value in given.items() if value is not None for text in (f"--{name}", str(value))]
        options = [text for text in options if text != "True"]
        self.run("study", "init", "trial", "--sites", ",".join(sites), *options)
        for name in sites:
            pd.DataFrame(self.data[name], columns=NAMES).to_csv(home / f"{name}.csv", index=False)
            self.run("site", "init", f"{name}.csv", "-o", name)
            if "no-masked" in settings:
                policy = home / name / "policy.toml"
                policy.write_text(policy.read_text().replace("masking = true", "masking = false"))
            self.run("site", "join", f"trial/invitations/{name}.invitation", "--site", name, "--reply-only")
        self.run("study", "admit", "trial", *(f"{name}/{name}.reply" for name in sites))
        self.run("study", "start", "trial")
        for name in sites:
            self.join(name)
        self.wait(lambda: all(self.here(name) for name in sites), 120)
        self.settings = self.study_file.read_text()

    @property
    def study_file(self):
        return self.home / "trial" / "study.toml"

    @property
    def folder(self):
        return StudyFolder(self.home / "trial")

    def inside(self, arguments):
        """What stands before a command, so that it runs where the person sits who types it."""
        return []

    def variables(self, arguments):
        """What else is in that person's environment."""
        return {}

    def start(self, *arguments):
        process = subprocess.Popen(
            [*self.inside(arguments), *PROGRAM, *arguments],
            cwd=self.home,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=os.environ | {"COLUMNS": "400"} | self.variables(arguments),
            start_new_session=True,
        )
        self.runs.append(process)
        return process

    def run(self, *arguments, code=0, seconds=400):
        process = self.start(*arguments)
        said = process.communicate(timeout=seconds)[0]
        assert code is None or process.returncode == code, said
        return said

    def join(self, name):
        command = ["site", "join", "--site", name]
        with (self.home / f"{name}.told").open("w") as told:
            self.people[name] = subprocess.Popen(
                [*self.inside(command), *PROGRAM, *command],
                cwd=self.home,
                stdout=told,
                stderr=subprocess.STDOUT,
                env=os.environ | self.variables(command),
                start_new_session=True,
            )

    def told(self, name):
        return (self.home / f"{name}.told").read_text()

    def here(self, name):
        """Whether the last thing that a site said of its connection is that it has one."""
        said = [line for line in self.told(name).splitlines() if line.endswith("connected") or "not connected" in line]
        return bool(said) and "not connected" not in said[-1]

    def kill(self, name, node=True):
        """End a site's guard at once, as a power cut would, and its node too: then Flower takes a minute to notice."""
        guard = self.people.pop(name)
        guard.kill()
        guard.wait()
        home = self.home / name / "flower"
        pid = running(home, "supernode")
        if pid is not None and node:
            os.killpg(pid, signal.SIGKILL)
        stop(home, "supernode")

    def back(self, name):
        self.join(name)
        self.wait(lambda: self.here(name), 120)

    def change(self, **settings):
        """Set the study to its first settings but for these, and have every owner approve them."""
        lines = self.settings.splitlines()
        for name, value in settings.items():
            at = next(k for k, line in enumerate(lines) if line.removeprefix("# ").startswith(f"{name} ="))
            lines[at] = f"# {name} =" if value is None else f"{name} = {json.dumps(value)}"
        self.study_file.write_text("\n".join(lines))
        self.approve()

    def approve(self):
        """Every owner signs the agreement as it now is."""
        agreement = self.folder.agreement()
        for name in self.sites:
            store = SiteFolder(self.home / name).store
            store.propose(agreement)
            store.approve(agreement)

    def rounds(self):
        """The questions answered in the current or last run, as the coordinator's events tell."""
        events = [event for _, event in self.folder.events()]
        start = max((k for k, event in enumerate(events) if event["event"] == "sites"), default=0)
        return [event for event in events[start:] if event["event"] == "round"]

    def kept(self):
        return len(list((self.folder.journal / "rounds").glob("*.round")))

    def log(self, name):
        return list(SiteFolder(self.home / name).audit().lines())

    def answered(self, name, kind="ask"):
        """The letters of a kind that a site has answered in the current run."""
        about = self.folder.journal / "run.json"
        run = json.loads(about.read_text())["run"] if about.exists() else None
        kinds = (kind, "answered", run)
        return [line for line in self.log(name) if tuple(map(line.get, ("kind", "verdict", "run"))) == kinds]

    def wait(self, done, seconds=120.0):
        end = time.monotonic() + seconds
        while not done():
            assert time.monotonic() < end, {name: self.told(name) for name in self.people}
            time.sleep(0.1)

    def server_app(self):
        """The ids of the coordinator's own processes: those that run the solver."""
        pid = running(self.folder.flower, "conductor")
        return [] if pid is None else [pid]

    def settle(self):
        """Whatever the test before left: no run goes on, and every site is here."""
        if any(process.poll() is None for process in self.runs):
            for process in self.runs:
                process.kill()
                process.communicate()
            self.run("study", "stop", "trial")
            self.run("study", "start", "trial")
        self.runs.clear()
        shutil.rmtree(self.folder.journal, ignore_errors=True)
        for guard in self.people.values():
            guard.send_signal(signal.SIGCONT)
        for name in self.sites:
            if name not in self.people:
                self.back(name)

    def close(self):
        for name in list(self.people):
            self.kill(name, node=False)
        self.run("study", "stop", "trial")


def institutions(sites, kind=Institutions, **settings):
    home = Path(tempfile.mkdtemp(prefix="fs-"))
    made = None
    try:
        made = kind(home, sites, **settings)
        yield made
    finally:
        if made is not None:
            made.close()
        shutil.rmtree(home, ignore_errors=True)
