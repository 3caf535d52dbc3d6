"""Figures that are asked for after a fit, to judge it: dense PCA, correlation, errors, and each site's share.

Everything is a sum over the sites, except what a site's policy lets it show alone.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedspca.anomaly import uniqueness
from fedspca.estimators.base import FederatedSparsePCA
from fedspca.federation import Federation
from fedspca.linalg.operators import Frame
from fedspca.site import Query, Site, SiteRefusal
from fedspca.solvers.asking import about_the_mean, frame_arrays
from fedspca.solvers.dense_pca import DensePCA, dense_pca
from fedspca.solvers.exact.whole import leading
from fedspca.solvers.standardise import Moments
from fedspca.solvers.warm_start import OVERSAMPLING

Array = NDArray[np.float64]

ALIKE = 1e-6  # variances of the features must add up to the total that closely
DIGITS = 4  # of a correlation: what a table shows, and a short manifest


class Judgement(NamedTuple):
    """Figures about a fit.

    Attributes
    ----------
    covariance : ndarray of shape (r, r)
        Of the scores.
    patterns : ndarray of shape (r, d) or None
        The regression of every feature on the scores; None if the features' variances are not known.
    uniqueness : ndarray of shape (d,) or None
        What is left of each feature's variance; None likewise.
    facts : dict
        All else, as plain JSON.
    """

    covariance: Array
    patterns: Array | None
    uniqueness: Array | None
    facts: dict[str, Any]

    @property
    def to_model(self) -> dict[str, Any]:
        """All of it, as :meth:`fedspca.SparsePCAModel.from_estimator` takes it."""
        arrays = {name: value for name, value in self._asdict().items() if name != "facts"}
        return {**arrays, **self.facts}


def judge(
    federation: Federation,
    sites: Sequence[Site],
    fitted: FederatedSparsePCA,
    *,
    gram: Array | None = None,
    between: bool = False,
    units: bool = False,
) -> Judgement:
    """Ask for the figures that the report shows beside the loadings.

    Parameters
    ----------
    federation : Federation
        The sites that the model was fitted to.
    sites : sequence of Site
        Those of the sites that are in this process, each to be asked alone if it allows that.
    fitted : estimator
        What was found.
    gram : ndarray of shape (d, d), optional
        S, if the fit asked for it: then products with S are not asked for.
    between : bool, default=False
        Whether to ask also for the variance between the sites' means.
    units : bool, default=False
        Whether to ask also at how many sites a feature's unit looks wrong.
    """
    frame = fitted._fitted_moments().frame
    about = frame_arrays(frame)
    w, n = fitted.components_.T, fitted.n_samples_
    basis = np.linalg.qr(w)[0]
    dense = _dense_pca(federation, fitted, basis, gram)
    product = dense.product @ (basis.T @ w)
    captured = w.T @ product
    errors = federation.sum(Query("row_errors", {**about, "directions": basis}))
    mean = errors.number("errors") / n
    facts: dict[str, Any] = {
        "dense_variance_ratio": [float(value) / (n - 1) / fitted.total_variance_ for value in dense.values],
        "dense_variance_settled": dense.settled,
        "feature_correlations": _with_scores(product, captured, fitted),
        "row_errors": {
            "mean": mean,
            "variance": max(errors.number("squares") / n / fitted.weight_factor_ - mean**2, 0.0),
        },
        "sites": [figure for site in sites if (figure := _shown_alone(site, frame, basis, fitted)) is not None],
    }
    if fitted.covariate_variance_:
        facts["covariate_variance"] = dict(fitted.covariate_variance_)
    if between and federation.n_sites > 1:
        facts |= _covariates_between(federation, fitted)
        facts["between_sites"] = shares_between(federation, fitted._fitted_moments(), scaled=bool(fitted.scale))
    if units and federation.n_sites > 1 and fitted.spread_ is not None:
        facts["odd_units"] = odd_units(federation, fitted, fitted.spread_)
    covariance, variances = captured / (n - 1), _variances(fitted, gram)
    patterns = np.linalg.pinv(captured, hermitian=True) @ product.T
    own = None if variances is None else uniqueness(patterns, covariance, variances)
    return Judgement(covariance, None if own is None else patterns, own, facts)


def _variances(fitted: FederatedSparsePCA, gram: Array | None) -> Array | None:
    """Return each feature's variance as the solver saw it, the diagonal of S, or None if that is not known."""
    if gram is not None:
        return np.maximum(np.diag(gram), 0.0) / (fitted.n_samples_ - 1)
    if fitted.spread_ is None:
        return None
    found = _squares(fitted, fitted.spread_) / (fitted.n_samples_ - 1)
    alike = abs(found.sum() - fitted.total_variance_) <= ALIKE * fitted.total_variance_
    return found if alike else None


