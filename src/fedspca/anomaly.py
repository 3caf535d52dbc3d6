"""Rows that a model explains badly: how anomalous each row is, the threshold, and which features are to blame.

For a row a, Q = ‖a − Pa‖² is the squared residual that the components do not explain. T² = sᵀC⁻¹s is the squared
Mahalanobis distance of its scores s from the mean, where C is the covariance of the scores. The anomaly of the row is
T² + Q/σ², where σ² is the mean square of a coordinate of the residual. Up to a constant, it is −2 log of the row's
density if rows are normal, with the components' variances and equal noise elsewhere (probabilistic PCA, Tipping and
Bishop 1999). Everything is computed from sums: the covariance of the scores, and Σe and Σe² of the rows' errors e = Q.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]


def box_threshold(mean: float, variance: float, level: float) -> float:
    """Return the quantile of a variable with this mean and variance, as a scaled chi-square variable (Box 1954)."""
    from scipy.stats import chi2  # slow to import, and rarely needed

    if not 0 < level < 1:
        raise ValueError(f"The level must be between 0 and 1. Got {level} instead.")
    if variance <= 0 or mean <= 0:
        return mean
    return float(variance / (2 * mean) * chi2.ppf(level, 2 * mean**2 / variance))


class ScoresRows:
    """scikit-learn's interface for outlier detection, which :class:`fedspca.SparsePCAModel` offers."""

    components: Array
    covariance: Array
    feature_names: tuple[str, ...]
    facts: Mapping[str, Any]

    def standardised(self, X: ArrayLike) -> Array:
        """Rows as the model sees them."""
        raise NotImplementedError

    def score_samples(self, X: ArrayLike) -> Array:
        """−(T² + Q/σ²) of each row: the lower, the more anomalous, as in scikit-learn.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Rows over the model's features.

        Returns
        -------
        scores : ndarray of shape (n,)
            Negative numbers.
        """
        return np.asarray(-_parts(self, X).sum(axis=1))

    def contributions(self, X: ArrayLike) -> Array:
        """How much each feature adds to a row's anomaly. The parts of a row sum to minus its :meth:`score_samples`.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Rows over the model's features.

        Returns
        -------
        contributions : ndarray of shape (n, d)
            Each feature's part of Q/σ² plus its part of T². The part of T² may be negative.
        """
        return _parts(self, X)

    def blamed(self, X: ArrayLike, top: int = 5) -> list[list[tuple[str, float]]]:
        """Return, for each row, the features that add most to its anomaly, by name, with their share of it.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Rows over the model's features.
        top : int, default=5
            How many features.
        """
        parts = _parts(self, X)
        totals = np.maximum(parts.sum(axis=1, keepdims=True), np.finfo(float).tiny)
        order = np.argsort(-parts, axis=1, kind="stable")[:, :top]
        return [
            [(self.feature_names[j], float(row[j] / total[0])) for j in first]
            for row, total, first in zip(parts, totals, order, strict=True)
        ]

    def threshold(self, level: float = 0.99) -> float:
        """Return the score below which a row counts as an anomaly. The share ``level`` of ordinary rows is above it.

        T² has mean r and variance 2r. Q/σ² has the mean and variance found in the fitted rows. Their sum is treated as
        a scaled chi-square variable. Anomalies among the fitted rows increase that variance, so that fewer rows are
        marked: :class:`~fedspca.AnomalyDetector` can trim them.

        Parameters
        ----------
        level : float, default=0.99
            The share of ordinary rows that should not be marked.
        """
        r, noise = len(self.components), _noise(self)
        errors = self.facts["row_errors"]
        mean = r + float(errors["mean"]) / noise
        return -box_threshold(mean, 2 * r + float(errors["variance"]) / noise**2, level)

    def predict(self, X: ArrayLike, level: float = 0.99) -> NDArray[np.int_]:
        """Return 1 for an ordinary row and −1 for an anomaly, as scikit-learn's outlier detectors do.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Rows over the model's features.
        level : float, default=0.99
            As in :meth:`threshold`.
        """
        return np.where(self.score_samples(X) < self.threshold(level), -1, 1)


def _noise(model: ScoresRows) -> float:
    """σ²: the mean square of a residual's coordinate."""
    errors = model.facts.get("row_errors")
    if errors is None:
        raise ValueError(
            "This model does not say how large the errors of its rows are. Fit it with fedspca fit, in a study, or "
            "with AnomalyDetector, which ask for them."
        )
    left = max(model.components.shape[1] - len(model.components), 1)
    return float(max(float(errors["mean"]) / left, np.finfo(float).tiny))


def _parts(model: ScoresRows, X: ArrayLike) -> Array:
    """Contributions of the features to T² + Q/σ²."""
    noise = _noise(model)
    rows, basis = model.standardised(X), np.linalg.qr(model.components.T)[0]
    left = rows - (rows @ basis) @ basis.T
    pull = rows @ model.components.T @ np.linalg.pinv(model.covariance, hermitian=True) @ model.components
    return np.asarray(left**2 / noise + rows * pull)
