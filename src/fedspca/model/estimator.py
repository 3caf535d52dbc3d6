"""A model and a fitted estimator: either can be made from the other."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedspca.linalg.maps import map_of
from fedspca.model.folder import DAMAGED, NUMBERS, InvalidModel
from fedspca.site.preparation import Preparation

if TYPE_CHECKING:
    from fedspca.model.model import SparsePCAModel

Array = NDArray[np.float64]

RENAMED = {"agreement": "alignment"}  # figures of a round that had another name in older models
ABOUT_ROWS = ("rows_seen", "rows_counted")  # facts that are kept where they are not true: a covariance was fitted
BOUNDS = ("upper_bound", "optimality_gap", "bound_is_dense")  # facts of a fit by ExactSPCA


def parts_of(estimator: Any, covariance: ArrayLike | None, facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parts of a model of a fitted estimator, with further facts to keep."""
    if not hasattr(estimator, "components_"):
        from sklearn.exceptions import NotFittedError

        raise NotFittedError(f"This {type(estimator).__name__} is not fitted yet: call its fit first.")
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
        **{name: False for name in ABOUT_ROWS if not getattr(estimator, f"{name}_", True)},
        "left_out_features": [int(j) for j in getattr(estimator, "left_out_features_", ())],
        **({"map_error": error} if (error := getattr(estimator, "feature_map_error_", 0.0)) else {}),
        "constant_features": [int(j) for j in estimator.constant_features_],
        **({} if getattr(estimator, "spread_", None) is None else {"spread": estimator.spread_.tolist()}),
        **{name: plain(getattr(estimator, f"{name}_")) for name in BOUNDS if hasattr(estimator, f"{name}_")},
        **facts,
    }
    adjustment, reference = getattr(estimator, "adjustment_", None), getattr(estimator, "reference_", None)
    return {
        "components": np.asarray(estimator.components_, dtype=np.float64),
        "mean": np.asarray(estimator.mean_, dtype=np.float64),
        "scale": np.asarray(estimator.scale_, dtype=np.float64),
        "explained_variance": np.asarray(estimator.explained_variance_, dtype=np.float64),
        "explained_variance_ratio": np.asarray(estimator.explained_variance_ratio_, dtype=np.float64),
        "missing_share": np.asarray(getattr(estimator, "missing_share_", np.zeros(d)), dtype=np.float64),
        "covariance": np.asarray(estimator.score_covariance_ if covariance is None else covariance, dtype=np.float64),
        "feature_names": tuple(f"x{j}" for j in range(d)) if names is None else tuple(str(name) for name in names),
        "n_samples": plain(estimator.n_samples_),
        "n_sites": int(estimator.n_sites_),
        "total_variance": float(estimator.total_variance_),
        "facts": kept,
        "covariate_mean": None if adjustment is None else adjustment.mean,
        "coefficients": None if adjustment is None else adjustment.coefficients,
        "maps": _maps_of(estimator),
        "reference_mean": None if reference is None else reference.mean,
        "reference_spread": None if reference is None else reference.spread,
        "basis": estimator.earlier_.basis if hasattr(estimator, "earlier_") else None,
    }


def estimator_of(model: "SparsePCAModel") -> Any:
    """Return the fitted estimator of a model, or raise an :class:`InvalidModel` if its facts make none."""
    try:
        return _estimator(model)
    except InvalidModel:
        raise
    except DAMAGED as error:
        raise InvalidModel(f"The facts of this model make no estimator ({type(error).__name__}).") from None


def _estimator(model: "SparsePCAModel") -> Any:
    from fedspca import estimators
    from fedspca.solvers.rounds import Round
    from fedspca.solvers.stopping import StopReason

    made = model.facts["estimator"]
    if made["class"] not in estimators.__all__:
        raise InvalidModel(f"This version of fedspca has no estimator called {made['class']!r}.")
    estimator = getattr(estimators, made["class"])(**made["params"])
    for name in ("components", "mean", "scale", "explained_variance", "explained_variance_ratio", "missing_share"):
        setattr(estimator, f"{name}_", getattr(model, name).copy())
    estimator.spread_ = model.spread
    estimator.score_covariance_ = model.covariance.copy()
    estimator.captured_variance_ratio_ = model.captured_ratios
    for name in (*NUMBERS, "n_components"):
        setattr(estimator, f"{name}_", getattr(model, name))
    estimator.n_features_in_ = len(model.mean)
    estimator.basis_ = model.earlier.basis.copy()
    estimator.preparation_ = model.preparation
    estimator.adjustment_, estimator.reference_ = model.adjustment, model.reference
    estimator.feature_map_, estimator.feature_map_error_ = map_of(model.maps), model.facts.get("map_error", 0.0)
    estimator.gap_model_ = model.gap_model
    estimator.rows_seen_, estimator.rows_counted_ = model.rows_seen, model.rows_counted
    estimator.left_out_features_ = np.array(model.facts.get("left_out_features", []), dtype=np.intp)
    estimator.covariate_variance_ = dict(model.facts.get("covariate_variance", {}))
    estimator.weight_factor_ = float(model.facts.get("weight_factor", 1.0))
    if model.feature_names != tuple(f"x{j}" for j in range(len(model.mean))):
        estimator.feature_names_in_ = np.array(model.feature_names, dtype=object)
    estimator.objective_ = model.facts["objective"]
    estimator.constant_features_ = np.array(model.facts["constant_features"], dtype=np.intp)
    estimator.stop_reason_ = StopReason(model.facts["stop_reason"])
    for name in BOUNDS:
        if name in model.facts:  # models of older versions have none
            setattr(estimator, f"{name}_", model.facts[name])
    estimator.history_ = [Round(**_renamed(record), seconds=0.0) for record in model.facts["history"]]
    estimator.n_rounds_ = len(estimator.history_)
    return estimator


def _maps_of(estimator: Any) -> dict[str, Array]:
    """Return the parameters of a transform that needed all sites, and of what is expected of missing values."""
    seen, gaps = getattr(estimator, "feature_map_", None), getattr(estimator, "gap_model_", None)
    found = {} if seen is None else dict(seen.arrays)
    if gaps is not None:
        found |= {"gap_scale": gaps.scale, "gap_loadings": gaps.loadings, "gap_noise": gaps.noise}
    return found


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
        name: kept
        for name, value in estimator.get_params(deep=False).items()
        if name not in {"callbacks", "verbose"} and (kept := plain(value)) is not NotImplemented
    }


def plain(value: Any) -> Any:
    """Return a value as JSON can hold it, or NotImplemented."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, Sequence):
        items = [plain(item) for item in value]
        return NotImplemented if NotImplemented in items else items
    return NotImplemented


def _renamed(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return a round with the current names: older models call the alignment ``agreement``."""
    return {RENAMED.get(name, name): value for name, value in record.items()}


def plain_round(record: Any) -> dict[str, Any]:
    """Return a round as JSON, without its duration, so that the same fit gives the same bytes."""
    kept = {name: getattr(record, name) for name in record.__dataclass_fields__ if name != "seconds"}
    return {name: plain(value) for name, value in kept.items()}
