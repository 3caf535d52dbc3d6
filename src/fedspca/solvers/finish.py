"""The last step: from where ADMM stopped to loadings that are orthonormal and keep their zeros."""

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from fedspca.linalg.stiefel import polar_factor, project_out, sparse_orthonormalise

Array = NDArray[np.float64]
Finish = Literal["sparse", "qf"]

NEGLIGIBLE = 1e-12  # a weight that the orthonormality constraints drove to zero, up to rounding


def finish(z: Array, mean_w: Array, removed: Array, kind: Finish) -> Array:
    """Find orthonormal loadings, off the removed directions, nearest to z.

    ``"sparse"`` keeps every zero of z. That is possible once ADMM has converged; where it is not (a column of z is
    all zero, or supports cannot be made orthogonal), zeros are filled in and the loadings stay orthonormal.
    ``"qf"`` is the paper's Q factor of Gz, which fills zeros in whenever z is not yet orthonormal.
    """
    z = project_out(removed, z)  # Algorithm 4, step 4; z is in the complement already unless it was free to leave it
    empty = ~np.any(z, axis=0)
    z = np.where(empty, mean_w, z)
    if kind == "qf":
        q, upper = np.linalg.qr(z)
        return np.asarray(q * np.where(np.diag(upper) < 0, -1.0, 1.0))
    loadings = sparse_orthonormalise(z, z != 0, removed)
    if loadings is not None:
        tight = sparse_orthonormalise(loadings, np.abs(loadings) > NEGLIGIBLE, removed)
        loadings = loadings if tight is None else tight
    return polar_factor(project_out(removed, z), removed) if loadings is None else loadings


def with_fixed_signs(w: Array) -> Array:
    """Flip columns so that the weight of largest magnitude is positive: the objective does not see signs."""
    largest = w[np.argmax(np.abs(w), axis=0), np.arange(w.shape[1])]
    return w * np.where(largest < 0, -1.0, 1.0)
