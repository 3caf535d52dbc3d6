"""The upper bound that a fit reports, and the rounding of answers that it allows for."""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedspca.estimators.base import Found
from fedspca.linalg.cardinality.proof import PROVED
from fedspca.solvers.exact.driver import penalised_objective

Array = NDArray[np.float64]

# below this share of the largest eigenvalue an answer is only rounding error; dividing by it would spoil the model
RANK_TOL = {"float64": 1e-11, "float32": 1e-5}
# The model of S divides an answer by no less than the root of RANK_TOL, which makes its error 2/√RANK_TOL as large. An
# answer is off by less than 1e-9 of the trace in all tests; a hundred times as much is allowed for.
MODEL_ROUNDING = 1e-7 * 2.0 / math.sqrt(RANK_TOL["float32"])


class Bound(NamedTuple):
    """What no loadings exceed, whether this is dense PCA's own bound, and how far below it the loadings found are."""

    upper_bound: float
    is_dense: bool
    gap: float


def bound_on(
    found: Found, lam: Array | None, bound: float | None, dense: float, rounding: float, *, proved: bool = False
) -> Bound:
    """Return the upper bound (that of dense PCA if there is no other) and the gap.

    In single precision, the variance of any loadings may be off by ``rounding``, and so may the bound. Loadings that
    are ``proved`` to be the best are their own bound: a proof ends within a millionth, and what is left is its
    tolerance. What is reached is rounded as well, and is too low by more where loadings are nearly parallel: the bound
    then stays as it is.
    """
    reached = -penalised_objective(found.w, found.captured, lam)
    if proved and (bound is None or bound - reached <= PROVED * abs(reached)):
        return Bound(reached, False, 0.0)
    least_penalty = 0.0 if lam is None else float(lam.sum())  # ‖w‖₁ ≥ 1 for every column
    dense -= least_penalty
    upper = max(dense if bound is None else min(bound, dense), reached) + 2.0 * rounding
    size = abs(reached) or float(np.trace(found.captured)) or 1.0
    return Bound(upper, bound is None or dense < bound, (upper - reached) / size)
