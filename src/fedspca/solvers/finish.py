"""The last step: from where ADMM stopped to loadings that are orthonormal and keep their zeros."""

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from fedspca.linalg.sparse_stiefel import sparse_orthonormalise
from fedspca.linalg.stiefel import polar_factor, project_out
from fedspca.solvers.consensus import Consensus

Array = NDArray[np.float64]
Deflation = Literal["orthogonal", "generalized", "literal"]
Finish = Literal["sparse", "qf"]

NEGLIGIBLE = 1e-9  # a weight that only the rounding of the constraints keeps from zero
TIE = 1e-6  # weights this near to the largest count as equally large


def finish(consensus: Consensus, removed: Array, kind: Finish, deflation: Deflation) -> Array:
    """Find orthonormal loadings, off the removed directions, nearest to the consensus of the sites.

    ``"sparse"`` keeps every zero of z. That is possible once ADMM has converged; where it is not (a column of z is
    all zero, or supports cannot be made orthogonal), zeros are filled in and the loadings stay orthonormal.
    ``"qf"`` is the paper's Q factor of Gz, which fills zeros in whenever z is not yet orthonormal.
    """
    z = nowhere_empty(consensus)
    projected = project_out(removed, z)
    if kind == "qf" or deflation == "literal":
        return q_factor(projected)
    if deflation == "generalized":  # z was free to leave the complement, and is brought back (Algorithm 4, step 4)
        z = projected
    loadings = sparse_orthonormalise(z, z != 0, removed)
    if loadings is None:
        return polar_factor(projected, removed)
    tight = sparse_orthonormalise(loadings, np.abs(loadings) > NEGLIGIBLE, removed)
    return loadings if tight is None else tight


def nowhere_empty(consensus: Consensus) -> Array:
    """Z, with the sites' mean in the place of a column that the penalty left empty."""
    return np.where(np.any(consensus.z, axis=0), consensus.z, consensus.mean_w)


def q_factor(x: Array) -> Array:
    """Q of the QR decomposition with positive diagonal: qf(x) of the paper."""
    q, upper = np.linalg.qr(x)
    return np.asarray(q * np.where(np.diag(upper) < 0, -1.0, 1.0))


def with_fixed_signs(w: Array) -> Array:
    """Flip columns so that the weight of largest magnitude is positive: the objective does not see signs.

    Of weights that are equal but for rounding the first counts, so that masks or another order of sums change no sign.
    """
    size = np.abs(w)
    first = np.argmax(size >= (1 - TIE) * size.max(axis=0), axis=0)
    largest = w[first, np.arange(w.shape[1])]
    return w * np.where(largest < 0, -1.0, 1.0) + 0.0  # no negative zeros
