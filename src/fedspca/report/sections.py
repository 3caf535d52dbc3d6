"""The parts of the report that show what was found."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedspca.model import SparsePCAModel
from fedspca.model.words import feature_certainty
from fedspca.plots.loadings import DRAWN, by_size, plot_biplot, plot_correlation, plot_loadings
from fedspca.plots.record import plot_sites
from fedspca.plots.theme import PAGE, inline_svg
from fedspca.plots.variance import plot_path, plot_scree
from fedspca.report import words
from fedspca.report.markup import Markup, join, tag
from fedspca.site.errors import count

LISTED = 500  # most rows of a table; the file of loadings has all


def figure(chart: Any, label: str, caption: str, name: str) -> Markup:
    """Put a chart and its caption together. ``name`` is the file name if a reader saves the chart."""
    drawn = Markup(inline_svg(chart, label))
    return tag("figure", drawn, tag("figcaption", caption), data_name=name)


def table(caption: str, heads: Sequence[tuple[str, bool]], rows: Sequence[Sequence[Any]]) -> Markup:
    """Build a sortable table. A heading is (text, numeric); a cell of a numeric column is (number, text)."""
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
    """Show one component: a bar chart, and a table of its features."""
    weights = model.components[number]
    order = by_size(weights)
    title = tag("h3", f"Component {number + 1}", id=f"component-{number + 1}")
    told = tag("p", words.component_words(model, number))
    others = words.stand_ins(model, number)
    if not order:
        return tag("section", title, told)
    label = f"Weights of component {number + 1}. " + "; ".join(
        f"{model.feature_names[j]}: {weights[j]:+.4f}" for j in order[:10]
    )
    caption = "Weight of each feature, the largest first. Blue is positive, orange negative."
    if len(order) > DRAWN:
        caption += f" The {DRAWN} largest of {len(order)} are drawn."
    drawn = figure(plot_loadings(model, number + 1, palette=PAGE), label, caption, f"component-{number + 1}")
    side = tag("div", drawn, _weights(model, number, order), class_="side")
    return tag("section", title, told, tag("p", others) if others else None, side)


def _weights(model: SparsePCAModel, number: int, order: list[int]) -> Markup:
    weights, known = model.components[number], model.feature_correlations
    total = float(np.sum(weights**2))
    heads = [("Feature", False), ("Weight", True), ("Share", True)]
    heads += [] if known is None else [("Correlation", True)]
    sure = feature_certainty(model, number)
    heads += [("Selected", True), ("90 % interval", True)] if sure else []
    rows = []
    for j in order[:LISTED]:
        row = [
            model.feature_names[j],
            (weights[j], f"{weights[j]:+.4f}"),
            (abs(weights[j]), f"{weights[j] ** 2 / total:.1%}"),
        ]
        row += [] if known is None else [(known[number, j], f"{known[number, j]:+.2f}")]
        rows.append([*row, *_sureness(sure[j])] if sure else row)
    caption = f"Features of component {number + 1}. The share is the weight's square"
    caption += "." if known is None else "; the correlation is with the score."
    return table(caption, heads, rows)


def _sureness(told: dict[str, Any]) -> list[tuple[float, str]]:
    """Return how often half samples select a feature, and the interval of its weight."""
    low, high = told["interval"]
    return [(told["frequency"], f"{told['frequency']:.0%}"), (low, f"{low:+.2f} to {high:+.2f}")]


def variance(model: SparsePCAModel) -> Markup:
    """Compare the captured variance with that of dense PCA, also for more components than the model has, if known."""
    dense = model.dense_ratios
    told = [f"{count(j + 1, 'component')}: sparse {share:.1%}" for j, share in enumerate(model.captured_ratios)]
    label = "Variance captured by the first components. " + "; ".join(told)
    caption = (
        "Variance captured by the first components together. Each point counts the span of the components so far, so "
        "nothing is counted twice."
    )
    if len(dense) > model.n_components:
        caption += " Where the line of dense PCA flattens, further components find little."
    drawn = figure(plot_scree(model, palette=PAGE), label, caption, "scree")
    rows = []
    for j, share in enumerate(model.captured_ratios):
        adds = float(model.captured_shares[j])
        theirs = [(dense[j], f"{dense[j]:.1%}")] if len(dense) > j else []
        rows.append([(j + 1, f"{j + 1}"), (adds, f"{adds:.1%}"), (share, f"{share:.1%}"), *theirs])
    heads = [("Components", True), ("The last one adds", True), ("Captured together", True)]
    heads += (
        [(f"By dense PCA{'' if model.dense_settled else ', at least'}", True)]
        if len(dense) >= model.n_components
        else []
    )
    charts = tag("div", drawn, sparsity_path(model), class_="side")
    return join(charts, table("Variance captured", heads, rows))


def sparsity_path(model: SparsePCAModel) -> Markup | None:
    """Show the captured variance against the number of non-zeros."""
    path = model.facts.get("path")
    if not path:
        return None
    first, last = path["points"][0], path["points"][-1]
    label = (
        f"Variance captured against non-zero weights: {first['explained']:.1%} with {first['nonzeros']}, "
        f"{last['explained']:.1%} with {last['nonzeros']}."
    )
    chosen = next(point for point in path["points"] if point["chosen"])
    caption = (
        f"What more weights would buy. The diamond is this model. The ring is the choice by the rule '{path['rule']}', "
        f"{count(chosen['nonzero'], 'feature')} a component: beyond it, weights buy little."
    )
    return figure(plot_path(model, palette=PAGE), label, caption, "path")


def correlation(model: SparsePCAModel) -> Markup | None:
    """Show the correlations between the scores of the components."""
    if model.n_components < 2:
        return None
    values = model.correlation
    worst = float(np.max(np.abs(values - np.eye(len(values)))))
    caption = (
        f"Correlation between the scores. Scores of dense PCA do not correlate; those of sparse components may. The "
        f"largest correlation here is {worst:.2f} in size; above 0.8 two components say nearly the same."
    )
    label = f"Correlation of the scores of components; the largest is {worst:.2f}."
    return figure(plot_correlation(model, palette=PAGE), label, caption, "correlation")


def biplot(
    model: SparsePCAModel, scores: NDArray[np.float64] | None, classes: Sequence[object] | None = None
) -> Markup | None:
    """Show features, and rows if they may be shown, in the plane of the first two components."""
    if model.n_components < 2:
        return None
    add = " Whoever holds rows may add them with fedspca report --rows." if model.rows_seen else ""
    rows = (
        f"Rows are not drawn: the model holds none.{add}"
        if scores is None
        else f"Dots are the scores of {count(len(scores), 'row')} that were given for this report."
    )
    what = "correlations of a feature with the two scores; grey ones have no weight in either component"
    caption = (
        f"An arrow ends at the {what}. {rows}"
        if model.feature_correlations is not None
        else f"Arrows are weights. {rows}"
    )
    label = "Features in the plane of components 1 and 2; the table of all features has the numbers."
    return figure(plot_biplot(model, scores, classes=classes, palette=PAGE), label, caption, "biplot")


def features(model: SparsePCAModel) -> Markup:
    """List every feature: unit, mean, standard deviation, share missing, and its correlation with each score."""
    known, spread = model.feature_correlations, model.spread
    shown = range(min(model.n_components, 8)) if known is not None else range(0)
    units = [words.unit(name) for name in model.feature_names]
    seen = model.rows_seen  # a covariance that was given has no means, and no values that could be missing
    heads = [("Feature", False), *([("Unit", False)] if any(units) else []), *([("Mean", True)] if seen else [])]
    heads += [] if spread is None else [("Standard deviation", True)]
    heads += [
        *([("Missing", True)] if seen else []),
        ("In components", False),
        *((f"With score {k + 1}", True) for k in shown),
    ]
    order = _by_use(model)
    rows = []
    for j in order[:LISTED]:
        used = ", ".join(str(k + 1) for k in range(model.n_components) if model.components[k, j])
        row: list[Any] = [model.feature_names[j], *([units[j]] if any(units) else [])]
        row += [(model.mean[j], f"{model.mean[j]:.4g}")] if seen else []
        row += [] if spread is None else [(spread[j], f"{spread[j]:.4g}")]
        row += [(model.missing_share[j], f"{model.missing_share[j]:.1%}")] if seen else []
        row += [used or "none"]
        rows.append(row + ([] if known is None else [(known[k, j], f"{known[k, j]:+.2f}") for k in shown]))
    told = "Features that have a weight come first, then those that correlate most with a score."
    told += (
        " The last columns are correlations with the scores: a feature without a weight may correlate highly too."
        if known is not None
        else ""
    )
    told += f" The first {LISTED} of {len(order):,} are listed." if len(order) > LISTED else ""
    return join(tag("p", told), table("All features", heads, rows))


def _by_use(model: SparsePCAModel) -> list[int]:
    used = model.components.any(axis=0)
    known = model.feature_correlations
    largest = np.abs(model.components if known is None else known).max(axis=0)
    return [int(j) for j in np.lexsort((-largest, ~used))]


def sites(model: SparsePCAModel) -> Markup:
    """Show how well the joint components fit each site that allows this to be shown."""
    shown = model.facts.get("sites") or []
    hidden = model.n_sites - len(shown)
    kept = tag(
        "p",
        f"Sites whose policies keep their own figures to themselves: {hidden} of {model.n_sites}. Where you hold the "
        "files of all sites, fedspca fit --show-sites shows them.",
    )
    if not shown:
        return kept
    caption = (
        f"Share of each site's own variance, about the joint mean, that the joint components capture. The dashed line "
        f"is all sites together, {model.captured_ratio:.1%}. A site far below it is explained badly."
    )
    label = "Variance captured at each site. " + "; ".join(f"{s['name']}: {s['explained']:.1%}" for s in shown[:20])
    gaps = any(site.get("missing") for site in shown)
    rows = [
        (
            site["name"],
            (site["rows"], f"{site['rows']:,}"),
            (site["explained"], f"{site['explained']:.1%}"),
            *(((site.get("missing", 0.0), f"{site.get('missing', 0.0):.1%}"),) if gaps else ()),
        )
        for site in shown
    ]
    heads = (("Site", False), ("Rows", True), ("Captured", True), *((("Missing", True),) if gaps else ()))
    listed = table("Sites", heads, rows)
    both = tag("div", figure(plot_sites(model, palette=PAGE), label, caption, "sites"), listed, class_="side")
    return tag("div", both, kept if hidden else None)
