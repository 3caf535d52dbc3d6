"""Selection frequencies of features in half samples, intervals for weights and variances, and stable features.

Complementary pairs of half samples H, H' (Shah and Samworth 2013): a feature's selection frequency is the share of all
half samples whose fit gives it a weight. The two halves of a pair share no row. So for a feature that a half sample
selects with probability at most q/p (q selected of p, no better than by chance), both select it with probability at
most (q/p)², and by Markov's inequality the expected number of such features with a frequency of at least τ is at most

    q²/(p(2τ − 1)).

It holds for rows that are independent, whatever their distribution, also where pairs share folds. If the frequency with
which both halves select a feature is unimodal, the number is at most C(τ, B) q²/p (their theorem 2, B pairs).

Intervals: the deviation of a half sample's figure from the fit's has the variance of the fit's own error, for figures
that are nearly linear in the rows. Over all halves of F folds it is the variance between F groups, with F − 1 degrees
of freedom: hence Student's t.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import t as student

from fedspca.metrics import adjusted_variances
from fedspca.solvers.folds.refits import Chosen, half_samples, refits
from fedspca.solvers.folds.sums import FoldSums

Array = NDArray[np.float64]

PAIRS = 126  # the number of pairs for ten folds
LEVEL = 0.9  # of the intervals
THRESHOLDS = np.round(np.arange(0.6, 0.951, 0.01), 2)
USUAL = 0.9  # the threshold used if none gives a bound below one false selection


@dataclass(frozen=True)
class Stability:
    """Stability of loadings over half samples.

    Attributes
    ----------
    frequency : ndarray of shape (r, d)
        The share of half samples whose component j gives feature i a weight.
    weight_interval : ndarray of shape (r, d, 2)
        Intervals of 90 % for the weights.
    variance_interval : ndarray of shape (r, 2)
        Intervals of 90 % for the variance that each component explains.
    threshold : ndarray of shape (r,)
        The frequency at which a feature counts as stable.
    bound : ndarray of shape (r,)
        Upper bound on the expected number of stable features that are selected no better than by chance.
    n_halves : int
        How many half samples there were.
    """

    frequency: Array
    weight_interval: Array
    variance_interval: Array
    threshold: Array
    bound: Array
    n_halves: int

    @property
    def stable(self) -> NDArray[np.bool_]:
        """Whether each feature of each component is stable."""
        return self.frequency >= self.threshold[:, None]


def stability(sums: FoldSums, w: Array, variances: Array, *, orthogonal: bool, pairs: int = PAIRS) -> Stability:
    """Fit half samples near the loadings, with as many non-zeros each, and compare.

    Parameters
    ----------
    sums : FoldSums
        The sums by fold.
    w : ndarray of shape (d, r)
        The loadings of all rows.
    variances : ndarray of shape (r,)
        The variance that each explains.
    orthogonal : bool
        Whether loadings are orthogonal.
    pairs : int
        How many complementary pairs of half samples at most.
    """
    k = np.count_nonzero(w, axis=0)
    drawn = half_samples(sums.n_folds, pairs, np.random.default_rng(0))
    seen = w[sums.features]
    weights, explained = _fitted(sums, seen, [half for pair in drawn for half in pair], orthogonal=orthogonal)
    quantile = float(student.ppf(0.5 + 0.5 * LEVEL, sums.n_folds - 1))
    spread = quantile * np.sqrt(np.mean((weights - seen) ** 2, axis=0))
    frequency, interval = np.zeros(w.shape), np.stack([w, w])
    frequency[sums.features] = np.mean(weights != 0.0, axis=0)
    interval[:, sums.features] += np.stack([-spread, spread])
    varying = int(np.count_nonzero(sums.squares.sum(axis=0)))
    threshold = np.array([threshold_for(int(kj), varying) for kj in k])
    bound = np.array([false_selections(int(kj), varying, tau) for kj, tau in zip(k, threshold, strict=True)])
    return Stability(
        frequency.T,
        np.clip(interval.transpose(2, 1, 0), -1.0, 1.0),
        _variance_interval(explained, variances, quantile),
        threshold,
        bound,
        2 * len(drawn),
    )


def _fitted(sums: FoldSums, w: Array, halves: Sequence[Chosen], *, orthogonal: bool) -> tuple[Array, Array]:
    """Return the loadings of each half sample, matched with w, and the variance that each explains there."""
    weights, explained = [], []
    for sample, found in refits(sums, halves, w, orthogonal=orthogonal):
        weights.append(found)
        explained.append(adjusted_variances(found.T @ sample.matrix @ found) / (sample.n - 1.0))
    return np.array(weights), np.array(explained)


def _variance_interval(explained: Array, variances: Array, quantile: float) -> Array:
    """Return intervals for variances, computed on the log scale, where distributions are much less skewed."""
    tiny = np.finfo(float).tiny
    deviations = np.log(np.maximum(explained, tiny)) - np.log(np.maximum(variances, tiny))
    spread = np.minimum(quantile * np.sqrt(np.mean(deviations**2, axis=0)), 50.0)
    return np.stack([variances * np.exp(-spread), variances * np.exp(spread)], axis=1)


def false_selections(q: int, p: int, threshold: float) -> float:
    """Bound the expected number of stable features that are selected no better than by chance, without assumption."""
    return min(q * q / (p * (2.0 * threshold - 1.0)), float(q))


def false_selections_if_unimodal(q: int, p: int, threshold: float, pairs: int = PAIRS) -> float:
    """Do the same where the frequency of both halves of a pair has a unimodal distribution."""
    if threshold <= 0.75:
        constant = 1.0 / (2.0 * (2.0 * threshold - 1.0 - 0.5 / pairs))
    else:
        constant = 4.0 * (1.0 - threshold + 0.5 / pairs) / (1.0 + 1.0 / pairs)
    return min(constant * q * q / p, float(q))


def threshold_for(q: int, p: int) -> float:
    """Return the smallest threshold at which less than one false selection is expected; .9 where there is none."""
    fine = [float(tau) for tau in THRESHOLDS if false_selections(q, p, float(tau)) <= 1.0]
    return fine[0] if fine else USUAL


def stand_ins(
    frequency: Array, chosen: NDArray[np.bool_], correlation: Array, *, least: float = 0.1, alike: float = 0.7
) -> list[tuple[int, int, float]]:
    """Return pairs of a selected feature and one that half samples select in its place: alike, and in alternation.

    Parameters
    ----------
    frequency : ndarray of shape (d,)
        Selection frequencies in one component.
    chosen : ndarray of bool of shape (d,)
        The features that the fit selected.
    correlation : ndarray of shape (d, d)
        Correlations between the features.
    least : float
        How often the other one must be selected.
    alike : float
        How large their correlation must be.
    """
    inside = np.flatnonzero(chosen & (frequency < 1.0))
    outside = np.flatnonzero(~chosen & (frequency >= least))
    found = [(int(i), int(j), float(correlation[i, j])) for i in inside for j in outside]
    return sorted((pair for pair in found if abs(pair[2]) >= alike), key=lambda pair: -abs(pair[2]))
