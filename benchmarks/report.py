"""The figures as JSON and as a page, `docs/performance.md`, with plots where matplotlib is there to draw them."""

import json
import os
import platform
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from benchmarks.machine import OURS, bars_of
from benchmarks.measure import Bar
from benchmarks.peers import SPARSE
from benchmarks.workloads import workloads

DOCS = Path(__file__).parents[1] / "docs"
ABOUT = """\
Written by `make bench` on {cores} cores that other work shared, Python {python}, {versions}. One BLAS thread unless
said otherwise. Every method runs in a process of its own, in turns with scikit-learn's dense `PCA` on the same rows;
times are medians of CPU seconds, and × PCA is the ratio of the two in those turns. Memory is the growth of the peak of
resident memory (VmHWM) in the first run. Explained variance is that of the span of the loadings, all cut off at the
same number of non-zeros; recovery error is the squared distance of the spans' projections from the planted ones.
SparsePCA gets a penalty, found beforehand, at which it has about as many non-zeros; other penalised peers have their
defaults. A method that takes longer than a limit is stopped. PCA cut off at k is held against the bar on PCA, and not
counted among the sparse peers. A fit need not be faster than every sparse peer: a few power steps from one start take
two passes over the rows, and are right where the data are easy. It must take at most ten times as long as the cheapest
peer that is right on the same workload, or a tenth of a second. Parts may come from separate runs; ratios never do.
Machines differ threefold in speed (PCA of iris takes .3 to 1.2 ms), and so does one machine that other work shares: a
bar in milliseconds then holds in one run and fails in the next. Read such a time beside that of PCA."""


RIGHT = """\
A fast answer is worth something where it is right: within a thousandth of the most variance that any method here
explains with as many non-zeros. Every draw of every workload counts. Orthogonal loadings are compared with overlapping
ones too, whose variance they cannot always reach."""


MODES = """\
W1 to W7 are the workloads above, here with the other two modes and a penalty that leaves about as many weights. W8 are
small tables, W9 many components, W10 float32 rows, of which the ratio is to float64, and a sample first (one row in
twenty). No proof is asked for. The searches are compiled; `FEDSPCA_COMPILED=0` measures them without.
`captured` is the share of the total variance that the span of the loadings captures. `value` is what a mode maximises:
captured variance, less the penalty with `lam` (on W8 and W9 a tenth of the variance of a standardised feature), or
minus the number of non-zeros with `variance_kept` (0.9). The best known value is that of the other search with 500
starts (`benchmarks/other_search.py`), where there are few features, or of an earlier fit (`python -m benchmarks
best_known`). A fit that loses more than a ten-thousandth of it fails, so that time is never bought with variance."""


def keep(part: str, rows: Sequence[dict[str, Any]], bars: Sequence[Bar], folder: Path = DOCS) -> None:
    """Put a part into `performance.json` in the place of what it was, and write the page and the plots anew.

    Of one machine and of the modes, only the workloads that are there take the place of what they were: each is
    measured by itself.
    """
    store = folder / "performance.json"
    saved = json.loads(store.read_text(encoding="utf-8")) if store.exists() else {"parts": {}}
    saved["about"] = _about()
    found: dict[str, Any] = {"rows": list(rows), "bars": [bar._asdict() for bar in bars]}
    if part in ("machine", "modes") and part in saved["parts"]:
        found = (_merged if part == "machine" else _merged_modes)(saved["parts"][part], found)
    saved["parts"][part] = found
    _write(saved, folder)


def rewrite(folder: Path = DOCS) -> None:
    """Write the page anew from the figures that are there, what must hold on one machine judged again."""
    saved = json.loads((folder / "performance.json").read_text(encoding="utf-8"))
    machine = saved["parts"]["machine"]
    machine["bars"] = [bar._asdict() for bar in bars_of(machine["rows"])]
    _write(saved, folder)


