"""Transforms by quantiles from one release: values counted in bins that were stated, with noise.

The bins of a feature are set about its stated centre, in units of its stated scale, before anyone looks at the rows. A
row adds one to a bin of each feature, so it changes all counts together by √d. Sums of noised counts give the share of
values below each edge. What follows from these shares costs nothing more.

The error has two parts. Between two edges the places of values are not known. And a share below an edge is off by the
noise of all bins: below it times the share above, and above it times the share below, since shares add up to one.
"""

import math

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from fedspca.linalg.maps import Curves, Learnt

Array = NDArray[np.float64]

SURE = 0.95  # with this probability the stated error holds for all features and edges
PRIVATE_MAPS = frozenset({"normal", "winsorise"})  # transforms for which a release is planned


def learnt_from(
    counts: Array, edges: Array, centre: Array, scale: Array, joint: tuple[str, float], sd: float
) -> Learnt:
    """Return a transform, and a bound on its error that holds with a probability of 95 %.

    Parameters
    ----------
    counts : ndarray of shape (k, d)
        How many values lie up to each edge and above the one before, with noise; in the last place those above all but
        the last edge.
    edges : ndarray of shape (k,)
        In units of the stated scale, about the stated centre.
    centre, scale : ndarray of shape (d,)
        What is stated.
    joint : pair of str and float
        The transform, and the share that it moves at each end.
    sd : float
        The standard deviation of the noise in each count.
    """
    (k, d), grid = counts.shape, edges[:-1]
    total = np.maximum(counts.sum(axis=0), 1.0)
    # shares rise, and the running maximum of what is near a rising function is as near to it
    shares = np.clip(np.maximum.accumulate(np.cumsum(counts, axis=0)[:-1] / total, axis=0), 0.0, 1.0)
    below = np.arange(1.0, k)[:, None]
    spread = sd / total * np.sqrt(below * (1 - shares) ** 2 + (k - below) * shares**2)
    off = math.sqrt(2 * math.log(2 * d * k / (1 - SURE))) * spread
    name, share = joint
    if name == "normal":
        least = np.minimum(0.5 / total, 0.5)
        steps = np.diff(np.vstack([np.zeros(d), shares, np.ones(d)]), axis=0)
        images = ndtri(np.clip(shares, least, 1 - least))
        return Learnt(Curves(centre + np.outer(grid, scale), images), float(min(steps.max() + off.max(), 1.0)))
    found = [_quantiles(grid, shares, off, p) for p in (share, 1 - share)]
    knots = np.maximum.accumulate(centre + np.array([quantile for quantile, _ in found]) * scale, axis=0)
    return Learnt(Curves(knots, knots), float(max(width.max() for _, width in found)))


def _quantiles(grid: Array, shares: Array, off: Array, p: float) -> tuple[Array, Array]:
    """Return where a share is reached, by feature, and how far apart the ends are between which it must lie."""
    columns = range(shares.shape[1])
    quantile = np.array([np.interp(p, shares[:, j], grid) for j in columns])
    least = np.array([np.searchsorted(np.maximum.accumulate(shares[:, j] + off[:, j]), p) - 1 for j in columns])
    most = np.array([np.searchsorted(np.maximum.accumulate(shares[:, j] - off[:, j]), p) for j in columns])
    low, high = grid[np.clip(least, 0, len(grid) - 1)], grid[np.clip(most, 0, len(grid) - 1)]
    return quantile, high - low
