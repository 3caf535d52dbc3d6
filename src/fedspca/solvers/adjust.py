"""Regression of the features on the covariates, from sums over the sites.

With γ and μ the joint means, B = ((C − γ)ᵀ(C − γ))⁻¹(C − γ)ᵀ(X − μ) is the least-squares estimate over the rows of all
sites. Both products are sums over the sites.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedspca._callers import warn_caller
from fedspca.federation.base import Federation
from fedspca.linalg.beside import Adjustment
from fedspca.site.errors import InvalidData
from fedspca.site.preparation import Design, Preparation
from fedspca.site.question import Query
from fedspca.solvers.asking import adjustment_arrays

Array = NDArray[np.float64]

COLLINEAR = 1e-10  # the least share of a covariate's variance that the others must not explain
EXPLAINED = 1e-22  # a smaller residual share of a feature's variance is rounding error


class CovariateWarning(UserWarning):
    """A covariate is nearly confounded with the sites: only one site has more than one value of it."""


@dataclass(frozen=True, eq=False)
class Regression:
    """What covariates explain.

    Attributes
    ----------
    adjustment : Adjustment
        The covariates' joint mean and the coefficients.
    squares : ndarray of shape (d,)
        Residual sum of squares of each feature.
    extra : dict of str to ndarray of shape (d,)
        For each term, the sum of squares that it explains beyond the other terms.
    """

    adjustment: Adjustment
    squares: Array
    extra: dict[str, Array]


def regress(federation: Federation, preparation: Preparation, mean: Array, weight: float, squares: Array) -> Regression:
    """Regress the features on the covariates, by three sums.

    Parameters
    ----------
    federation : Federation
        The sites.
    preparation : Preparation
        The covariates.
    mean, squares : ndarray of shape (d,)
        The features' joint means, and sums of squares about them.
    weight : float
        Total number of rows, or the sum of their weights.
    """
    design = preparation.design
    names = [line.name for line in design.lines]
    first = federation.sum(Query("covariate_sums", {"covariates": np.zeros(len(names))}))
    tell_single(names, first["varying"], federation.n_sites)
    about = first["sums"] / weight
    second = federation.sum(Query("covariate_moments", {"mean": mean, "covariate_mean": about}))
    inner, cross = 0.5 * (second["inner"] + second["inner"].T), second["cross"]
    where = "at each site" if preparation.centre == "site" else "in every row of every site"
    check_independent(names, inner, about, weight, where)
    inverse = least_squares(inner)
    adjustment = Adjustment(about, inverse @ cross)
    third = federation.sum(Query("residuals", {"mean": mean, **adjustment_arrays(adjustment)}))
    left = np.where(third["squares"] <= EXPLAINED * squares, 0.0, third["squares"])
    return Regression(adjustment, left, extra_squares(design, adjustment.coefficients, inverse))


def extra_squares(design: Design, coefficients: Array, inverse: Array) -> dict[str, Array]:
    """bᵀV⁻¹b by term and feature: how much larger the residual sum of squares would be without the term."""
    found = {}
    for term in design.terms:
        at = [j for j, line in enumerate(design.lines) if line.term == term]
        b = coefficients[at]
        found[term] = np.einsum("pj,pj->j", b, np.linalg.solve(inverse[np.ix_(at, at)], b))
    return found


def tell_single(names: Sequence[str], varying: Array, n_sites: int) -> None:
    """Warn about covariates that vary at one site only."""
    single = [name for name, count in zip(names, varying, strict=True) if round(count) == 1]
    if single and n_sites > 1:
        warn_caller(
            f"Only one site has more than one value of {', '.join(map(repr, single[:5]))}: what is taken out there "
            "rests on that site's rows alone.",
            CovariateWarning,
        )


def least_squares(inner: Array) -> Array:
    """(CᵀC)⁻¹ from CᵀC, whose diagonal is made 1 first: units of covariates differ."""
    spread = np.sqrt(np.diag(inner))
    return np.asarray(np.linalg.inv(inner / np.outer(spread, spread)) / np.outer(spread, spread))


def check_independent(names: Sequence[str], inner: Array, about: Array, rows: float, where: str) -> None:
    """Raise :class:`InvalidData` that names a covariate that is constant, or that those before it determine."""
    noise = rows * (8 * np.finfo(float).eps * np.abs(about)) ** 2
    if (flat := np.flatnonzero(np.diag(inner) <= noise)).size:
        raise InvalidData(f"The covariate {names[flat[0]]!r} has one value {where}: it explains nothing. Leave it out.")
    spread = np.sqrt(np.diag(inner))
    correlation = inner / np.outer(spread, spread)
    for j in range(1, len(names)):
        before = correlation[:j, :j]
        weights = np.linalg.solve(before, correlation[:j, j])
        if 1.0 - correlation[j, :j] @ weights <= COLLINEAR:
            by = [repr(name) for name, weight in zip(names[:j], weights, strict=True) if abs(weight) > 1e-6]
            raise InvalidData(
                f"The covariate {names[j]!r} is determined by {', '.join(by)}: they are collinear. Leave one out."
            )
