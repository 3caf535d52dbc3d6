"""What covariates and weights would disclose: sums over a few rows, or over the rows of one site.

If a covariate is the indicator of one row, CᵀX contains that row. If it is the indicator of one site, CᵀX contains that
site's own sums. If weights are zero except for a few rows, every sum is a sum over those rows. So under masks a site
takes part only if each covariate varies in enough of its rows, and no covariate or combination of covariates is mostly
about one row.

So it is with missing values that are filled in from the other values of their row: the sums with and without them
differ by the rows that lack values, each times what is filled in. :func:`told_together` chooses the rows for which no
combination of these differences is mostly about one of them.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from fedspca.linalg.beside import Array, Beside
from fedspca.linalg.row_blocks import AnyRows, Sums, dense_parts, total

COLUMNS_AT_ONCE = 64  # columns of all rows in memory at once
ONE_ROW = 0.5  # a row with a larger leverage outweighs all other rows together
ROWS_AT_ONCE = 4096
ROUNDING = 1e-14  # of the largest eigenvalue: smaller ones are rounding errors

Flags = NDArray[np.bool_]


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


def singled_out(raw: AnyRows, seen: AnyRows, least: int) -> int | None:
    """Return the first feature that a transform makes one of few rows, more than it is already; None if there is none.

    A transform that is one value in all rows but a few would turn every sum into one over those rows.
    """
    before, after = _concentration(raw), _concentration(seen)
    few = after.others < np.minimum(least, before.others)
    outweighed = after.leverage > np.maximum(ONE_ROW, before.leverage)
    bad = np.flatnonzero(few | outweighed)
    return int(bad[0]) if bad.size else None


class _Concentration(NamedTuple):
    """By feature: how many rows differ from the most common value, and the largest share of a row in Σ(x − x̄)²."""

    others: Array
    leverage: Array


def _concentration(rows: AnyRows) -> _Concentration:
    found: list[tuple[float, float]] = []
    for start in range(0, rows.shape[1], COLUMNS_AT_ONCE):
        for column in _columns(rows, start).T:
            values = column[np.isfinite(column)]
            common = np.unique(values, return_counts=True)[1].max(initial=0)
            about = (values - values.mean()) ** 2 if values.size else np.zeros(1)
            found.append((len(values) - common, about.max() / about.sum() if about.sum() > 0 else 0.0))
    return _Concentration(*np.array(found).T)


def _columns(rows: AnyRows, start: int) -> Array:
    """Return some columns of all rows, dense."""
    parts: list[Array] = []

    def keep(block: Any) -> Sums:
        parts.extend(np.array(dense[:, start : start + COLUMNS_AT_ONCE]) for dense in dense_parts(block))
        return (np.zeros(0),)

    total(rows, keep)
    return np.concatenate(parts)


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


def told_together(fills: sp.csr_array, *, min_rows: int, least: int) -> tuple[Flags, Flags]:
    """Return the rows and the features whose missing values may be filled in: none is told of alone.

    If feature j is filled in by e_ij in row i, sums with feature j change by Σ_i e_ij a_i, and a combination of
    features by Σ_i (Eα)_i a_i. No row may have more than half of the weights (Eα)² for any α: that is its leverage in
    the columns of E. Rows that would have more are left as they are, and so are features that few rows lack.

    Parameters
    ----------
    fills : sparse array of shape (n, d)
        E: what would be filled in.
    min_rows : int
        The fewest rows that may be filled in at all.
    least : int
        The fewest rows in which a feature may be filled in. 1 allows single rows, and checks nothing.
    """
    rows, features = np.ones(fills.shape[0], dtype=bool), np.ones(fills.shape[1], dtype=bool)
    if least <= 1:
        return rows, features
    there = sp.csr_array((np.ones(fills.nnz), fills.indices, fills.indptr), fills.shape)
    while True:
        before = rows.sum(), features.sum()
        features &= rows @ there >= least
        rows &= there @ features > 0
        if rows.sum() < max(min_rows, least):
            return np.zeros_like(rows), np.zeros_like(features)
        leverage = _leverage(fills[:, features], rows)
        alone = np.flatnonzero(rows & (leverage > ONE_ROW))
        # the worst half: without them others may have less, and are judged again
        rows[alone[np.argsort(-leverage[alone], kind="stable")][: (len(alone) + 1) // 2]] = False
        if before == (rows.sum(), features.sum()):
            return rows, features


def _leverage(fills: sp.csr_array, rows: Flags) -> Array:
    """Return the leverage of each row in the columns of some rows, as diag(E(EᵀE)⁺Eᵀ)."""
    inner = fills[rows].T @ fills[rows]
    values, vectors = np.linalg.eigh(inner.toarray())
    kept = values > ROUNDING * max(float(values[-1]), np.finfo(float).tiny)
    root = vectors[:, kept] / np.sqrt(values[kept])
    starts = range(0, fills.shape[0], ROWS_AT_ONCE)
    return np.concatenate([np.square(fills[at : at + ROWS_AT_ONCE] @ root).sum(axis=1) for at in starts])
