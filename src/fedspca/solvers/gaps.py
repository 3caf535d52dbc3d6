"""EM for the covariance of rows with missing values, by sums over the sites.

Each round tells the sites the Gaussian so far; each site answers with the sums of what it expects of its rows and of
their products. One sum is one step of EM on the pooled rows. At the end the covariance stands for the rows: the
components are found from it, and nothing more is asked.

Between two rounds the sums change by the rows that lack values, and by nothing else: many rounds tell such rows one by
one. :func:`complete_once` is for masks. The Gaussian comes from the covariance in which missing values count as the
mean, corrected for that. Missing values are then filled in once, where a site's rows are told of together.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedspca._callers import warn_caller
from fedspca.federation.base import Federation, preparation_of
from fedspca.federation.covariance import CovarianceFederation
from fedspca.linalg.gaps import GapModel, corrected, refitted
from fedspca.linalg.operators import Frame
from fedspca.linalg.stiefel import nothing_removed
from fedspca.linalg.symmetric import unpack
from fedspca.site.errors import InvalidData
from fedspca.site.preparation import Preparation
from fedspca.site.question import Query
from fedspca.solvers.asking import frame_arrays
from fedspca.solvers.standardise import check_missing

Array = NDArray[np.float64]

RANK = 10  # of the Gaussian, at most; the covariance itself has full rank
SETTLED = 1e-3  # the relative change of the covariance at which EM ends; what gaps cost is far larger
MOST_STEPS = 60
TOGETHER = 3  # sites that must lack a feature for it to be filled in once; all of them, if there are fewer


class GapWarning(UserWarning):
    """EM for missing values did not settle."""


@dataclass(frozen=True, eq=False)
class Completed:
    """Mean and covariance of rows with missing values.

    Attributes
    ----------
    model : GapModel
        What is expected of missing values.
    covariance : ndarray of shape (d, d)
        The covariance (over n − 1), in the units of the features.
    n_rows, n_sites : int
        How many rows and sites there are.
    feature_names : tuple of str
        The features.
    missing : ndarray of shape (d,)
        The share of rows in which each feature's value is missing.
    preparation : Preparation
        How the rows were prepared: at most transformed, each by itself.
    """

    model: GapModel
    covariance: Array
    n_rows: int
    n_sites: int
    feature_names: tuple[str, ...]
    missing: Array
    preparation: Preparation

    @property
    def federation(self) -> CovarianceFederation:
        """The covariance in place of the rows."""
        return CovarianceFederation(
            self.covariance,
            self.n_rows,
            self.feature_names,
            mean=self.model.mean,
            n_sites=self.n_sites,
            preparation=self.preparation,
        )


def complete(federation: Federation, *, max_missing: float) -> Completed:
    """Estimate mean and covariance by EM, until the covariance settles.

    Parameters
    ----------
    federation : Federation
        The sites.
    max_missing : float
        The largest share of missing values that a feature may have.
    """
    preparation = as_they_are(federation)
    names, model, n, missing = _begin(federation, max_missing)
    before: Array | None = None
    for _ in range(MOST_STEPS):
        answer = federation.sum(Query("gap_moments", model.arrays))
        model, s = refitted(model, answer["sums"], unpack(answer["gram"]), n)
        if before is not None and np.linalg.norm(s - before) <= SETTLED * np.linalg.norm(s):
            break
        before = s
    else:
        warn_caller(f"EM for missing values did not settle in {MOST_STEPS} rounds: few rows, or many gaps.", GapWarning)
    covariance = s * np.outer(model.scale, model.scale) * n / (n - 1)
    return Completed(model, covariance, n, federation.n_sites, names, missing, preparation)


def complete_once(federation: Federation, *, max_missing: float) -> Completed:
    """Estimate mean and covariance by one step of EM, from the covariance in which missing values count as the mean.

    Parameters are those of :func:`complete`. A feature is filled in if enough rows of at least three sites lack it.
    """
    preparation = as_they_are(federation)
    names, model, n, missing = _begin(federation, max_missing)
    features = federation.sum(Query("gap_sites"))["sites"] >= min(TOGETHER, federation.n_sites)
    frame = Frame(model.mean, model.scale, nothing_removed(len(names)))
    first = federation.sum(Query("gram", frame_arrays(frame), {"precision": "float64"}))
    loadings, noise = corrected(unpack(first["gram"]) / n, 1.0 - missing, model.loadings.shape[1])
    model = GapModel(model.mean, model.scale, loadings, noise)
    answer = federation.sum(Query("filled_once", {**model.arrays, "features": features.astype(np.float64)}))
    model, s = refitted(model, answer["sums"], unpack(answer["filled"]), n)
    covariance = s * np.outer(model.scale, model.scale) * n / (n - 1)
    return Completed(model, covariance, n, federation.n_sites, names, missing, preparation)


def as_they_are(federation: Federation) -> Preparation:
    """Return the preparation of rows that are as they are; refuse others."""
    preparation = preparation_of(federation)
    if not preparation.plain:
        raise InvalidData(
            "EM for missing values is for rows as they are. Leave out covariates, weights, the sites' own means, and "
            "transforms that need all sites; or take missing values at the joint mean."
        )
    return preparation


def _begin(federation: Federation, max_missing: float) -> tuple[tuple[str, ...], GapModel, int, Array]:
    """Begin at the mean and spread of the values that are there, without correlation."""
    names = federation.feature_names
    if len(names) < 2:
        raise InvalidData("EM predicts missing values from other features, and there is one feature: use the mean.")
    first = federation.sum(Query("moments"))
    n = round(first.number("rows"))
    if n < 2:
        raise InvalidData(f"Found array with {n} sample(s): variance needs two or more rows.")
    missing = 1.0 - first["counts"] / n
    check_missing(names, first["counts"], missing, max_missing)
    mean = first["sums"] / first["counts"]
    second = federation.sum(Query("deviations", {"mean": mean}))
    squares = np.maximum(second["squares"] / first["counts"], 0.0)
    scale = np.where(squares > (2 * np.finfo(float).eps * np.abs(mean)) ** 2, np.sqrt(squares), 1.0)
    loadings = np.zeros((len(names), min(RANK, len(names) - 1)))
    return names, GapModel(mean, scale, loadings, np.ones(1)), n, missing
