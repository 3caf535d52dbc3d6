"""The k largest of many scores. A fixed rule settles ties, so that rounding errors do not."""

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Index = NDArray[np.intp]

TIE = 1e-9  # scores (relative to the largest) and variances count as equal if they differ by less
_ODD = np.uint64(0x9E3779B97F4A7C15)  # spreads small numbers over 64 bits


def heaviest(scores: Array, k: int) -> Index:
    """Argmax of the sum of k scores, for each row of non-negative scores: (m, k) indices, ascending.

    Scores that are equal up to ``TIE`` of the largest are ordered by index, so that rounding has no influence.
    """
    m, d = scores.shape
    if k >= d:
        return np.broadcast_to(np.arange(d), (m, d))
    kth = np.partition(scores, d - k, axis=1)[:, d - k, None]
    slack = TIE * scores.max(axis=1, keepdims=True)
    able = scores >= kth - slack
    if int(np.count_nonzero(able)) == m * k:  # no ties: the usual case
        return np.asarray(np.nonzero(able)[1].reshape(m, k))
    sure = scores > kth + slack
    tied = able & ~sure
    wanted = k - np.count_nonzero(sure, axis=1)[:, None]
    return np.asarray(np.nonzero(sure | (tied & (np.cumsum(tied, axis=1) <= wanted)))[1].reshape(m, k))


def ranked(values: Array, supports: Index, of: Index | None = None) -> Index:
    """Positions by decreasing value. Values equal up to ``TIE`` are ordered by their features, lowest first.

    A position is left out if its support has occurred before. With ``of``, positions are ordered by owner first.
    """
    if not len(values):
        return np.zeros(0, dtype=np.intp)
    owner = np.zeros(len(values), dtype=np.intp) if of is None else of
    order = np.lexsort((-values, owner))
    value, whose = values[order], owner[order]
    apart = (value[1:] < value[:-1] - TIE * np.abs(value[:-1])) | (whose[1:] != whose[:-1])
    if not apart.all():  # ties, or repetitions
        group = np.concatenate([[0], np.cumsum(apart)])
        order = order[np.lexsort((*supports[order].T[::-1], group))]
    keys = signatures(supports, owner)[order]
    return np.asarray(order[np.sort(np.unique(keys, return_index=True)[1])])


def distinct(supports: Index, of: Index | None = None) -> Index:
    """Positions of the first of each support, or of each support of an owner."""
    return np.sort(np.unique(signatures(supports, of), return_index=True)[1])


def signatures(supports: Index, of: Index | None = None) -> NDArray[np.uint64]:
    """A number for each set of features, and owner: equal for equal sets, and different otherwise.

    It is a sum of 64 random bits for each feature. Two of a million sets are confused with a chance of 1e-7 at most.
    """
    keys = _bits(1 << int(supports.max(initial=1)).bit_length())[supports].sum(axis=1, dtype=np.uint64)
    return np.asarray(keys if of is None else keys + of.astype(np.uint64) * _ODD)


@lru_cache(maxsize=8)
def _bits(n: int) -> NDArray[np.uint64]:
    return np.random.default_rng(0).integers(0, 2**64, n, dtype=np.uint64)
