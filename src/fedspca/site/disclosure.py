"""What covariates and weights would disclose: sums over a few rows, or over the rows of one site.

If a covariate is the indicator of one row, CᵀX contains that row. If it is the indicator of one site, CᵀX contains that
site's own sums. If weights are zero except for a few rows, every sum is a sum over those rows. So under masks a site
takes part only if each covariate varies in enough of its rows, and no covariate or combination of covariates is mostly
about one row.
"""

from collections.abc import Sequence

import numpy as np

from fedspca.linalg.beside import Array, Beside

ONE_ROW = 0.5  # a row with a larger leverage outweighs all other rows together


def disclosed(beside: Beside, names: Sequence[str], *, min_rows: int, least: int) -> str | None:
    """Return, in words for the owner, what sums with these covariates and weights would disclose; None if nothing.

    Parameters
    ----------
    beside : Beside
        The site's covariates and weights.
    names : sequence of str
        The covariates' columns.
    min_rows : int
        The fewest rows that a sum may be over.
    least : int
        The fewest rows in which a covariate must differ from its most common value. 1 allows indicators of one row.
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
    """Effective number of rows (Kish): (Σw)²/Σw²."""
    share = weights / weights.max()
    return float(share.sum() ** 2 / (share @ share))


def largest_leverage(beside: Beside) -> float:
    """The largest leverage of one row in the design of a constant and the covariates, between 0 and 1."""
    covariates = np.asarray(beside.covariates)
    about = covariates - covariates.mean(axis=0)
    spread = np.abs(about).max(axis=0)
    design = beside.rooted(np.column_stack([np.ones(len(about)), about / np.where(spread > 0, spread, 1.0)]))
    left, values, _ = np.linalg.svd(design, full_matrices=False)
    basis = left[:, values > values[0] * len(design) * np.finfo(float).eps]
    return float(np.square(basis).sum(axis=1).max())