def _write(saved: dict[str, Any], folder: Path) -> None:
    """Figures, page and plots."""
    store = folder / "performance.json"
    store.write_text(json.dumps(saved, indent=1, default=float, ensure_ascii=False) + "\n", encoding="utf-8")
    kept = [Bar(**bar) for each in saved["parts"].values() for bar in each["bars"]]
    figures = {name: each["rows"] for name, each in saved["parts"].items()}
    plots = _plots(figures, folder / "figures") if find_spec("matplotlib") else {}
    (folder / "performance.md").write_text(_page(figures, kept, plots), encoding="utf-8")


def _merged(before: dict[str, Any], found: dict[str, Any]) -> dict[str, Any]:
    """Figures of some workloads among those of the others, in the order of the workloads."""
    order = [work.name for work in workloads()]
    anew = {row["workload"] for row in found["rows"]}
    rows = [row for row in before["rows"] if row["workload"] not in anew] + found["rows"]
    bars = [bar for bar in before["bars"] if bar["where"] not in anew] + found["bars"]
    rank = {name: number for number, name in enumerate(order)}
    return {
        "rows": sorted(rows, key=lambda row: rank.get(row["workload"], len(rank))),
        "bars": sorted(bars, key=lambda bar: rank.get(bar["where"], len(rank))),
    }


def _merged_modes(before: dict[str, Any], found: dict[str, Any]) -> dict[str, Any]:
    """Modes on some workloads among those on the others."""
    anew = {row["workload"] for row in found["rows"]}
    measured = tuple(f"{name}," for name in anew)
    rows = [row for row in before["rows"] if row["workload"] not in anew] + found["rows"]
    bars = [bar for bar in before["bars"] if not f"{bar['where']},".startswith(measured)] + found["bars"]
    number = {name: at for at, name in enumerate(sorted({row["workload"] for row in rows}, key=_number))}
    return {"rows": sorted(rows, key=lambda row: number[row["workload"]]), "bars": bars}


def _number(name: str) -> tuple[int, str]:
    """W8 comes before W10."""
    return int(name.split(maxsplit=1)[0][1:]), name


def _about() -> dict[str, Any]:
    import numpy as np
    import scipy
    import sklearn

    versions = f"numpy {np.__version__}, scipy {scipy.__version__}, scikit-learn {sklearn.__version__}"
    return {"cores": os.cpu_count(), "python": platform.python_version(), "versions": versions}


def _page(figures: Mapping[str, Any], bars: Sequence[Bar], plots: Mapping[str, str]) -> str:
    failing = [bar for bar in bars if not bar.holds]
    lines = ["# Performance", "", ABOUT.format(**_about()), ""]
    if bars:
        lines += ["## What must hold", "", f"{len(bars) - len(failing)} of {len(bars)} hold.", ""]
        lines += _table(("", "where", "what", "found"), [_verdict(bar) for bar in sorted(bars, key=lambda b: b.holds)])
    if rows := figures.get("machine"):
        lines += ["## One machine", "", *_image(plots, "machine", "Time as a ratio to dense PCA")]
        lines += [f"The first draw of each workload; all draws are in `{DOCS.name}/performance.json`.", ""]
        head = ("workload", "method", "CPU s", "× PCA, CPU", "× PCA, wall", "MB", "explained", "recovery error")
        lines += _table(head, [_machine(row) for row in rows if not _later(row)])
        lines += ["## Who is right where", "", RIGHT, ""]
        lines += _table(("method", "right on", "fails on", "largest shortfall", "there"), _right(rows))
    if rows := figures.get("modes"):
        lines += ["## Every mode", "", MODES, ""]
        asked = ("workload", "components", "mode", "CPU ms", "PCA, ms", "× PCA", "captured", "value", "best known")
        lines += _table(asked, [_mode(row) for row in rows])
    if rows := figures.get("threads"):
        lines += ["## All cores", ""]
        cells = [(r["workload"], r["threads"], f"{r['wall']:.4f}", f"{r['wall_ratio']:.2f}") for r in rows]
        lines += _table(("workload", "BLAS threads", "wall s", "× PCA, wall"), cells)
    if rows := figures.get("sites"):
        lines += _sites(rows)
    if rows := figures.get("growth"):
        lines += ["## Growth", "", *_image(plots, "growth", "Time against size, on logarithmic scales")]
        lines += _table(("in", "of", "time", "memory", "size: CPU s, MB"), [_growth(row) for row in rows])
    if rows := figures.get("passes"):
        lines += ["## A round of the paper's methods", "", "Table I's data, two loadings; one bare pass is Aᵀ(AW).", ""]
        names = ("method", "sites", "passes, mean", "passes, most", "ms a round and site", "in bare passes")
        lines += _table(names, [_passes(row) for row in rows])
    if rows := figures.get("large"):
        lines += ["## Memory", ""]
        lines += _table(("data", "added at the peak", "CPU s"), [_large(row) for row in rows])
    return "\n".join(lines).rstrip() + "\n"


