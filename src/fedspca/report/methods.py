"""A paragraph on the methods, to copy into a paper, and the references that it cites."""

from collections.abc import Mapping
from typing import Any

from fedspca._version import __version__
from fedspca.fit.settings import each_in_words
from fedspca.model import SparsePCAModel
from fedspca.site.errors import count

REFERENCES = {
    "software": f"fedspca {__version__}: federated sparse principal component analysis. CITATION.cff has the record.",
    "zou": "Zou H, Hastie T, Tibshirani R (2006). Sparse principal component analysis. Journal of Computational and "
    "Graphical Statistics 15, 265–286.",
    "journee": "Journée M, Nesterov Y, Richtárik P, Sepulchre R (2010). Generalized power method for sparse principal "
    "component analysis. Journal of Machine Learning Research 11, 517–553.",
    "admm": "Boyd S, Parikh N, Chu E, Peleato B, Eckstein J (2011). Distributed optimization and statistical learning "
    "via the alternating direction method of multipliers. Foundations and Trends in Machine Learning 3, 1–122.",
    "masks": "Bonawitz K and others (2017). Practical secure aggregation for privacy-preserving machine learning. "
    "Proceedings of CCS, 1175–1191.",
    "combat": "Johnson WE, Li C, Rabinovic A (2007). Adjusting batch effects in microarray expression data using "
    "empirical Bayes methods. Biostatistics 8, 118–127.",
    "em": "Tipping ME, Bishop CM (1999). Probabilistic principal component analysis. Journal of the Royal Statistical "
    "Society B 61, 611–622.",
    "privacy": "Dwork C, Roth A (2014). The algorithmic foundations of differential privacy. Foundations and Trends in "
    "Theoretical Computer Science 9, 211–407.",
}


def paragraph(model: SparsePCAModel) -> str:
    """Return the paragraph: what was done, and what was found."""
    made = model.facts.get("estimator") or {}
    told = [_data(model, made.get("params", {})), _problem(model, made), _sums(model), _found(model)]
    return " ".join(sentence for sentence in told if sentence)


def references(model: SparsePCAModel) -> list[str]:
    """Return the references that the paragraph cites."""
    agreed = model.facts.get("institutions") or {}
    consensus = (model.facts.get("estimator") or {}).get("class") in {"FASPCA", "FSSPCA"}
    used = ["software", "zou", "admm" if consensus else "journee"]
    used += ["combat"] if model.preparation.combat else []
    used += ["em"] if _by_em(model) else []
    used += ["masks"] if agreed.get("masked") else []
    used += ["privacy"] if agreed.get("privacy") else []
    return [REFERENCES[name] for name in used]


def _by_em(model: SparsePCAModel) -> bool:
    params = (model.facts.get("estimator") or {}).get("params", {})
    return bool(model.missing_share.any()) and params.get("missing") in {"em", "em-once"}


def _data(model: SparsePCAModel, params: Mapping[str, Any]) -> str:
    over = f"{count(len(model.feature_names), 'feature')}"
    if not model.rows_seen:
        scaled = ", which were divided by their standard deviation" if params.get("scale") else ""
        return f"We analysed {model.source} over {over}{scaled}."
    jointly = params.get("scale") and model.preparation.scale not in {"site", "allele"}
    scaled = "centred and divided by their joint standard deviation" if jointly else "centred"
    where = "one site" if model.n_sites == 1 else f"{model.n_sites} sites"
    rows = f"We analysed {model.rows_in_words} from {where} over {over}, which were {scaled}."
    return " ".join([rows, *_gaps(model), *model.adjusted()])


def _gaps(model: SparsePCAModel) -> list[str]:
    if not model.missing_share.any():
        return []
    if _by_em(model):
        return ["The covariance was estimated by EM where values are missing (probabilistic PCA)."]
    return ["Missing values were set to the joint mean of the feature."]


def _problem(model: SparsePCAModel, made: Mapping[str, Any]) -> str:
    params = made.get("params", {})
    kind = {"FASPCA": "FASPCA, a consensus method (ADMM)", "FSSPCA": "FSSPCA, a consensus method (ADMM)"}
    method = kind.get(str(made.get("class")), _exactly(model))
    what = f"{count(model.n_components, 'sparse principal component')}"
    return f"We computed {what} with {method}, {_sparsity(params)} (fedspca {__version__})."


def _exactly(model: SparsePCAModel) -> str:
    return f"ExactSPCA{', which solves the problem of the pooled data' if model.rows_seen else ''}"


def _sparsity(params: Mapping[str, Any]) -> str:
    if params.get("n_nonzero") is not None:
        each = "" if isinstance(params["n_nonzero"], tuple | list) else " in each"
        return f"with at most {each_in_words(params['n_nonzero'])} non-zero weights{each}"
    lam = params.get("lam", params.get("lam2"))
    if lam is not None:
        return f"with an ℓ1 penalty of {each_in_words(lam)}"
    return f"the sparsest that keep {params.get('variance_kept', 0.95):.0%} of the variance that dense PCA captures"


def _sums(model: SparsePCAModel) -> str:
    if model.n_sites == 1:
        return ""
    agreed = model.facts.get("institutions") or {}
    told = "Rows stayed at their sites, which exchanged sums only"
    told += ", hidden under masks by secure aggregation" if agreed.get("masked") else ""
    spent = agreed.get("privacy")
    if spent:
        told += (
            f", with noise for differential privacy (ε = {spent['epsilon']:.3g}, δ = {spent['delta']:g} for each row)"
        )
    return f"{told}."


def _found(model: SparsePCAModel) -> str:
    shares = ", ".join(f"{share:.1%}" for share in model.captured_ratios)
    dense = model.dense_in_words()
    beside = f", beside {dense} by as many components of dense PCA" if dense else ""
    many = model.n_components > 1
    captured = (
        f"The span of the {'first components' if many else 'component'} captures {shares} of the variance{beside}."
    )
    if not many:
        return captured
    largest = max(abs(float(model.correlation[i, j])) for i in range(model.n_components) for j in range(i))
    return f"{captured} Scores correlate by at most {largest:.2f} in size."
