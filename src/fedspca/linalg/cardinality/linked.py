"""Columns that are linked by shared features, so that together they capture one direction with many non-zeros.

Two columns ``u + c l`` and ``v - c l`` have ``u + v`` in their span. If the link l has m non-zeros, ``u + v`` has
``2 (k - m)`` besides. The smaller u and v are beside the link, the nearer the span comes to that of ``u + v`` and l.
Where S has one long direction, this captures more than two columns of k non-zeros that are apart. Only loadings that
need not be orthogonal can be linked, and they are nearly parallel.
"""

from itertools import combinations
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

_LINKS = 2  # the most features of a link: with three, 3 of 596 problems on public tables gained, at most 0.2 %
_LONGEST = 3  # columns of a chain: on public tables, nine in ten of those that gained had two
_CORNERS = 8  # features among which the three of a ring are chosen
_INSIDE = 0.3  # length of a column beside the links: the longer, the less parallel are the columns


class Chain(NamedTuple):
    """A chain of ``length`` columns of k non-zeros each; each shares a link of ``shared`` features with the next."""

    length: int
    shared: int
    k: int

    @property
    def spans(self) -> tuple[int, ...]:
        """Non-zeros of what its span is near to: of the long direction, then of each link."""
        links = self.length - 1
        return (self.length * self.k - 2 * links * self.shared, *[self.shared] * links)

    def opened(self, w: Array) -> Array:
        """The chain (d, length) whose span is near to that of such a direction and such links, (d, length).

        The features of the direction are dealt to the columns, the largest first, in turn.
        """
        x, links = w[:, 0], w[:, 1:]
        own = np.flatnonzero((x != 0.0) & ~links.any(axis=1))
        own = own[np.argsort(-np.abs(x[own]), kind="stable")]
        room = [self.k - self.shared * (1 if j in (0, self.length - 1) else 2) for j in range(self.length)]
        chain = np.zeros((len(w), self.length))
        for i, j in zip(own, _in_turn(room), strict=False):
            chain[i, j] = x[i]
        chain *= _INSIDE / np.maximum(np.linalg.norm(chain, axis=0), 1e-300)
        for j in range(self.length):
            chain[:, j] += (-1.0) ** j * links[:, max(j - 1, 0) : j + 1].sum(axis=1)
        return np.asarray(chain / np.maximum(np.linalg.norm(chain, axis=0), 1e-300))


def ring(s: Array, x: Array) -> tuple[Array, float]:
    """Three columns, each pair with a feature in common, whose span is near x and a plane of three features.

    Let l_0, l_1, l_2 be vectors in a plane of three features, each without one of these features, and their sum zero.
    Then the columns ``u_c + l_c`` have ``u_0 + u_1 + u_2`` in their span. For the plane with normal n these vectors are
    ``n_c (e_c x n)``. Also returned is the variance of x and the best plane.

    Parameters
    ----------
    s : ndarray of shape (d, d)
        Symmetric, positive semidefinite.
    x : ndarray of shape (d,)
        A unit vector. With ``3 (k - 2)`` non-zeros it gives columns of k non-zeros.
    """
    image = s @ x
    rest = image - 0.5 * float(x @ image) * x
    off = s - np.outer(rest, x) - np.outer(x, rest)
    free = np.flatnonzero(x == 0.0)
    heavy = free[np.argsort(-off.diagonal()[free], kind="stable")[:_CORNERS]]
    corners = heavy[np.array(list(combinations(range(len(heavy)), 3)), dtype=np.intp).reshape(-1, 3)]
    if not len(corners):
        return np.zeros((len(s), 3)), 0.0
    values, vectors = np.linalg.eigh(off[corners[:, :, None], corners[:, None, :]])
    best = int(np.argmax(values[:, 1] + values[:, 2]))
    normal = vectors[best, :, 0]
    own = np.flatnonzero(x)
    own = own[np.argsort(-np.abs(x[own]), kind="stable")]
    w = np.zeros((len(s), 3))
    for c in range(3):
        w[own[c::3], c] = _INSIDE * x[own[c::3]]
        w[corners[best], c] = normal[c] * np.cross(np.eye(3)[c], normal)
    w /= np.maximum(np.linalg.norm(w, axis=0), 1e-300)
    return w, float(x @ image) + float(values[best, 1:].sum())


def chains(d: int, k: int, r: int) -> list[Chain]:
    """The chains that r columns of k of d features may contain. Long ones have links of one feature."""
    every = [Chain(2, shared, k) for shared in range(1, min(_LINKS, k - 1) + 1)]
    every += [Chain(length, 1, k) for length in range(3, min(_LONGEST, r) + 1) if k > 2]
    return [chain for chain in every if r >= chain.length and chain.spans[0] <= d]


def _in_turn(room: list[int]) -> list[int]:
    """The columns in turn, each as often as it has room."""
    return [j for turn in range(max(room)) for j, n in enumerate(room) if turn < n]
