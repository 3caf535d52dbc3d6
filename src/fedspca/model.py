"""A fitted model on its own: all that is needed to use, save and show sparse loadings, without data or solver."""

import csv
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedspca._version import __version__
from fedspca.anomaly import ScoresRows
from fedspca.data.transforms import transformed
from fedspca.files import new_file, new_folder, spreadsheet_safe
from fedspca.linalg.beside import Adjustment, Beside, Reference
from fedspca.linalg.gaps import GapModel
from fedspca.linalg.maps import map_of
from fedspca.linalg.operators import Frame
from fedspca.linalg.stiefel import nothing_removed
from fedspca.plots.methods import Drawable
from fedspca.site.harmony import Harmony, harmony_of
from fedspca.site.preparation import Own, Preparation, own_view
from fedspca.solvers.exact.loop import Earlier

Array = NDArray[np.float64]

FORMAT = "fedspca-model"
FORMAT_VERSION = 1
PREPARED_VERSION = 2  # models with covariates or a site's own mean; older versions must refuse them
COMBAT_VERSION = 3  # models with site effects taken out by ComBat, or a transform that needed all sites
VERSIONS = (FORMAT_VERSION, PREPARED_VERSION, COMBAT_VERSION)
MANIFEST = "manifest.json"
DAMAGED = (
    KeyError,
    TypeError,
    ValueError,
    AttributeError,
    IndexError,
    OverflowError,
    RecursionError,
    EOFError,
    MemoryError,
)
RENAMED = {"agreement": "alignment"}  # figures of a round that had another name in older models
BOUNDS = ("upper_bound", "optimality_gap", "bound_is_dense")  # facts of a fit by ExactSPCA