def _squares(fitted: FederatedSparsePCA, spread: Array) -> Array:
    """Return each feature's sum of squares, missing values at the mean, in the units of the fit."""
    gone = fitted.missing_share_ if fitted.gap_model_ is None else 0.0  # EM gives the variance of all rows
    counts = np.maximum(fitted.n_samples_ * (1 - gone) - 1, 0)
    return np.asarray(spread**2 * counts / fitted.scale_**2)


def _dense_pca(federation: Federation, fitted: FederatedSparsePCA, basis: Array, gram: Array | None) -> DensePCA:
    """Return the largest eigenvalues of S, of dense PCA and of a few components beyond, and S times the loadings."""
    r, d = fitted.n_components_, len(federation.feature_names)
    if gram is not None:
        return DensePCA(gram @ basis, np.maximum(leading(gram, min(r + OVERSAMPLING, d))[0], 0.0), True)
    known, frame = fitted._leading(min(r + OVERSAMPLING, d)), fitted._fitted_moments().frame
    return dense_pca(federation, frame, basis, np.random.default_rng(0), known=known)


def odd_units(federation: Federation, fitted: FederatedSparsePCA, spread: Array) -> dict[str, int]:
    """Return the features whose unit looks wrong at some site, each with the number of sites that find it odd."""
    counts = fitted.n_samples_ * (1 - fitted.missing_share_)
    answer = federation.sum(Query("odd_units", {"counts": counts, "mean": fitted.mean_, "spread": spread}))
    odd = np.rint(answer["odd"]).astype(int)
    return {str(federation.feature_names[j]): int(odd[j]) for j in np.flatnonzero(odd)}


def _covariates_between(federation: Federation, fitted: FederatedSparsePCA) -> dict[str, Any]:
    """Return for each covariate how much of what it explains lies between the sites' means; empty if none is."""
    adjustment, design = fitted.adjustment_, fitted.preparation_.design
    if adjustment is None or fitted.reference_ is not None:
        return {}
    answer = federation.sum(Query("covariates_between", {"covariate_mean": adjustment.mean}))
    found = {}
    for term in design.terms:
        at = [j for j, line in enumerate(design.lines) if line.term == term]
        b = adjustment.coefficients[at] / fitted.scale_
        whole, apart = (
            float(np.einsum("pj,pq,qj", b, answer[name][np.ix_(at, at)], b)) for name in ("inner", "between")
        )
        found[term] = min(apart / whole, 1.0) if whole > 0 else 0.0
    return {"covariate_between": found}


def shares_between(federation: Federation, moments: Moments, *, scaled: bool) -> dict[str, float]:
    """Return the share of the variance that lies between the sites' means, before and after the adjustment."""
    answer = federation.sum(Query("between_sites", frame_arrays(moments.frame)))
    apart = np.maximum(answer["between"] - answer["sums"] ** 2 * moments.factor / moments.n_rows, 0.0)
    whole = apart + answer["within"]
    varying = whole > 0
    unit = np.where(varying, whole, 1.0) if scaled else np.ones(len(whole))
    before = float(np.sum(apart / unit) / np.sum((whole / unit)[varying])) if varying.any() else 0.0
    return {"before": before, "after": float(np.sum(answer["left"])) / moments.total}


def _with_scores(product: Array, captured: Array, fitted: FederatedSparsePCA) -> list[list[float]]:
    """Return the correlation of every feature, whether or not it has a weight, with each score, by component."""
    if (
        fitted.spread_ is None
        or fitted.covariate_variance_
        or fitted.reference_ is not None
        or fitted.weight_factor_ != 1
    ):
        return []  # the spread of what is left of a feature is not known
    squares = _squares(fitted, fitted.spread_)
    length = np.sqrt(np.maximum(squares[:, None] * np.diag(captured)[None, :], 0.0))
    values = np.divide(product, length, out=np.zeros_like(product), where=length > 0)
    return [[round(float(value), DIGITS) for value in column] for column in np.clip(values, -1, 1).T]


def _shown_alone(site: Site, frame: Frame, basis: Array, fitted: FederatedSparsePCA) -> dict[str, Any] | None:
    """Return how well the joint components fit one site, or None if its policy keeps that to itself."""
    seen, about = {} if fitted.feature_map_ is None else fitted.feature_map_.arrays, about_the_mean(frame)
    try:
        captured = site.answer_alone(Query("captured_variance", {**frame_arrays(frame), "directions": basis, **seen}))
        squares = site.answer_alone(Query(about.name, {**about.arrays, **seen}))["squares"]
        counted = "moments" if site.preparation.counts_rows else "weighted_moments"
        answer = site.answer_alone(Query(counted))
    except SiteRefusal:
        return None
    rows = answer["rows"]
    there = answer["counts"] / rows if counted == "moments" else answer["weights"] / answer["used"]
    gone = round(float(1 - there.mean()), DIGITS)
    total = float(np.sum(squares / frame.scale**2))
    share = float(np.trace(captured["captured"])) / total if total > 0 else 0.0
    return {"name": site.name, "rows": int(rows), "explained": share, "missing": gone}
