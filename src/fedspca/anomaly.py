"""Rows that do not fit a model: how anomalous each row is, the threshold, and which features are to blame.

The model of a row a with scores s is a = Ks + e: every feature follows the scores by its pattern, a row of K, and keeps
a residual of its own, whose variance is its uniqueness ψ. K = SWC⁻¹ is the regression of all features on the scores,
with C the covariance of the scores, so that features without a weight are predicted too. The row's anomaly is T² + Q:

- T² = sᵀC⁻¹s, the squared Mahalanobis distance of its scores from the mean;
- Q = Σ_j ρ(e_j/√ψ_j), its residuals, each in units of its own spread. ρ is Huber's function (1964): the square up to
  1.345, and linear beyond, so that a single feature does not outweigh all others.

K, C and ψ follow from sums that a fit asks for anyway: SW, WᵀSW and the diagonal of S. Models of older versions have
neither patterns nor uniqueness; their anomaly is T² + ‖a − Pa‖²/σ², with P the projection on the components and σ² the
mean square of a coordinate of the residual.
"""

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedspca._callers import warn_caller

Array = NDArray[np.float64]

BEND = 1.345  # where ρ turns linear: Huber's own constant, with 95 % efficiency for normal residuals
LEAST = 0.01  # of a feature's variance counts as its own at least, however well the scores predict it
ROUNDING = 1e-6  # of the largest variance: what sums and masks may round off
OLDER = (
    "This model has no patterns of its features: an older version made it, or the fit did not learn each feature's "
    "variance. Its rows are scored by T² and the plain reconstruction error, which tells anomalies less well. Fit it "
    "again for the better score."
)


class Parts(NamedTuple):
    """What makes a row anomalous: T², of its scores, and Q, of its residuals. Their sum is its anomaly."""

    t2: Array
    q: Array


def huber(z: Array) -> Array:
    """Huber's function, twice his: z² up to a bend, and linear beyond it."""
    size = np.abs(z)
    return np.where(size <= BEND, size**2, BEND * (2 * size - BEND))


def huber_moments() -> tuple[float, float]:
    """Return the mean and the variance of Huber's function of a standard normal variable."""
    k = BEND
    density, beyond = math.exp(-k * k / 2) / math.sqrt(2 * math.pi), math.erfc(k / math.sqrt(2)) / 2
    within = 1 - 2 * beyond
    mean = within + 2 * k * density - 2 * k**2 * beyond
    fourth = 3 * within - 2 * density * (k**3 + 3 * k)  # of the part within the bend
    tails = 4 * k**2 * (k * density + beyond) - 4 * k**3 * density + k**4 * beyond
    return mean, fourth + 2 * tails - mean**2


def box_threshold(mean: float, variance: float, level: float) -> float:
    """Return the quantile of a variable with this mean and variance, as a scaled chi-square variable (Box 1954)."""
    from scipy.stats import chi2  # slow to import, and rarely needed

    if not 0 < level < 1:
        raise ValueError(f"The level must be between 0 and 1. Got {level} instead.")
    if variance <= 0 or mean <= 0:
        return mean
    return float(variance / (2 * mean) * chi2.ppf(level, 2 * mean**2 / variance))


def truncation(mean: float, variance: float, kept: float) -> float:
    """Return how much too small squares are if only the share of rows with the smallest ones was kept.

    As a scaled chi-square variable with h degrees of freedom, cut at its quantile at ``kept`` (as in the consistency
    factor of the minimum covariance determinant, Croux and Haesbroeck 1999).
    """
    from scipy.stats import chi2

    if kept >= 1 or variance <= 0:
        return 1.0
    h = 2 * mean**2 / variance
    return float(kept / chi2.cdf(chi2.ppf(kept, h), h + 2))


def uniqueness(patterns: Array, covariance: Array, variances: Array) -> Array | None:
    """ψ: what is left of each feature's variance beyond its regression on the scores, at least a hundredth of it.

    A feature that never varied gets the mean of the others: nothing is known about its spread. None if a feature has
    less variance than its regression explains: then the variances are not those of the rows. Private studies state
    them.
    """
    left = variances - np.einsum("ij,ij->j", patterns, covariance @ patterns)
    varies = variances > 0
    if not varies.any() or np.any(left < -ROUNDING * variances.max()):
        return None
    own = np.maximum(left, LEAST * variances)
    return np.asarray(np.where(varies, own, own[varies].mean()))


