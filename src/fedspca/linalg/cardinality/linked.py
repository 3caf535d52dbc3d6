"""Columns that are linked by a shared feature, so that together they capture one direction with many non-zeros.

Two columns ``u + c e_g`` and ``v - c e_g`` have ``u + v`` in their span. It has 2 k - 2 non-zeros besides the feature g
that links them. Where S has one long direction, this captures more than two columns of k non-zeros that are apart. Only
loadings that need not be orthogonal can be linked, and they are nearly parallel.
"""

import numpy as np
from numpy.typing import NDArray

from fedspca.linalg.cardinality.selection import heaviest
from fedspca.linalg.small import largest_eigenpairs

Array = NDArray[np.float64]
Index = NDArray[np.intp]

_STEPS = 20  # truncated power steps, at most
_INSIDE = 0.3  # length of a column beside the features that link it: the longer, the less parallel are the columns


def linked(s: Array, k: int, r: int, least: float) -> list[Array]:
    """For q = 2 … r, loadings (d, r) of which q are linked in a chain; the others are found one after another.

    A chain of q columns has ``q k - 2 (q - 1)`` features of the long direction, and q - 1 features as links. It is left
    out if it can capture no more than ``least`` near here.
    """
    if k < 2:
        return []
    sizes = {q: q * k - 2 * (q - 1) for q in range(2, r + 1)}
    chains = (_chain(s, _direction(s, m), q, k, r) for q, m in sizes.items() if m + q - 1 <= len(s))
    return [w for w, captured in chains if captured > least]


def _direction(s: Array, m: int) -> Array:
    """A unit vector with m non-zeros and much variance: truncated power steps, each refitted."""
    x = largest_eigenpairs(s, 1)[1][:, 0]
    support: Index | None = None
    for _ in range(_STEPS):
        found = heaviest(np.abs(s @ x)[None], m)[0]
        if support is not None and (found == support).all():
            break
        support, x = found, np.zeros(len(s))
        x[support] = largest_eigenpairs(s[np.ix_(support, support)], 1)[1][:, 0]
    return x


def _off(s: Array, x: Array) -> Array:
    """``P S P`` for the projection P off a unit vector."""
    image = s @ x
    rest = image - 0.5 * float(x @ image) * x
    return np.asarray(s - np.outer(rest, x) - np.outer(x, rest))


def _chain(s: Array, x: Array, q: int, k: int, r: int) -> tuple[Array, float]:
    """The features of x, the largest first, dealt to q columns; each shares a link with the next one.

    Also the variance of x, the links and the other columns: the more parallel the columns, the nearer they come to it.
    """
    captured = float(x @ s @ x)
    off, free = _off(s, x), x == 0.0
    links = []
    for _ in range(q - 1):
        links.append(int(np.argmax(np.where(free, off.diagonal(), -np.inf))))
        free[links[-1]] = False
        captured += float(off[links[-1], links[-1]])
        along = off[:, links[-1]] / np.sqrt(max(float(off[links[-1], links[-1]]), 1e-300))
        off = off - np.outer(along, along)
    left = np.argsort(-np.abs(x), kind="stable")
    w = np.zeros((len(s), r))
    for j in range(q):
        mine = links[max(j - 1, 0) : j + 1]
        own, left = left[: k - len(mine)], left[k - len(mine) :]
        w[own, j] = _INSIDE * x[own] / max(float(np.linalg.norm(x[own])), 1e-300)
        w[mine, j] = -1.0 if j % 2 else 1.0
    for j in range(q, r):
        w[:, j] = _direction(off, k)
        captured += float(w[:, j] @ off @ w[:, j])
        off = _off(off, w[:, j])
    return np.asarray(w / np.maximum(np.linalg.norm(w, axis=0), 1e-300)), captured
