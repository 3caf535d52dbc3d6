"""Columns that are linked by shared features, so that together they capture one direction with many non-zeros.

Two columns ``u + c l`` and ``v - c l`` have ``u + v`` in their span. If the link l has m non-zeros, ``u + v`` has
``2 (k - m)`` besides. The smaller u and v are beside the link, the nearer the span comes to that of ``u + v`` and l.
Where S has one long direction, this captures more than two columns of k non-zeros that are apart. Only loadings that
need not be orthogonal can be linked, and they are nearly parallel.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

_LINKS = 2  # the most features of a link: with three, 3 of 596 problems on public tables gained, at most 0.2 %
_LONGEST = 3  # columns of a chain: on public tables, nine in ten of those that gained had two
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


def chains(d: int, k: int, r: int) -> list[Chain]:
    """The chains that r columns of k of d features may contain. Long ones have links of one feature."""
    every = [Chain(2, shared, k) for shared in range(1, min(_LINKS, k - 1) + 1)]
    every += [Chain(length, 1, k) for length in range(3, min(_LONGEST, r) + 1) if k > 2]
    return [chain for chain in every if r >= chain.length and chain.spans[0] <= d]


def _in_turn(room: list[int]) -> list[int]:
    """The columns in turn, each as often as it has room."""
    return [j for turn in range(max(room)) for j, n in enumerate(room) if turn < n]
