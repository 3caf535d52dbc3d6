"""The parts of the report that show what was found."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedspca.model import SparsePCAModel
from fedspca.report import words
from fedspca.report.charts import Bar, Line, bars, heat, lines, pairs, plane
from fedspca.report.markup import Markup, tag

DRAWN = 30  # features of a component that are drawn; all are in the table
LISTED = 2000


def figure(drawing: Markup, caption: str) -> Markup:
    """Put a drawing and what it says together."""
    return tag("figure", drawing, tag("figcaption", caption))


def table(caption: str, heads: Sequence[tuple[str, bool]], rows: Sequence[Sequence[Any]]) -> Markup:
    """Build a table that sorts; each heading says whether its column is of numbers, given as (number, text)."""
    header = [
        tag("th", tag("button", name, type="button"), scope="col", class_="number" if numeric else None)
        for name, numeric in heads
    ]
    body = [
        tag(
            "tr",
            *(
                tag("td", cell[1], class_="number", data_value=repr(float(cell[0]))) if numeric else tag("td", cell)
                for cell, (_, numeric) in zip(row, heads, strict=True)
            ),
        )
        for row in rows
    ]
    content = tag("table", tag("caption", caption), tag("thead", tag("tr", *header)), tag("tbody", *body))
    return tag("div", content, class_="scroll", tabindex="0", role="region", aria_label=caption)


def component(model: SparsePCAModel, number: int) -> Markup:
    """Show one component: bars, and a table of all its features beside them."""
    weights = model.components[number]
    order = [int(j) for j in np.argsort(-np.abs(weights), kind="stable") if weights[j] != 0]
    title = tag("h3", f"Component {number + 1}", id=f"component-{number + 1}")
    told = tag("p", words.component_words(model, number))
    if not order:
        return tag("section", title, told)
    drawn = [
        Bar(model.feature_names[j], float(weights[j]), f"{model.feature_names[j]}: {weights[j]:+.4f}")
        for j in order[:DRAWN]
    ]
    alternative = f"Weights of component {number + 1}. " + "; ".join(bar.told for bar in drawn[:10])
    caption = "Weight of each feature, the largest first. Right of the line is positive, left negative."
    if len(order) > DRAWN:
        caption += f" The {DRAWN} largest of {len(order)} are drawn."
    total = float(np.sum(weights**2))
    rows = [
        (
            model.feature_names[j],
            (weights[j], f"{weights[j]:+.4f}"),
            (abs(weights[j]), f"{weights[j] ** 2 / total:.1%}"),
        )
        for j in order[:LISTED]
    ]
    heads = (("Feature", False), ("Weight", True), ("Share", True))
    listed = table(f"Features of component {number + 1}", heads, rows)
    return tag("section", title, told, tag("div", figure(bars(alternative, drawn), caption), listed, class_="side"))


def variance(model: SparsePCAModel) -> Markup | None:
    """Compare explained variance with dense PCA."""
    dense = model.facts.get("dense_variance_ratio")
    if not dense:
        return None
    captured, other = model.captured_ratios, np.cumsum(dense)
    groups = [(f"{j + 1}", float(captured[j]), float(other[j])) for j in range(model.n_components)]
    alternative = "Variance captured by the first components. " + "; ".join(
        f"{label} component(s): sparse {ours:.1%}, dense {theirs:.1%}" for label, ours, theirs in groups
    )
    caption = (
        "Variance captured by the first components together: what their span keeps of the data. Nothing is counted "
        "twice, whether or not scores correlate."
    )
    return figure(pairs(alternative, ("sparse", "dense PCA"), groups), caption)


def correlation(model: SparsePCAModel) -> Markup | None:
    """Show how far the components' scores are correlated."""
    if model.n_components < 2:
        return None
    names = [f"{j + 1}" for j in range(model.n_components)]
    values = model.correlation
    worst = float(np.max(np.abs(values - np.eye(len(names)))))
    caption = (
        f"Correlation between the scores. Dense PCA has none; sparse components trade some for readability. "
        f"The largest here is {worst:.2f} in size."
    )
    return figure(heat(f"Correlation of components; the largest is {worst:.2f}.", values.tolist(), names), caption)


