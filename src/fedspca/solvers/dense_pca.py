"""What dense PCA captures, asked for after a fit to compare it with the sparse loadings."""

from itertools import islice
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedspca.federation.base import Federation, is_local
from fedspca.linalg.operators import Frame
from fedspca.solvers.exact.loop import orthonormal
from fedspca.solvers.warm_start import OVERSAMPLING, POWER_ROUNDS, krylov

Array = NDArray[np.float64]

SETTLED = 1e-4  # the share of what the components of dense PCA capture that one more round may add
DRAWN = 1e-3  # the same for further components, which are only drawn
LOCAL_ROUNDS = 20  # where no message leaves the machine


class DensePCA(NamedTuple):
    """What is known of dense PCA after a few products with S.

    Attributes
    ----------
    product : ndarray of shape (d, r)
        S times the loadings' basis.
    values : ndarray of shape (m,)
        The largest eigenvalues of S, descending: those of the r components, and further ones as far as they settled.
    settled : bool
        Whether another round would hardly change the first r. If not, S's own eigenvalues are at least as large.
    """

    product: Array
    values: Array
    settled: bool


def dense_pca(
    federation: Federation,
    frame: Frame,
    basis: Array,
    rng: np.random.Generator,
    *,
    known: tuple[Array, Array] | None = None,
) -> DensePCA:
    """Ask for S times the loadings, together with the directions that find dense PCA, until what it captures settles.

    Between machines no more is asked than for a fixed number of rounds: one if the fit knows dense PCA, else three.

    Parameters
    ----------
    federation : Federation
        The sites.
    frame : Frame
        How they see their rows.
    basis : ndarray of shape (d, r)
        An orthonormal basis of the loadings.
    rng : Generator
        Draws the first directions, if the fit knows none.
    known : (ndarray of shape (m,), ndarray of shape (d, m)), optional
        The largest eigenvalues of what the fit came to know of S, and their eigenvectors.
    """
    d, r = basis.shape
    columns = min(r + OVERSAMPLING, d)
    before, first = (np.zeros(0), rng.standard_normal((d, columns))) if known is None else known
    block = orthonormal(np.hstack([basis, first]))
    most = LOCAL_ROUNDS if is_local(federation) else POWER_ROUNDS if known is None else 1
    for asked in islice(krylov(federation, frame, block), most):
        values = np.maximum(asked.ritz()[0][:columns], 0.0)
        added, before = _added(before, values), values
        everything = not asked.beside.shape[1]  # S is known exactly on what holds its leading eigenvectors
        settled = everything or bool(added[r - 1] <= SETTLED)
        if settled:
            break
    drawn = columns if everything else r + int(np.cumprod(added[r:] <= DRAWN).sum())
    return DensePCA(asked.products @ (asked.basis.T @ basis), values[:drawn], settled)


def _added(before: Array, now: Array) -> Array:
    """Return what the last round added to the sum of the first 1, 2, … values, as a share of it; 1 where all is new."""
    known = np.zeros(len(now))
    known[: len(before)] = before[: len(now)]
    total = np.cumsum(now)
    added = np.divide(total - np.cumsum(known), total, out=np.zeros(len(now)), where=total > 0)
    added[len(before) :] = 1.0
    return added
