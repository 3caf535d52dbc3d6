"""How many components exceed the noise: Marchenko–Pastur, Gavish–Donoho, and Horn's parallel analysis.

The first two assume white noise: apart from the components, every direction has the same variance σ². They need the
trace and the leading eigenvalues of the covariance only. The null hypothesis of Horn's analysis is that features are
independent within each site, with any distributions: the data are compared with the same columns, permuted within each
site.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedspca.federation.base import Federation
from fedspca.linalg.operators import Frame
from fedspca.linalg.small import largest_eigenpairs
from fedspca.linalg.symmetric import unpack
from fedspca.site.question import Query, Scalar, permutations_at_once
from fedspca.solvers.asking import frame_arrays

Array = NDArray[np.float64]

TRACY_WIDOM_99 = 2.0234  # the 99 % quantile of the largest eigenvalue of noise, in its own units (real data)
_NINETY_NINE = 2.55  # that quantile's distance from the mean, in standard deviations
PERMUTATIONS = 20


@dataclass(frozen=True)
class Null:
    """Leading eigenvalues of permuted columns.

    Attributes
    ----------
    mean, high : ndarray of shape (m,)
        Mean and 99 % quantile of each eigenvalue over the permutations; the quantile is computed from mean and standard
        deviation.
    """

    mean: Array
    high: Array

    def count(self, values: Array) -> int:
        """Count the leading eigenvalues that are above the null's."""
        return int(np.argmin(np.append(values[: len(self.high)] > self.high, False)))


def noise_edge(n: int, d: int) -> float:
    """Return the 99 % quantile of the largest eigenvalue of white noise of variance one (Johnstone)."""
    rows, columns = np.sqrt(n - 1.0), np.sqrt(d)
    spread = (rows + columns) * (1.0 / rows + 1.0 / columns) ** (1.0 / 3.0)
    return float(((rows + columns) ** 2 + TRACY_WIDOM_99 * spread) / n)


def hard_threshold(n: int, d: int) -> float:
    """Return the threshold of Gavish and Donoho (2014) for eigenvalues, for noise of variance one.

    It is the square of λ(β) for singular values, in units of the larger side of the matrix.
    """
    beta = min(n, d) / max(n, d)
    square = 2.0 * (beta + 1.0) + 8.0 * beta / (beta + 1.0 + np.sqrt(beta**2 + 14.0 * beta + 1.0))
    return float(square * max(n, d) / n)


def above(values: Array, trace: float, n: int, d: int, edge: float) -> int:
    """Count the eigenvalues above an edge times the noise variance, estimated from the eigenvalues below it."""
    count = 0
    for _ in range(len(values)):
        noise = max(trace - float(values[:count].sum()), 0.0) / max(min(d, n - 1) - count, 1)
        noise *= min(d, n - 1) / d  # a covariance of few rows has zeros among its eigenvalues
        larger = int(np.count_nonzero(values > edge * noise))
        if larger <= count:
            break
        count = larger
    return count


def parallel_analysis(federation: Federation, frame: Frame, n: int, most: int, seed: int) -> Null:
    """Ask for covariances of columns permuted within each site, in a few sums, and return their leading eigenvalues."""
    d = len(frame.mean)
    together = min(PERMUTATIONS, permutations_at_once(d))
    found = []
    for first in range(0, PERMUTATIONS, together):
        count = min(together, PERMUTATIONS - first)
        scalars: dict[str, Scalar] = {"seed": seed, "first": first, "permutations": count, "precision": "float64"}
        answer = federation.sum(Query("permuted_gram", frame_arrays(frame), scalars))["permuted"]
        found += [largest_eigenpairs(unpack(packed), most)[0] / (n - 1.0) for packed in answer]
    values = np.array(found)
    mean = values.mean(axis=0)
    return Null(mean, mean + _NINETY_NINE * values.std(axis=0, ddof=1))
