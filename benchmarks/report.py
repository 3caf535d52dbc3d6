"""The figures as JSON and as a page, `docs/performance.md`, with plots where matplotlib is there to draw them."""

import json
import os
import platform
from importlib.util import find_spec
from pathlib import Path
from typing import Any

_ABOUT = """Written by `make bench` on {cores} cores, Python {python}, BLAS threads: {blas_threads}. Times are medians;
ratios are to scikit-learn's dense `PCA`, measured in turns in the same process. Memory is what the first fit adds to
the resident peak. Explained variance is of the span of the loadings, all cut off at the same number of non-zeros. W7,
real expression data, is left out: no package embeds such a set without the network."""
DOCS = Path(__file__).parent.parent / "docs"


def write(machine: dict[str, Any], growth: dict[str, Any]) -> None:
    """Write `docs/performance.json`, `docs/performance.md` and the plot."""
    threads = os.environ.get("OPENBLAS_NUM_THREADS") or "all"
    about = {"python": platform.python_version(), "cores": os.cpu_count(), "blas_threads": threads}
    figures = {"about": about, "machine": machine, "growth": growth}
    (DOCS / "performance.json").write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
    plotted = _plot(machine["figures"])
    (DOCS / "performance.md").write_text(_page(figures, plotted), encoding="utf-8")


def _page(figures: dict[str, Any], plotted: bool) -> str:
    about, machine, growth = figures["about"], figures["machine"], figures["growth"]
    lines = [
        "# Performance",
        "",
        _ABOUT.format(**about),
        "",
        *(["![Time as a ratio to dense PCA](performance.png)", ""] if plotted else []),
        "| workload | method | CPU s | × PCA, CPU | × PCA, wall | memory MB | explained |",
        "| --- | --- | --: | --: | --: | --: | --: |",
        *(_row(row) for row in machine["figures"]),
        "",
        "## Growth",
        "",
        "| in | exponent | points (size: CPU s, MB) |",
        "| --- | --: | --- |",
    ]
    for curve in growth["curves"]:
        points = "; ".join(f"{size:,}: {cpu:.3f}, {grown / 1e6:.0f}" for size, cpu, grown in curve["points"])
        lines.append(f"| {curve['in']} | {curve['exponent']:.2f} | {points} |")
    lines += ["", "## What must hold", "", "| workload | bar | |", "| --- | --- | --- |"]
    for bar in machine["bars"] + growth["bars"]:
        lines.append(f"| {bar['workload']} | {bar['bar']} | {'holds' if bar['holds'] else '**fails**'} |")
    return "\n".join(lines) + "\n"


def _row(row: dict[str, Any]) -> str:
    head = f"| {row['workload']} | {row['peer']} |"
    if "failed" in row:
        return f"{head} {row['failed']} | | | | |"
    quality = f"{row['explained']:.5f}" if "explained" in row else ""
    return (
        f"{head} {row['cpu']:.4f} | {row['cpu_ratio']:.2f} | {row['wall_ratio']:.2f} | "
        f"{row['grown'] / 1e6:.0f} | {quality} |"
    )


def _plot(rows: list[dict[str, Any]]) -> bool:
    """One dot a method and workload, on a logarithmic scale. False where matplotlib is missing."""
    if not find_spec("matplotlib"):
        return False
    import matplotlib as mpl

    mpl.use("agg")
    from matplotlib import pyplot as plt

    timed = [row for row in rows if "failed" not in row and not row["workload"].startswith("W6")]
    workloads = list(dict.fromkeys(row["workload"] for row in timed))
    figure, axes = plt.subplots(figsize=(9, 4), layout="constrained")
    for number, peer in enumerate(dict.fromkeys(row["peer"] for row in timed)):
        mine = [row for row in timed if row["peer"] == peer]
        marker = "*" if peer.startswith("Exact") else "os^vDPX"[number % 7]
        axes.plot(
            [row["cpu_ratio"] for row in mine],
            [workloads.index(row["workload"]) for row in mine],
            marker,
            label=peer,
            markersize=11 if marker == "*" else 6,
        )
    axes.axvline(2.0, color="grey", linewidth=1)
    axes.set(xscale="log", xlabel="CPU time, × dense PCA (grey: the bar at 2)")
    axes.set_yticks(range(len(workloads)), workloads)
    axes.legend(fontsize=7, loc="center left", bbox_to_anchor=(1.0, 0.5))
    figure.savefig(DOCS / "performance.png", dpi=110)
    return True
