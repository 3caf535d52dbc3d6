"""The parts of the report that show how it was found: rounds, what sites sent, the data, the settings."""

import json
from typing import Any

import numpy as np

from fedspca.model import SparsePCAModel
from fedspca.report import words
from fedspca.report.charts import Line, lines
from fedspca.report.markup import Markup, join, tag
from fedspca.report.sections import figure, table
from fedspca.site import QUERIES

MEASURES = {
    "primal residual": "primal, how far the sites are from consensus",
    "dual residual": "dual, how far the consensus still moves",
    "certificate": "certificate, how far the solution is from a best one of the pooled problem",
}


def convergence(model: SparsePCAModel) -> Markup:
    """Show the objective, and residuals where there are any, by round."""
    history = model.facts.get("history", [])
    drawn = []
    objective = [
        (float(r["number"]), r["objective"], f"round {r['number']}: {r['objective']:.6g}")
        for r in history
        if r.get("objective") is not None
    ]
    if len(objective) > 1:
        alternative = f"Objective by round, from {objective[0][1]:.5g} to {objective[-1][1]:.5g}."
        caption = "The objective by round: lower is better. It is the penalty, if any, less the variance captured."
        drawn.append(figure(lines(alternative, [Line("objective", objective)], ("round", "objective")), caption))
    residuals = [line for kind in MEASURES if len((line := _measured(history, kind)).points) > 1]
    if residuals:
        alternative = (
            f"How far the fit had come, by round, on a log scale: {', '.join(line.name for line in residuals)}."
        )
        caption = f"How far the fit had come: {'; '.join(MEASURES[line.name] for line in residuals)}. Lower is better."
        drawn.append(figure(lines(alternative, residuals, ("round", "residual"), log=True), caption))
    return tag("div", tag("p", words.ending(model)), tag("div", *drawn, class_="side"))


def _measured(history: list[dict[str, Any]], kind: str) -> Line:
    name = kind.replace(" ", "_")
    points = [
        (float(r["number"]), r[name], f"round {r['number']}, {kind}: {r[name]:.2e}")
        for r in history
        if r.get(name) is not None and r[name] > 0
    ]
    return Line(kind, points)


def communication(model: SparsePCAModel) -> Markup:
    """Show what sites were asked, what each answer releases, and how much was sent."""
    history, after = model.facts.get("history", []), model.facts.get("asked_after", [])
    sent, sent_after = (sum(r["bytes_up"] for r in records) for records in (history, after))
    data = 8.0 * model.n_samples * len(model.feature_names) / max(model.n_sites, 1)
    told = (
        f"Each site sent {words.size(sent)} in {words.count(len(history), 'round')} of the fit"
        f"{_judging(len(after), sent_after)}. Its rows would have been {words.size(data)} on average. "
        "Only the sum over the sites was used."
    )
    heads = (
        ("Question", False),
        ("What a site's term of the sum holds", False),
        ("Asked", True),
        ("Sent", True),
        ("Received", True),
    )
    listed = table("Every question that the sites answered", heads, _questions([*history, *after]))
    return tag("div", tag("p", told), _sent(history), listed)


def _judging(rounds: int, sent: float) -> str:
    return f", and {words.size(sent)} in {rounds} more for the figures of this report" if rounds else ""


def _questions(records: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    rows = []
    for name in dict.fromkeys(record["query"] for record in records):
        mine = [record for record in records if record["query"] == name]
        up, down = (sum(record[way] for record in mine) for way in ("bytes_up", "bytes_down"))
        released = QUERIES[name].releases if name in QUERIES else "not known to this version"
        rows.append((name, released, (len(mine), f"{len(mine)}"), (up, words.size(up)), (down, words.size(down))))
    return rows


def _sent(history: list[dict[str, Any]]) -> Markup | None:
    if len(history) < 2:
        return None
    total = np.cumsum([record["bytes_up"] for record in history])
    points = [(k + 1.0, float(v) / 1000, f"after round {k + 1}: {words.size(v)}") for k, v in enumerate(total)]
    alternative = f"Sent by each site, added up over rounds, to {words.size(total[-1])}."
    drawing = lines(alternative, [Line("sent", points)], ("round", "kB sent by each site"))
    return figure(drawing, "What each site has sent, added up over the rounds of the fit.")


def between_institutions(model: SparsePCAModel) -> Markup:
    """Say what sites on other machines agreed to, and what was spent on privacy."""
    agreed = model.facts.get("institutions")
    if not agreed:
        return Markup("")
    told = [
        "What each site sent was masked: the coordinator saw sums over all sites and nothing else."
        if agreed["masked"]
        else "What each site sent was not masked: the coordinator saw each site's own terms.",
        f"Sites: {', '.join(model.facts.get('site_names', []))}.",
        f"Each owner signed this agreement: {agreed['agreement']}.",
    ]
    told += [f"Site {site} was lost on the way: {reason}" for site, reason in agreed["lost"].items()]
    spent = agreed["privacy"]
    if spent is None:
        return join(*(tag("p", text) for text in told), tag("p", "No noise was added: the sums are exact."))
    told.append(f"Differentially private for each row: ε = {spent['epsilon']:.4g} was spent at δ = {spent['delta']:g}.")
    rows = [(name, (noise, f"{noise:.3g}")) for name, each in spent["releases"].items() for noise in each]
    heads = (("Release", False), ("Noise, in units of what one row can change", True))
    return join(*(tag("p", text) for text in told), table("What was released", heads, rows))


def data_notes(model: SparsePCAModel) -> Markup:
    """Say what was done to the data."""
    told = [tag("p", sentence) for sentence in model.adjusted()]
    told += [tag("p", f"{note[0].upper()}{note[1:]}.") for note in model.facts.get("told", [])]
    constant = [model.feature_names[j] for j in model.facts.get("constant_features", [])]
    if constant:
        told.append(tag("p", f"Features with one value everywhere, which get no weight: {', '.join(constant[:20])}."))
    gaps = [int(j) for j in np.argsort(-model.missing_share, kind="stable") if model.missing_share[j] > 0]
    if not gaps:
        return join(*told, tag("p", "No value is missing."))
    told.append(
        tag(
            "p", f"{words.count(len(gaps), 'feature')} had missing values. They stand at the joint mean of the feature."
        )
    )
    rows = [(model.feature_names[j], (model.missing_share[j], f"{model.missing_share[j]:.1%}")) for j in gaps[:500]]
    return join(*told, table("Missing values", (("Feature", False), ("Missing", True)), rows))


def reproduction(model: SparsePCAModel) -> Markup:
    """Give the settings and versions that it takes to fit the same model again."""
    study = {name: value for name, value in model.facts.get("study", {}).items() if value not in (None, [], {}, ())}
    content = {
        "estimator": model.facts.get("estimator"),
        "study": study,
        "versions": model.facts.get("versions"),
        "schema": model.facts.get("schema"),
    }
    text = json.dumps({k: v for k, v in content.items() if v}, indent=1, ensure_ascii=False, default=str)
    told = "The same files, settings and versions give the same model, byte for byte, on the same kind of machine."
    return join(tag("p", told), tag("pre", text, tabindex="0", aria_label="Settings and versions"))
