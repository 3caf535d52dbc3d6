"""The parts of the report that show how the result was found: rounds, messages of sites, data and settings."""

import json
from typing import Any

import numpy as np

from fedspca.model import SparsePCAModel
from fedspca.plots.record import plot_convergence, plot_sent
from fedspca.plots.theme import PAGE
from fedspca.report import words
from fedspca.report.markup import Markup, join, tag
from fedspca.report.sections import figure, table
from fedspca.site import QUERIES
from fedspca.site.errors import count

MOST_GAPS = 20  # features that are listed with their share of missing values
MEASURES = {
    "objective above its last value (relative)": "the objective, how far it was above where it ended",
    "primal residual": "primal residual, how far the sites are from consensus",
    "dual residual": "dual residual, how far the consensus still moves",
    "certificate": "certificate, how far the solution is from a best one of the pooled problem",
}


def convergence(model: SparsePCAModel) -> Markup:
    """Show the convergence of the fit by round, if it took several rounds."""
    drawn = plot_convergence(model, palette=PAGE)
    told = tag("p", words.ending(model))
    if drawn is None:
        return told
    caption = f"By round, on a logarithmic axis; lower is better. It may show: {'; '.join(MEASURES.values())}."
    return join(told, figure(drawn, "How far the fit had come, by round, on a log scale.", caption, "convergence"))


def communication(model: SparsePCAModel) -> Markup:
    """Show what sites were asked, what each answer releases, and how much was sent."""
    history, after = model.facts.get("history", []), model.facts.get("asked_after", [])
    sent, sent_after = (sum(r["bytes_up"] for r in records) for records in (history, after))
    data = 8.0 * model.n_samples * len(model.feature_names) / max(model.n_sites, 1)
    beside = "" if model.weighted else f" Its rows would have been {words.size(data)} on average."
    told = (
        f"Each site sent {words.size(sent)} in {count(len(history), 'round')} of the fit"
        f"{_judging(len(after), sent_after)}.{beside} Only the sum over the sites was used."
    )
    heads = (
        ("Question", False),
        ("What a site's term of the sum holds", False),
        ("Asked", True),
        ("Sent", True),
        ("Received", True),
    )
    listed = table("Every question that the sites answered", heads, _questions([*history, *after]))
    return tag("div", tag("p", told), _sent(model), listed)


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


def _sent(model: SparsePCAModel) -> Markup | None:
    drawn = plot_sent(model, palette=PAGE)
    if drawn is None:
        return None
    sent = words.size(sum(record["bytes_up"] for record in model.facts["history"]))
    caption = "What each site has sent, added up over the rounds of the fit."
    return figure(drawn, f"Sent by each site, added up over rounds, to {sent}.", caption, "sent")


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
    told += [tag("p", f"{words.capitalised(note)}.") for note in model.facts.get("told", [])]
    if not model.rows_seen:
        analysed = f"{words.capitalised(model.source)} was analysed. The features' means and the rows are unknown."
        told.insert(0, tag("p", analysed))
    constant = [model.feature_names[j] for j in model.facts.get("constant_features", [])]
    if constant:
        told.append(tag("p", f"Features with one value everywhere, which get no weight: {', '.join(constant[:20])}."))
    if not model.rows_seen:
        return join(*told)
    gaps = int(np.count_nonzero(model.missing_share))
    if not gaps:
        return join(*told, tag("p", "No value is missing."))
    filled = "They count as the joint mean of the feature."
    if model.gap_model is not None:
        filled = "They count as what the other values of their row make expect (EM for a Gaussian)."
    missing = f"{count(gaps, 'feature')} had missing values. {filled}"
    return join(*told, tag("p", missing), _missing_by_feature(model))


def _missing_by_feature(model: SparsePCAModel) -> Markup:
    """List the features with the largest shares of missing values."""
    order = [j for j in np.argsort(-model.missing_share, kind="stable") if model.missing_share[j] > 0]
    rows = [
        (model.feature_names[j], (float(model.missing_share[j]), f"{model.missing_share[j]:.1%}"))
        for j in order[:MOST_GAPS]
    ]
    return table("Missing values", (("Feature", False), ("Share of rows", True)), rows)


def reproduction(model: SparsePCAModel) -> Markup:
    """List the settings and versions that are needed to fit the same model again."""
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
