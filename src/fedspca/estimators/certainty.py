"""How sure a fit is, from its sums by fold: the attributes that ``ExactSPCA(folds=...)`` has after a fit."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedspca.solvers.folds.crossval import nested_scores, sparsity_grid, splits
from fedspca.solvers.folds.stability import Stability, stability, stand_ins
from fedspca.solvers.folds.sums import FoldSums

Array = NDArray[np.float64]

CERTAINTY = (
    "selection_frequency_",
    "weight_interval_",
    "explained_variance_interval_",
    "stable_",
    "stable_threshold_",
    "false_selections_",
    "cv_score_",
    "cv_score_std_",
    "cv_nonzeros_",
    "stand_ins_",
)
SELDOM = 0.05  # features that are selected in a smaller share of half samples are not saved


def certainty(sums: FoldSums, w: Array, variances: Array, *, orthogonal: bool) -> dict[str, Any]:
    """Return the fitted attributes that tell how sure the loadings are.

    Parameters
    ----------
    sums : FoldSums
        The sums by fold.
    w : ndarray of shape (d, r)
        The loadings.
    variances : ndarray of shape (r,)
        The variance that each loading explains.
    orthogonal : bool
        Whether loadings are orthogonal.
    """
    told = stability(sums, w, variances, orthogonal=orthogonal)
    grid = sparsity_grid(sums.n_features)
    scores = nested_scores(splits(sums), grid, w[sums.features], orthogonal=orthogonal)
    values: tuple[Any, ...] = (
        told.frequency,
        told.weight_interval,
        told.variance_interval,
        told.stable,
        told.threshold,
        told.bound,
        scores.mean(axis=0),
        scores.std(axis=0, ddof=1),
        np.array(grid),
        _stand_ins(sums, w, told),
    )
    return dict(zip(CERTAINTY, values, strict=True))


def _stand_ins(sums: FoldSums, w: Array, told: Stability) -> list[tuple[int, int, int, float]]:
    """Return component, feature, the feature that half samples select in its place, and their correlation."""
    at = sums.features
    s = sums.subsample(np.ones(sums.n_folds, dtype=bool)).matrix
    deviations = np.sqrt(np.maximum(s.diagonal(), np.finfo(float).tiny))
    correlation = s / deviations / deviations[:, None]
    return [
        (component, int(at[i]), int(at[j]), alike)
        for component in range(w.shape[1])
        for i, j, alike in stand_ins(told.frequency[component, at], w[at, component] != 0.0, correlation)
    ]


def plain_certainty(estimator: Any) -> dict[str, Any] | None:
    """Return what a fit with folds tells, as plain JSON for a model; None without folds."""
    if not hasattr(estimator, "selection_frequency_"):
        return None
    frequency, weights = estimator.selection_frequency_, estimator.components_
    components = []
    for j in range(len(weights)):
        told = np.flatnonzero((frequency[j] >= SELDOM) | (weights[j] != 0.0))
        features = [
            {
                "feature": int(i),
                "frequency": float(frequency[j, i]),
                "interval": [float(end) for end in estimator.weight_interval_[j, i]],
                "stable": bool(estimator.stable_[j, i]),
            }
            for i in told
        ]
        components.append(
            {
                "features": features,
                "threshold": float(estimator.stable_threshold_[j]),
                "false_selections": float(estimator.false_selections_[j]),
                "explained_variance_interval": [float(end) for end in estimator.explained_variance_interval_[j]],
                "stand_ins": [[i, other, alike] for at, i, other, alike in estimator.stand_ins_ if at == j],
            }
        )
    scores = {name: getattr(estimator, f"{name}_").tolist() for name in ("cv_nonzeros", "cv_score", "cv_score_std")}
    return {"folds": int(estimator.folds or 0), "components": components, **scores}


def check_whole(state: object) -> None:
    """Raise ValueError if a fit with folds is resumed from a state: a state holds no sums by fold."""
    if state is not None:
        raise ValueError(
            "A fit with folds cannot go on from a state: the sums by fold are not in it. Begin without a state, or "
            "keep the sums themselves (fedspca fit --resume)."
        )
