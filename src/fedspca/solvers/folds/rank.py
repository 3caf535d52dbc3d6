"""How many components exceed the noise: Marchenko–Pastur, Gavish–Donoho, and Horn's parallel analysis.

The first two assume white noise: apart from the components, every direction has the same variance σ². They need the
trace and the leading eigenvalues of the covariance only. The null hypothesis of Horn's analysis is that features are
independent within each site, with any distributions: the data are compared with the same columns, permuted within each
site.

Horn compared the j-th eigenvalue with the j-th of the permuted columns. That counts too many: beside two components the
third eigenvalue is the *largest* of noise. Here each eigenvalue is compared with the largest of the null that is not
yet accounted for, after the features' variances were reduced by the components counted before (deflation, after
Dobriban and Owen 2019). Sites with different means put components into the null itself. Such a component of the null
accounts for one eigenvalue of the data, which is passed over.

A private study releases S with noise E, a symmetric matrix of independent Gaussians. Columns cannot be permuted there.
Independent normal features are simulated instead, as Horn did, with the released variances, and with such noise.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import wishart

from fedspca.federation.base import Federation
from fedspca.linalg.operators import Frame
from fedspca.linalg.small import largest_eigenpairs
from fedspca.linalg.symmetric import unpack
from fedspca.site.question import Query, Scalar, permutations_at_once
from fedspca.solvers.asking import frame_arrays

Array = NDArray[np.float64]

TRACY_WIDOM_99 = 2.0234  # the 99 % quantile of the largest eigenvalue of noise, in its own units (real data)
# that quantile's distance from the mean, 2.55 standard deviations, times the factor by which Student's t with 19
# degrees of freedom exceeds the normal distribution, since mean and deviation are those of 20 permutations
_NINETY_NINE = 2.85
PERMUTATIONS = 20
_UNIQUE_STEPS = 30  # each step at least halves the error, unless a component is a single feature
DEFLATED = 2  # permutations from which the effect of deflation is computed; it hardly varies between them


class Drawn(NamedTuple):
    """A covariance under the null, the noise that a private study adds to it, and the eigenvalues of their sum."""

    covariance: Array
    added: Array | float
    values: Array


@dataclass(frozen=True)
class Null:
    """Leading eigenvalues of permuted columns.

    Attributes
    ----------
    mean, high : ndarray of shape (m,)
        Mean and 99 % quantile of each eigenvalue over the permutations; the quantile is computed from mean and standard
        deviation.
    some : tuple of (ndarray of shape (d, d), ndarray of shape (d, d) or 0, ndarray of shape (m,))
        For a few of the permutations: the covariance, the noise that was added to it, and the leading eigenvalues of
        both together.
    """

    mean: Array
    high: Array
    some: tuple[Drawn, ...] = ()

    def count(self, values: Array, vectors: Array, variances: Array, noise: float) -> int:
        """Count the components of the data that the null does not account for.

        Parameters
        ----------
        values, vectors : ndarray of shape (m,) and (d, m)
            The leading eigenvalues of the covariance and their eigenvectors.
        variances : ndarray of shape (d,)
            The features' variances.
        noise : float
            The largest eigenvalue that white noise has. A component of the null stands out if it is larger.
        """
        at, counted = 0, np.zeros(len(values), dtype=bool)
        shrinkage = np.ones(len(self.high))
        for j, value in enumerate(values):
            stands_out = self.mean[at] > noise
            # the variance within sites along a component between sites differs by about the noise
            if value > self.high[at] * shrinkage[at] + (noise if stands_out else 0.0):
                counted[j] = True
                shrinkage = self._shrinkage(unique(variances, values[counted], vectors[:, counted]), variances)
            elif stands_out and at + 1 < len(self.high):
                at += 1
            else:
                break
        return int(counted.sum())

    def _shrinkage(self, left: Array, variances: Array) -> Array:
        """Return the factors by which the null's eigenvalues shrink where features have only this variance left."""
        units = np.sqrt(np.divide(left, variances, out=np.zeros_like(left), where=variances > 0))
        m = len(self.high)
        factors = [
            largest_eigenpairs(s * units * units[:, None] + added, m)[0] / values for s, added, values in self.some
        ]
        return np.mean(factors, axis=0) if factors else np.ones(m)


def unique(variances: Array, values: Array, vectors: Array) -> Array:
    """Return the variance of each feature that components leave: ψ = diag(S) − diag(V(Λ − N)Vᵀ).

    An eigenvalue contains the noise in its own direction, N_jj = Σ_i v_ij² ψ_i, which is not the component's.
    """
    squares, left = vectors**2, variances
    for _ in range(_UNIQUE_STEPS):
        left = np.clip(variances - squares @ np.maximum(values - squares.T @ left, 0.0), 0.0, variances)
    return left


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
    drawn: list[Drawn] = []
    for first in range(0, PERMUTATIONS, together):
        count = min(together, PERMUTATIONS - first)
        scalars: dict[str, Scalar] = {"seed": seed, "first": first, "permutations": count, "precision": "float64"}
        for packed in federation.sum(Query("permuted_gram", frame_arrays(frame), scalars))["permuted"]:
            covariance = unpack(packed) / (n - 1.0)
            drawn.append(Drawn(covariance, 0.0, largest_eigenpairs(covariance, most)[0]))
            if len(drawn) > DEFLATED:  # only the eigenvalues are needed of the others
                drawn[-1] = drawn[-1]._replace(covariance=np.zeros((0, 0)))
    return _null(drawn)


def simulated_analysis(variances: Array, n: int, most: int, spread: float, rng: np.random.Generator) -> Null:
    """Simulate covariances of independent normal features, with the noise of a private study.

    Parameters
    ----------
    variances : ndarray of shape (d,)
        The features' variances, as released.
    n : int
        The number of rows.
    most : int
        How many eigenvalues are looked at.
    spread : float
        The variance of the semicircle law of the noise in the covariance.
    rng : Generator
        Draws the features and the noise.
    """
    d, units = len(variances), np.sqrt(np.maximum(variances, 0.0))
    drawn = []
    for _ in range(PERMUTATIONS):
        covariance = _wishart(n - 1, d, rng) / (n - 1.0) * units * units[:, None]
        upper = np.triu(rng.standard_normal((d, d)))
        added = np.sqrt(spread / d) * (upper + upper.T - (2.0 - np.sqrt(2.0)) * np.diag(upper.diagonal()))
        drawn.append(Drawn(covariance, added, largest_eigenpairs(covariance + added, most)[0]))
    return _null(drawn)


def _wishart(n: int, d: int, rng: np.random.Generator) -> Array:
    """Draw the second moments of n rows of independent standard normal features."""
    if n < d:
        rows = rng.standard_normal((n, d))
        return rows.T @ rows
    return np.asarray(wishart.rvs(n, np.eye(d), random_state=rng)).reshape(d, d)


def _null(drawn: Sequence[Drawn]) -> Null:
    values = np.array([each.values for each in drawn])
    mean = values.mean(axis=0)
    return Null(mean, mean + _NINETY_NINE * values.std(axis=0, ddof=1), tuple(drawn[:DEFLATED]))
