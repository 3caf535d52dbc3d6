"""``fedspca show``."""

from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedspca.cli.options import AsJson, Force, Model
from fedspca.cli.output import cells, console, print_json, print_table, sentence, table, visible

if TYPE_CHECKING:
    from fedspca.model.model import Array, SparsePCAModel

BAR = 24
ADJUSTED = ("preparation", "covariate_variance", "covariate_between", "between_sites")
NEGLIGIBLE = 1e-15  # weights below this share of the largest are rounding errors, which older models may contain


def show(
    model: Model,
    top: Annotated[int, typer.Option("--top", min=0, help="How many features of each component; 0 shows all.")] = 0,
    csv: Annotated[Path | None, typer.Option("--csv", help="Also write the loadings to this file.")] = None,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Show the loadings of a model.

    For example:

      fedspca show model

      fedspca show model --top 5 --csv loadings.csv
    """
    from fedspca.model import SparsePCAModel

    loaded = SparsePCAModel.load(model)
    if csv is not None:
        if csv.exists() and not force:
            raise FileExistsError(f"{csv}: it is there already. Choose another name, or replace it with --force.")
        loaded.to_csv(csv)
    if as_json:
        print_json(summary(loaded))
    else:
        print_loadings(loaded, top)


def summary(model: "SparsePCAModel") -> dict[str, Any]:
    """Return what a script wants to know of a model."""
    from fedspca.model.estimator import BOUNDS

    return {
        "rows": model.n_samples if model.rows_counted and not model.weighted else None,
        **({"sum_of_weights": model.n_samples} if model.weighted else {}),
        **({} if model.rows_seen else {"of_covariance": True}),
        "sites": model.n_sites,
        "features": len(model.feature_names),
        "rounds": len(model.facts.get("history", [])),
        "stop_reason": model.facts.get("stop_reason"),
        **{name: model.facts.get(name) for name in BOUNDS},
        **{name: model.facts[name] for name in ADJUSTED if name in model.facts},
        "captured_ratio": model.captured_ratio,
        "captured_ratios": [float(share) for share in model.captured_ratios],
        "explained_variance_ratio": [float(share) for share in model.explained_variance_ratio],
        "dense_variance_ratio": model.facts.get("dense_variance_ratio"),
        "dense_variance_settled": model.dense_settled,
        "overlaps": [[first, second, value] for first, second, value in model.overlaps()],
        "cautions": model.cautions(),
        "components": [
            {model.feature_names[j]: float(weights[j]) for j in by_size(weights)} for weights in model.components
        ],
    }


def by_size(weights: "Array") -> list[int]:
    """Return the features with a weight, the largest first."""
    sizes = [abs(float(weight)) for weight in weights]
    least = NEGLIGIBLE * max(sizes, default=0.0)
    used = [j for j, size in enumerate(sizes) if size > least]
    return sorted(used, key=lambda j: -sizes[j])


def print_loadings(model: "SparsePCAModel", top: int = 0, told: Collection[str] = ()) -> None:
    """Print each component as a table of its features, the largest weight first; cautions told before are left out."""
    from fedspca.model.words import certainty_in_words
    from fedspca.site.errors import count

    out = console()
    out.print(
        f"{count(model.n_components, 'component')} of {count(len(model.feature_names), 'feature')}, from "
        f"{model.source}.",
        soft_wrap=True,
    )
    _print_captured(model)
    if (proved := model.optimality()) is not None:
        out.print(proved, soft_wrap=True)
    for adjusted in model.adjusted():
        out.print(adjusted, soft_wrap=True)
    for caution in model.cautions():
        if caution not in told:
            out.print(f"CAUTION: {visible(sentence(caution))}", soft_wrap=True)
    for number, (weights, share) in enumerate(zip(model.components, model.captured_shares, strict=True), 1):
        order = by_size(weights)
        adds = "captures" if number == 1 else "adds"
        out.print(f"\nComponent {number} {adds} {share:.1%} of the variance with {count(len(order), 'feature')}")
        sure = _sureness(model, number - 1)
        heads = (("selected", "right"), ("90 % interval", "left")) if sure else ()
        rows = table(("feature", "left"), ("weight", "right"), *heads, ("", "left"))
        largest = max((abs(float(weights[j])) for j in order), default=1.0)
        for j in order[: top or None]:
            bar = _bar(float(weights[j]) / largest)
            rows.add_row(*cells(model.feature_names[j], f"{weights[j]:+.4f}", *sure.get(j, ("",) * len(heads)), bar))
        print_table(rows)
        if top and len(order) > top:
            out.print(f"… and {len(order) - top} smaller")
        if sentences := certainty_in_words(model, number - 1):
            out.print(" ".join(sentences), soft_wrap=True)


def _sureness(model: "SparsePCAModel", component: int) -> dict[int, tuple[str, str]]:
    """Return for each feature how often half samples select it, and the interval of its weight."""
    from fedspca.model.words import feature_certainty

    return {
        feature: (f"{each['frequency']:.0%}", f"{each['interval'][0]:+.2f} to {each['interval'][1]:+.2f}")
        for feature, each in feature_certainty(model, component).items()
    }


def _print_captured(model: "SparsePCAModel") -> None:
    """Print the variance captured, and how it grows with the components, beside dense PCA's."""
    who = "It captures" if model.n_components == 1 else "Together they capture"
    total = f"{who} {model.captured_ratio:.1%} of the variance"
    dense = model.dense_ratios
    if told := model.dense_in_words():
        total += f"; dense PCA with as many components captures {told}"
    console().print(f"{total}.", soft_wrap=True)
    if not 1 < model.n_components <= len(dense):
        return
    by_dense = "by dense PCA" if model.dense_settled else "by dense PCA, at least"
    rows = table(*((head, "right") for head in ("components", "captured", by_dense)))
    for number, share in enumerate(model.captured_ratios, 1):
        rows.add_row(*cells(number, f"{share:.1%}", f"{dense[number - 1]:.1%}"))
    print_table(rows)


def _bar(share: float) -> str:
    return "#" * max(1, round(BAR * abs(share)))
