"""Explained variance against non-zeros as plain figures."""

from typing import Any

import numpy as np

from fedspca.estimators import ExactSPCA
from fedspca.estimators.sparsity_path import Rule
from fedspca.federation import Federation
from fedspca.fit.settings import SolverSettings

POINTS = 10
NO_PROOF = 1e-9  # seconds: too few for a bound, and more than 0, with which fewer starts would be searched
MOST = 1000  # the most non-zeros a component that are tried: nobody reads longer loadings


def default_grid(n_features: int, points: int = POINTS) -> list[int]:
    """Return numbers of non-zeros from one to all features, at growing distances."""
    grid = np.geomspace(1, min(n_features, MOST), points)
    return sorted({round(float(count)) for count in grid})


def follow_path(
    settings: SolverSettings, federation: Federation, grid: list[int], rule: Rule = "knee"
) -> dict[str, Any]:
    """Solve for each number of non-zeros per component, in one or two rounds each, and mark a choice.

    Parameters
    ----------
    settings : SolverSettings
        How many components, and how rows are scaled.
    federation : Federation
        The sites.
    grid : list of int
        Non-zeros of each component.
    rule : {"knee", "bic", "share"}
        How the choice is made.
    """
    missing: Any = settings.missing or "mean"  # checked as every parameter is
    estimator = ExactSPCA(
        settings.number_of_components("A path"),
        scale=settings.scale,
        max_missing=settings.max_missing,
        missing=missing,
        random_state=settings.seed,
    )
    if estimator.n_components > 1:  # a path shows no bounds, and that of one component may come with better loadings
        estimator.set_params(proof_seconds=NO_PROOF)
    path = estimator.path_federation(federation, n_nonzero=grid)
    chosen = path.choose(rule)
    return {
        "rule": rule,
        "dense": float(path.dense_ratio),
        "rounds": int(path.n_rounds),
        "points": [
            {
                "nonzero": int(setting),
                "nonzeros": int(model.n_nonzeros),
                "explained": float(model.explained_variance_ratio),
                "chosen": model is chosen,
            }
            for setting, model in zip(grid, path, strict=True)
        ],
    }
