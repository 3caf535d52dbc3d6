"""Centring and scaling from sums: the joint mean and spread, never a site's own."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedspca._callers import warn_caller
from fedspca.federation.base import Federation
from fedspca.linalg.operators import Frame
from fedspca.linalg.stiefel import nothing_removed
from fedspca.site.errors import InvalidData
from fedspca.site.question import Query

Array = NDArray[np.float64]


SMALLEST = 1e-140  # below it, squares of sums of squares vanish


class ConstantFeatureWarning(UserWarning):
    """Some features have the same value in every row of every site."""


@dataclass(frozen=True)
class Moments:
    """Joint moments of the rows of all sites.

    Attributes
    ----------
    n_rows : int
        Rows in all.
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
    """

    n_rows: int
    mean: Array
    scale: Array
    total: float
    constant: NDArray[np.bool_]
    missing: Array
    spread: Array | None = None

    @property
    def frame(self) -> Frame:
        """The frame in which rows are centred and scaled by these moments, constant features left out."""
        return Frame(self.mean, np.where(self.constant, np.inf, self.scale), nothing_removed(len(self.mean)))

    @property
    def rank_bound(self) -> int:
        """The most components that there can be: no more than rows, nor than features that vary."""
        return min(self.n_rows, int(np.count_nonzero(~self.constant)))


def standardise(federation: Federation, *, scale: bool, max_missing: float = 0.0) -> Moments:
    """Find the joint mean and spread, of the values that are there, by two sums.

    Squares are summed about the joint mean, in a second sum: Σx² alone would lose its digits where means are large.
    A missing value stands at the joint mean, where it adds nothing; a feature that lacks more than the share
    ``max_missing`` of its values is refused.
    """
    first = federation.sum(Query("moments"))
    n = round(first.number("rows"))
    if n < 2:
        raise InvalidData(f"Found array with {n} sample(s): the sites hold one row in all; variance needs two or more.")
    counts = first["counts"]
    missing = 1.0 - counts / n
    _check_missing(federation.feature_names, counts, missing, max_missing)
    mean = first["sums"] / counts
    second = federation.sum(Query("deviations", {"mean": mean}))
    # what rounding left in the mean, n roundings of the sum, is taken out of both
    left = second["offsets"] / counts
    squares = np.maximum(second["squares"] - second["offsets"] * left, 0.0)
    constant = squares <= n * (2 * np.finfo(float).eps * np.abs(mean)) ** 2
    mean = mean + left
    if constant.all():
        raise InvalidData("Every feature is constant over all sites, so there is no variance to explain.")
    if constant.any():
        named = [federation.feature_names[j] for j in np.flatnonzero(constant)]
        more = f" and {len(named) - 5} more" if len(named) > 5 else ""
        warn_caller(
            f"{len(named)} feature(s) have one value in every row of every site and get a weight of zero: "
            f"{', '.join(named[:5])}{more}.",
            ConstantFeatureWarning,
        )
    squares = np.where(constant, 0.0, squares)
    spread = np.sqrt(squares / np.maximum(counts - 1, 1))
    divisor = np.where(constant, 1.0, spread) if scale else np.ones(len(mean))
    total = float(np.sum(squares / divisor**2))
    if total < SMALLEST:
        raise InvalidData(
            f"The values are so small (total sum of squares {total:.1e}) that products vanish: change units."
        )
    return Moments(n, mean, divisor, total, constant, missing, spread)


def _check_missing(names: tuple[str, ...], counts: Array, missing: Array, most: float) -> None:
    """Raise :class:`InvalidData` that names the features which lack too many values, or all of them."""
    refused = np.flatnonzero((missing > most) | (counts == 0))
    if not len(refused):
        return
    worst = refused[np.argsort(-missing[refused], kind="stable")]
    named = ", ".join(f"{names[j]!r} ({missing[j]:.0%})" for j in worst[:5])
    more = f" and {len(worst) - 5} more" if len(worst) > 5 else ""
    raise InvalidData(
        f"{len(worst)} feature(s) have more missing values than the share of {most:g} that max_missing allows: "
        f"{named}{more}. Leave them out, impute them, or allow a larger share."
    )
