"""Centring and scaling from sums: the joint mean and spread, never a site's own."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedspca._callers import warn_caller
from fedspca.federation.base import Federation, preparation_of, rows_seen
from fedspca.linalg.beside import Adjustment, Reference
from fedspca.linalg.operators import Frame
from fedspca.linalg.stiefel import nothing_removed
from fedspca.site.errors import InvalidData, count
from fedspca.site.preparation import Preparation
from fedspca.site.question import Query
from fedspca.solvers.adjust import Regression, regress
from fedspca.solvers.harmonise import Harmonised, harmonise

Array = NDArray[np.float64]


SMALLEST = 1e-140  # below it, squares of sums of squares vanish


class ConstantFeatureWarning(UserWarning):
    """Some features have the same value in every row of every site."""


@dataclass(frozen=True)
class Moments:
    """Joint moments of the rows of all sites.

    Attributes
    ----------
    n_rows : float
        Total number of rows; the sum of their weights, if there are weights.
    mean : ndarray of shape (d,)
        The joint mean.
    scale : ndarray of shape (d,)
        What features are divided by: the joint standard deviation (ddof = 1) if scaling was asked for, else 1.
    total : float
        ‖A‖²: the sum of squares of the centred, scaled rows.
    constant : ndarray of bool of shape (d,)
        Features with one value in every row of every site.
    missing : ndarray of shape (d,)
        The share of rows in which each feature's value is missing.
    spread : ndarray of shape (d,), optional
        The joint standard deviation, whether or not features are divided by it; None where it was not kept.
    adjustment : Adjustment or None
        What covariates explain.
    reference : Reference or None
        What sites measure their own shift and spread against, if these are taken out (ComBat).
    left_out : ndarray of bool of shape (d,) or None
        Features that vary, and are left out because others vary more; they are among the constant ones too.
    factor : float
        A row's weight at its site is multiplied by this. It is not 1 if all sites count equally: then the weights of
        each site sum to one.
    taken : dict of str to float
        The share of the variance that each covariate explains beyond the others, and all of them ("all").
    """

    n_rows: float
    mean: Array
    scale: Array
    total: float
    constant: NDArray[np.bool_]
    missing: Array
    spread: Array | None = None
    adjustment: Adjustment | None = None
    factor: float = 1.0
    taken: Mapping[str, float] = field(default_factory=dict)
    reference: Reference | None = None
    left_out: NDArray[np.bool_] | None = None

    @property
    def frame(self) -> Frame:
        """The frame in which rows are centred and scaled by these moments, constant features left out."""
        scale = np.where(self.constant, np.inf, self.scale / np.sqrt(self.factor))
        return Frame(self.mean, scale, nothing_removed(len(self.mean)), self.adjustment, self.reference)

    @property
    def rank_bound(self) -> int:
        """The most components that there can be: no more than rows, nor than features that vary."""
        return min(math.ceil(self.n_rows), int(np.count_nonzero(~self.constant)))


class First(NamedTuple):
    """The first sums: number of rows, Σw of the rows used and, per feature, Σw and Σwx over the observed values."""

    n_rows: float
    used: float
    counts: Array
    sums: Array
    factor: float


def standardise(federation: Federation, *, scale: bool, max_missing: float = 0.0) -> Moments:
    """Find the joint mean and spread of the observed values, by two sums, and the part that covariates explain.

    Squares are summed about the joint mean, in a second sum: Σx² alone would lose its digits where means are large.
    A missing value is replaced by the joint mean, so that it adds nothing; a feature that lacks more than the share
    ``max_missing`` of its values is refused. Covariates, if there are any, take three more sums, and the spread is then
    that of the residuals. ComBat takes two more sums, or four, and mean and spread are those of the harmonised rows.
    """
    preparation = preparation_of(federation)
    scale = scale and preparation.scale == "joint"  # with "site", each site divides by its own spread
    first = first_sums(federation, preparation)
    n, used, counts, factor = first.n_rows, first.used, first.counts, first.factor
    missing = 1.0 - counts / used
    check_missing(federation.feature_names, counts, missing, max_missing)
    mean = first.sums / counts
    second = federation.sum(Query("deviations", {"mean": mean}))
    # the rounding error of the mean (n roundings of the sum) is removed from both
    left = second["offsets"] / counts
    squares = np.maximum(second["squares"] - second["offsets"] * left, 0.0)
    constant = squares <= used * (2 * np.finfo(float).eps * np.abs(mean)) ** 2
    mean = mean + left
    _tell_constant(federation.feature_names, constant, mean, of_rows=rows_seen(federation))
    squares = np.where(constant, 0.0, squares)
    regression, harmonised = None, None
    before = squares
    if preparation.combat:
        harmonised = harmonise(federation, preparation, mean, used)
        mean, squares = harmonised.mean, np.where(constant, 0.0, harmonised.squares)
    elif preparation.design.terms:
        regression = regress(federation, preparation, mean, used, squares)
        squares = np.where(constant, 0.0, regression.squares)
        _tell_explained(federation.feature_names, (squares == 0) & ~constant)
        constant = constant | (squares == 0)
    free = np.maximum(counts * factor - 1, 1) / factor
    left_out = _least_variable(squares / free, constant, preparation.variable)
    if left_out is not None:
        constant = constant | left_out
        squares = np.where(constant, 0.0, squares)
    spread = np.sqrt(squares / free)
    divisor = np.where(constant, 1.0, spread) if scale else np.ones(len(mean))
    if preparation.scale == "allele":
        divisor = np.where(constant, 1.0, allele_spread(federation.feature_names, mean, constant))
    total = factor * float(np.sum(squares / divisor**2))
    if regression is not None and not squares.any():
        lines = count(len(regression.adjustment.mean), "column")
        raise InvalidData(
            f"The covariates explain all of the variance: they take {lines}, and there are {n:g} rows. A "
            "category with a level for nearly every row (a date, an identifier) does that: leave it out or join levels."
        )
    if total < SMALLEST:
        raise InvalidData(
            f"The values are so small (total sum of squares {total:.1e}) that products vanish: change units."
        )
    return Moments(
        n,
        mean,
        divisor,
        total,
        constant,
        missing,
        spread,
        _adjustment(regression, harmonised),
        factor,
        {} if regression is None else _taken(regression, before, scale=scale),
        None if harmonised is None else harmonised.reference,
        left_out,
    )


def _least_variable(variance: Array, constant: NDArray[np.bool_], kept: int | None) -> NDArray[np.bool_] | None:
    """Return which features are left out so that only those of the largest variance stay; None if all stay."""
    if kept is None or kept >= len(variance):
        return None
    largest = np.argsort(-np.where(constant, -1.0, variance), kind="stable")[:kept]
    return np.asarray(~constant & ~np.isin(np.arange(len(variance)), largest))


def _adjustment(regression: Regression | None, harmonised: Harmonised | None) -> Adjustment | None:
    """Return the covariates' part: what is taken out, or with ComBat what is protected."""
    if regression is not None:
        return regression.adjustment
    return None if harmonised is None else harmonised.adjustment