def sparsity_path(model: SparsePCAModel) -> Markup | None:
    """Show explained variance against non-zeros."""
    path = model.facts.get("path")
    if not path:
        return None
    points = [
        (
            float(point["nonzeros"]),
            point["explained"],
            f"{point['nonzeros']} non-zeros ({point['nonzero']} a component): {point['explained']:.1%}",
        )
        for point in path["points"]
    ]
    chosen = next(point for point, about in zip(points, path["points"], strict=True) if about["chosen"])
    here = (float(sum(model.nonzeros)), model.captured_ratio, f"this model: {sum(model.nonzeros)} non-zeros")
    drawing = lines(
        f"Variance captured against non-zero weights, from {points[0][2]} to {points[-1][2]}.",
        [Line("sparse components", points), Line("this model", [here])],
        ("non-zero weights in all", "captured"),
        level=("dense PCA", path["dense"]),
        mark=(chosen[0], chosen[1], f"chosen by the rule '{path['rule']}': {chosen[2]}"),
        percent=True,
    )
    caption = f"What more weights would buy. The ring marks the {path['rule']}: beyond it, weights buy little."
    return figure(drawing, caption)


def biplot(model: SparsePCAModel, scores: NDArray[np.float64] | None) -> Markup | None:
    """Show features, and rows where they may be shown, in the plane of the first two components."""
    if model.n_components < 2:
        return None
    first, second = model.components[:2]
    used = [int(j) for j in np.argsort(-np.hypot(first, second), kind="stable") if first[j] or second[j]][:40]
    arrows = [(model.feature_names[j], float(first[j]), float(second[j])) for j in used]
    dots = [] if scores is None else [(float(x), float(y), f"{x:+.2f}, {y:+.2f}") for x, y in scores[:, :2]]
    rows = (
        "Rows are not drawn: the model holds none. Whoever holds rows may add them with fedspca report --rows."
        if scores is None
        else f"Dots are the scores of {words.count(len(scores), 'row')} that were given for this report."
    )
    alternative = "Features in the plane of components 1 and 2: " + "; ".join(
        f"{name} {x:+.2f}, {y:+.2f}" for name, x, y in arrows[:8]
    )
    caption = f"Arrows are features; the longer, the larger their weights. {rows}"
    return figure(plane(alternative, arrows, dots, ("component 1", "component 2")), caption)


def sites(model: SparsePCAModel) -> Markup:
    """Show how well the joint components fit each site that lets this be shown."""
    shown = model.facts.get("sites") or []
    hidden = model.n_sites - len(shown)
    kept = tag(
        "p",
        f"{words.count(hidden, 'site')} of {model.n_sites} do not let their own figures be shown, so none is here. "
        "A site allows it with show_sites in the study, or alone in its policy.",
    )
    if not shown:
        return kept
    drawn = [
        Bar(
            site["name"],
            site["explained"],
            f"{site['name']}: {site['explained']:.1%} of {site['rows']:,} rows' variance",
        )
        for site in shown
    ]
    caption = (
        f"Share of each site's own variance, about the joint mean, that the joint components capture; over all sites "
        f"it is {model.captured_ratio:.1%}. A site far below the others is explained badly by the consensus."
    )
    alternative = "Variance captured at each site. " + "; ".join(bar.told for bar in drawn[:20])
    rows = [
        (site["name"], (site["rows"], f"{site['rows']:,}"), (site["explained"], f"{site['explained']:.1%}"))
        for site in shown
    ]
    listed = table("Sites", (("Site", False), ("Rows", True), ("Captured", True)), rows)
    both = tag("div", figure(bars(alternative, drawn, signed=False), caption), listed, class_="side")
    return tag("div", both, kept if hidden else None)
