"""Figures that are asked for after a fit, to judge it: dense PCA, correlation, errors, and each site's share.

Everything is a sum over the sites, except what a site's policy lets it show alone.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedspca.estimators.base import FederatedSparsePCA
from fedspca.federation import Federation
from fedspca.linalg.operators import Frame
from fedspca.site import Query, Site, SiteRefusal
from fedspca.solvers.asking import frame_arrays
from fedspca.solvers.warm_start import leading_subspace

Array = NDArray[np.float64]


class Judgement(NamedTuple):
    """Figures about a fit."""

    covariance: Array
    facts: dict[str, Any]


def judge(federation: Federation, sites: Sequence[Site], fitted: FederatedSparsePCA) -> Judgement:
    """Ask for the figures that the report shows beside the loadings.

    Parameters
    ----------
    federation : Federation
        The sites that the model was fitted to.
    sites : sequence of Site
        Those of the sites that are in this process, each to be asked alone if it allows that.
    fitted : estimator
        What was found.
    """
    frame = fitted._fitted_moments().frame
    about = frame_arrays(frame)
    w, n = fitted.components_.T, fitted.n_samples_
    captured = federation.sum(Query("captured_variance", {**about, "directions": w}))["captured"]
    basis = np.linalg.qr(w)[0]
    errors = federation.sum(Query("row_errors", {**about, "directions": basis}))
    dense = leading_subspace(federation, frame, fitted.n_components_, np.random.default_rng(0)).values
    mean = errors.number("errors") / n
    facts = {
        "dense_variance_ratio": [float(value) / (n - 1) / fitted.total_variance_ for value in dense],
        "row_errors": {"mean": mean, "variance": max(errors.number("squares") / n - mean**2, 0.0)},
        "sites": [figure for site in sites if (figure := _shown_alone(site, frame, basis)) is not None],
    }
    return Judgement(captured / (n - 1), facts)


def _shown_alone(site: Site, frame: Frame, basis: Array) -> dict[str, Any] | None:
    """Return how well the joint components fit one site, or None if its policy keeps that to itself."""
    try:
        captured = site.answer_alone(Query("captured_variance", {**frame_arrays(frame), "directions": basis}))
        squares = site.answer_alone(Query("deviations", {"mean": frame.mean}))["squares"]
        rows = site.answer_alone(Query("moments"))["rows"]
    except SiteRefusal:
        return None
    total = float(np.sum(squares / frame.scale**2))
    share = float(np.trace(captured["captured"])) / total if total > 0 else 0.0
    return {"name": site.name, "rows": int(rows), "explained": share}
