"""A fitted model: sparse loadings, and all that is needed to use them on new rows.

How a model is stored is in :mod:`fedspca.model.folder`, what it says in sentences in :mod:`fedspca.model.words`, and
how it comes from an estimator and goes back to one in :mod:`fedspca.model.estimator`.
"""

import csv
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedspca.anomaly import ScoresRows
from fedspca.data.transforms import transformed
from fedspca.federation.covariance import UNKNOWN_MEANS
from fedspca.files import new_file, spreadsheet_safe
from fedspca.linalg.beside import Adjustment, Beside, Reference
from fedspca.linalg.gaps import GapModel
from fedspca.linalg.maps import map_of
from fedspca.linalg.operators import Frame
from fedspca.linalg.row_blocks import unmasked
from fedspca.linalg.stiefel import nothing_removed
from fedspca.model.estimator import estimator_of, parts_of
from fedspca.model.folder import GAPS, read, write
from fedspca.model.named_rows import in_order
from fedspca.model.words import preparation_in_words
from fedspca.plots.methods import Drawable
from fedspca.site.harmony import Harmony, harmony_of
from fedspca.site.preparation import Own, Preparation, own_view
from fedspca.solvers.exact.loop import Earlier

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False, repr=False)
class SparsePCAModel(ScoresRows, Drawable):
    """Sparse loadings with all that a transform, a table or a report needs.

    Attributes
    ----------
    components : ndarray of shape (r, d)
        The loadings, one per row.
    mean, scale : ndarray of shape (d,)
        What is subtracted from each feature, and what the feature is then divided by.
    explained_variance, explained_variance_ratio : ndarray of shape (r,)
        Variance that each component's score has beyond what the scores before it predict, and its share of the total
        (Zou, Hastie and Tibshirani 2006). Where scores correlate, the sum is less than ``captured_ratio``.
    missing_share : ndarray of shape (d,)
        The share of each feature's values that were missing.
    covariance : ndarray of shape (r, r)
        Covariance of the scores; sparse components may correlate.
    feature_names : tuple of str
        The features in order.
    n_samples, n_sites : int
        The numbers of rows and sites in the fit. Of a covariance whose number of rows is unknown, ``n_samples`` is 2
        and ``rows_counted`` is false; ``mean`` is zero where ``rows_seen`` is false.
    total_variance : float
        Variance of all features together, after scaling.
    facts : mapping
        What else is known, as plain JSON: the settings, the rounds, figures for the report.
    covariate_mean : ndarray of shape (p,) or None
        Means of the covariates that were adjusted for; None if there are none.
    coefficients : ndarray of shape (p, d) or None
        What a unit of each covariate adds to each feature.
    reference_mean, reference_spread : ndarray of shape (d,) or None
        The joint mean and the spread within sites, against which a site measures its own shift and spread, if the fit
        took these out (ComBat).
    basis : ndarray of shape (d, m) or None
        Leading directions of the covariance, as far as the fit knew it: what an update asks first.
    patterns : ndarray of shape (r, d) or None
        How every feature follows the scores: its coefficients in a regression on them. None in older models.
    uniqueness : ndarray of shape (d,) or None
        What is left of each feature's variance beyond that regression. None in older models.
    maps : mapping of str to ndarray
        The parameters of a transform that needed all sites, and of what is expected of missing values, by name.
    """

    components: Array
    mean: Array
    scale: Array
    explained_variance: Array
    explained_variance_ratio: Array
    missing_share: Array
    covariance: Array
    feature_names: tuple[str, ...]
    n_samples: int
    n_sites: int
    total_variance: float
    facts: Mapping[str, Any] = field(default_factory=dict)
    covariate_mean: Array | None = None
    coefficients: Array | None = None
    reference_mean: Array | None = None
    reference_spread: Array | None = None
    basis: Array | None = None
    patterns: Array | None = None
    uniqueness: Array | None = None
    maps: Mapping[str, Array] = field(default_factory=dict)

    @property
    def preparation(self) -> Preparation:
        """How rows were prepared before the fit: which covariates were adjusted for, and whose mean was subtracted."""
        return Preparation.of(self.facts.get("preparation", {}))

    @property
    def adjustment(self) -> Adjustment | None:
        """What covariates explain: taken out, or with ComBat protected. None without covariates."""
        if self.coefficients is None or self.covariate_mean is None:
            return None
        return Adjustment(self.covariate_mean, self.coefficients)

    @property
    def reference(self) -> Reference | None:
        """What sites measure their own shift and spread against; None without ComBat."""
        if self.reference_mean is None or self.reference_spread is None:
            return None
        return Reference(self.reference_mean, self.reference_spread)

    def own(self, X: ArrayLike, *, covariates: ArrayLike | None = None) -> Own | Harmony | None:
        """Return what a site takes out of its own rows: its mean and spread, or with ComBat its shift and spread.

        The model has no figures of single sites. A site that took part finds its own again from the rows with which it
        took part. A site that did not take part finds its own from its rows, against the same joint figures. None if
        the fit used only the joint mean.

        Parameters
        ----------
        X : array-like of shape (n, d)
            The rows of one site.
        covariates : array-like of shape (n, p), optional
            The columns of the design for these rows, from ``model.preparation.design.encode``.
        """
        return self._own(self._analysed(X), covariates)

    def _analysed(self, X: ArrayLike) -> Array:
        """Return rows over the model's features, transformed as in the fit."""
        rows = np.asarray(in_order(unmasked(X), self.feature_names), dtype=np.float64)
        if rows.ndim != 2 or rows.shape[1] != len(self.mean):
            raise ValueError(
                f"Expected rows over the model's {len(self.mean)} features. Got shape {rows.shape} instead."
            )
        if np.isinf(rows).any():
            row, column = np.argwhere(np.isinf(rows))[0]
            raise ValueError(
                f"The rows contain infinity, first in column {self.feature_names[column]!r}, row {row + 1} (counted "
                "from 1). Correct such values first."
            )
        rows, seen = np.asarray(transformed("rows", rows, self.transforms)), map_of(self.maps)
        return rows if seen is None else seen(rows)

    @property
    def gap_model(self) -> GapModel | None:
        """What is expected of missing values, given the others of their row; None if they are at the mean."""
        if "gap_loadings" not in self.maps:
            return None
        return GapModel(self.mean, *(self.maps[name] for name in GAPS))

    @property
    def transforms(self) -> tuple[str, ...]:
        """What was done to the values before the fit, and is done to new rows."""
        return self.preparation.transform or tuple(self.facts.get("study", {}).get("transform") or ())

    def _own(self, rows: Array, covariates: ArrayLike | None) -> Own | Harmony | None:
        how = self.preparation
        if how.centre == "joint":
            return None
        if how.centre == "site":
            return own_view(rows, Beside(), Preparation(centre="site", scale=how.scale), missing=True)
        assert self.reference is not None
        if np.isnan(rows).any():
            raise ValueError("ComBat needs every value, and some are missing (NaN). Fill them in first.")
        return harmony_of(rows, Beside(self._lines(len(rows), covariates)), self.reference, self.adjustment)

    def transform(
        self, X: ArrayLike, *, covariates: ArrayLike | None = None, own: Own | Harmony | None = None
    ) -> Array:
        """Scores of rows on the components: (X − mean)/scale · componentsᵀ, with missing values at the mean.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Rows over the model's features. Columns of a DataFrame are found by name; an array has the features in
            their order. NaN is accepted only if the fit allowed it.
        covariates : array-like of shape (n, p), optional
            The columns of the design for these rows, from ``model.preparation.design.encode``, where the
            fit adjusted for covariates.
        own : optional
            What the site of these rows takes out of them, from :meth:`own`, if the fit used each site's own mean or
            ComBat. By default it is found from the given rows.

        Returns
        -------
        scores : ndarray of shape (n, r)
            One column per component.
        """
        return np.asarray(self.standardised(X, covariates=covariates, own=own) @ self.components.T)

    def inverse_transform(self, scores: ArrayLike) -> Array:
        """Reconstruct rows from their scores, in the units in which rows were analysed: after transforms."""
        self._check_means_known()
        back = np.linalg.pinv(self.components).T  # sparse components need not be orthogonal
        return np.asarray(np.asarray(scores, dtype=np.float64) @ back) * self.scale + self.mean

    def reconstruction_errors(
        self, X: ArrayLike, *, covariates: ArrayLike | None = None, own: Own | Harmony | None = None
    ) -> Array:
        """‖a − Pa‖² of each standardised row a, where P projects on the span of the components."""
        left = self.residuals(X, covariates=covariates, own=own)
        return np.asarray(np.einsum("ij,ij->i", left, left))

    def residuals(
        self, X: ArrayLike, *, covariates: ArrayLike | None = None, own: Own | Harmony | None = None
    ) -> Array:
        """A − Pa of each standardised row a: what the components do not explain, feature by feature."""
        rows, basis = self.standardised(X, covariates=covariates, own=own), np.linalg.qr(self.components.T)[0]
        return np.asarray(rows - (rows @ basis) @ basis.T)

    def standardised(
        self, X: ArrayLike, *, covariates: ArrayLike | None = None, own: Own | Harmony | None = None
    ) -> Array:
        """Rows centred, scaled and adjusted as the model sees them, with missing values at the mean."""
        self._check_means_known()
        rows = self._analysed(X)
        missing = np.isnan(rows)
        if missing.any() and not self.facts.get("max_missing"):
            column = self.feature_names[int(np.flatnonzero(missing.any(axis=0))[0])]
            raise ValueError(
                f"The rows contain missing values (NaN), for example in {column!r}, and the model was fitted without "
                "allowing for any. Impute them first, or fit with max_missing."
            )
        if self.gap_model is not None:
            rows, missing = self.gap_model.filled(rows), np.zeros(rows.shape, dtype=bool)
        lines = self._lines(len(rows), covariates)
        frame = Frame(self.mean, self.scale, nothing_removed(len(self.mean)), self.adjustment, self.reference)
        own = own or self._own(rows, covariates)
        seen = frame if own is None else own.seen(frame)
        explained = Beside(lines).explained(seen.adjustment)
        return np.asarray((np.where(missing, 0.0, rows - seen.mean) - explained) / seen.scale)

    def _check_means_known(self) -> None:
        if not self.rows_seen:
            raise ValueError(UNKNOWN_MEANS)

    def _lines(self, n: int, covariates: ArrayLike | None) -> Array | None:
        """Return the covariates of n rows. Refuse if covariates are missing, or given but not needed."""
        if self.covariate_mean is None:
            if covariates is not None:
                raise ValueError("Covariates are given, and the model knows none.")
            return None
        names = ", ".join(self.preparation.design.names)
        if covariates is None:
            raise ValueError(f"The model was adjusted for {names}: new rows need these covariates too.")
        lines = np.asarray(covariates, dtype=np.float64)
        if lines.shape != (n, len(self.covariate_mean)):
            shape = (n, len(self.covariate_mean))
            raise ValueError(f"The covariates must have the shape {shape} for {names}. Got {lines.shape} instead.")
        if self.preparation.centre == "site":
            lines = lines - lines.mean(axis=0)
        return lines

    def adjusted(self) -> list[str]:
        """Say what was adjusted for before the fit, and how much variance that removed; empty if nothing was."""
        return preparation_in_words(self)

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        *,
        covariance: ArrayLike | None = None,
        patterns: Array | None = None,
        uniqueness: Array | None = None,
        **facts: Any,
    ) -> Self:
        """Make a model from a fitted estimator.

        Parameters
        ----------
        estimator : FASPCA, FSSPCA or ExactSPCA
            The fitted estimator.
        covariance : array-like of shape (r, r), optional
            Covariance of the scores; by default the one that the fit found.
        patterns, uniqueness : ndarray, optional
            How every feature follows the scores, and what is left of its variance.
        **facts
            Further facts to keep with the model, as plain JSON.
        """
        return cls(**parts_of(estimator, covariance, facts), patterns=patterns, uniqueness=uniqueness)

    def to_estimator(self) -> Any:
        """Return a fitted scikit-learn estimator, for example for pipelines."""
        return estimator_of(self)

    def to_csv(self, path: str | Path) -> None:
        """Write the loadings as a table: one row per feature, one column per component.

        A name that a spreadsheet would run as a formula gets an apostrophe in front: in a study between institutions,
        names come from other people.
        """
        with new_file(Path(path)) as draft, draft.open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["feature", *(f"component {j + 1}" for j in range(self.n_components))])
            for name, weights in zip(self.feature_names, self.components.T, strict=True):
                writer.writerow([spreadsheet_safe(name), *(repr(float(weight)) for weight in weights)])

    def save(self, folder: str | Path, *, overwrite: bool = False) -> None:
        """Write the model as a folder: a manifest in JSON, and arrays of numbers only.

        The same data and settings give the same bytes. The folder appears only when it is complete.

        Parameters
        ----------
        folder : path
            Where to write it. It must not exist, unless it is a model and ``overwrite`` is true.
        overwrite : bool, default=False
            Whether a model that is there may be replaced.
        """
        write(self, Path(folder), overwrite=overwrite)

    @property
    def earlier(self) -> Earlier:
        """Where the fit ended, for a fit to more rows: ``ExactSPCA.fit_federation(…, earlier=model.earlier)``."""
        return Earlier(self.components.T, np.zeros((len(self.mean), 0)) if self.basis is None else self.basis)

    @classmethod
    def load(cls, folder: str | Path) -> Self:
        """Read a model that :meth:`save` wrote, here or elsewhere, or raise an :class:`InvalidModel` that says why not.

        Parameters
        ----------
        folder : path
            The model.
        """
        return cls(**read(Path(folder)))


def replace_preparation(model: SparsePCAModel, **changed: Any) -> SparsePCAModel:
    """Return a copy of a model with a changed preparation."""
    before = model.facts.get("preparation", {})
    return replace(model, facts={**model.facts, "preparation": {**before, **changed}})
