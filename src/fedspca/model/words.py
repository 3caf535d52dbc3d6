"""What a model says of itself in sentences, for a terminal and for the report."""

from typing import TYPE_CHECKING, Any

from fedspca.site.errors import count

if TYPE_CHECKING:
    from fedspca.model.model import SparsePCAModel


def preparation_in_words(model: "SparsePCAModel") -> list[str]:
    """Say what was adjusted for before the fit, and how much variance that removed; empty if nothing was."""
    how, taken = model.preparation, model.facts.get("covariate_variance", {})
    told = []
    if model.transforms:
        told.append(f"Values were first transformed: {', '.join(model.transforms)}.{_map_error_in_words(model)}")
    if how.variable is not None:
        told.append(f"Only the {how.variable} features of the largest variance were used.")
    if how.design.terms and not how.combat:
        apart = model.facts.get("covariate_between", {})
        where = {term: f" ({share:.0%} of what it explains lay between sites)" for term, share in apart.items()}
        shares = ", ".join(f"{t} {taken[t]:.1%}{where.get(t, '')}" for t in how.design.terms if t in taken)
        whole = f" Together they explain {taken['all']:.1%} of the variance; each beyond the others: {shares}."
        told.append(f"Taken out of the features: {', '.join(how.design.terms)}.{whole if taken else ''}")
    if how.centre == "site":
        spread = ", divided by its own spread" if how.scale == "site" else ""
        told.append(f"Each site's rows were seen about its own mean{spread}.")
    if how.combat:
        names = " and ".join(how.design.terms)
        verb = "explains" if len(how.design.terms) == 1 else "explain"
        kept = f" What {names} {verb} was protected." if how.design.terms else ""
        told.append(f"Each site's own shift and spread were taken out of its rows (ComBat).{kept}")
    if how.scale == "allele":
        told.append("Genotypes were divided by √(2p(1 − p)), where p is the allele frequency over all sites.")
    if how.weighted:
        told.append("Rows counted as often as their weights say.")
    if how.equal_sites:
        told.append("Every site counted alike, however many rows it has.")
    between = model.facts.get("between_sites")
    if between:
        after = f" before, and {between['after']:.1%} after" if told else ""
        told.append(f"{between['before']:.1%} of the variance lay between the sites' means{after}.")
    return told


def _map_error_in_words(model: "SparsePCAModel") -> str:
    error = model.facts.get("map_error")
    if not error:
        return ""
    if model.transforms[-1] == "normal":
        return f" Ranks are known to within {error:.1%} of the rows."
    return f" The limits are known to within {error:.2g} standard deviations."


def feature_certainty(model: "SparsePCAModel", component: int) -> dict[int, dict[str, Any]]:
    """Return the stability of a component's features over half samples, by feature; empty for a fit without folds."""
    told = model.facts.get("certainty")
    return {each["feature"]: each for each in told["components"][component]["features"]} if told else {}


def certainty_in_words(model: "SparsePCAModel", component: int, most: int = 3) -> list[str]:
    """Return sentences on what half samples say of a component: stable features, near misses, stand-ins.

    The list is empty for a fit without folds.
    """
    told = model.facts.get("certainty")
    if not told:
        return []
    about, names, weights = told["components"][component], model.feature_names, model.components[component]
    stable = sum(each["stable"] for each in about["features"])
    sentences = _stable_in_words(stable, about["threshold"], about["false_selections"])
    near = [each for each in about["features"] if weights[each["feature"]] == 0.0]
    if near:
        first = sorted(near, key=lambda each: -each["frequency"])[:most]
        named = ", ".join(f"{names[each['feature']]} ({each['frequency']:.0%})" for each in first)
        sentences.append(f"Not selected, but in some half samples: {named}.")
    sentences += [
        f"{names[other]} stands in for {names[feature]} in some half samples (correlation {alike:.2f})."
        for feature, other, alike in about["stand_ins"][:most]
    ]
    return sentences


def _stable_in_words(stable: int, threshold: float, false_selections: float) -> list[str]:
    """Say how many features are stable, and how many of them chance alone would select."""
    if stable == 0:
        return [f"No feature is stable: none is selected in at least {threshold:.0%} of the half samples."]
    features = f"{count(stable, 'feature')} {'is' if stable == 1 else 'are'}"
    return [
        f"{features} stable: at least {threshold:.0%} of the half samples select them.",
        f"At most {false_selections:.2g} of these would be expected by chance alone.",
    ]
