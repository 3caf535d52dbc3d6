"""Charts of the result: weights, features and rows in a plane, and correlations of scores."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedspca.plots.theme import PAPER, WIDTH, Palette, Rows, altair, data, dressed, printable
from fedspca.reading import Readable

Array = NDArray[np.float64]

DRAWN = 30  # most features of a component that are drawn
ARROWS = 12  # most features that are named in a biplot: more names would overlap
BAR = 19  # height of a bar in pixels
WITH, WITHOUT = "has a weight", "has no weight"


def by_size(weights: Array) -> list[int]:
    """Return the features with a weight, the largest first."""
    return [int(j) for j in np.argsort(-np.abs(weights), kind="stable") if weights[j] != 0]


def short(name: str, longest: int = 26) -> str:
    """Return a name that fits beside a bar: its middle is left out if it is long."""
    plain = " ".join(name.split()) or "(no name)"
    return plain if len(plain) <= longest else f"{plain[: longest // 2]}…{plain[-(longest // 2 - 1) :]}"


def plot_loadings(model: Readable, component: int | None = None, *, palette: Palette = PAPER) -> Any:
    """Draw the weights of one component, or of each, the largest first.

    Parameters
    ----------
    model : SparsePCAModel
        The fitted model.
    component : int, optional
        The component, numbered from one; by default all components, one below the other.
    palette : Palette
        The colours.

    Returns
    -------
    chart : altair.Chart
        A notebook shows it; :func:`~fedspca.plots.save_chart` writes it.
    """
    if component is None:
        parts = [_weights(model, number, palette) for number in range(1, model.n_components + 1)]
        return dressed(altair().vconcat(*parts).resolve_scale(y="independent"), palette)
    if not 1 <= component <= model.n_components:
        raise ValueError(f"There are components 1 to {model.n_components}. Got {component} instead.")
    return dressed(_weights(model, component, palette).properties(title=""), palette)


def _weights(model: Readable, component: int, palette: Palette) -> Any:
    alt = altair()
    weights = model.components[component - 1]
    rows: Rows = [
        {"place": place, "feature": short(model.feature_names[j]), "weight": float(weights[j]),
         "sign": "positive" if weights[j] > 0 else "negative",
         "told": f"{model.feature_names[j]}: {weights[j]:+.4f}", "shown": f"{weights[j]:+.2f}"}
        for place, j in enumerate(by_size(weights)[:DRAWN])
    ]  # fmt: skip
    names = {row["place"]: row["feature"] for row in rows}
    base = alt.Chart(data(rows)).encode(
        y=alt.Y("place:O", title=None, sort=None, axis=alt.Axis(labelExpr=_by_place(names), ticks=False, domain=False)),
        x=alt.X("weight:Q", title="weight", scale=alt.Scale(domain=_room(rows)), axis=alt.Axis(tickCount=5)),
    )
    bars = base.mark_bar(height={"band": 0.72}).encode(
        color=alt.Color("sign:N", legend=None, scale=_signs(palette)),
        description="told:N",
        tooltip=[alt.Tooltip("told:N", title="weight")],
    )
    numbers = [
        base.transform_filter(f"datum.weight {sign} 0")
        .mark_text(align=side, dx=4 if sign == ">" else -4, fontSize=11, color=palette.soft, aria=False)
        .encode(text="shown:N")
        for sign, side in ((">", "left"), ("<", "right"))
    ]
    title = f"Component {component}"
    return alt.layer(bars, *numbers).properties(width=WIDTH - 40, height=BAR * max(len(rows), 1), title=title)


def _room(rows: Rows) -> list[float]:
    """Return the limits of an axis that leaves room for the numbers beside the bars."""
    low = min((row["weight"] for row in rows if row["weight"] < 0), default=0.0)
    high = max((row["weight"] for row in rows if row["weight"] > 0), default=0.0)
    room = 0.2 * (high - low or 1.0)
    return [low - room if low < 0 else 0.0, high + room]


def _by_place(names: dict[int, str]) -> str:
    """Return a Vega expression for the name at a position: two shortened names may be equal, so positions are used."""
    listed = ", ".join(_quoted(names[place]) for place in sorted(names))
    return f"[{listed}][datum.value]"


def _quoted(text: str) -> str:
    import json

    return json.dumps(printable(text))


def _signs(palette: Palette) -> Any:
    return altair().Scale(domain=["positive", "negative"], range=[palette.plus, palette.minus])


def plot_biplot(
    model: Readable,
    scores: Any = None,
    *,
    components: tuple[int, int] = (1, 2),
    classes: Sequence[object] | None = None,
    palette: Palette = PAPER,
) -> Any:
    """Draw features as arrows in the plane of two scores, and rows as dots if they are given.

    An arrow ends at the correlations of a feature with the two scores, so features without a weight have arrows too. If
    the model does not have these correlations, an arrow ends at the weights.

    Parameters
    ----------
    model : SparsePCAModel
        The fitted model.
    scores : array-like of shape (n, r), optional
        Scores of rows, from ``model.transform``. Everyone who sees the chart can see these rows.
    components : (int, int)
        The two components, numbered from one.
    classes : sequence, optional
        The class or site of each row, for colours.
    palette : Palette
        The colours.
    """
    alt = altair()
    i, j = (number - 1 for number in components)
    if min(i, j) < 0 or max(i, j) >= model.n_components:
        raise ValueError(f"There are components 1 to {model.n_components}. Got {components} instead.")
    known = model.feature_correlations
    pairs = np.column_stack([model.components[[i, j]] if known is None else known[[i, j]]]).T
    size = np.hypot(*pairs.T)
    used = [int(k) for k in np.argsort(-size, kind="stable") if size[k] > 0]
    points = None if scores is None else np.asarray(scores, dtype=np.float64)[:, [i, j]]
    reach = float(np.abs(points).max()) if points is not None and points.size else 1.0
    unit = 0.9 * reach / max(float(size.max()), 1e-300) if known is None or points is not None else 1.0
    ends = pairs * unit
    seen = ends[used[:40]] if points is None else np.vstack([ends[used[:40]], points])
    axes = _plane(seen, components, model)
    layers = [] if points is None else [_dots(points, classes, axes, palette)]
    weighted = np.asarray(model.components[[i, j]].any(axis=0))
    rows: Rows = [
        {"x": float(ends[k, 0]), "y": float(ends[k, 1]), "has": WITH if weighted[k] else WITHOUT,
         "told": f"{model.feature_names[k]}: {pairs[k, 0]:+.3f}, {pairs[k, 1]:+.3f}"}
        for k in used[:40]
    ]  # fmt: skip
    colour = alt.Color("has:N", scale=alt.Scale(domain=[WITH, WITHOUT], range=[palette.plus, palette.other]))
    arrows = alt.Chart(data(rows)).encode(
        x=axes[0], y=axes[1], color=colour if classes is None else alt.value(palette.plus)
    )
    layers.append(arrows.mark_rule(strokeWidth=1.3, aria=False).encode(x2=alt.datum(0), y2=alt.datum(0)))
    heads = arrows.mark_circle(size=30, opacity=1).encode(description="told:N", tooltip="told:N")
    size_seen = np.ptp(np.vstack([seen, [0.0, 0.0]]), axis=0)
    layers += [heads, _names(model, used[:ARROWS], ends, size_seen, axes, palette)]
    return dressed(alt.layer(*layers).properties(width=WIDTH, height=WIDTH), palette)


def _plane(seen: Array, components: tuple[int, int], model: Readable) -> tuple[Any, Any]:
    """Return two axes that contain the origin and all points, with a margin."""
    alt = altair()
    what = "score on component" if model.feature_correlations is not None else "component"
    made = []
    for kind, values, number in zip((alt.X, alt.Y), seen.T, components, strict=True):
        low, high = min(float(values.min()), 0.0), max(float(values.max()), 0.0)
        margin = 0.06 * max(high - low, 1e-300)
        scale = alt.Scale(domain=[low - margin, high + margin], nice=False)
        name = "x:Q" if kind is alt.X else "y:Q"
        made.append(kind(name, scale=scale, title=f"{what} {number}", axis=alt.Axis(tickCount=5)))
    return made[0], made[1]


def _dots(points: Array, classes: Sequence[object] | None, axes: tuple[Any, Any], palette: Palette) -> Any:
    alt = altair()
    names = [""] * len(points) if classes is None else [str(value) for value in classes]
    rows: Rows = [
        {"x": round(float(x), 4), "y": round(float(y), 4), "class": name}
        for (x, y), name in zip(points, names, strict=True)
    ]
    drawn = alt.Chart(data(rows)).mark_circle(size=16, opacity=0.55, aria=False, color=palette.other)
    drawn = drawn.encode(x=axes[0], y=axes[1])
    if classes is None:
        return drawn
    known = list(dict.fromkeys(names))
    colours = [palette.minus, palette.third, palette.mark, palette.plus, palette.other]
    return drawn.encode(
        color=alt.Color("class:N", scale=alt.Scale(domain=known, range=[colours[k % 5] for k in range(len(known))]))
    )


def _names(model: Readable, used: list[int], ends: Array, seen: Array, axes: tuple[Any, Any], palette: Palette) -> Any:
    """Write names at the ends of arrows, moved up or down where two would overlap, with a line to the arrow's end."""
    alt = altair()
    gap, away, rows = 0.052 * float(seen[1]), 10 / WIDTH * float(seen[0]), []
    low, high = float(ends[:, 1].min()) - gap, float(ends[:, 1].max()) + gap
    for side in (1, -1):
        mine = sorted((k for k in used if (ends[k, 0] >= 0) == (side > 0)), key=lambda k: ends[k, 1])
        heights = _spaced([float(ends[k, 1]) for k in mine], gap, low, high)
        for k, place in zip(mine, heights, strict=True):
            end = {"end": float(ends[k, 0]), "height": float(ends[k, 1])}
            told = {"x": end["end"] + side * away, "side": side, "name": short(model.feature_names[k], 22)}
            rows.append({**end, **told, "y": place, "moved": abs(place - end["height"]) > gap / 4})
    base = alt.Chart(data(rows)).encode(x=axes[0], y=axes[1], text="name:N")
    lines = base.transform_filter("datum.moved").mark_rule(strokeWidth=0.7, color=palette.soft, aria=False)
    half = ((">", "left", 2), ("<", "right", -2))
    return alt.layer(
        lines.encode(x2="end:Q", y2="height:Q"),
        *(
            base.transform_filter(f"datum.side {sign} 0").mark_text(
                align=align, dx=dx, fontSize=11, color=palette.ink, aria=False
            )
            for sign, align, dx in half
        ),
    )


