"""What the report says in words, from a model's figures."""

from fedspca.model import SparsePCAModel
from fedspca.report.charts import short

NAMED = 4


def headline(model: SparsePCAModel) -> str:
    """Say in one line what the report is about."""
    return f"{count(model.n_components, 'sparse component')} of {count(len(model.feature_names), 'feature')}"


def summary(model: SparsePCAModel) -> str:
    """Say in a few sentences what was found."""
    nonzero, weights = sum(model.nonzeros), model.components.size
    told = (
        f"{count(model.n_samples, 'row')} from {count(model.n_sites, 'site')} were analysed together without leaving "
        f"their sites: only sums over the sites were exchanged. "
        f"The {count(model.n_components, 'component')} found use {nonzero:,} of {weights:,} possible weights and "
        f"capture {model.captured_ratio:.1%} of the variance"
    )
    dense = model.facts.get("dense_variance_ratio")
    if dense:
        best = sum(dense[: model.n_components])
        share = model.captured_ratio / best if best else 0.0
        told += f", which is {share:.1%} of what dense PCA with as many components captures ({best:.1%})"
    return f"{told}."


def component_words(model: SparsePCAModel, number: int) -> str:
    """Say what one component is made of."""
    weights = model.components[number]
    order = sorted((j for j in range(len(weights)) if weights[j]), key=lambda j: -abs(weights[j]))
    if not order:
        return "All weights of this component are zero: the sparsity asked for leaves nothing to it."
    names = [short(model.feature_names[j], 40) for j in order[:NAMED]]
    more = f" and {len(order) - NAMED} more" if len(order) > NAMED else ""
    signs = {bool(weights[j] > 0) for j in order}
    sense = (
        "All its weights have the same sign: rows score high where these features are high together."
        if len(signs) == 1
        else "Its weights have both signs: it sets some features against others."
    )
    adds = model.captured_shares[number]
    first = "It captures" if number == 0 else "It adds"
    return f"{first} {adds:.1%} of the variance with {count(len(order), 'feature')}: {', '.join(names)}{more}. {sense}"


def ending(model: SparsePCAModel) -> str:
    """Say how the fit ended."""
    rounds = len(model.facts.get("history", []))
    ended = model.facts.get("stop_reason", "not recorded")
    told = model.optimality()
    return f"The fit took {count(rounds, 'round')} and ended because: {ended}.{'' if told is None else f' {told}'}"


def count(number: int, noun: str) -> str:
    """Return a number with its noun."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def size(n_bytes: float) -> str:
    """Return bytes as people read them."""
    for unit in ("B", "kB", "MB", "GB"):
        if n_bytes < 1000 or unit == "GB":
            return f"{n_bytes:.3g} {unit}"
        n_bytes /= 1000
    raise AssertionError
