"""Charts of variance: against the number of components, and against the number of non-zeros."""

from typing import Any

from fedspca.plots.theme import HEIGHT, PAPER, WIDTH, Palette, Rows, altair, data, dressed
from fedspca.reading import Readable
from fedspca.site.errors import count

SPARSE, DENSE = "sparse", "dense PCA"


def plot_scree(model: Readable, *, palette: Palette = PAPER) -> Any:
    """Draw the variance captured by the first components, and that of dense PCA, also for more components.

    Parameters
    ----------
    model : SparsePCAModel
        The fitted model.
    palette : Palette
        The colours.
    """
    alt = altair()
    lines = [(SPARSE, model.captured_ratios), (DENSE, model.dense_ratios)]
    rows: Rows = [
        {"components": j + 1, "captured": float(share), "line": name,
         "told": f"{count(j + 1, 'component')}, {name}: {share:.1%}"}
        for name, shares in lines
        for j, share in enumerate(shares)
    ]  # fmt: skip
    last = max(row["components"] for row in rows)
    ticks = {"values": list(range(1, last + 1, max(1, -(-last // 12)))), "format": "d", "grid": False}
    base = alt.Chart(data(rows)).encode(
        x=alt.X("components:Q", title="components", axis=alt.Axis(**ticks), scale=alt.Scale(domainMin=1, nice=False)),
        y=alt.Y("captured:Q", title="variance captured", axis=alt.Axis(format=".0%"), scale=alt.Scale(zero=True)),
        color=alt.Color(
            "line:N",
            scale=alt.Scale(domain=[SPARSE, DENSE], range=[palette.plus, palette.soft]),
            legend=alt.Legend(symbolType="stroke", symbolSize=300),
        ),
    )
    drawn = base.mark_line(aria=False, strokeWidth=2).encode(
        strokeDash=alt.StrokeDash("line:N", scale=alt.Scale(domain=[SPARSE, DENSE], range=[[1, 0], [5, 4]]))
    )
    dots = base.mark_circle(size=44, opacity=1).encode(description="told:N", tooltip="told:N")
    return dressed(alt.layer(drawn, dots).properties(width=WIDTH, height=HEIGHT), palette)


def plot_path(model: Readable, *, palette: Palette = PAPER) -> Any:
    """Draw the variance captured against the number of non-zeros, on a logarithmic axis, with this model marked.

    Parameters
    ----------
    model : SparsePCAModel
        A model fitted with a path (``--path`` of ``fedspca fit``).
    palette : Palette
        The colours.
    """
    alt = altair()
    path = model.facts.get("path")
    if not path:
        raise ValueError("This model has no path. Fit it with --path, or draw ExactSPCA(...).path(X).plot().")
    rows: Rows = [
        {"nonzeros": point["nonzeros"], "captured": point["explained"], "chosen": bool(point["chosen"]),
         "told": f"{point['nonzeros']} non-zeros ({point['nonzero']} a component): {point['explained']:.1%}"}
        for point in path["points"]
    ]  # fmt: skip
    x = alt.X(
        "nonzeros:Q", title="non-zero weights in all", scale=alt.Scale(type="log", nice=False), axis=_log_axis(rows)
    )
    y = alt.Y("captured:Q", title="variance captured", axis=alt.Axis(format=".0%"), scale=alt.Scale(zero=True))
    base = alt.Chart(data(rows)).encode(x=x, y=y)
    dense = alt.Chart(data([{"captured": path["dense"], "name": f"dense PCA {path['dense']:.1%}"}])).encode(y=y)
    used, captured = sum(model.nonzeros), model.captured_ratio
    here = {"nonzeros": used, "captured": captured, "told": f"this model: {used} non-zeros, {captured:.1%}"}
    this = alt.Chart(data([here])).encode(x=x, y=y, description="told:N", tooltip="told:N")
    return dressed(
        alt.layer(
            dense.mark_rule(color=palette.soft, strokeDash=[5, 4], aria=False),
            dense.mark_text(align="left", dy=-7, x=2, fontSize=11, color=palette.soft, aria=False).encode(
                text="name:N"
            ),
            base.mark_line(color=palette.plus, strokeWidth=2, aria=False),
            base.mark_circle(color=palette.plus, size=40, opacity=1).encode(description="told:N", tooltip="told:N"),
            base.transform_filter("datum.chosen").mark_point(color=palette.mark, size=170, strokeWidth=2.5, aria=False),
            this.mark_point(shape="diamond", filled=True, color=palette.minus, size=110, opacity=1),
        ).properties(width=WIDTH, height=HEIGHT),
        palette,
    )


def _log_axis(rows: Rows) -> Any:
    """Return an axis with ticks at the data points, as many as there is room for."""
    places = sorted({row["nonzeros"] for row in rows})
    kept: list[int] = []
    for place in places:
        if not kept or place >= 1.45 * kept[-1]:
            kept.append(place)
    return altair().Axis(values=kept, format="d", grid=False)
