"""Charts of how a model was found, and of how well it fits each site."""

from typing import Any

import numpy as np

from fedspca.plots.loadings import BAR, short
from fedspca.plots.theme import HEIGHT, PAPER, WIDTH, Palette, Rows, altair, data, dressed
from fedspca.reading import Readable

RESIDUALS = ("primal residual", "dual residual", "certificate")


def plot_sites(model: Readable, *, palette: Palette = PAPER) -> Any:
    """Draw how much of each site's own variance the joint components capture, for sites that allow this to be shown.

    Parameters
    ----------
    model : SparsePCAModel
        The fitted model.
    palette : Palette
        The colours.
    """
    alt = altair()
    shown = model.facts.get("sites") or []
    if not shown:
        raise ValueError("No site of this model lets its own figures be shown (--show-sites).")
    rows: Rows = [
        {"site": short(site["name"]), "captured": site["explained"], "shown": f"{site['explained']:.1%}",
         "told": f"{site['name']}: {site['explained']:.1%} of the variance of {site['rows']:,} rows"}
        for site in shown
    ]  # fmt: skip
    base = alt.Chart(data(rows)).encode(
        y=alt.Y("site:N", sort=[row["site"] for row in rows], title=None, axis=alt.Axis(ticks=False, domain=False)),
        x=alt.X(
            "captured:Q",
            title="variance captured",
            axis=alt.Axis(format=".0%", tickCount=5),
            scale=alt.Scale(zero=True),
        ),
    )
    bars = base.mark_bar(color=palette.plus, height={"band": 0.7}).encode(description="told:N", tooltip="told:N")
    numbers = base.mark_text(align="left", dx=4, fontSize=11, color=palette.soft, aria=False).encode(text="shown:N")
    joint = alt.Chart(data([{"captured": model.captured_ratio}])).encode(x="captured:Q")
    level = joint.mark_rule(color=palette.mark, strokeDash=[5, 4], strokeWidth=1.5, aria=False)
    return dressed(alt.layer(bars, numbers, level).properties(width=WIDTH - 40, height=BAR * len(rows)), palette)


def plot_convergence(model: Readable, *, palette: Palette = PAPER) -> Any | None:
    """Draw how far the objective was above its last value, and the residuals, by round, on a logarithmic axis.

    Return None if there are fewer than two rounds to draw.
    """
    rows = [*_above_the_last(model.facts.get("history", [])), *_residuals(model.facts.get("history", []))]
    names = list(dict.fromkeys(row["line"] for row in rows))
    if not any(sum(row["line"] == name for row in rows) > 1 for name in names):
        return None
    alt = altair()
    colours = [palette.plus, palette.minus, palette.third, palette.mark]
    base = alt.Chart(data(rows)).encode(
        x=alt.X("round:Q", title="round", axis=round_axis(rows)),
        y=alt.Y("value:Q", title=None, scale=alt.Scale(type="log"), axis=alt.Axis(format=".0e", tickCount=6)),
        color=alt.Color("line:N", scale=alt.Scale(domain=names, range=colours[: len(names)])),
    )
    dots = base.mark_circle(size=30, opacity=1).encode(description="told:N", tooltip="told:N")
    return dressed(alt.layer(base.mark_line(aria=False), dots).properties(width=WIDTH, height=HEIGHT), palette)


def round_axis(rows: Rows) -> Any:
    """Return an axis with about eight ticks, at whole rounds."""
    last = max(row["round"] for row in rows)
    step = max(1, -(-last // 8))
    return altair().Axis(values=[1, *range(step if step > 1 else 2, last + 1, step)], format="d", grid=False)


def _above_the_last(history: Rows) -> Rows:
    """Return how far the objective was above its last value, relative to this value."""
    known = [(r["number"], r["objective"]) for r in history if r.get("objective") is not None]
    if len(known) < 3:
        return []
    last = known[-1][1]
    line = "objective above its last value (relative)"
    return [
        {"round": number, "value": (value - last) / abs(last), "line": line, "told": f"round {number}: {value:.6g}"}
        for number, value in known
        if last and value - last > 1e-14 * abs(last)
    ]


def _residuals(history: Rows) -> Rows:
    return [
        {"round": r["number"], "value": r[name], "line": kind, "told": f"round {r['number']}, {kind}: {r[name]:.2e}"}
        for kind in RESIDUALS
        for name in [kind.replace(" ", "_")]
        for r in history
        if r.get(name) is not None and r[name] > 0
    ]


def plot_sent(model: Readable, *, palette: Palette = PAPER) -> Any | None:
    """Draw the cumulative amount that each site has sent, by round; None if there are fewer than two rounds."""
    history = model.facts.get("history", [])
    if len(history) < 2:
        return None
    alt = altair()
    total = np.cumsum([record["bytes_up"] for record in history])
    size, unit = next(((s, u) for s, u in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")) if total[-1] >= s), (1.0, "bytes"))
    rows: Rows = [
        {"round": k + 1, "sent": float(v) / size, "told": f"after round {k + 1}: {v / size:.3g} {unit}"}
        for k, v in enumerate(total)
    ]
    base = alt.Chart(data(rows)).encode(
        x=alt.X("round:Q", title="round", axis=round_axis(rows)),
        y=alt.Y("sent:Q", title=f"{unit} sent by each site", axis=alt.Axis(tickCount=5, format="~g")),
    )
    dots = base.mark_circle(size=30, color=palette.plus, opacity=1).encode(description="told:N", tooltip="told:N")
    line = base.mark_line(color=palette.plus, aria=False)
    return dressed(alt.layer(line, dots).properties(width=WIDTH, height=HEIGHT), palette)