def allele_spread(names: tuple[str, ...], mean: Array, constant: NDArray[np.bool_]) -> Array:
    """√(2p(1 − p)): the standard deviation of a genotype whose allele has the frequency p = mean/2, by random pairs."""
    p = mean / 2
    outside = np.flatnonzero(~((p > 0) & (p < 1)) & ~constant)
    if len(outside):
        j = outside[0]
        raise InvalidData(
            f"{names[j]!r} counts no copies of an allele: its mean is {mean[j]:g}, and must be between 0 and 2. Leave "
            "such columns out, or divide by the joint spread (--scale-by joint)."
        )
    return np.sqrt(2 * p * (1 - p), out=np.ones(len(p)), where=~constant)


def first_sums(federation: Federation, preparation: Preparation) -> First:
    """Ask how many rows there are, or what their weights sum to, and for the sums of the features."""
    if preparation.counts_rows:
        first = federation.sum(Query("moments"))
        n = round(first.number("rows"))
        if n < 2:
            raise InvalidData(
                f"Found array with {n} sample(s): the sites hold one row in all; variance needs two or more."
            )
        return First(n, n, first["counts"], first["sums"], 1.0)
    first = federation.sum(Query("weighted_moments"))
    weight, used = first.number("weight"), first.number("used")
    if round(first.number("rows")) < 2 or weight <= 1 + 1e-9:
        raise InvalidData(
            f"The weights sum to {weight:g} over {round(first.number('rows'))} rows that count. A weight says how "
            "often a row counts, so they must sum to more than one, over two rows or more."
        )
    whole = round(weight)
    counted = whole if abs(weight - whole) <= 1e-9 * weight else weight
    return First(counted, used, first["weights"], first["sums"], weight / used if preparation.equal_sites else 1.0)


