"""What all federated sparse PCA estimators share: scikit-learn's interface around one fit over a federation."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any, ClassVar, Literal, NamedTuple, Self, cast

import numpy as np
from numpy.exceptions import DTypePromotionError
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import make_constraint
from sklearn.utils.validation import check_array, check_is_fitted, validate_data

from fedspca.estimators.parameters import refusal, takes_truth
from fedspca.estimators.rows import RowsBeside, encoded, plain_rows, score_rows, transformed_rows
from fedspca.federation import Federation, LocalFederation
from fedspca.federation.base import preparation_of, rows_counted, rows_seen
from fedspca.federation.covariance import UNKNOWN_MEANS
from fedspca.linalg.operators import Frame, all_finite
from fedspca.linalg.row_blocks import dense_parts, filled
from fedspca.linalg.stiefel import nothing_removed
from fedspca.metrics import adjusted_variances, captured_variances
from fedspca.site import InvalidData, Site
from fedspca.site.dask_rows import is_dask
from fedspca.site.preparation import Preparation
from fedspca.site.site import default_names
from fedspca.solvers.asking import about_the_mean
from fedspca.solvers.deflation import captured_variance
from fedspca.solvers.gaps import Completed, complete, complete_once
from fedspca.solvers.mapping import learnt_of, mapped
from fedspca.solvers.rounds import ProgressBar, Round, Rounds
from fedspca.solvers.standardise import Moments, standardise
from fedspca.solvers.stopping import StopReason

Array = NDArray[np.float64]

DUST = 1e-15  # relative to the largest weight; orthonormalising many loadings leaves weights of about 1e-32


class Found(NamedTuple):
    """Loadings W (d × r) and WᵀSW, from which all reported figures are computed."""

    w: Array
    captured: Array


class FederatedSparsePCA(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator, ABC):
    """Sparse loadings of rows that several sites hold; subclasses say how the loadings are found."""

    n_components: int
    scale: bool
    max_missing: float = 0.0  # a subclass may offer it as a parameter
    missing: str = "mean"  # the same
    _completed: Completed | None = None  # mean and covariance by EM, if missing is "em"
    max_rounds: int
    random_state: Any
    callbacks: Sequence[Callable[[Round], object]] | None
    verbose: int
    stop_reason_: StopReason
    _parameter_constraints: ClassVar[dict[str, Any]]

    def _validate_params(self) -> None:
        """Check the settings: before rows are read, and again before sites are asked. So it must be fast."""
        for name, constraints in _constraints(type(self)).items():
            value, stated = getattr(self, name), self._parameter_constraints[name]
            untrue = isinstance(value, bool) and not takes_truth(stated)  # Python counts True as the number 1
            if untrue or not any(constraint.is_satisfied_by(value) for constraint in constraints):
                raise refusal(type(self).__name__, name, stated, value)

    @abstractmethod
    def _solve(self, rounds: Rounds, moments: Moments, n_components: int, rng: np.random.Generator) -> Found:
        """Find the loadings, and set the attributes that only this method knows, such as ``stop_reason_``."""

    @abstractmethod
    def _objective(self, w: Array, captured: Array, n_sites: int) -> float:
        """Penalised objective of loadings w, given WᵀSW."""

    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        sites: Any = None,
        covariates: Any = None,
        adjust: Sequence[str] | None = None,
        protect: Sequence[str] | None = None,
        sample_weight: Any = None,
        centre: Literal["joint", "site", "combat"] = "joint",
        scale_by: Literal["joint", "site", "allele"] = "joint",
        site_weight: Literal["rows", "equal"] = "rows",
        transform: Sequence[str] = (),
        variable: int | None = None,
    ) -> Self:
        """Fit to rows in this process, as if each belonged to its site.

        Parameters
        ----------
        X : array-like, CSR matrix or dask.array of shape (n_samples, n_features)
            The rows of all sites. Single precision stays single precision, sparse stays sparse, and a Dask array stays
            on its cluster.
        y : ignored
            Present by convention.
        sites : array-like of shape (n_samples,), optional
            The owner of each row; None puts all rows at one site.
        covariates : DataFrame or array-like of shape (n_samples, n_covariates), optional
            Variables to adjust the features for, such as age, sex or batch: numbers or categories.
        adjust : sequence of str, optional
            Which covariates to adjust for, with interactions as ``"age:sex"``; by default all, without interactions.
        protect : sequence of str, optional
            With ``centre="combat"``: which covariates to protect; by default all. What they explain stays in the rows.
        sample_weight : array-like of shape (n_samples,), optional
            How often each row counts. A weight of 3 is the same as three copies of the row.
        centre : {"joint", "site", "combat"}, default="joint"
            Whose mean is subtracted. With "site", all differences between the sites' means are removed. With "combat",
            each site's own shift and spread are, shrunk over the features by empirical Bayes (ComBat), and what the
            covariates explain is protected.
        scale_by : {"joint", "site", "allele"}, default="joint"
            Whose standard deviation divides the features: the joint one (only if ``scale``), or each site's own. With
            "allele", that of a genotype 0, 1, 2 with allele frequency p = mean/2, which is √(2p(1 − p)).
        site_weight : {"rows", "equal"}, default="rows"
            Whether a site counts in proportion to its rows, or all sites count equally.
        transform : sequence of str, default=()
            What is done to the values first, in this order. Of each row by itself: "library" (counts to 10,000 a row),
            "log1p", "clr". Of each feature over all sites, as the last: "pearson" (Pearson residuals of counts),
            "normal" (rank-based inverse normal), "winsorise" or "winsorise:0.05". New rows are transformed as well.
        variable : int, optional
            Keep this many features: those of the largest variance, after transforms and adjustment. The others get a
            weight of zero.

        Returns
        -------
        self : object
            The fitted estimator.
        """
        beside = RowsBeside(
            sites, covariates, adjust, protect, sample_weight, centre, scale_by, site_weight, transform, variable
        )
        return self.fit_federation(self._local_federation(X, beside, reset=True))

    def fit_transform(self, X: Any, y: Any = None, **fit_params: Any) -> Any:
        """Fit to rows, and return their scores. Further arguments are those of :meth:`fit`."""
        fitted = self.fit(X, y, **fit_params)
        return fitted.transform(X, covariates=fit_params.get("covariates"), sites=fit_params.get("sites"))

    @property
    def partial_fit(self) -> Any:
        """Not available: components of batches are not those of all rows. The error says what to do instead."""
        raise AttributeError(  # not a method that raises: scikit-learn checks with hasattr
            f"{type(self).__name__} has no partial_fit: every component depends on all rows. Rows larger than memory "
            "are fitted at once, from a file that numpy maps (numpy.load(path, mmap_mode='r')), from a Dask array, or "
            "by fedspca fit. Rows that come in batches can be sites: fit_federation(LocalFederation(sites))."
        )

    def fit_federation(self, federation: Federation) -> Self:
        """Fit over anything that implements the primitive ``sum(query)``.

        Parameters
        ----------
        federation : Federation
            The sites, wherever they are.

        Returns
        -------
        self : object
            The fitted estimator.
        """
        self._fit(federation)
        return self

    def _fit(self, federation: Federation) -> Array | None:
        """Fit, and return S if it was asked for as a whole."""
        with self._asking(federation) as rounds:
            moments = self._moments(rounds)
            self._check_n_components(self.n_components, moments)
            found = self._solve(rounds, moments, self.n_components, self._generator())
            self._set_fitted(rounds, moments, found)
        return None

    @contextmanager
    def _asking(self, federation: Federation) -> Iterator[Rounds]:
        """Check the settings, and yield the rounds of a new fit, with a progress bar if asked for."""
        self._validate_params()
        federation, history = learnt_first(checked_federation(federation))
        self._completed = None
        if self.missing != "mean":
            asking, estimate = Rounds(federation, (), history), complete if self.missing == "em" else complete_once
            self._completed = estimate(asking, max_missing=self.max_missing)
            federation, history = self._completed.federation, asking.history
        rounds, bar = self._rounds(federation, history)
        try:
            yield rounds
        finally:
            if bar is not None:
                bar.close()

    def _moments(self, rounds: Rounds) -> Moments:
        return standardise(rounds, scale=self.scale, max_missing=self.max_missing)

    def _set_fitted(self, rounds: Rounds, moments: Moments, found: Found) -> None:
        rounds.show()
        w, captured = _without_dust(found.w), found.captured
        self.objective_ = self._objective(w, captured, rounds.n_sites)
        self.components_ = np.ascontiguousarray(w.T)
        self.mean_ = moments.mean
        self.scale_ = moments.scale
        self.spread_ = (
            moments.spread
            if not self.scale or preparation_of(rounds).scale != "joint"
            else np.where(moments.constant, 0.0, moments.scale)
        )
        left_out = np.zeros(len(moments.mean), dtype=bool) if moments.left_out is None else moments.left_out
        self.constant_features_ = np.flatnonzero(moments.constant & ~left_out)
        self.left_out_features_ = np.flatnonzero(left_out)
        learnt = learnt_of(rounds)
        self.feature_map_ = None if learnt is None else learnt.seen
        self.feature_map_error_ = 0.0 if learnt is None else learnt.error
        done = self._completed
        self.missing_share_ = moments.missing if done is None else done.missing
        self.gap_model_ = None if done is None else done.model
        self.n_samples_ = moments.n_rows
        self.rows_seen_, self.rows_counted_ = rows_seen(rounds), rows_counted(rounds)
        self.preparation_ = preparation_of(rounds)
        self.adjustment_ = moments.adjustment
        self.reference_ = moments.reference
        self.covariate_variance_ = dict(moments.taken)
        self.weight_factor_ = moments.factor
        self.total_variance_ = moments.total / (moments.n_rows - 1)
        self.score_covariance_ = captured / (moments.n_rows - 1)
        spanned = captured_variances(self.components_, self.score_covariance_)
        self.captured_variance_ratio_ = spanned / self.total_variance_
        self.explained_variance_ = adjusted_variances(captured) / (moments.n_rows - 1)
        self.explained_variance_ratio_ = self.explained_variance_ / self.total_variance_
        self.history_ = rounds.history
        self.n_rounds_ = len(rounds.history)
        self.n_sites_ = rounds.n_sites
        self.n_components_ = len(self.components_)
        self.n_features_in_ = len(rounds.feature_names)
        names = rounds.feature_names
        if names != default_names(len(names)):
            self.feature_names_in_ = np.array(names, dtype=object)
        elif hasattr(self, "feature_names_in_"):  # of an earlier fit
            del self.feature_names_in_

    def _leading(self, n: int) -> tuple[Array, Array] | None:
        """Return the largest eigenvalues and eigenvectors of what the fit came to know of S; None if it kept none."""
        return None

    def _fitted_moments(self) -> Moments:
        constant = np.zeros(self.n_features_in_, dtype=bool)
        constant[[*self.constant_features_, *self.left_out_features_]] = True
        total = self.total_variance_ * (self.n_samples_ - 1)
        return Moments(
            self.n_samples_,
            self.mean_,
            self.scale_,
            total,
            constant,
            self.missing_share_,
            adjustment=self.adjustment_,
            factor=self.weight_factor_,
            taken=self.covariate_variance_,
            reference=self.reference_,
        )

    def _rounds(self, federation: Federation, history: Sequence[Round] = ()) -> tuple[Rounds, ProgressBar | None]:
        for callback in self.callbacks or ():
            if not callable(callback):
                raise TypeError(f"Every callback must be callable with a Round. Got {callback!r} instead.")
        bar = ProgressBar(type(self).__name__, self.max_rounds) if self.verbose else None
        return Rounds(federation, [*(self.callbacks or ()), *([bar] if bar else [])], history), bar

    def _generator(self) -> np.random.Generator:
        if isinstance(self.random_state, np.random.Generator):
            return self.random_state
        if self.random_state is None or isinstance(self.random_state, np.random.RandomState):
            return np.random.default_rng(check_random_state(self.random_state).randint(2**31))
        return np.random.default_rng(self.random_state)

    def _check_n_components(self, n_components: int, moments: Moments, taken: int = 0, *, counted: bool = True) -> None:
        """Refuse more components than rows and features allow; only features limit them where rows are not counted."""
        varying = int(np.count_nonzero(~moments.constant))
        if n_components <= (moments.rank_bound if counted else varying) - taken:
            return
        limit = (
            f"min(n_samples, n_features) = min({moments.n_rows}, {varying})" if counted else f"n_features = {varying}"
        )
        raise InvalidData(
            f"The 'n_components' parameter of {type(self).__name__} must be at most {limit}"
            f"{' (features that vary)' if varying < len(moments.mean) else ''}"
            f"{f' less the {taken} found already' if taken else ''}. Got {n_components} instead."
        )

    def _local_federation(self, X: Any, beside: RowsBeside, *, reset: bool) -> LocalFederation:
        """Make sites in this process from one table, with covariates, weights and owners of its rows."""
        self._validate_params()
        if all(hasattr(X, name) for name in ("obs", "var", "obsm")):  # scikit-learn would convert it cell by cell
            raise InvalidData(
                "This is an AnnData object. Use fedspca.sc.spca(adata, …), or fit its matrix: fit(adata.X)."
            )
        rows = X if is_dask(X) else self._validated(X, reset=reset)  # scikit-learn would fetch Dask's chunks
        names = None if is_dask(X) else getattr(self, "feature_names_in_", None)
        return LocalFederation(beside.make_sites(rows, feature_names=names, allow_missing=self.max_missing > 0))

    def _validated(self, X: Any, *, reset: bool) -> Any:
        """Check rows as scikit-learn does. Each site checks the values: its errors name the site and the column."""
        return self._read(X, reset=reset, ensure_all_finite=False, ensure_min_samples=2)

    def _read(self, X: Any, **checks: Any) -> Any:
        """Return rows as an array or a CSR matrix of numbers, or say which column holds none."""
        kinds = [np.float64, np.float32]
        try:
            return validate_data(self, plain_rows(X), accept_sparse="csr", dtype=kinds, **checks)
        except (ValueError, DTypePromotionError) as error:
            if column := _column_without_numbers(X):
                raise InvalidData(f"{error} {column}" if isinstance(error, ValueError) else column) from None
            raise InvalidData(f"{error}") from None

    def transform(self, X: Any, *, covariates: Any = None, sites: Any = None) -> NDArray[np.floating]:
        """Scores of rows on the components: (X − mean)/scale · componentsᵀ, less what covariates explain.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            Rows to project; neither copied nor made dense.
        covariates : DataFrame or array-like of shape (n_samples, n_covariates), optional
            The covariates of these rows, if the fit adjusted for covariates.
        sites : array-like of shape (n_samples,), optional
            The owner of each row, if the fit used each site's own mean, or ComBat; None treats all rows as one site's.

        Returns
        -------
        scores : ndarray of shape (n_samples, n_components)
            In the precision of X.
        """
        check_is_fitted(self)
        self._check_means_known()
        rows = self._new_rows(X)
        frame = self._frame()
        lines = encoded(self.preparation_, covariates, rows.shape[0])
        scores = score_rows(rows, frame, self.components_.T, lines, sites, self.preparation_)
        return scores.astype(rows.dtype, copy=False)

    def _check_means_known(self) -> None:
        if not getattr(self, "rows_seen_", True):  # what older versions pickled has no such attribute
            raise ValueError(UNKNOWN_MEANS)

    def _frame(self) -> Frame:
        """The frame of the fit. Constant features stay in it: their weights are zero."""
        removed = nothing_removed(self.n_features_in_)
        return Frame(self.mean_, self.scale_, removed, self.adjustment_, self.reference_)

    def _new_rows(self, X: Any) -> Any:
        """Return new rows, prepared as in the fit: transformed, missing values, if allowed, replaced by the mean."""
        if is_dask(X):
            return self._new_dask_rows(X)
        rows = self._read(X, reset=False, ensure_all_finite="allow-nan")
        if not self.max_missing:
            self._refuse_missing(rows)
        rows = transformed_rows("rows", rows, self.preparation_.transform)
        if self.feature_map_ is not None:
            rows = np.concatenate([self.feature_map_(dense) for dense in dense_parts(rows)])
        if self.gap_model_ is not None:
            return np.concatenate([self.gap_model_.filled(dense) for dense in dense_parts(rows)])
        return filled(rows, self.mean_).astype(rows.dtype, copy=False) if self.max_missing > 0 else rows

    def _refuse_missing(self, rows: Any) -> None:
        values = rows if isinstance(rows, np.ndarray) else rows.data
        if all_finite(values):
            return
        gone = np.argwhere(np.isnan(values))[0]
        j = int(gone[1]) if values.ndim == 2 else int(rows.indices[gone[0]])
        name = getattr(self, "feature_names_in_", default_names(self.n_features_in_))[j]
        raise InvalidData(
            f"The rows contain missing values (NaN), for example in {str(name)!r}, and the fit allowed for none. "
            "Impute them first, or fit with max_missing, such as max_missing=0.2."
        )

    def _new_dask_rows(self, X: Any) -> Any:
        if X.ndim != 2 or X.shape[1] != self.n_features_in_:
            raise ValueError(
                f"Expected rows of {self.n_features_in_} features. Got an array of shape {X.shape} instead."
            )
        return X.map_blocks(filled, self.mean_, dtype=X.dtype) if self.max_missing > 0 else X

    def inverse_transform(self, X: Any) -> NDArray[np.floating]:
        """Reconstruct rows from their scores, in the units in which rows were analysed: after transforms.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_components)
            Scores.

        Returns
        -------
        rows : ndarray of shape (n_samples, n_features)
            The rows reconstructed from the components.
        """
        check_is_fitted(self)
        self._check_means_known()
        scores = check_array(X, dtype=[np.float64, np.float32])
        if scores.shape[1] != self.n_components_:
            raise ValueError(f"Expected scores on {self.n_components_} components, got {scores.shape[1]} columns.")
        rows = (scores @ self._dual_components()) * self.scale_ + self.mean_
        return np.asarray(rows).astype(scores.dtype, copy=False)

    def score(self, X: Any, y: Any = None, *, covariates: Any = None) -> float:
        """Share of the variance of X, about the fitted mean, that the components explain; higher is better.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            Rows, usually ones that were not used in the fit.
        y : ignored
            Present by convention.
        covariates : DataFrame or array-like of shape (n_samples, n_covariates), optional
            The covariates of these rows, if the fit adjusted for covariates.

        Returns
        -------
        share : float
            1 − ‖A − Â‖²/‖A‖², where Â is the projection of the rows A on the span of the components.
        """
        check_is_fitted(self)
        self._check_means_known()
        rows, how = self._new_rows(X), self.preparation_
        lines = encoded(how, covariates, rows.shape[0])
        alike = Preparation(how.design, centre=how.centre, scale=how.scale)
        rounds = Rounds(LocalFederation([Site("rows to score", rows, preparation=alike, covariates=lines)]))
        frame = self._frame()
        captured = captured_variance(rounds, frame, self.components_.T)
        squares = rounds.sum(about_the_mean(frame))["squares"]
        total = float(np.sum(squares / self.scale_**2))
        within = np.trace(np.linalg.solve(self.components_ @ self.components_.T, captured))
        return float(within / total) if total > 0 else 0.0

    def _dual_components(self) -> Array:
        """(WᵀW)⁻¹Wᵀ: equal to Wᵀ if the loadings are orthonormal, else the least-squares reconstruction."""
        return np.asarray(np.linalg.solve(self.components_ @ self.components_.T, self.components_))

    @property
    def converged_(self) -> bool:
        """Whether the fit reached its tolerance."""
        return self.stop_reason_.success

    @property
    def _n_features_out(self) -> int:
        return int(self.n_components_)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = self.max_missing > 0
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


@cache
def _constraints(estimator: type[FederatedSparsePCA]) -> dict[str, list[Any]]:
    """Return what each setting of an estimator may be."""
    stated = estimator._parameter_constraints.items()
    return {name: [make_constraint(each) for each in constraints] for name, constraints in stated}


def _without_dust(w: Array) -> Array:
    """Set to zero the weights that are only rounding errors, compared with the largest weight of their loading."""
    return np.where(np.abs(w) > DUST * np.abs(w).max(axis=0), w, 0.0)


def learnt_first(federation: Federation) -> tuple[Federation, list[Round]]:
    """Learn the transform that needs all sites, if there is one; return what is seen through it, and the rounds."""
    asking = Rounds(federation)
    seen = mapped(federation, asking)
    return seen, asking.history


def checked_federation(federation: Any) -> Federation:
    """Return the federation, or raise an error that says how to make one."""
    if all(hasattr(federation, name) for name in ("sum", "n_sites", "feature_names")):
        return cast("Federation", federation)
    raise TypeError(
        f"Expected a federation, something with sum(query), got {type(federation).__name__}. For sites in this process "
        "use LocalFederation(sites); for one table use fit(X, sites=...)."
    )


def _column_without_numbers(X: Any) -> str:
    """Name the first column of a DataFrame that holds no numbers, if there is one."""
    for name in getattr(X, "columns", ()):
        values = np.asarray(X[name])
        if values.dtype.kind in "mM":
            return f"Column {str(name)!r} holds dates or times: leave it out, or make numbers of it, such as days."
        try:
            values.astype(np.float64)
        except (TypeError, ValueError):
            return f"Column {str(name)!r} is not numeric: encode it or leave it out."
    return ""
