"""The sentences of the report, written from the numbers of a model."""

import re
from datetime import UTC, datetime

from fedspca.model import SparsePCAModel
from fedspca.plots.loadings import by_size, short
from fedspca.site.errors import count

NAMED = 4
SEPARATE = 0.3  # components hardly overlap below this correlation of scores: they share 9 % of the variance


def headline(model: SparsePCAModel) -> str:
    """Say in one line what the report is about."""
    what = f"{count(model.n_components, 'sparse component')} of {count(len(model.feature_names), 'feature')}"
    name = model.facts.get("study", {}).get("name")
    return f"{name}: {what}" if name else what


def who_and_when(model: SparsePCAModel) -> str:
    """Say when the report was written and who took part."""
    names = (model.facts.get("site_names") or []) if model.rows_seen else []
    told = f"Report of {datetime.now(UTC):%-d %B %Y}."
    if not names:
        return told
    more = f" and {len(names) - 12} more" if len(names) > 12 else ""
    return f"{told} Sites that took part: {', '.join(names[:12])}{more}."


def summary(model: SparsePCAModel) -> str:
    """Say in a few sentences what was found."""
    nonzero, weights = sum(model.nonzeros), model.components.size
    told = (
        f"{_analysed(model)} {_found(model)} {model.captured_ratio:.1%} of the variance, with {nonzero:,} of "
        f"{weights:,} possible weights"
    )
    if dense := model.dense_in_words():
        kept = model.captured_ratio / model.dense_ratios[model.n_components - 1]
        told += (
            f". Dense PCA, which uses all weights, captures {dense} with as many components; the sparse weights "
            f"keep {'' if model.dense_settled else 'at most '}{kept:.1%} of that"
        )
    return f"{told}."


def _analysed(model: SparsePCAModel) -> str:
    if not model.rows_seen:
        return f"{capitalised(model.source)} was analysed, without the rows themselves."
    where = "at one site" if model.n_sites == 1 else f"at {model.n_sites} sites"
    return (
        f"{capitalised(model.rows_in_words)} {where} were analysed together. Rows stayed where they are: only sums "
        "over the sites were exchanged."
    )


def capitalised(sentence: str) -> str:
    """Return a sentence with its first letter large."""
    return f"{sentence[0].upper()}{sentence[1:]}"


def _found(model: SparsePCAModel) -> str:
    one = model.n_components == 1
    return "One component was found. It captures" if one else f"The {model.n_components} components together capture"


def next_step(model: SparsePCAModel) -> str:
    """Say what the reader could do next."""
    if model.overlaps():
        return "Next: fit again with more features a component, or with fewer components, and compare."
    path = model.facts.get("path")
    if path and path.get("dense"):
        kept = model.captured_ratio / path["dense"]
        chosen = next((point for point in path["points"] if point["chosen"]), None)
        if chosen is not None and kept < 0.8 and chosen["nonzero"] > max(model.nonzeros):
            return (
                f"Next: if more variance matters more than short lists, try --nonzero {chosen['nonzero']}, which "
                f"captures {chosen['explained']:.1%}; see the chart of variance against weights."
            )
    if not model.rows_seen:
        return "Next: name each component from its features."
    return "Next: name each component from its features, then use it on new rows: fedspca transform."


def overlap(model: SparsePCAModel) -> str | None:
    """Say whether components overlap; None for one component, or if a warning already says so."""
    if model.n_components < 2:
        return None
    if model.overlaps():
        return None  # a warning in the report says so
    values = model.correlation
    pairs = [(abs(values[i, j]), j + 1, i + 1) for i in range(len(values)) for j in range(i)]
    _, first, second = max(pairs)
    return (
        f"The largest correlation between the scores of two components is {values[first - 1, second - 1]:+.2f} "
        f"(components {first} and {second}). {_how_much(values[first - 1, second - 1])}"
    )


def _how_much(correlation: float) -> str:
    if abs(correlation) < SEPARATE:
        return "So they hardly overlap."
    return "So they overlap in part. Beyond 0.8 in size two components would say nearly the same."


def component_words(model: SparsePCAModel, number: int) -> str:
    """Say which features one component consists of."""
    weights = model.components[number]
    order = by_size(weights)
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
    if len(order) == 1:
        sense = "It is that feature alone."
    adds = model.captured_shares[number]
    first = "It captures" if number == 0 else "It adds"
    return f"{first} {adds:.1%} of the variance with {count(len(order), 'feature')}: {', '.join(names)}{more}. {sense}"


def stand_ins(model: SparsePCAModel, number: int, least: float = 0.7) -> str | None:
    """Name features without a weight that correlate highly with the score: they could replace selected features."""
    known = model.feature_correlations
    if known is None:
        return None
    values, weights = known[number], model.components[number]
    others = [j for j in by_size(values) if weights[j] == 0 and abs(values[j]) >= least]
    if not others:
        return None
    named = ", ".join(f"{short(model.feature_names[j], 40)} ({values[j]:+.2f})" for j in others[:NAMED])
    more = f" and {len(others) - NAMED} more" if len(others) > NAMED else ""
    return f"Features without a weight that correlate with its score by {least:g} or more in size: {named}{more}."


def unit(name: str) -> str:
    """Return the unit that stands in brackets at the end of a feature's name, as in ``height [cm]``, or nothing."""
    found = re.search(r"\[([^\[\]]+)\]$", name.strip())
    return found.group(1).strip() if found else ""


def ending(model: SparsePCAModel) -> str:
    """Say how the fit ended."""
    rounds = len(model.facts.get("history", []))
    ended = model.facts.get("stop_reason")
    told = model.optimality()
    why = f" It ended because {ended}." if ended else ""
    return f"The fit took {count(rounds, 'round')}.{why}{'' if told is None else f' {told}'}"


def size(n_bytes: float) -> str:
    """Return a number of bytes in a unit that is easy to read."""
    for unit in ("B", "kB", "MB", "GB"):
        if n_bytes < 1000 or unit == "GB":
            return f"{n_bytes:.3g} {unit}"
        n_bytes /= 1000
    raise AssertionError