class InvalidModel(ValueError):
    """A folder that is not a model, is damaged, or is of a format that this version does not know."""


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
        The numbers of rows and sites in the fit.
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

    ADJUSTMENT: ClassVar[tuple[str, ...]] = ("covariate_mean", "coefficients")
    MAPS: ClassVar[tuple[str, ...]] = ("knots", "images", "count_shares", "clip")
    GAPS: ClassVar[tuple[str, ...]] = ("gap_scale", "gap_loadings", "gap_noise")
    REFERENCE: ClassVar[tuple[str, ...]] = ("reference_mean", "reference_spread")
    BESIDE: ClassVar[tuple[str, ...]] = ("basis", "patterns", "uniqueness")
    ARRAYS: ClassVar[tuple[str, ...]] = (
        "components",
        "mean",
        "scale",
        "explained_variance",
        "explained_variance_ratio",
        "missing_share",
        "covariance",
    )
    NUMBERS: ClassVar[tuple[str, ...]] = ("n_samples", "n_sites", "total_variance")

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
        rows = np.asarray(X, dtype=np.float64)
        if rows.ndim != 2 or rows.shape[1] != len(self.mean):
            raise ValueError(
                f"Expected rows over the model's {len(self.mean)} features. Got shape {rows.shape} instead."
            )
        if np.isinf(rows).any():
            raise ValueError("The rows contain infinity. Correct such values first.")
        rows, seen = np.asarray(transformed("rows", rows, self.transforms)), map_of(self.maps)
        return rows if seen is None else seen(rows)

    @property
    def gap_model(self) -> GapModel | None:
        """What is expected of missing values, given the others of their row; None if they are at the mean."""
        if "gap_loadings" not in self.maps:
            return None
        return GapModel(self.mean, *(self.maps[name] for name in self.GAPS))

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
            Rows over the model's features, in their order. NaN is accepted only if the fit allowed it.
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
        how, taken = self.preparation, self.facts.get("covariate_variance", {})
        told = []
        if self.transforms:
            told.append(f"Values were first transformed: {', '.join(self.transforms)}.{self._map_error_in_words}")
        if how.variable is not None:
            told.append(f"Only the {how.variable} features of the largest variance were used.")
        if how.design.terms and not how.combat:
            apart = self.facts.get("covariate_between", {})
            where = {term: f" ({share:.0%} of what it explains lay between sites)" for term, share in apart.items()}
            shares = ", ".join(f"{t} {taken[t]:.1%}{where.get(t, '')}" for t in how.design.terms if t in taken)
            whole = f" Together they explain {taken['all']:.1%} of the variance; each beyond the others: {shares}."
            told.append(f"Taken out of the features: {', '.join(how.design.terms)}.{whole if taken else ''}")
        if how.centre == "site":
            spread = ", divided by its own spread" if how.scale == "site" else ""
            told.append(f"Each site's rows were seen about its own mean{spread}.")
        if how.combat:
            names = " and ".join(how.design.terms)
            verb = "explains" if len(how.design.terms) == 1 else "explain"
            kept = f" What {names} {verb} was protected." if how.design.terms else ""
            told.append(f"Each site's own shift and spread were taken out of its rows (ComBat).{kept}")
        if how.scale == "allele":
            told.append("Genotypes were divided by √(2p(1 − p)), where p is the allele frequency over all sites.")
        if how.weighted:
            told.append("Rows counted as often as their weights say.")
        if how.equal_sites:
            told.append("Every site counted alike, however many rows it has.")
        between = self.facts.get("between_sites")
        if between:
            after = f" before, and {between['after']:.1%} after" if told else ""
            told.append(f"{between['before']:.1%} of the variance lay between the sites' means{after}.")
        return told

    @property
    def _map_error_in_words(self) -> str:
        error = self.facts.get("map_error")
        if not error:
            return ""
        if self.transforms[-1] == "normal":
            return f" Ranks are known to within {error:.1%} of the rows."
        return f" The limits are known to within {error:.2g} standard deviations."

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
        d = estimator.n_features_in_
        names = getattr(estimator, "feature_names_in_", None)
        kept = {
            "estimator": {"class": type(estimator).__name__, "params": _plain_params(estimator)},
            "objective": float(estimator.objective_),
            "stop_reason": estimator.stop_reason_.value,
            "converged": bool(estimator.converged_),
            "max_missing": float(getattr(estimator, "max_missing", 0.0)),
            "history": [plain_round(record) for record in estimator.history_],
            **_preparation_facts(estimator),
            "left_out_features": [int(j) for j in getattr(estimator, "left_out_features_", ())],
            **({"map_error": error} if (error := getattr(estimator, "feature_map_error_", 0.0)) else {}),
            "constant_features": [int(j) for j in estimator.constant_features_],
            **({} if getattr(estimator, "spread_", None) is None else {"spread": estimator.spread_.tolist()}),
            **{name: _plain(getattr(estimator, f"{name}_")) for name in BOUNDS if hasattr(estimator, f"{name}_")},
            **facts,
        }
        adjustment, reference = getattr(estimator, "adjustment_", None), getattr(estimator, "reference_", None)
        return cls(
            components=np.asarray(estimator.components_, dtype=np.float64),
            mean=np.asarray(estimator.mean_, dtype=np.float64),
            scale=np.asarray(estimator.scale_, dtype=np.float64),
            explained_variance=np.asarray(estimator.explained_variance_, dtype=np.float64),
            explained_variance_ratio=np.asarray(estimator.explained_variance_ratio_, dtype=np.float64),
            missing_share=np.asarray(getattr(estimator, "missing_share_", np.zeros(d)), dtype=np.float64),
            covariance=np.asarray(estimator.score_covariance_ if covariance is None else covariance, dtype=np.float64),
            feature_names=tuple(f"x{j}" for j in range(d)) if names is None else tuple(str(name) for name in names),
            n_samples=_plain(estimator.n_samples_),
            n_sites=int(estimator.n_sites_),
            total_variance=float(estimator.total_variance_),
            facts=kept,
            covariate_mean=None if adjustment is None else adjustment.mean,
            coefficients=None if adjustment is None else adjustment.coefficients,
            maps=_maps_of(estimator),
            reference_mean=None if reference is None else reference.mean,
            reference_spread=None if reference is None else reference.spread,
            basis=estimator.earlier_.basis if hasattr(estimator, "earlier_") else None,
            patterns=patterns,
            uniqueness=uniqueness,
        )

    def to_estimator(self) -> Any:
        """Return a fitted scikit-learn estimator, for example for pipelines."""
        try:
            return self._estimator()
        except InvalidModel:
            raise
        except DAMAGED as error:
            raise InvalidModel(f"The facts of this model make no estimator ({type(error).__name__}).") from None

    def _estimator(self) -> Any:
        from fedspca import estimators
        from fedspca.solvers.rounds import Round
        from fedspca.solvers.stopping import StopReason

        made = self.facts["estimator"]
        if made["class"] not in estimators.__all__:
            raise InvalidModel(f"This version of fedspca has no estimator called {made['class']!r}.")
        estimator = getattr(estimators, made["class"])(**made["params"])
        for name in ("components", "mean", "scale", "explained_variance", "explained_variance_ratio", "missing_share"):
            setattr(estimator, f"{name}_", getattr(self, name).copy())
        estimator.spread_ = self.spread
        estimator.score_covariance_ = self.covariance.copy()
        estimator.captured_variance_ratio_ = self.captured_ratios
        for name in (*self.NUMBERS, "n_components"):
            setattr(estimator, f"{name}_", getattr(self, name))
        estimator.n_features_in_ = len(self.mean)
        estimator.basis_ = self.earlier.basis.copy()
        estimator.preparation_ = self.preparation
        estimator.adjustment_, estimator.reference_ = self.adjustment, self.reference
        estimator.feature_map_, estimator.feature_map_error_ = map_of(self.maps), self.facts.get("map_error", 0.0)
        estimator.gap_model_ = self.gap_model
        estimator.left_out_features_ = np.array(self.facts.get("left_out_features", []), dtype=np.intp)
        estimator.covariate_variance_ = dict(self.facts.get("covariate_variance", {}))
        estimator.weight_factor_ = float(self.facts.get("weight_factor", 1.0))
        if self.feature_names != tuple(f"x{j}" for j in range(len(self.mean))):
            estimator.feature_names_in_ = np.array(self.feature_names, dtype=object)
        estimator.objective_ = self.facts["objective"]
        estimator.constant_features_ = np.array(self.facts["constant_features"], dtype=np.intp)
        estimator.stop_reason_ = StopReason(self.facts["stop_reason"])
        for name in BOUNDS:
            if name in self.facts:  # models of older versions have none
                setattr(estimator, f"{name}_", self.facts[name])
        estimator.history_ = [Round(**_renamed(record), seconds=0.0) for record in self.facts["history"]]
        estimator.n_rounds_ = len(estimator.history_)
        return estimator

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
        folder = Path(folder)
        check_free(folder, overwrite=overwrite)
        with new_folder(folder) as draft:
            draft.chmod(0o755)  # a model is to be shared; the folder's parents decide with whom
            stored = {}
            for name in self._stored:
                array = self.maps[name] if name in self.maps else getattr(self, name)
                np.save(draft / f"{name}.npy", np.ascontiguousarray(array), allow_pickle=False)
                stored[name] = _checksum((draft / f"{name}.npy").read_bytes())
            content = {
                "format": FORMAT,
                "format_version": self._format_version,
                "fedspca_version": __version__,
                "arrays": stored,
                **{name: getattr(self, name) for name in self.NUMBERS},
                "feature_names": list(self.feature_names),
                "facts": dict(self.facts),
            }
            content["checksum"] = _checksum(_canonical(content))
            text = json.dumps(content, indent=1, ensure_ascii=True, allow_nan=False) + "\n"
            (draft / MANIFEST).write_text(text, encoding="ascii")

    @property
    def _format_version(self) -> int:
        if self.reference is not None or self.maps:
            return COMBAT_VERSION
        return PREPARED_VERSION if "preparation" in self.facts else FORMAT_VERSION

    @property
    def _stored(self) -> tuple[str, ...]:
        adjustment = () if self.coefficients is None else self.ADJUSTMENT
        reference = () if self.reference_mean is None else self.REFERENCE
        beside = [name for name in self.BESIDE if getattr(self, name) is not None]
        return (*self.ARRAYS, *adjustment, *reference, *beside, *self.maps)

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
        folder = Path(folder)
        try:
            return cls._loaded(folder)
        except InvalidModel:
            raise
        except (*DAMAGED, OSError) as error:  # a file with a valid checksum may still hold nonsense
            raise InvalidModel(f"{folder}: the model is damaged ({type(error).__name__}).") from None

    @classmethod
    def _loaded(cls, folder: Path) -> Self:
        content = _manifest(folder)
        optional = (*cls.ADJUSTMENT, *cls.REFERENCE, *cls.BESIDE, *cls.MAPS, *cls.GAPS)
        more = [name for name in optional if name in content["arrays"]]
        arrays = {name: _stored_array(folder, name, content["arrays"].get(name)) for name in (*cls.ARRAYS, *more)}
        names = tuple(content["feature_names"])
        if not all(isinstance(name, str) for name in names) or not isinstance(content["facts"], dict):
            raise InvalidModel(f"{folder}: the names or facts of this model are not as fedspca writes them.")
        r, d = arrays["components"].shape if arrays["components"].ndim == 2 else (0, 0)
        shapes = {"components": (r, d), "covariance": (r, r), "explained_variance": (r,)}
        shapes |= {"explained_variance_ratio": (r,), "mean": (d,), "scale": (d,), "missing_share": (d,)}
        if "basis" in arrays:
            shapes["basis"] = (d, min(arrays["basis"].size // max(d, 1), d))
        shapes |= {name: shape for name, shape in (("patterns", (r, d)), ("uniqueness", (d,))) if name in arrays}
        prepared = Preparation.of(content["facts"].get("preparation", {}))
        if p := len(prepared.design.lines):
            shapes |= {"covariate_mean": (p,), "coefficients": (p, d)}
        if prepared.combat:
            shapes |= {"reference_mean": (d,), "reference_spread": (d,)}
        if prepared.joint is not None:
            shapes |= _map_shapes(prepared.joint[0], d, arrays)
        if "gap_loadings" in arrays:
            q = arrays["gap_loadings"].size // max(d, 1)
            shapes |= {"gap_scale": (d,), "gap_loadings": (d, q), "gap_noise": (1,)}
        if len(names) != d or any(arrays[name].shape != shape for name, shape in shapes.items()):
            raise InvalidModel(f"{folder}: the arrays of this model do not fit together.")
        numbers = {name: content[name] for name in cls.NUMBERS}
        if not all(isinstance(number, int | float) and not isinstance(number, bool) for number in numbers.values()):
            raise InvalidModel(f"{folder}: the numbers of this model are not as fedspca writes them.")
        maps = {name: arrays.pop(name) for name in (*cls.MAPS, *cls.GAPS) if name in arrays}
        parts: dict[str, Any] = {**arrays, **numbers, "maps": maps}
        return cls(feature_names=names, facts=content["facts"], **parts)


def _maps_of(estimator: Any) -> dict[str, Array]:
    """Return the parameters of a transform that needed all sites, and of what is expected of missing values."""
    seen, gaps = getattr(estimator, "feature_map_", None), getattr(estimator, "gap_model_", None)
    found = {} if seen is None else dict(seen.arrays)
    if gaps is not None:
        found |= {"gap_scale": gaps.scale, "gap_loadings": gaps.loadings, "gap_noise": gaps.noise}
    return found


def _map_shapes(name: str, d: int, arrays: Mapping[str, Array]) -> dict[str, tuple[int, ...]]:
    """Return the shapes of the arrays of a transform that needed all sites."""
    if name == "pearson":
        return {"count_shares": (d,), "clip": (1,)}
    return {"knots": (len(arrays["knots"]), d), "images": (len(arrays["knots"]), d)}


def check_free(folder: Path, *, overwrite: bool) -> None:
    """Refuse to overwrite anything. Only another model may be overwritten, and only on request."""
    if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
        return
    if not (folder / MANIFEST).is_file():
        raise FileExistsError(f"{folder}: something else is there already. Choose another name.")
    if not overwrite:
        raise FileExistsError(f"{folder}: there is a model already. Choose another name, or replace it with --force.")


def _manifest(folder: Path) -> dict[str, Any]:
    path = folder / MANIFEST
    if not path.is_file():
        raise InvalidModel(f"{folder}: this is not a model; it has no {MANIFEST}.")
    try:
        content = json.loads(path.read_text(encoding="ascii"))
    except (ValueError, RecursionError):
        raise InvalidModel(f"{folder}: {MANIFEST} is damaged; it is not JSON.") from None
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise InvalidModel(f"{folder}: {MANIFEST} was not written by fedspca.")
    if content.get("format_version") not in VERSIONS:
        raise InvalidModel(
            f"{folder}: the model has format {content.get('format_version')} (fedspca "
            f"{content.get('fedspca_version')}) and this is fedspca {__version__}, which reads format "
            f"{max(VERSIONS)} and older. Use the version that wrote it, or a newer one."
        )
    checksum = content.pop("checksum", None)
    if checksum != _checksum(_canonical(content)):
        raise InvalidModel(f"{folder}: {MANIFEST} is damaged or was changed: its checksum does not fit.")
    return content


def _stored_array(folder: Path, name: str, checksum: str | None) -> Array:
    path = folder / f"{name}.npy"
    if not path.is_file():
        raise InvalidModel(f"{folder}: the model is not complete; {name}.npy is missing.")
    if _checksum(path.read_bytes()) != checksum:
        raise InvalidModel(f"{folder}: {name}.npy is damaged or was changed: its checksum does not fit.")
    array: Array = np.load(path, allow_pickle=False)
    if array.dtype != np.float64 or not np.isfinite(array).all():
        raise InvalidModel(f"{folder}: {name}.npy must hold finite numbers in double precision.")
    return array


def _checksum(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _canonical(content: Mapping[str, Any]) -> bytes:
    return json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False).encode("ascii")


def replace_preparation(model: SparsePCAModel, **changed: Any) -> SparsePCAModel:
    """Return a copy of a model with a changed preparation."""
    before = model.facts.get("preparation", {})
    return replace(model, facts={**model.facts, "preparation": {**before, **changed}})


def _preparation_facts(estimator: Any) -> dict[str, Any]:
    """Return how rows were prepared before the fit, as plain JSON; empty if they were used unchanged."""
    how = getattr(estimator, "preparation_", Preparation())
    if how == Preparation():
        return {}
    settings = {
        "protect" if how.combat else "adjust": list(how.design.terms),
        "levels": {name: list(levels) for name, levels in how.design.levels.items()},
        "weight": "weight" if how.weighted else None,
        "site_weight": "equal" if how.equal_sites else "rows",
        "centre": how.centre,
        "scale_by": how.scale,
    }
    settings |= {"transform": list(how.transform)} if how.transform else {}
    settings |= {} if how.variable is None else {"variable": how.variable}
    return {"preparation": settings, "weight_factor": float(getattr(estimator, "weight_factor_", 1.0))}


def _plain_params(estimator: Any) -> dict[str, Any]:
    """Return an estimator's settings as plain JSON, without callbacks and random generators."""
    return {
        name: plain
        for name, value in estimator.get_params(deep=False).items()
        if name not in {"callbacks", "verbose"} and (plain := _plain(value)) is not NotImplemented
    }


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, Sequence):
        items = [_plain(item) for item in value]
        return NotImplemented if NotImplemented in items else items
    return NotImplemented


def _renamed(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return a round with the current names: older models call the alignment ``agreement``."""
    return {RENAMED.get(name, name): value for name, value in record.items()}


def feature_certainty(model: SparsePCAModel, component: int) -> dict[int, dict[str, Any]]:
    """Return the stability of a component's features over half samples, by feature; empty for a fit without folds."""
    told = model.facts.get("certainty")
    return {each["feature"]: each for each in told["components"][component]["features"]} if told else {}


def certainty_in_words(model: SparsePCAModel, component: int, most: int = 3) -> list[str]:
    """Return sentences on what half samples say of a component: stable features, near misses, stand-ins.

    The list is empty for a fit without folds.
    """
    told = model.facts.get("certainty")
    if not told:
        return []
    about, names, weights = told["components"][component], model.feature_names, model.components[component]
    stable = sum(each["stable"] for each in about["features"])
    chance = f"At most {about['false_selections']:.2g} of these would be expected by chance alone."
    sentences = [f"{stable} feature(s) are stable: at least {about['threshold']:.0%} of the half samples select them."]
    sentences.append(chance)
    near = [each for each in about["features"] if weights[each["feature"]] == 0.0]
    if near:
        first = sorted(near, key=lambda each: -each["frequency"])[:most]
        named = ", ".join(f"{names[each['feature']]} ({each['frequency']:.0%})" for each in first)
        sentences.append(f"Not selected, but in some half samples: {named}.")
    sentences += [
        f"{names[other]} stands in for {names[feature]} in some half samples (correlation {alike:.2f})."
        for feature, other, alike in about["stand_ins"][:most]
    ]
    return sentences


def plain_round(record: Any) -> dict[str, Any]:
    """Return a round as JSON, without its duration, so that the same fit gives the same bytes."""
    kept = {name: getattr(record, name) for name in record.__dataclass_fields__ if name != "seconds"}
    return {name: _plain(value) for name, value in kept.items()}