def _taken(regression: Regression, before: Array, *, scale: bool) -> dict[str, float]:
    """Return the share of the variance that each term explains beyond the others, and that all of them explain."""
    varying = before > 0
    unit = np.where(varying, before, 1.0) if scale else np.ones(len(before))
    whole = float(np.sum((before / unit)[varying]))
    found = {term: float(np.sum((extra / unit)[varying])) / whole for term, extra in regression.extra.items()}
    return {**found, "all": 1.0 - float(np.sum((regression.squares / unit)[varying])) / whole}


def _tell_explained(names: tuple[str, ...], explained: NDArray[np.bool_]) -> None:
    if not explained.any():
        return
    named = [names[j] for j in np.flatnonzero(explained)]
    are, get = ("is", "gets") if len(named) == 1 else ("are", "get")
    warn_caller(
        f"{count(len(named), 'feature')} {are} wholly explained by the covariates and {get} a weight of zero: "
        f"{', '.join(named[:5])}{f' and {len(named) - 5} more' if len(named) > 5 else ''}.",
        ConstantFeatureWarning,
    )


def _tell_constant(names: tuple[str, ...], constant: NDArray[np.bool_], mean: Array, *, of_rows: bool) -> None:
    tiny = (mean != 0.0) & (np.abs(mean) < SMALLEST)
    if constant.all() and tiny.any():
        j = int(np.argmax(tiny))
        raise InvalidData(
            "Every feature is constant over all sites, or its values are so small that their squares are zero to a "
            f"computer: the mean of {names[j]!r} is {mean[j]:.1e}. Change the units of the features, so that their "
            "numbers are larger."
        )
    if constant.all() and not of_rows:
        raise InvalidData("Every variance in the covariance is zero, so there is nothing to explain.")
    if constant.all():
        raise InvalidData("Every feature is constant over all sites, so there is no variance to explain.")
    if constant.any():
        named = [names[j] for j in np.flatnonzero(constant)]
        more = f" and {len(named) - 5} more" if len(named) > 5 else ""
        have, get = ("has", "gets") if len(named) == 1 else ("have", "get")
        what = "one value in every row of every site" if of_rows else "a variance of zero in the covariance"
        warn_caller(
            f"{count(len(named), 'feature')} {have} {what} and {get} a weight of zero: {', '.join(named[:5])}{more}.",
            ConstantFeatureWarning,
        )


def check_missing(names: tuple[str, ...], counts: Array, missing: Array, most: float) -> None:
    """Raise :class:`InvalidData` that names the features which lack too many values, or all of them."""
    refused = np.flatnonzero((missing > most) | (counts == 0))
    if not len(refused):
        return
    worst = refused[np.argsort(-missing[refused], kind="stable")]
    named = ", ".join(f"{names[j]!r} ({missing[j]:.0%})" for j in worst[:5])
    more = f" and {len(worst) - 5} more" if len(worst) > 5 else ""
    them = "it" if len(worst) == 1 else "them"
    have = f"{count(len(worst), 'feature')} {'has' if len(worst) == 1 else 'have'}"
    if most == 1:  # no larger share can be allowed
        raise InvalidData(f"{have} no value in any row: {named}{more}. Leave {them} out.")
    raise InvalidData(
        f"{have} more missing values than the share of {most:g} that max_missing allows: "
        f"{named}{more}. Leave {them} out, impute {them}, or allow a larger share."
    )
