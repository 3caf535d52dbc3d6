"""Sums by feature over the rows: counts, sums, deviations, products with covariates."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedspca.linalg.beside import NOTHING, Adjustment, Beside
from fedspca.linalg.row_blocks import BLOCK_ROWS, AnyRows, RemoteRows, Sums, dense_parts_beside, total

Array = NDArray[np.float64]


def _tallies(rows: AnyRows, beside: Beside) -> tuple[Array, Array] | None:
    """Return the few values of the rows and how often each is there, if these are known and every row counts once."""
    return rows.tallies if isinstance(rows, RemoteRows) and not beside else None


def column_sums(rows: AnyRows, *, missing: bool = False, beside: Beside = NOTHING) -> Array:
    """Σ x by column, in double precision. Missing values, if there may be any, add nothing."""
    if (known := _tallies(rows, beside)) is not None:
        return np.asarray(np.nan_to_num(known[0]) @ known[1])

    def of(block: Any, part: Beside) -> Sums:
        return (np.asarray(block.sum(axis=0) if part.weights is None else part.weights @ block).ravel(),)

    return total(rows, beside.along(of), np.zeros(rows.shape[1]) if missing else None)[0]


def missing_counts(rows: AnyRows, beside: Beside = NOTHING) -> Array:
    """Missing values (NaN) by column."""
    return counts_where(rows, np.isnan, beside=beside)[0]


def counts_where(
    rows: AnyRows, *conditions: Callable[[Any], NDArray[np.bool_]], beside: Beside = NOTHING
) -> tuple[Array, ...]:
    """How many values of each column satisfy each of the conditions; of sparse rows, values that are stored."""
    if (known := _tallies(rows, beside)) is not None:
        values, counts = known
        return tuple(counts[which(values)].sum(axis=0) for which in conditions)
    return total(
        rows, beside.along(lambda block, part: tuple(column_counts(block, which, part) for which in conditions))
    )


def column_counts(block: Any, which: Callable[[Any], NDArray[np.bool_]], part: Beside = NOTHING) -> Array:
    """How many of the values stored in each column satisfy the condition ``which``."""
    if isinstance(block, np.ndarray):
        found = which(block)
        return np.asarray(found.sum(axis=0) if part.weights is None else part.weights @ found, dtype=np.float64)
    found = which(block.data)
    weights = None if part.weights is None else _stored_weights(block, part)[found]
    return np.bincount(block.indices[found], weights, minlength=block.shape[1]).astype(np.float64)


def deviations_from(
    rows: AnyRows,
    mean: Array,
    *,
    missing: bool = False,
    beside: Beside = NOTHING,
    adjustment: Adjustment | None = None,
) -> tuple[Array, Array]:
    """Σ(x − μ) and Σ(x − μ)² by column. The mean is subtracted first: Σx² − nμ² loses digits if means are large.

    With an adjustment, the part of x − μ that covariates explain is subtracted too.
    """
    if adjustment is None and (known := _tallies(rows, beside)) is not None:
        values, counts = known
        centred = np.nan_to_num(values[:, None] - mean)  # a missing value is at the mean
        return np.einsum("kj,kj->j", counts, centred), np.einsum("kj,kj,kj->j", counts, centred, centred)

    def of(block: Any, part: Beside) -> Sums:
        if isinstance(block, np.ndarray) or adjustment is not None:
            return _dense_deviations(block, mean, part, adjustment)
        stored = block.data - mean[block.indices]
        weights = _stored_weights(block, part)
        zeros = part.ones(block.shape[0]).sum() - np.bincount(block.indices, weights, minlength=len(mean))
        sums = (
            np.bincount(block.indices, weights=weights * power, minlength=len(mean)) for power in (stored, stored**2)
        )
        offsets, squares = sums
        return offsets - zeros * mean, squares + zeros * mean**2

    offsets, squares = total(rows, beside.along(of), mean if missing else None)
    return offsets, squares


def _stored_weights(block: Any, part: Beside) -> Array:
    """Return the weight of the row of each value that a sparse block stores."""
    return np.repeat(part.ones(block.shape[0]), np.diff(block.indptr))


def _dense_deviations(block: Any, mean: Array, part: Beside, adjustment: Adjustment | None) -> Sums:
    offsets, squares = np.zeros(len(mean)), np.zeros(len(mean))
    for dense, here in dense_parts_beside(block, part):
        centred = dense - mean
        centred -= here.explained(adjustment)
        weighted = here.weighted(centred)
        offsets += weighted.sum(axis=0)
        squares += np.einsum("ij,ij->j", weighted, centred)
    return offsets, squares


def covariate_products(
    rows: AnyRows, mean: Array, about: Array, *, missing: bool, beside: Beside
) -> tuple[Array, Array]:
    """(C − γ)ᵀ(C − γ) and (C − γ)ᵀ(X − μ): all that a regression of the features on the covariates needs."""

    def of(block: Any, part: Beside) -> Sums:
        centred = part.about(Adjustment(about, np.zeros((len(about), 0))))
        weighted = part.weighted(centred)
        if isinstance(block, np.ndarray):
            return weighted.T @ centred, weighted.T @ (block - mean)
        return weighted.T @ centred, np.asarray(block.T @ weighted).T - np.outer(weighted.sum(axis=0), mean)

    inner, cross = total(rows, beside.along(of), mean if missing else None, least=BLOCK_ROWS)
    return inner, cross
