"""Covariates and weights of a site's rows, one entry for each row. Both stay at the site.

With covariates C (n × p), their joint mean γ and coefficients B (p × d), the rows X are replaced by X − (C − 1γᵀ)B: the
part that the covariates do not explain. A row of weight w counts w times; in a Gram matrix the row is multiplied by √w.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Sums = tuple[Array, ...]


@dataclass(frozen=True, eq=False)
class Adjustment:
    """What covariates explain: their joint mean γ (p) and the coefficients B (p × d)."""

    mean: Array
    coefficients: Array

    def same_as(self, other: "Adjustment | None") -> bool:
        """Whether another adjustment equals this one."""
        return (
            other is not None
            and np.array_equal(self.mean, other.mean)
            and np.array_equal(self.coefficients, other.coefficients)
        )


@dataclass(frozen=True, eq=False)
class Reference:
    """What a site's own shift and spread are measured against: the joint mean (d), and the spread within sites (d)."""

    mean: Array
    spread: Array

    def same_as(self, other: "Reference | None") -> bool:
        """Whether another reference equals this one."""
        return other is not None and np.array_equal(self.mean, other.mean) and np.array_equal(self.spread, other.spread)


@dataclass(frozen=True, eq=False)
class Beside:
    """Covariates (n × p) and weights (n) of rows, where there are any."""

    covariates: Array | None = None
    weights: Array | None = None

    def __bool__(self) -> bool:
        return self.covariates is not None or self.weights is not None

    def part(self, start: int, stop: int) -> "Beside":
        """Return the covariates and weights of some of the rows."""
        covariates = None if self.covariates is None else self.covariates[start:stop]
        return Beside(covariates, None if self.weights is None else self.weights[start:stop])

    def along(self, of: Callable[[Any, "Beside"], Sums]) -> Callable[[Any], Sums]:
        """Return a function of a block of rows that also receives their covariates and weights.

        Call it on the blocks in the order of the rows.
        """
        if not self:
            return lambda block: of(block, self)
        at = 0

        def walk(block: Any) -> Sums:
            nonlocal at
            start, at = at, at + block.shape[0]
            return of(block, self.part(start, at))

        return walk

    def explained(self, adjustment: Adjustment | None, directions: Array | None = None) -> Array | float:
        """(C − 1γᵀ)B, or its product with directions; zero without an adjustment."""
        if adjustment is None:
            return 0.0
        b = adjustment.coefficients
        return np.asarray(self.about(adjustment) @ (b if directions is None else b @ directions))

    def about(self, adjustment: Adjustment | None) -> Array:
        """C − 1γᵀ."""
        if adjustment is None or self.covariates is None:
            raise ValueError("There is an adjustment for covariates, and the rows have none.")
        return np.asarray(self.covariates - adjustment.mean)

    def weighted(self, x: Array) -> Array:
        """Multiply each row by its weight."""
        return x if self.weights is None else x * (self.weights if x.ndim == 1 else self.weights[:, None])

    def rooted(self, x: Array) -> Array:
        """Multiply each row by the root of its weight."""
        return x if self.weights is None else x * np.sqrt(self.weights)[:, None]

    def ones(self, n: int) -> Array:
        """Return the weights of n rows; without weights, a vector of ones."""
        return np.ones(n) if self.weights is None else self.weights


NOTHING = Beside()
