"""Questions of ComBat: what lies within sites, and rows whose site effect is taken out."""

import numpy as np
from numpy.typing import NDArray

from fedspca.linalg.beside import Adjustment
from fedspca.linalg.feature_sums import column_sums, covariate_products, deviations_from
from fedspca.site.answers.frames import adjustment_of, covariates_of, raw_frame
from fedspca.site.question import Query, SiteData, State, Terms

Array = NDArray[np.float64]


def within_moments(data: SiteData, state: State, query: Query) -> tuple[State, Terms]:
    """(C − c̄)ᵀ(C − c̄) and (C − c̄)ᵀ(X − x̄), about this site's own means."""
    covariates = covariates_of(data, query)
    inner, cross = covariate_products(
        data.rows, _own_mean(data), covariates.mean(axis=0), missing=False, beside=data.beside
    )
    return state, {"inner": inner, "cross": cross}


def within_squares(data: SiteData, state: State, query: Query) -> tuple[State, Terms]:
    """Σe² by feature, where e = x − x̄ − (c − c̄)B about this site's own means, and 1 if it has one value here."""
    mean, adjustment = _own_mean(data), adjustment_of(query)
    if adjustment is not None:
        adjustment = Adjustment(covariates_of(data, query).mean(axis=0), adjustment.coefficients)
    offsets, squares = deviations_from(data.rows, mean, beside=data.beside, adjustment=adjustment)
    squares = np.maximum(squares - offsets**2 / data.rows.shape[0], 0.0)
    flat = squares <= data.rows.shape[0] * (2 * np.finfo(float).eps * np.abs(mean)) ** 2
    return state, {"squares": squares, "constant": flat.astype(np.float64)}


def _own_mean(data: SiteData) -> Array:
    """Return the mean of this site's rows, with the rounding error of the sum removed."""
    n = data.rows.shape[0]
    mean = column_sums(data.rows) / n
    return np.asarray(mean + deviations_from(data.rows, mean)[0] / n)


def harmonised(data: SiteData, state: State, query: Query) -> tuple[State, Terms]:
    """Σ(x − μ) and Σ(x − μ)² by feature, of rows whose site effect is taken out (ComBat)."""
    frame, _ = raw_frame(data, query)
    offsets, squares = deviations_from(data.rows, frame.mean, beside=data.beside, adjustment=frame.adjustment)
    return state, {"offsets": offsets / frame.scale, "squares": squares / frame.scale**2}
