"""How sure a fit is, from its sums by fold: the attributes that ``ExactSPCA(folds=...)`` has after a fit."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedspca.solvers.folds.crossval import nested_scores, sparsity_grid, splits
from fedspca.solvers.folds.stability import stability
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
)


def certainty(sums: FoldSums, w: Array, variances: Array, *, orthogonal: bool) -> dict[str, Any]:
    """Return the fitted attributes that tell how sure the loadings are.

    Parameters
    ----------
    sums : FoldSums
        The sums by fold.
    w : ndarray of shape (d, r)
        The loadings.
    variances : ndarray of shape (r,)
        What each explains.
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
    )
    return dict(zip(CERTAINTY, values, strict=True))


def check_whole(state: object) -> None:
    """Raise ValueError for a fit with folds that is to go on from a state, which has no sums by fold."""
    if state is not None:
        raise ValueError(
            "A fit with folds cannot go on from a state: the sums by fold are not in it. Begin without a state, or "
            "keep the sums themselves (fedspca fit --resume)."
        )
