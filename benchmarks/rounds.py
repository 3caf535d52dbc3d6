"""What a round costs between institutions on Flower's deployment engine: seconds, and CPU seconds of every process.

All processes share this machine's cores; between machines each site has its own. On a busy machine the seconds are of
its load, so the CPU seconds and the load stand beside them.
"""

import os
import statistics
import tempfile
from pathlib import Path
from typing import NamedTuple

from benchmarks.institutions import _follow, make_folder, started
from benchmarks.measure import verdict
from fedspca.flower.processes import running
from fedspca.study.coordinator import StudyFolder

FEATURES = 830
CASES = ((3, False, 2.0), (3, True, 3.0), (10, True, 8.0))  # sites, masked, and the seconds that a round may take


class Cost(NamedTuple):
    """Median seconds of a round; CPU seconds of server, nodes and guards a round; how many rounds there were."""

    seconds: float
    server: float
    nodes: float
    guards: float
    rounds: int


def main() -> None:
    """Print the table, and whether the bars hold."""
    print(f"A round on {os.cpu_count()} cores shared by all, {FEATURES} features; load {os.getloadavg()[0]:.1f}")
    print(f"{'K':>4}{'':>10}{'seconds':>10}{'server CPU':>12}{'nodes CPU':>12}{'guards CPU':>12}{'rounds':>8}")
    for sites, masked, bar in CASES:
        cost = measure(sites, masked=masked)
        kind = "masked" if masked else "plain"
        figures = f"{cost.seconds:>10.2f}{cost.server:>12.2f}{cost.nodes:>12.2f}{cost.guards:>12.2f}{cost.rounds:>8}"
        print(f"{sites:>4}{kind:>10}{figures}", flush=True)
        words = f"a {kind} round of {sites} sites: {cost.seconds:.2f} s (bar {bar:g})"
        print(f"{verdict(cost.seconds <= bar)}  {words}; load {os.getloadavg()[0]:.1f}", flush=True)


def measure(sites: int, *, masked: bool) -> Cost:
    """Run a study once, and measure its rounds."""
    with tempfile.TemporaryDirectory(prefix="fs-") as home:
        folder = make_folder(Path(home), FEATURES, sites, masked=masked)
        with started(folder, simulated=False) as engine:
            before = _used(folder)
            _follow(folder, engine, "run")
            after = _used(folder)
            asked = [event["seconds"] for _, event in folder.events() if event["event"] == "question"]
            each = {name: (after[name] - before[name]) / len(asked) for name in after}
            return Cost(statistics.median(asked), each["server"], each["nodes"], each["guards"], len(asked))


def _used(folder: StudyFolder) -> dict[str, float]:
    """Return the CPU seconds that each kind of process has used so far."""
    sites = [folder.path / "sites" / site / "flower" for site in folder.settings.sites]
    places = {
        "server": [(folder.flower, "superlink"), (folder.flower, "gateway")],
        "nodes": [(site, "supernode") for site in sites],
        "guards": [(site, "guard") for site in sites],
    }
    return {kind: sum(_cpu(running(*place)) for place in found) for kind, found in places.items()}


def _cpu(pid: int | None) -> float:
    if pid is None:
        return 0.0
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK")
