"""The last step: make the result of ADMM orthonormal without losing its zeros."""

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from fedspca.linalg.sparse_stiefel import sparse_orthonormalise
from fedspca.linalg.stiefel import polar_factor, project_out
from fedspca.solvers.consensus import Consensus

Array = NDArray[np.float64]
Deflation = Literal["orthogonal", "generalized", "literal"]
Finish = Literal["sparse", "qf"]

NEGLIGIBLE = 1e-9  # a smaller weight is a zero with rounding error
TIE = 1e-6  # weights this near to the largest count as equally large


def finish(consensus: Consensus, removed: Array, kind: Finish, deflation: Deflation) -> Array:
    """Find orthonormal loadings, off the removed directions, nearest to the consensus of the sites.

    ``"sparse"`` keeps every zero of z. That is possible once ADMM has converged. If it is not possible (a column of z
    is all zero, or the supports admit no orthogonal columns), some zeros become non-zero and the loadings are still
    orthonormal. ``"qf"`` is the paper's Q factor of Gz, which makes zeros non-zero whenever z is not yet orthonormal.
    """
    z = nowhere_empty(consensus)
    projected = project_out(removed, z)
    if kind == "qf" or deflation == "literal":
        return q_factor(projected)
    if deflation == "generalized":  # z may have left the complement, and is projected back (Algorithm 4, step 4)
        z = projected
    loadings = sparse_orthonormalise(z, z != 0, removed)
    if loadings is None:
        return polar_factor(projected, removed)
    tight = sparse_orthonormalise(loadings, np.abs(loadings) > NEGLIGIBLE, removed)
    return loadings if tight is None else tight


def nowhere_empty(consensus: Consensus) -> Array:
    """The matrix z, in which the mean of the sites replaces each column that the penalty set to zero."""
    return np.where(np.any(consensus.z, axis=0), consensus.z, consensus.mean_w)


def q_factor(x: Array) -> Array:
    """Q of the QR decomposition with positive diagonal: qf(x) of the paper."""
    q, upper = np.linalg.qr(x)
    return np.asarray(q * np.where(np.diag(upper) < 0, -1.0, 1.0))


def with_fixed_signs(w: Array) -> Array:
    """Flip columns so that the weight of largest magnitude is positive: the objective does not depend on signs.

    Among weights equal up to rounding, the first one decides. So masks, or another order of summation, do not change a
    sign.
    """
    size = np.abs(w)
    first = np.argmax(size >= (1 - TIE) * size.max(axis=0), axis=0)
    largest = w[first, np.arange(w.shape[1])]
    return w * np.where(largest < 0, -1.0, 1.0) + 0.0  # no negative zeros
