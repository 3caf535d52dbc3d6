"""What covariates and weights would disclose: sums over a few rows, or over the rows of one site.

CᵀX holds, for the indicator of one row, that row; for the indicator of one site, that site's own sums. A weight that is
zero but for a few rows makes every sum one over those. So under masks a site takes part only with covariates of which
each varies here, in rows enough, and none of which, nor any combination, is mostly about one row.
"""

from collections.abc import Sequence

import numpy as np

from fedspca.linalg.beside import Array, Beside

ONE_ROW = 0.5  # a row with more of the leverage outweighs all others together


def disclosed(beside: Beside, names: Sequence[str], *, min_rows: int, least: int) -> str | None:
    """Return in the owner's words what sums with these covariates and weights would tell of few rows, or None.

    Parameters
    ----------
    beside : Beside
        The site's covariates and weights.
    names : sequence of str
        The covariates' columns.
    min_rows : int
        The fewest rows that a sum may be over.
    least : int
        The fewest rows that a covariate may tell from the others. With one, single rows may be told.
    """
    if beside.weights is not None and (rows := effective_rows(beside.weights)) < min_rows * (1 - 1e-9):
        return f"its weights count as {rows:.1f} equal rows would, and its policy requires {min_rows}"
    if beside.covariates is None:
        return None
    counted = beside.ones(len(beside.covariates)) > 0
    for name, column in zip(names, beside.covariates[counted].T, strict=True):
        others = len(column) - int(np.unique(column, return_counts=True)[1].max())
        if others < least:
            return (
                f"its covariate {name!r} has one value in all rows but {others}, and at least {least} must differ: "
                "sums with it would tell of those rows, or of this site alone. Join levels, or leave it out"
            )
    if least > 1 and largest_leverage(beside) > ONE_ROW:
        return "a combination of its covariates is mostly about one row, which sums with them would tell"
    return None


def effective_rows(weights: Array) -> float:
    """How many rows of equal weight would say as much (Kish): (Σw)²/Σw²."""
    share = weights / weights.max()
    return float(share.sum() ** 2 / (share @ share))


def largest_leverage(beside: Beside) -> float:
    """The largest share that one row has in any combination of the covariates and a constant: from 0 to 1."""
    covariates = np.asarray(beside.covariates)
    about = covariates - covariates.mean(axis=0)
    spread = np.abs(about).max(axis=0)
    design = beside.rooted(np.column_stack([np.ones(len(about)), about / np.where(spread > 0, spread, 1.0)]))
    left, values, _ = np.linalg.svd(design, full_matrices=False)
    basis = left[:, values > values[0] * len(design) * np.finfo(float).eps]
    return float(np.square(basis).sum(axis=1).max())