class ScoresRows:
    """scikit-learn's interface for outlier detection, which :class:`fedspca.SparsePCAModel` offers."""

    components: Array
    covariance: Array
    patterns: Array | None
    uniqueness: Array | None
    feature_names: tuple[str, ...]
    facts: Mapping[str, Any]

    def standardised(self, X: ArrayLike, *, covariates: ArrayLike | None = None, own: Any = None) -> Array:
        """Rows as the model sees them."""
        raise NotImplementedError

    def score_samples(self, X: ArrayLike, *, covariates: ArrayLike | None = None, own: Any = None) -> Array:
        """−(T² + Q) of each row: the lower, the more anomalous, as in scikit-learn.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Rows over the model's features.
        covariates, own : optional
            As in :meth:`fedspca.SparsePCAModel.transform`.

        Returns
        -------
        scores : ndarray of shape (n,)
            Negative numbers.
        """
        t2, q = self.anomaly_parts(X, covariates=covariates, own=own)
        return np.asarray(-(t2 + q))

    def anomaly_parts(self, X: ArrayLike, *, covariates: ArrayLike | None = None, own: Any = None) -> Parts:
        """T² and Q of each row: how unusual its scores are, and how badly they predict its features.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Rows over the model's features.
        covariates, own : optional
            As in :meth:`fedspca.SparsePCAModel.transform`.

        Returns
        -------
        parts : named tuple
            ``t2`` and ``q``, one number a row each.
        """
        t2, q = _by_feature(self, self.standardised(X, covariates=covariates, own=own))
        return Parts(t2.sum(axis=1), q.sum(axis=1))

    def contributions(self, X: ArrayLike, *, covariates: ArrayLike | None = None, own: Any = None) -> Array:
        """How much each feature adds to a row's anomaly. The parts of a row sum to minus its :meth:`score_samples`.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Rows over the model's features.
        covariates, own : optional
            As in :meth:`fedspca.SparsePCAModel.transform`.

        Returns
        -------
        contributions : ndarray of shape (n, d)
            Each feature's part of Q plus its part of T². The part of T² may be negative.
        """
        t2, q = _by_feature(self, self.standardised(X, covariates=covariates, own=own))
        return t2 + q

    def blamed(
        self, X: ArrayLike, top: int = 5, *, covariates: ArrayLike | None = None, own: Any = None
    ) -> list[list[tuple[str, float]]]:
        """Return, for each row, the features that add most to its anomaly, by name, with their share of it.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Rows over the model's features.
        top : int, default=5
            How many features.
        covariates, own : optional
            As in :meth:`fedspca.SparsePCAModel.transform`.
        """
        parts = self.contributions(X, covariates=covariates, own=own)
        totals = np.maximum(parts.sum(axis=1, keepdims=True), np.finfo(float).tiny)
        order = np.argsort(-parts, axis=1, kind="stable")[:, :top]
        return [
            [(self.feature_names[j], float(row[j] / total[0])) for j in first]
            for row, total, first in zip(parts, totals, order, strict=True)
        ]

    def threshold(self, level: float = 0.99) -> float:
        """Return the score below which a row counts as an anomaly. The share ``level`` of ordinary rows is above it.

        T² + Q is treated as a scaled chi-square variable. Its mean is that of normal rows. Its variance is that of
        normal rows times a factor: how much more the errors ‖a − Pa‖² of the fitted rows vary than those of normal rows
        with the model's covariance would. Anomalies among the fitted rows increase that variance, so that fewer rows
        are marked: :class:`~fedspca.AnomalyDetector` can trim them.

        Parameters
        ----------
        level : float, default=0.99
            The share of ordinary rows that should not be marked.
        """
        mean, variance = _moments(self)
        wider = truncation(mean, variance, float(self.facts.get("kept_share", 1.0)))
        return -wider * box_threshold(mean, variance, level)

    def predict(
        self, X: ArrayLike, level: float = 0.99, *, covariates: ArrayLike | None = None, own: Any = None
    ) -> NDArray[np.int_]:
        """Return 1 for an ordinary row and −1 for an anomaly, as scikit-learn's outlier detectors do.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Rows over the model's features.
        level : float, default=0.99
            As in :meth:`threshold`.
        covariates, own : optional
            As in :meth:`fedspca.SparsePCAModel.transform`.
        """
        scores = self.score_samples(X, covariates=covariates, own=own)
        return np.where(scores < self.threshold(level), -1, 1)

    def keeps(
        self, X: ArrayLike, level: float = 0.9, *, covariates: ArrayLike | None = None, own: Any = None
    ) -> NDArray[np.bool_]:
        """Return which rows to fit again to, where some of them may be anomalies: those that are not too long.

        Anomalies that are alike draw a component to themselves, and T² then divides by the variance that they brought.
        The squared length ‖a‖² of a standardised row does not. It is treated as a scaled chi-square variable, with the
        mean and the variance that the model implies, and rows beyond its quantile are left out.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Rows over the model's features.
        level : float, default=0.9
            The share of ordinary rows that should be kept.
        covariates, own : optional
            As in :meth:`fedspca.SparsePCAModel.transform`.
        """
        if self.patterns is None or self.uniqueness is None:
            return self.predict(X, level, covariates=covariates, own=own) > 0
        rows = self.standardised(X, covariates=covariates, own=own)
        rows = np.delete(rows, _idle(self), axis=1)
        mean, relative = _squared_length(self, np.zeros((self.components.shape[1], 0)))
        limit = box_threshold(mean, _excess(self) * relative * mean**2, level)
        return np.asarray(np.einsum("ij,ij->i", rows, rows) <= limit)


