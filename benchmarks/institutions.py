"""What a round costs between institutions: on Flower's deployment and simulation engines, and in one process.

Sites, server and coordinator are all on this machine, so the network costs nothing and cores are shared: between
machines a site's processes have cores of their own.
"""

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.measure import verdict
from fedspca.experiments.data import standardised, wdbc_star
from fedspca.federation.channel import LocalChannel
from fedspca.fit.settings import FitSettings
from fedspca.flower.commands import free_port
from fedspca.model import SparsePCAModel
from fedspca.study.coordinator import StudyFolder
from fedspca.study.engine import Engine, end_of_events
from fedspca.study.run import run_study
from fedspca.study.settings import StudySettings
from fedspca.study.simulation import endpoints, make_simulation

BAR = 1.3
CASES = ((830, 3, False), (830, 3, True), (20_000, 3, False), (830, 10, False), (20_000, 10, False))
PINGS = 3


class Timing(NamedTuple):
    """Seconds of a round with data, of one without, and of a whole study over that of as many rounds without data."""

    round: float
    empty: float | None
    ratio: float | None


def main() -> None:
    """Print the table, and whether the bar holds."""
    print(f"Seconds a round (median), on {os.cpu_count()} cores shared by coordinator and sites")
    print(f"{'engine':24}{'d':>8}{'K':>5}{'round':>10}{'empty':>10}{'study / empty rounds':>24}")
    for d, sites, masked in CASES:
        for engine in ("process", "simulation", "deployment"):
            timing = measure(engine, d, sites, masked=masked)
            empty = "" if timing.empty is None else f"{timing.empty:.2f}"
            ratio = "" if timing.ratio is None else f"{timing.ratio:.2f}"
            name = f"{engine}{', masked' if masked else ''}"
            print(f"{name:24}{d:>8}{sites:>5}{timing.round:>10.3f}{empty:>10}{ratio:>24}", flush=True)
            if (engine, d, sites, masked) == ("deployment", 830, 3, False) and timing.ratio is not None:
                words = f"a study of WDBC* at three sites over as many empty rounds: {timing.ratio:.2f} (bar {BAR})"
                print(f"{verdict(timing.ratio <= BAR)}  {words}", flush=True)


def measure(engine: str, d: int, sites: int, *, masked: bool) -> Timing:
    """Fit once, and measure its rounds."""
    with tempfile.TemporaryDirectory(prefix="fs-") as home:
        folder = make_folder(Path(home), d, sites, masked=masked)
        if engine == "process":
            run_study(folder, LocalChannel(endpoints(folder)), "run")
            return Timing(statistics.median(_rounds(folder)), None, None)
        with started(folder, simulated=engine == "simulation") as flower:
            empty = statistics.median(_pings(folder, flower))
            exchanges = _follow(folder, flower, "run")
            between = [event["time"] for event in exchanges if event["event"] in {"sites", "done"}]
            asked = _questions(folder)
            ratio = (between[-1] - between[0]) / (asked * empty)
            return Timing(statistics.median(_rounds(folder)), empty, None if masked else ratio)


def make_folder(home: Path, d: int, sites: int, *, masked: bool) -> StudyFolder:
    """Make a study of WDBC*, or of random rows where more features are wanted, with each site's rows in a file."""
    real = d == 830
    rows = standardised(wdbc_star().rows) if real else np.random.default_rng(0).standard_normal((50 * sites, d))
    files = []
    for number, part in enumerate(np.array_split(rows, sites)):
        files.append(str(home / f"site{number}.npy"))
        np.save(files[-1], part)
    study = StudySettings(
        name="timing",
        components=2,
        lam=190.0,
        max_rounds=None if real else 3,  # enough to time a round, where there is nothing to be found
        scale=False,
        masked=masked,
        port=free_port(),
        control_port=free_port(),
    )
    return make_simulation(home / "study", study, FitSettings(files=tuple(files), max_features=d))


@contextmanager
def started(folder: StudyFolder, *, simulated: bool) -> Iterator[Engine]:
    """Start Flower and, unless it simulates them, a guard and a node for each site."""
    engine = Engine(folder, simulated=simulated)
    engine.start()
    people = []
    try:
        if not simulated:
            for site in folder.settings.sites:
                command = [sys.executable, "-m", "fedspca", "site", "join", "--site", str(folder.path / "sites" / site)]
                people.append(subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
        _wait_for_all(folder, engine)
        yield engine
    finally:
        for person in people:
            person.terminate()
        for person in people:
            person.wait()
        engine.stop()


def _wait_for_all(folder: StudyFolder, engine: Engine) -> None:
    end = time.monotonic() + 300
    while time.monotonic() < end:
        said = [event["said"] for event in _follow(folder, engine, "status") if event["event"] == "sites"]
        if said and all(state == "approved" for state in said[-1].values()):
            return
    raise TimeoutError("Not every site came.")


def _follow(folder: StudyFolder, engine: Engine, action: str) -> list[dict[str, Any]]:
    start = end_of_events(folder)
    return [dict(event) for event in engine.follow(engine.begin(action), start)]


def _pings(folder: StudyFolder, engine: Engine) -> list[float]:
    return [event["seconds"] for event in _follow(folder, engine, f"ping:{PINGS}") if event["event"] == "ping"]


def _rounds(folder: StudyFolder) -> list[float]:
    return [event["seconds"] for _, event in folder.events() if event["event"] == "round"]


def _questions(folder: StudyFolder) -> int:
    """Count the exchanges of the run: the fit's rounds, and what is asked after it."""
    facts = SparsePCAModel.load(folder.model).facts
    return len(facts["history"]) + len(facts["asked_after"])
