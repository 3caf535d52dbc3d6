"""The part of the report on the uncertainty of the loadings: stability in half samples, and how r and k were chosen."""

from typing import Any

from fedspca.model import SparsePCAModel
from fedspca.model.words import certainty_in_words, feature_certainty
from fedspca.plots.certainty import plot_chance, plot_scores
from fedspca.plots.theme import PAGE
from fedspca.report.markup import Markup, tag
from fedspca.report.sections import figure, table

NEAR = 10  # features without a weight that are listed for each component
READING = (
    "Every fit was repeated on halves of the rows, drawn by chance. Selected says in how many of the halves a feature "
    "was named again: near 100 %, other patients of the same kind would most likely give it too; below a half, it may "
    "be one of several that serve as well. The interval holds the weight that very many such rows would give, in nine "
    "of ten studies. A stable feature is one that chance alone would hardly select so often."
)


def certainty(model: SparsePCAModel) -> Markup | None:
    """Say how certain the loadings are, and how their number and their numbers of non-zeros were chosen."""
    parts = [*_components(model), *_choice(model)]
    return tag("div", *parts) if parts else None


def _components(model: SparsePCAModel) -> list[Markup]:
    if not model.facts.get("certainty"):
        return []
    return [tag("p", READING), *(_component(model, number) for number in range(model.n_components))]


def _component(model: SparsePCAModel, number: int) -> Markup:
    """Show the features that half samples select in a component; those without a weight in the model come last."""
    weights, names = model.components[number], model.feature_names
    found = sorted(
        feature_certainty(model, number).values(), key=lambda each: (weights[each["feature"]] == 0, -each["frequency"])
    )
    chosen = [each for each in found if weights[each["feature"]] != 0]
    shown = chosen + [each for each in found if weights[each["feature"]] == 0][:NEAR]
    rows = [
        (
            names[each["feature"]],
            (weights[each["feature"]], f"{weights[each['feature']]:+.3f}" if each in chosen else "nearly"),
            (each["frequency"], f"{each['frequency']:.0%}"),
            (each["interval"][0], f"{each['interval'][0]:+.2f} to {each['interval'][1]:+.2f}"),
            "stable" if each["stable"] else "",
        )
        for each in shown
    ]
    heads = (("Feature", False), ("Weight", True), ("Selected", True), ("90 % interval", True), ("", False))
    title = f"How sure component {number + 1} is"
    return tag(
        "section",
        tag("h3", title),
        tag("p", " ".join(certainty_in_words(model, number))),
        table(title, heads, rows),
        _stand_ins(model, number),
    )


def _stand_ins(model: SparsePCAModel, number: int) -> Markup | None:
    pairs = model.facts["certainty"]["components"][number]["stand_ins"]
    if not pairs:
        return None
    names = model.feature_names
    rows = [(names[feature], names[other], (alike, f"{alike:+.2f}")) for feature, other, alike in pairs]
    heads = (("Named here", False), ("May stand in for it", False), ("Correlation", True))
    told = "These features say nearly the same, and the halves name now one, now the other. Read them as one."
    return tag("div", tag("p", told), table(f"Stand-ins in component {number + 1}", heads, rows))


def _choice(model: SparsePCAModel) -> list[Markup]:
    """Draw the eigenvalues with those of shuffled data, and the scores of held-out rows."""
    selection = model.facts.get("selection")
    parts: list[Any] = [tag("p", " ".join(selection["words"]))] if selection else []
    parts += [_scree(model, selection) if selection else None, _scores(model)]
    return [part for part in parts if part is not None]


def _scree(model: SparsePCAModel, selection: dict[str, Any]) -> Markup:
    label = f"Variance of each dense component beside chance; {selection['n_components']} are chosen."
    band = "the same columns give once each is shuffled within its site"
    if selection.get("private"):
        band = "unrelated features would give, with the noise of this private study"
    caption = (
        f"Variance of dense components, beside the band that {band}. What does not rise above it is not told from "
        "chance. The ring marks the number that was chosen."
    )
    return figure(plot_chance(model, palette=PAGE), label, caption, "chance")


def _scores(model: SparsePCAModel) -> Markup | None:
    told = model.facts.get("certainty")
    if not told:
        return None
    points = "; ".join(f"{k}: {q:.3f}" for k, q in zip(told["cv_nonzeros"], told["cv_score"][-1], strict=True))
    caption = (
        "How well each value of rows left out is predicted from the others of its row: 1 is perfect, 0 is no better "
        "than the mean. Where the curve falls, further features are chance. The ring marks this model."
    )
    label = f"Cross-validated Q² against features of each component. {points}"
    return figure(plot_scores(model, palette=PAGE), label, caption, "scores")
