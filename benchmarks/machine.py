"""One machine: ExactSPCA against every peer on W1 to W6, time, memory and quality at equal non-zeros."""

import sys
from functools import partial
from typing import Any

from benchmarks.measure import Measured, measured, verdict
from benchmarks.peers import DENSE_ONLY, PEERS, SPARSE, dense_pca, explained
from benchmarks.workloads import WORKLOADS, Workload

NEEDED = ("ExactSPCA", "ExactSPCA overlapping", "PCA truncated", "truncated power")  # whatever they take


def run(*, full: bool = False, limit: float | None = None) -> dict[str, Any]:
    """Measure every peer on every workload. Peers that take longer than the limit are left out of that workload."""
    limit = limit or (150.0 if full else 5.0)
    lines: list[dict[str, Any]] = []
    rows: list[dict[str, Any]] = []
    for number, workload in enumerate(WORKLOADS, start=1):
        print(f"[{number}/{len(WORKLOADS)}] {workload.name}", file=sys.stderr, flush=True)
        found = _one(workload, limit, full=full)
        rows += found
        lines += _bars(workload, found)
    return {"figures": rows, "bars": lines}


def _one(workload: Workload, limit: float, *, full: bool) -> list[dict[str, Any]]:
    x, r, k = workload.make(), workload.r, workload.k
    sparse = not hasattr(x, "flags")
    found = []
    for name, peer in PEERS.items():
        if (sparse and name in DENSE_ONLY) or (not full and not sparse and x.size > 5e7 and name not in NEEDED):
            continue
        needed = name in NEEDED
        outcome = measured(partial(peer, x, r, k), partial(dense_pca, x, r, k), limit=60.0 if needed else limit)
        row: dict[str, Any] = {"workload": workload.name, "peer": name}
        if isinstance(outcome, Measured):
            row |= outcome.figures()
            if outcome.result is not None:
                row["explained"] = explained(x, outcome.result, k)
        else:
            row["failed"] = outcome
        found.append(row)
        print(_line(row), flush=True)
    return found


def _line(row: dict[str, Any]) -> str:
    head = f"{row['workload']:<24}{row['peer']:<23}"
    if "failed" in row:
        return head + str(row["failed"])
    quality = f"{row['explained']:>10.5f}" if "explained" in row else " " * 10
    return (
        f"{head}{row['cpu']:>9.4f} s cpu {row['cpu_ratio']:>8.2f} × PCA {row['wall_ratio']:>8.2f} wall"
        f"{row['grown'] / 1e6:>8.0f} MB{quality}"
    )


def _bars(workload: Workload, found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What must hold, each as a line that says whether it does."""
    by_name = {row["peer"]: row for row in found if "failed" not in row}
    ours, free = by_name["ExactSPCA"], by_name["ExactSPCA overlapping"]
    peers = {name: by_name[name] for name in SPARSE if name in by_name}
    best = max(row["explained"] for name, row in by_name.items() if name in SPARSE or name == "PCA truncated")
    bars = [("explains no less than the best peer, to 1e-3", free["explained"] >= best * (1 - 1e-3))]
    if workload.bar:
        bars.append(("at most 2 × dense PCA", ours["cpu_ratio"] <= 2.0))
        bars += [(f"faster than {name}", ours["cpu_ratio"] < row["cpu_ratio"]) for name, row in peers.items()]
        if "SparsePCA cd" in peers:
            bars.append(("ten times faster than SparsePCA", 10 * ours["cpu"] <= peers["SparsePCA cd"]["cpu"]))
    for text, holds in bars:
        print(f"  {workload.name}: {text}: {verdict(holds)}", flush=True)
    return [{"workload": workload.name, "bar": text, "holds": bool(holds)} for text, holds in bars]