def _errors(model: ScoresRows) -> tuple[float, float]:
    """Return the mean and the variance of the fitted rows' errors ‖a − Pa‖²."""
    errors = model.facts.get("row_errors")
    if errors is None:
        raise ValueError(
            "This model does not say how large the errors of its rows are. Fit it with fedspca fit, in a study, or "
            "with AnomalyDetector, which ask for them."
        )
    return float(errors["mean"]), float(errors["variance"])


def _noise(model: ScoresRows) -> float:
    """σ²: the mean square of a residual's coordinate."""
    left = max(model.components.shape[1] - len(model.components), 1)
    return float(max(_errors(model)[0] / left, np.finfo(float).tiny))


def _by_feature(model: ScoresRows, rows: Array) -> tuple[Array, Array]:
    """Contributions of the features to T² and to Q."""
    _errors(model)  # a model that cannot say what is ordinary is refused
    scores = rows @ model.components.T
    pull = scores @ np.linalg.pinv(model.covariance, hermitian=True)
    t2 = rows * (pull @ model.components)
    if model.patterns is None or model.uniqueness is None:
        warn_caller(OLDER, UserWarning)
        basis = np.linalg.qr(model.components.T)[0]
        return t2, (rows - (rows @ basis) @ basis.T) ** 2 / _noise(model)
    own = model.uniqueness.copy()
    own[model.facts.get("left_out_features", [])] = np.inf  # the fit did not look at these
    return t2, huber((rows - scores @ model.patterns) / np.sqrt(own))


def _moments(model: ScoresRows) -> tuple[float, float]:
    """Return the mean and the variance of the anomaly of ordinary rows."""
    r, (mean, variance) = len(model.components), _errors(model)
    if model.patterns is None or model.uniqueness is None:
        noise = _noise(model)
        return r + mean / noise, 2 * r + variance / noise**2
    d = model.components.shape[1] - len(_idle(model))
    centre, spread = huber_moments()
    # the residuals of d features have d − r free coordinates
    return r + d * centre, 2 * r + _excess(model) * spread * d**2 / max(d - r, 1)


def _idle(model: ScoresRows) -> list[int]:
    """The features that the fit did not look at, since they never varied or were left out."""
    return [*model.facts.get("constant_features", []), *model.facts.get("left_out_features", [])]


def _excess(model: ScoresRows) -> float:
    """How many times as much the errors ‖a − Pa‖² of the fitted rows vary as those of normal rows would, at least 1."""
    mean, variance = _errors(model)
    normal = _squared_length(model, np.linalg.qr(model.components.T)[0])[1]
    return max(variance / mean**2 / normal, 1.0) if mean > 0 and normal > 0 else 1.0


def _squared_length(model: ScoresRows, basis: Array) -> tuple[float, float]:
    """Return the mean of ‖a − Pa‖² for normal rows, tr R, and its variance over the squared mean, 2 tr R²/(tr R)².

    P projects on the basis. R = P⊥(KCKᵀ + Ψ)P⊥ is the covariance of a − Pa. Nothing of the size d × d is formed.
    """
    assert model.patterns is not None
    assert model.uniqueness is not None
    own = model.uniqueness.copy()
    own[_idle(model)] = 0.0
    left = model.patterns.T - basis @ (basis.T @ model.patterns.T)
    inner = left.T @ left @ model.covariance
    inside = np.einsum("ij,ij->i", basis, basis)
    mean = float(np.trace(inner) + own @ (1 - inside))
    mixed = float(np.trace(left.T @ (own[:, None] * left) @ model.covariance))
    corner = basis.T @ (own[:, None] * basis)
    squares = float(np.trace(inner @ inner) + 2 * mixed + own**2 @ (1 - 2 * inside) + np.vdot(corner, corner))
    return mean, 2 * squares / mean**2 if mean > 0 else 0.0