def _table(head: Sequence[str], rows: Sequence[Sequence[Any]]) -> list[str]:
    ruled = [" --- "] * len(head)
    body = ["| " + " | ".join(str(cell).replace("|", "¦") for cell in row) + " |" for row in rows]
    return ["| " + " | ".join(head) + " |", "|" + "|".join(ruled) + "|", *body, ""]


def _image(plots: Mapping[str, str], name: str, alt: str) -> list[str]:
    return [f"![{alt}](figures/{plots[name]})", ""] if name in plots else []


def _later(row: dict[str, Any]) -> bool:
    """Whether a row is of a draw after the first."""
    return ", draw " in row["workload"] and not row["workload"].endswith("draw 0")


def _verdict(bar: Bar) -> tuple[str, ...]:
    return ("pass" if bar.holds else "**FAIL**", bar.where, bar.what, bar.found)


def _machine(row: dict[str, Any]) -> tuple[str, ...]:
    if "failed" in row:
        return (row["workload"], row["peer"], row["failed"], "", "", "", "", "")
    return (
        row["workload"],
        row["peer"],
        f"{row['cpu']:.4f}",
        f"{row['cpu_ratio']:.2f}",
        f"{row['wall_ratio']:.2f}",
        f"{row['grown'] / 1e6:.0f}",
        f"{row['explained']:.5f}" if "explained" in row else "",
        f"{row['recovery_error']:.4f}" if "recovery_error" in row else "",
    )


def _mode(row: dict[str, Any]) -> tuple[str, ...]:
    head = (row["workload"], str(row["r"]), row["mode"])
    if "failed" in row:
        return (*head, row["failed"], "", "", "", "", "")
    pca = f"{1e3 * row['pca']:.1f}" if "pca" in row else ""
    captured = f"{row['captured']:.4f}" if "captured" in row else ""
    times = (f"{1e3 * row['cpu']:.1f}", pca, f"{row['cpu_ratio']:.2f}")
    return (*head, *times, captured, f"{row['value']:.5f}", f"{row['best']:.5f}")


def _right(rows: Sequence[dict[str, Any]]) -> list[tuple[str, ...]]:
    """For each sparse method: on how many workloads it is right or gives nothing, and where it is farthest off."""
    explained: dict[str, dict[str, float]] = {}
    for row in rows:
        if row["peer"] in (*OURS, *SPARSE):
            explained.setdefault(row["peer"], {})[row["workload"]] = float(row.get("explained", "nan"))
    best = {
        work: max(found[work] for found in explained.values() if work in found and found[work] > 0)
        for work in explained[OURS[0]]
    }
    table: list[tuple[str, ...]] = []
    for peer, found in explained.items():
        short = {work: 1.0 - value / best[work] for work, value in found.items() if value == value}
        right = sum(gap <= 1e-3 for gap in short.values())
        where = max(short, key=lambda work: short[work]) if short else ""
        worst = f"{100 * short[where]:.1f} %" if short else ""
        table.append((peer, f"{right} of {len(best)}", str(len(best) - len(short)), worst, where))
    return table


