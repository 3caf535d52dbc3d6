"""Anomalies among rows that several sites hold: a robust fit by sums, and scores that each site computes alone."""

from collections.abc import Sequence
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, OutlierMixin, clone
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import check_is_fitted, validate_data

from fedspca.anomaly import Parts
from fedspca.estimators import ExactSPCA
from fedspca.estimators.base import FederatedSparsePCA
from fedspca.federation import Federation, LocalFederation
from fedspca.fit.facts import judge
from fedspca.model import SparsePCAModel
from fedspca.site import InvalidData, Site

Array = NDArray[np.float64]

COMPONENTS, NONZERO = 5, 10  # of the default estimator, where there are as many features


class AnomalyDetector(OutlierMixin, BaseEstimator):
    """Mark rows that do not fit the others, of one site or of several, with the features that are to blame.

    Sparse components are fitted by sums, and every feature is regressed on their scores by the same sums. A row is
    anomalous if its scores are, or if its features are not what the scores predict: T² + Q, see
    :meth:`fedspca.SparsePCAModel.score_samples`. With more passes, every site leaves out those of its own rows that are
    too long, by a threshold that also comes from sums, and the fit is repeated: see
    :meth:`fedspca.SparsePCAModel.keeps`.

    Parameters
    ----------
    estimator : estimator, optional
        What is fitted; by default ``ExactSPCA`` with 5 components of 10 features each, or as many as there can be.
    level : float, default=0.99
        The share of ordinary rows that is not to be marked.
    trim : float, default=0.9
        The level at which rows are left out of the next pass.
    passes : int, default=1
        Fits in all; 1 trims nothing. Use two if many of the rows may be anomalies. The threshold then allows for the
        share of the rows that was kept.

    Attributes
    ----------
    model_ : SparsePCAModel
        The last fit; it has ``anomaly_parts``, ``contributions``, ``blamed`` and ``threshold`` too, and can be saved.
    offset_ : float
        The threshold of scores.
    n_kept_ : list of int
        Rows in each pass.

    Examples
    --------
    >>> import numpy as np
    >>> from fedspca import AnomalyDetector
    >>> rows = np.random.default_rng(0).standard_normal((200, 6)) @ np.random.default_rng(1).standard_normal((6, 6))
    >>> rows[3, 2] += 40  # one value that was mistyped
    >>> detector = AnomalyDetector().fit(rows, sites=["north", "south"] * 100)
    >>> [name for name, share in detector.model_.blamed(rows[3:4], top=1)[0]], int(detector.predict(rows[3:4])[0])
    (['x2'], -1)
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "estimator": [FederatedSparsePCA, None],
        "level": [Interval(Real, 0, 1, closed="neither")],
        "trim": [Interval(Real, 0, 1, closed="neither")],
        "passes": [Interval(Integral, 1, None, closed="left")],
    }

    def __init__(
        self,
        estimator: FederatedSparsePCA | None = None,
        *,
        level: float = 0.99,
        trim: float = 0.9,
        passes: int = 1,
    ) -> None:
        self.estimator = estimator
        self.level = level
        self.trim = trim
        self.passes = passes

    def fit(self, X: Any, y: Any = None, *, sites: Any = None) -> Self:
        """Fit to rows in this process, as if each belonged to its site.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The rows of all sites.
        y : ignored
            Present by convention.
        sites : array-like of shape (n_samples,), optional
            The owner of each row.
        """
        self._validate_params()
        try:
            rows = validate_data(self, X, dtype=np.float64, ensure_min_samples=3, ensure_min_features=2)
        except ValueError as error:
            raise InvalidData(str(error)) from None
        owners = np.array(["all"] * len(rows) if sites is None else [str(owner) for owner in sites])
        if len(owners) != len(rows):
            raise InvalidData(f"'sites' must name the owner of each of the {len(rows)} rows. Got {len(owners)} names.")
        names = getattr(self, "feature_names_in_", None)
        parts = {str(name): rows[owners == name] for name in np.unique(owners)}
        self.n_kept_ = []
        for number in range(self.passes):
            if number:
                parts = {name: self._ordinary(part) for name, part in parts.items()}
            made = [Site(name, part, feature_names=names) for name, part in parts.items() if len(part)]
            self.n_kept_.append(sum(site.n_rows for site in made))
            self._fit(LocalFederation(made), self.n_kept_[-1] / len(rows))
        return self

    def fit_federation(self, federation: Federation, *, kept_share: float = 1.0) -> Self:
        """Fit over sites anywhere, in one pass.

        To trim, each site keeps the rows that ``model_.keeps`` names, and the study is run again.

        Parameters
        ----------
        federation : Federation
            The sites.
        kept_share : float, default=1.0
            The share of all rows that the sites kept, where they trimmed: the threshold then allows for it.
        """
        if not 0 < kept_share <= 1:
            raise ValueError(
                f"The share of rows that were kept must be above 0 and at most 1. Got {kept_share} instead."
            )
        self._fit(federation, kept_share)
        return self

    def _fit(self, federation: Federation, kept_share: float) -> None:
        self._validate_params()
        estimator = self._estimator(len(federation.feature_names))
        gram = estimator._fit(federation)
        judgement = judge(federation, (), estimator, gram=gram)
        kept: dict[str, Any] = {} if kept_share == 1 else {"kept_share": kept_share}
        self.model_ = SparsePCAModel.from_estimator(estimator, **judgement.to_model, **kept)
        self.n_features_in_ = len(self.model_.mean)
        self.offset_ = self.model_.threshold(self.level)

    def _estimator(self, d: int) -> Any:
        if self.estimator is not None:
            return clone(self.estimator)
        return ExactSPCA(max(1, min(COMPONENTS, d // 2)), n_nonzero=min(NONZERO, d), scale=True, search="products")

    def _ordinary(self, rows: Array) -> Array:
        """The rows that a site keeps for the next pass."""
        return np.asarray(rows[self.model_.keeps(rows, self.trim)])

    def score_samples(self, X: ArrayLike) -> Array:
        """−(T² + Q) of each row: the lower, the more anomalous."""
        check_is_fitted(self)
        return self.model_.score_samples(validate_data(self, X, reset=False, dtype=np.float64))

    def decision_function(self, X: ArrayLike) -> Array:
        """The score less the threshold: negative for anomalies."""
        return self.score_samples(X) - self.offset_

    def predict(self, X: ArrayLike) -> NDArray[np.int_]:
        """1 for ordinary rows, −1 for anomalies."""
        return np.where(self.decision_function(X) < 0, -1, 1)

    def anomaly_parts(self, X: ArrayLike) -> Parts:
        """T² and Q of each row: how unusual its scores are, and how badly they predict its features."""
        check_is_fitted(self)
        return self.model_.anomaly_parts(validate_data(self, X, reset=False, dtype=np.float64))

    def contributions(self, X: ArrayLike) -> Array:
        """How much each feature adds to each row's anomaly."""
        check_is_fitted(self)
        return self.model_.contributions(validate_data(self, X, reset=False, dtype=np.float64))

    def blamed(self, X: ArrayLike, top: int = 5) -> Sequence[Sequence[tuple[str, float]]]:
        """The features that add most to each row's anomaly, by name, with their share of it."""
        check_is_fitted(self)
        return self.model_.blamed(validate_data(self, X, reset=False, dtype=np.float64), top)
