"""Questions about covariates: their sums, their products with the features, and what they leave."""

from typing import Any

import numpy as np

from fedspca.linalg.beside import Beside
from fedspca.linalg.feature_sums import covariate_products
from fedspca.linalg.row_blocks import Sums, total
from fedspca.site.answers.frames import covariates_of, raw_frame
from fedspca.site.answers.moments import deviation_sums
from fedspca.site.question import Query, SiteData, State, Terms


def covariate_sums(data: SiteData, state: State, query: Query) -> tuple[State, Terms]:
    """Σc by covariate, and 1 if it varies at this site, else 0, so that the sum counts sites."""
    covariates = covariates_of(data, query)
    varying = np.ptp(covariates, axis=0) > 0
    return state, {"sums": data.beside.weighted(covariates).sum(axis=0), "varying": varying.astype(np.float64)}


def covariate_moments(data: SiteData, state: State, query: Query) -> tuple[State, Terms]:
    """(C − γ)ᵀ(C − γ) and (C − γ)ᵀ(X − μ), about the means of all sites."""
    covariates_of(data, query)
    frame, spread = raw_frame(data, query)
    about = query.arrays["covariate_mean"]
    inner, cross = covariate_products(data.rows, frame.mean, about, missing=data.missing, beside=data.beside)
    return state, {"inner": inner, "cross": cross / spread}


def residuals(data: SiteData, state: State, query: Query) -> tuple[State, Terms]:
    """Σe and Σe² by feature, where e = x − μ − (c − γ)B is the residual after the covariates."""
    return state, deviation_sums(data, query)


def covariates_between(data: SiteData, state: State, query: Query) -> tuple[State, Terms]:
    """(C − γ)ᵀ(C − γ), and the part of it that lies between the sites' means: (Σc)(Σc)ᵀ/n of this site, about γ."""
    covariates, mean = covariates_of(data, query), query.arrays["covariate_mean"]

    def of(block: Any, part: Beside) -> Sums:
        about = block - mean
        weighted = part.weighted(about)
        return weighted.T @ about, weighted.sum(axis=0)

    inner, sums = total(covariates, data.beside.along(of))
    return state, {"inner": inner, "between": np.outer(sums, sums) / data.beside.ones(len(covariates)).sum()}
