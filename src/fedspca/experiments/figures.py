"""The figures, drawn only from the stored numbers and in one style. This needs matplotlib (extra ``reproduce``)."""

import io
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fedspca.experiments.records import n_rounds, select, values_of
from fedspca.experiments.runner import Record
from fedspca.experiments.synthetic import N_ROWS

# the palette of Okabe and Ito, which colour-blind readers can distinguish
BLACK, ORANGE, SKY, GREEN, BLUE, VERMILION, PURPLE = (
    "#000000",
    "#E69F00",
    "#56B4E9",
    "#009E73",
    "#0072B2",
    "#D55E00",
    "#CC79A7",
)
SETTING_LOOK: Any = {"paper": (VERMILION, "-", "paper's settings"), "ours": (BLUE, "--", "our defaults")}
SITES_LOOK: Any = {1: (BLACK, "o"), 3: (ORANGE, "s"), 5: (GREEN, "^"), 10: (BLUE, "D")}
METHOD_LOOK: Any = {
    "merged SVDs, local means": (ORANGE, "s"),
    "merged SVDs, global means": (SKY, "^"),
    "subspace iteration": (GREEN, "v"),
    "covariance sum": (BLACK, "x"),
    "FASPCA, λ": (VERMILION, "o"),
    "ExactSPCA, λ": (PURPLE, "D"),
    "ExactSPCA, n_nonzero": (BLUE, "P"),
}
LOOK: Any = {
    "figure.dpi": 100,
    "font.size": 9,
    "axes.grid": True,
    "grid.color": "#DDDDDD",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 10,
    "legend.frameon": False,
    "legend.fontsize": 8,
    "lines.linewidth": 1.5,
    "lines.markersize": 4.5,
    "svg.hashsalt": "fedspca",  # so that the same figure always gives the same bytes
    "path.simplify_threshold": 0.5,
}

Drawing = Callable[[Sequence[Record]], Figure]


def draw(experiment: str, records: Sequence[Record], form: str = "svg") -> dict[str, bytes]:
    """Pictures of an experiment, by the name of the figure."""
    pictures = {}
    with mpl.rc_context(LOOK):
        for name, drawing in DRAWINGS[experiment].items():
            stream = io.BytesIO()
            metadata = {"Date": None} if form == "svg" else {}
            drawing(records).savefig(stream, format=form, metadata=metadata, bbox_inches="tight")
            pictures[name] = stream.getvalue()
    return pictures


def _panels(rows: int, columns: int, width: float, height: float, **options: Any) -> tuple[Figure, Any]:
    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.subplots(rows, columns, squeeze=False, **options)


def _legend_below(figure: Figure, axes: Axes, columns: int) -> None:
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=columns)


def draw_smoothing(records: Sequence[Record]) -> Figure:
    """ψ compared with the absolute value."""
    (curve,) = records
    figure, ((axes,),) = _panels(1, 1, 5, 3)
    x = 1e3 * np.array(curve["x"])
    axes.plot(x, 1e3 * np.abs(np.array(curve["x"])), "--", color=BLACK, label="|x|")
    axes.plot(x, 1e3 * np.array(curve["smooth"]), color=BLUE, label="ψ(x)")
    axes.set(xlabel="x (in thousandths)", ylabel="value (in thousandths)", title=f"Smoothing with μ = {curve['mu']:g}")
    axes.legend()
    return figure


def draw_alignment(records: Sequence[Record]) -> Figure:
    """Alignment of workers by round, with one line per seed, for the smaller number of rows."""
    records = [record for record in records if record.get("n_rows", N_ROWS) == N_ROWS]
    panels = (
        ("FSSPCA", {1, 2}, "FSSPCA, both loadings"),
        ("FASPCA", {1}, "FASPCA, first loading"),
        ("FASPCA", {2}, "FASPCA, second loading"),
    )
    figure, (row,) = _panels(1, 3, 9, 2.9, sharey=True)
    for axes, (method, loadings, title) in zip(row, panels, strict=True):
        for setting, (colour, style, label) in SETTING_LOOK.items():
            chosen = select(records, what="alignment", method=method, setting=setting)
            for number, seed in enumerate(values_of(chosen, "seed")):
                curves = [record for record in chosen if record["seed"] == seed and record["loading"] in loadings]
                mean = np.mean([record["values"] for record in curves], axis=0)
                named = {"label": label} if number == 0 else {}
                axes.plot(curves[0]["rounds"], mean, style, color=colour, alpha=0.75, linewidth=1.1, **named)
        axes.set(xscale="log", xlabel="round", title=title, ylim=(-0.03, 1.05))
    row[0].set_ylabel("mean absolute cosine\nbetween workers")
    _legend_below(figure, row[0], 2)
    return figure


def draw_recovery(records: Sequence[Record]) -> Figure:
    """Recovery error against the penalty, for each number of sites and the smaller number of rows."""
    records = select(records, n_rows=N_ROWS)
    panels = (("FSSPCA", None, "FSSPCA, both"), ("FASPCA", 0, "FASPCA, first"), ("FASPCA", 1, "FASPCA, second"))
    figure, grid = _panels(2, 3, 9, 5, sharey="row")
    for row, setting in zip(grid, SETTING_LOOK, strict=True):
        for axes, (method, loading, title) in zip(row, panels, strict=True):
            _recovery_panel(axes, select(records, what="recovery", method=method, setting=setting), loading)
            dense = [_error(record, loading) for record in select(records, what="pca")]
            axes.axhline(float(np.mean(dense)), color="#777777", linestyle=":", label="PCA")
            axes.set(title=f"{title}: {SETTING_LOOK[setting][2]}", yscale="log")
            axes.set_xlabel("λ₁ (λ₂ = 300)" if method == "FSSPCA" else "λ")
        row[0].set_ylabel("recovery error")
    _legend_below(figure, grid[0][0], 5)
    return figure


