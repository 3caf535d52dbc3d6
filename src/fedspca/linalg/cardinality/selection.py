"""The k largest of many scores. A fixed rule settles ties, so that rounding errors do not."""

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Index = NDArray[np.intp]

TIE = 1e-9  # scores (relative to the largest) and variances count as equal if they differ by less


def heaviest(scores: Array, k: int) -> Index:
    """Argmax of the sum of k scores, for each row of non-negative scores: (m, k) indices, ascending.

    Scores that are equal up to ``TIE`` of the largest are ordered by index, so that rounding has no influence.
    """
    m, d = scores.shape
    if k >= d:
        return np.broadcast_to(np.arange(d), (m, d))
    kth = np.partition(scores, d - k, axis=1)[:, d - k, None]
    slack = TIE * scores.max(axis=1, keepdims=True)
    sure = scores > kth + slack
    tied = (scores >= kth - slack) & ~sure
    wanted = k - np.count_nonzero(sure, axis=1)[:, None]
    return np.asarray(np.nonzero(sure | (tied & (np.cumsum(tied, axis=1) <= wanted)))[1].reshape(m, k))


def ranked(values: Array, supports: Index) -> list[int]:
    """Positions by decreasing value. Values equal up to ``TIE`` are ordered by their features, lowest first.

    A position is left out if its support has occurred before.
    """
    order = sorted(range(len(values)), key=lambda at: -values[at])
    groups: list[list[int]] = []
    for at in order:
        if groups and values[at] >= values[groups[-1][0]] * (1.0 - TIE):
            groups[-1].append(at)
        else:
            groups.append([at])
    seen: dict[tuple[int, ...], int] = {}
    for group in groups:
        for at in sorted(group, key=lambda at: tuple(supports[at])):
            seen.setdefault(tuple(supports[at]), at)
    return list(seen.values())