def _sites(rows: Sequence[dict[str, Any]]) -> list[str]:
    ten = [(r["workload"], f"{r['cpu_ratio']:.2f}") for r in rows if r["what"] == "ten sites" and "cpu_ratio" in r]
    peers = [
        (r["workload"], r["peer"], r["rounds"], f"{r['megabytes_up']:.2f}", f"{r['cpu']:.3f}", f"{r['explained']:.5f}")
        for r in rows
        if r["what"] == "federated"
    ]
    head = ("workload", "method", "rounds", "MB sent by a site", "CPU s", "explained")
    lines = ["## Sites", "", "Ten sites in one process against one:", "", *_table(("workload", "× one site"), ten)]
    return [*lines, "Ten sites, W7 one for each cell type; dense peers cut off at k:", "", *_table(head, peers)]


def _growth(row: dict[str, Any]) -> tuple[str, ...]:
    points = "; ".join(f"{size:,}: {cpu:.3f}, {grown / 1e6:.0f}" for size, cpu, grown in row["points"])
    return (row["in"], row["of"], f"{row['time_exponent']:.2f}", f"{row['memory_exponent']:.2f}", points)


def _passes(row: dict[str, Any]) -> tuple[str, ...]:
    figures = (row["mean_passes"], row["most_passes"], row["round_ms"], row["in_bare_passes"])
    return (row["what"], str(row["sites"]), *(f"{figure:.2f}" for figure in figures))


def _large(row: dict[str, Any]) -> tuple[str, ...]:
    if "failed" in row:
        return (row["what"], row["failed"], "")
    return (row["what"], f"{row['grown'] / 1e9:.2f} GB", f"{row['cpu']:.1f}")


def _plots(figures: Mapping[str, Any], folder: Path) -> dict[str, str]:
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams["svg.hashsalt"] = "fedspca"  # the same picture has the same bytes
    folder.mkdir(exist_ok=True)
    drawn = {}
    for name, draw in (("machine", _plot_machine), ("growth", _plot_growth)):
        if figures.get(name):
            drawn[name] = f"performance-{name}.svg"
            draw(figures[name]).savefig(folder / drawn[name], metadata={"Date": None})
    return drawn


def _plot_machine(rows: Sequence[dict[str, Any]]) -> Any:
    """One mark a method and workload: time across, how far its explained variance is from the best down."""
    from matplotlib import pyplot as plt

    timed = [row for row in rows if "explained" in row and ", draw " not in row["workload"]]
    workloads = list(dict.fromkeys(row["workload"] for row in timed))
    figure, axes = plt.subplots(figsize=(9, 0.45 * len(workloads) + 2), layout="constrained")
    for number, peer in enumerate(dict.fromkeys(row["peer"] for row in timed)):
        mine = [row for row in timed if row["peer"] == peer]
        ours = peer.startswith("Exact")
        axes.plot(
            [row["cpu_ratio"] for row in mine],
            [workloads.index(row["workload"]) for row in mine],
            "*" if ours else "os^vDPX<>"[number % 9],
            label=peer,
            markersize=12 if ours else 5,
            zorder=3 if ours else 2,
        )
    axes.axvline(2.0, color="#999999", linewidth=0.8, linestyle="--")
    axes.set(xscale="log", xlabel="CPU time, × dense PCA (dashed: 2 ×)")
    axes.set_yticks(range(len(workloads)), workloads)
    axes.invert_yaxis()
    axes.legend(fontsize=7, loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    return figure


def _plot_growth(rows: Sequence[dict[str, Any]]) -> Any:
    """Time against each size, with its exponent."""
    from matplotlib import pyplot as plt

    figure, panels = plt.subplots(1, len(rows), figsize=(2.4 * len(rows), 2.6), layout="constrained", squeeze=False)
    for axes, row in zip(panels[0], rows, strict=True):
        axes.loglog([point[0] for point in row["points"]], [point[1] for point in row["points"]], "o-", color="#0072B2")
        axes.set_title(f"{row['in']}: exponent {row['time_exponent']:.2f}", fontsize=9)
        axes.set_xlabel(row["of"], fontsize=8)
        axes.tick_params(labelsize=7)
        axes.spines[["top", "right"]].set_visible(False)
    panels[0][0].set_ylabel("CPU seconds")
    return figure
