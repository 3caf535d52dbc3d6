"""From the invitation to the report between machines: every command that people type, and how long it took.

Four network namespaces (the coordinator's and three sites': one direct, one behind NAT, one behind a proxy), or
loopback where namespaces cannot be made. It prints the table of ``docs/institutions.md``, and fails beyond its bars.
"""

import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd

from fedspca.flower.commands import free_port
from fedspca.study.coordinator import StudyFolder
from institutions import NAMES, PROGRAM, rows
from namespaces import COORDINATOR, PASSWORD, Namespaces, obstacle

SITES = ("east", "north", "south")
MINUTES, COMMANDS = 3.0, 11


class Walk:
    """People at their machines. ``steps`` has what was typed, by whom, and the seconds that the person waited."""

    def __init__(self, home, net):
        self.home, self.net, self.steps, self.staying = home, net, [], []

    def type(self, who, *arguments, stay=False):
        began = time.monotonic()
        process = subprocess.Popen(
            [*(self.net.inside(who) if self.net else []), *PROGRAM, *arguments],
            cwd=self.home,
            stdout=subprocess.PIPE if not stay else subprocess.DEVNULL,
            stderr=subprocess.STDOUT,
            text=True,
            env=os.environ | self.variables(who),
        )
        if stay:
            self.staying.append(process)
        else:
            said = process.communicate(timeout=600)[0]
            assert process.returncode == 0, said
        self.steps.append((who, " ".join(["fedspca", *arguments]), time.monotonic() - began))
        return process

    def variables(self, who):
        name, _, password = PASSWORD.partition(":")
        proxy = f"http://{name}:{password.replace(':', '%3A')}@10.77.2.1:3128"
        return {"HTTPS_PROXY": proxy} if who == "east" and self.net else {}

    def close(self):
        for process in self.staying:
            process.terminate()
        for process in self.staying:
            process.wait()


def walk(people):
    """The study as the page walks through it."""
    home, host = people.home, COORDINATOR if people.net else "localhost"
    ports = ("--port", str(free_port()), "--control-port", str(free_port()))
    people.type(
        "coordinator", "study", "init", "heart", "--sites", ",".join(SITES), "--host", host, "--nonzero", "3", *ports
    )
    for name in SITES:
        people.type(name, "site", "init", f"{name}.csv", "-o", name)
        people.type(name, "site", "join", f"heart/invitations/{name}.invitation", "--site", name, stay=True)
    replies = [f"{name}/{name}.reply" for name in SITES]
    until(lambda: all((home / reply).exists() for reply in replies))
    people.type("coordinator", "study", "admit", "heart", *replies)
    people.type("coordinator", "study", "start", "heart")
    run = people.type("coordinator", "study", "run", "heart", "--wait", "600", stay=True)
    began = time.monotonic()
    agreement = StudyFolder(home / "heart").agreement().hash
    for name in SITES:
        until(lambda name=name: (home / name / "studies" / agreement / "agreement.json").exists())
        people.type(name, "site", "approve", "--site", name, "--yes", "--hash", agreement)
    assert run.wait(600) == 0
    waited = time.monotonic() - began
    people.steps = [(who, text, waited if " run " in text else seconds) for who, text, seconds in people.steps]
    people.type("coordinator", "report", "heart/model")
    people.type("coordinator", "study", "stop", "heart")
    assert (home / "heart" / "model.html").exists()


def until(done, seconds=300):
    end = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < end
        time.sleep(0.1)


def kind(text):
    """A command without its arguments: what a person has to know."""
    words = text.split()[1:]
    return " ".join(words[: 2 if words[0] in {"study", "site"} else 1])


def main():
    reason = obstacle()
    net = None if reason else Namespaces()
    print(f"Loopback, since {reason}." if reason else "Four network namespaces: direct, NAT, proxy.", file=sys.stderr)
    home = Path(tempfile.mkdtemp(prefix="fs-"))
    for name, part in rows(SITES).items():
        pd.DataFrame(np.asarray(part), columns=NAMES).to_csv(home / f"{name}.csv", index=False)
    people = Walk(home, net)
    began = time.monotonic()
    try:
        walk(people)
        minutes = (time.monotonic() - began) / 60
    finally:
        people.close()
        if net:
            net.close()
        shutil.rmtree(home, ignore_errors=True)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    print("| who | command | seconds |\n| --- | --- | ---: |")
    for who, text, seconds in people.steps:
        if who not in {"north", "south"}:  # every owner types the same
            print(f"| {'an owner' if who in SITES else who} | `fedspca {kind(text)}` | {seconds:.1f} |")
    commands = len({kind(text) for _, text, _ in people.steps})
    load = os.getloadavg()[0]
    print(
        f"\n{minutes:.1f} minutes from the first command to the last (bar {MINUTES:g}), {commands} different commands ",
        end="",
    )
    print(
        f"(bar {COMMANDS}), {len(people.steps)} typed by four people; {os.cpu_count()} cores, load {load:.1f},", end=" "
    )
    print(f"{used.ru_utime + used.ru_stime:.0f} CPU seconds in the processes that ended")
    sys.exit(minutes > MINUTES or commands > COMMANDS)


if __name__ == "__main__":
    main()