def _error(record: Record, loading: int | None) -> float:
    return float(record["error"] if loading is None else record["errors"][loading])


def _recovery_panel(axes: Axes, records: Sequence[Record], loading: int | None) -> None:
    for n_sites in values_of(records, "n_sites"):
        colour, marker = SITES_LOOK[n_sites]
        chosen = select(records, n_sites=n_sites)
        penalties = values_of(chosen, "penalty")
        errors = [[_error(r, loading) for r in select(chosen, penalty=p)] for p in penalties]
        mean = np.array([np.mean(e) for e in errors])
        reach = [mean - [min(e) for e in errors], [max(e) for e in errors] - mean]
        axes.errorbar(penalties, mean, np.abs(reach), color=colour, marker=marker, capsize=2, label=f"K = {n_sites}")


def draw_objective(records: Sequence[Record]) -> Figure:
    """Objective of FSSPCA by round, without and with smoothing, for each number of sites."""
    curves = select(records, what="objective")
    sites = values_of(curves, "n_sites")
    figure, grid = _panels(len(sites), 2, 8, 2.2 * len(sites) + 0.5, sharey="row", sharex=True)
    for row, n_sites in zip(grid, sites, strict=True):
        for axes, lam1 in zip(row, (0, 10), strict=True):
            for setting, (colour, style, label) in SETTING_LOOK.items():
                chosen = select(curves, lam1=lam1, setting=setting, n_sites=n_sites)
                for number, record in enumerate(chosen):
                    named = {"label": label} if number == 0 else {}
                    values = np.array(record["values"]) / 1e3
                    axes.plot(record["rounds"], values, style, color=colour, alpha=0.75, linewidth=1.1, **named)
            axes.set(xscale="log", title=f"K = {n_sites}, λ₁ = {lam1}, λ₂ = 30")
        row[0].set_ylabel("objective (thousands)")
    for axes in grid[-1]:
        axes.set_xlabel("round")
    _legend_below(figure, grid[0][0], 2)
    return figure


def draw_small_weights(records: Sequence[Record]) -> Figure:
    """Share of weights within 10⁻ⁱ, for measured and for random features; mean over seeds."""
    figure, (row,) = _panels(1, 2, 8, 3, sharey=True)
    for axes, method in zip(row, ("FSSPCA", "FASPCA"), strict=True):
        for setting, (_, style, label) in SETTING_LOOK.items():
            for kind, colour, marker in (("random", ORANGE, "o"), ("measured", BLUE, "s")):
                shares = [record[kind] for record in _small(records, method, setting)]
                if not shares:
                    continue
                percent = 100 * np.mean(shares, axis=0)
                axes.plot(range(1, 11), percent, style, color=colour, marker=marker, label=f"{kind}, {label}")
        axes.set(xlabel="i, for the bound 10⁻ⁱ", title=method, ylim=(-3, 103), xticks=range(1, 11))
    row[0].set_ylabel("weights within the bound (%)")
    _legend_below(figure, row[0], 4)
    return figure


def _small(records: Iterable[Record], method: str, setting: str) -> list[Record]:
    """The fits in the small-weights figures. For non-IID data, these are the fits to rows that were not centred."""
    return [r for r in select(records, method=method, setting=setting) if "random" in r and not r.get("centred")]


def draw_beside(records: Sequence[Record]) -> Figure:
    """Error against non-zeros, and against what a site sends, for every method."""
    figure, ((left, right),) = _panels(1, 2, 9, 3.6)
    for method, (colour, marker) in METHOD_LOOK.items():
        chosen = select(records, what="curve", method=method, partition="in order")
        chosen = sorted(chosen, key=lambda record: record["nonzeros"])
        left.plot(*_columns(chosen, "nonzeros", "error"), color=colour, marker=marker, label=method, linewidth=1.1)
        near = min(chosen, key=lambda record: abs(record["nonzeros"] - 30))
        right.plot(near["bytes_up"] / 1e6, near["error"], color=colour, marker=marker, markersize=8, linestyle="")
        place = (near["bytes_up"] / 1e6, near["error"])
        offset = (0, -13) if "global" in method else (0, 7)  # two methods cost almost the same: keep their labels apart
        text = n_rounds(near["rounds"])
        right.annotate(text, place, offset, textcoords="offset points", fontsize=7, ha="center")
    left.set(xscale="log", xlabel="non-zeros, both loadings", ylabel="reconstruction error", title="Error and sparsity")
    right.margins(0.15, 0.2)
    right.set(xscale="log", xlabel="sent by each site (MB)", title="Error and cost, near 30 non-zeros")
    _legend_below(figure, left, 4)
    return figure


def _columns(records: Sequence[Record], *names: str) -> list[list[Any]]:
    return [[record[name] for record in records] for name in names]


DRAWINGS: dict[str, dict[str, Drawing]] = {
    "smoothing": {"smoothing": draw_smoothing},
    "iid-synthetic": {"iid-alignment": draw_alignment, "iid-recovery": draw_recovery},
    "iid-wdbc": {"wdbc-objective": draw_objective, "wdbc-small-weights": draw_small_weights},
    "noniid-synthetic": {"noniid-alignment": draw_alignment},
    "noniid-wdbc": {"noniid-small-weights": draw_small_weights},
    "beside": {"beside": draw_beside},
    "literature": {},
    "stability": {},
}