def _spaced(heights: list[float], gap: float, low: float, high: float) -> list[float]:
    """Argmin Σ(y − h)² over y in [low, high] whose neighbours differ by at least the gap, for sorted heights h.

    With y_k = z_k + k·gap the z must not fall, which is isotonic regression. If there is no room, the gap shrinks.
    """
    from sklearn.isotonic import isotonic_regression

    if len(heights) < 2:
        return heights
    steps = min(gap, (high - low) / (len(heights) - 1)) * np.arange(len(heights))
    placed = isotonic_regression(np.asarray(heights) - steps, y_min=low, y_max=high - steps[-1]) + steps
    return [float(height) for height in placed]


def plot_correlation(model: Readable, *, palette: Palette = PAPER) -> Any:
    """Draw the correlations between scores: the colour shows the sign, and its intensity the size."""
    alt = altair()
    names = [str(j + 1) for j in range(model.n_components)]
    rows: Rows = [
        {"a": a, "b": b, "size": abs(float(value)), "sign": "positive" if value >= 0 else "negative",
         "shown": f"{value:.2f}", "told": f"{a} and {b}: {value:+.3f}"}
        for a, line in zip(names, model.correlation, strict=True)
        for b, value in zip(names, line, strict=True)
    ]  # fmt: skip
    cell = max(18, min(46, 320 // len(names)))
    base = alt.Chart(data(rows)).encode(
        x=alt.X("a:O", sort=names, title="component", axis=alt.Axis(labelAngle=0, orient="top")),
        y=alt.Y("b:O", sort=names, title="component"),
    )
    cells = base.mark_rect().encode(
        color=alt.Color("sign:N", legend=None, scale=_signs(palette)),
        opacity=alt.Opacity("size:Q", legend=None, scale=alt.Scale(domain=[0, 1], range=[0.03, 0.55])),
        description="told:N",
        tooltip="told:N",
    )
    layers = (
        [cells]
        if cell < 34
        else [cells, base.mark_text(fontSize=12, color=palette.ink, aria=False).encode(text="shown:N")]
    )
    return dressed(alt.layer(*layers).properties(width=cell * len(names), height=cell * len(names)), palette)
