"""Branch and bound for one sparse component: ends when the optimum is proved, or when the time is up."""

import heapq
import itertools
import math
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedspca.linalg.cardinality.beside import Beside, Column
from fedspca.linalg.cardinality.bounds import ROUNDING, Dual
from fedspca.linalg.cardinality.column import climb
from fedspca.linalg.cardinality.tuning import ProofTuning

Array = NDArray[np.float64]
Index = NDArray[np.intp]

PROVED = 1e-9  # relative: a bound this close to the value proves it


@dataclass(frozen=True)
class Proof:
    """The best column found, and an upper bound that holds for every column."""

    column: Column
    bound: float
    nodes: int


@dataclass(frozen=True)
class _Node:
    """All supports that contain every feature of ``inside``, and otherwise only features of ``free``."""

    inside: Index
    free: Index


@dataclass(frozen=True)
class _Root:
    """S, the dual of the root, and ``heads[n]``, an upper bound on the variance that n features can capture."""

    s: Array
    k: int
    lowered: Array  # S + U
    offset: float  # rho (k - 1)
    squares: Array  # S squared, entry by entry
    heads: Array

    def bound(self, node: _Node, enough: float) -> tuple[float, Index]:
        """A bound for a node, and its free features, the most important first. Cheap bounds are tried first."""
        inside, free = node.inside, node.free
        left = self.k - len(inside)
        if left == 0 or not len(free):
            support = np.sort(np.concatenate([inside, free[:left]]))
            return float(np.linalg.eigvalsh(self.s[np.ix_(support, support)])[-1]), free
        if len(free) <= left:
            support = np.concatenate([inside, free])
            return float(np.linalg.eigvalsh(self.s[np.ix_(support, support)])[-1]), free
        bound = self._blocks(inside, free, left)
        if bound <= enough:
            return bound, free
        allowed = np.concatenate([inside, free])
        bound = min(bound, self._rows(allowed, len(inside), left))
        if bound <= enough:
            return bound, free
        values, vectors = np.linalg.eigh(self.lowered[np.ix_(allowed, allowed)])
        bound = min(bound, float(values[-1]) + self.offset)
        weights = np.abs(vectors[len(inside) :, -1])
        if bound > enough and len(allowed) <= 2 * self.k:
            bound = min(bound, float(np.linalg.eigvalsh(self.s[np.ix_(allowed, allowed)])[-1]))
        return bound, free[np.argsort(-weights, kind="stable")]

    def _blocks(self, inside: Index, free: Index, left: int) -> float:
        """``lambda_max [[a, c], [c, b]]``: a bounds the inside block, b the free block, c the block between them."""
        own = self.s.diagonal()[free]
        among = min(float(self.heads[left]), float(np.partition(own, len(free) - left)[len(free) - left :].sum()))
        if not len(inside):
            return among
        within = float(np.linalg.eigvalsh(self.s[np.ix_(inside, inside)])[-1])
        couples = self.squares[np.ix_(inside, free)].sum(axis=0)
        coupling = float(np.partition(couples, len(free) - left)[len(free) - left :].sum())
        half = 0.5 * (within - among)
        return among + half + math.sqrt(half * half + coupling)

    def _rows(self, allowed: Index, n_inside: int, left: int) -> float:
        """The largest absolute row sum over all supports of the node: no eigenvalue exceeds it."""
        sizes = np.abs(self.s[np.ix_(allowed, allowed)])
        own = sizes.diagonal().copy()
        np.fill_diagonal(sizes, 0.0)
        base = own + sizes[:, :n_inside].sum(axis=1)
        others = sizes[:, n_inside:]
        m = others.shape[1]
        top = np.partition(others, m - left, axis=1)[:, m - left :]
        most = top.sum(axis=1)
        most[n_inside:] -= top[n_inside:].min(axis=1)  # a free feature uses one of the free places itself
        return float((base + most).max())


def prove(
    s: Array,
    best: Column,
    dual: Dual,
    heads: Array,
    deadline: float,
    tuning: ProofTuning,
    *,
    progress: Callable[[float, int], object] = lambda _bound, _nodes: None,
) -> Proof:
    """Max of ``x' S x`` over unit x with at most k non-zeros, by best-first branching on single features.

    Parameters
    ----------
    s : ndarray of shape (d, d)
        Symmetric, positive semidefinite.
    best : Column
        The best column known; k is the size of its support.
    dual : Dual
        The U and rho of the root. They give a bound at every node.
    heads : ndarray of shape (k + 1,)
        An upper bound on the variance that n features capture, for n = 0 … k.
    deadline : float
        When to give up, by ``time.monotonic()``. The bound is then the largest bound of the open nodes.
    tuning : ProofTuning
        Effort of the local search from a leaf.
    progress : callable
        Called from time to time with the bound and the number of nodes.
    """
    k, d = len(best.support), len(s)
    root = _Root(s, k, s + dual.u, dual.rho * (k - 1), np.square(s), heads)
    beside = Beside(s, np.zeros((d, 0)), orthogonal=True)
    number = itertools.count()
    whole = _Node(np.zeros(0, dtype=np.intp), np.arange(d))
    bound, order = root.bound(whole, 0.0)
    open_nodes = [(-min(bound, dual.bound), next(number), _Node(whole.inside, order))]
    nodes, closed = 1, 0.0
    while open_nodes:
        bound = -open_nodes[0][0]
        enough = best.gain * (1.0 + PROVED)
        if bound <= enough:
            break
        if time.monotonic() > deadline:
            return Proof(best, bound * (1.0 + ROUNDING), nodes)
        node = heapq.heappop(open_nodes)[2]
        for child in _children(node, k):
            value, order = root.bound(child, enough)
            nodes += 1
            if nodes % 500 == 0:
                progress(bound, nodes)
            if value <= enough:
                continue
            support = _guess(child, order, k)
            if support is not None:
                found = climb(beside, beside.column(support), tuning.climb)
                if found.gain > best.gain * (1.0 + PROVED):
                    best = found
                    enough = best.gain * (1.0 + PROVED)
            if not _is_leaf(child, k) and value > enough:
                heapq.heappush(open_nodes, (-min(value, bound), next(number), _Node(child.inside, order)))
    return Proof(best, max(best.gain, closed) * (1.0 + PROVED), nodes)


def _children(node: _Node, k: int) -> list[_Node]:
    """Two nodes: one with the most important free feature inside the support, one without that feature."""
    feature, rest = node.free[:1], node.free[1:]
    inside = np.concatenate([node.inside, feature])
    with_it = _Node(inside, rest if len(inside) < k else rest[:0])
    return [with_it, _Node(node.inside, rest)]


def _is_leaf(node: _Node, k: int) -> bool:
    return len(node.inside) == k or len(node.inside) + len(node.free) <= k


def _guess(node: _Node, order: Index, k: int) -> Index | None:
    """The support of a leaf; None for any other node. The best features of such a node were mostly tried before."""
    if not _is_leaf(node, k):
        return None
    return np.sort(np.concatenate([node.inside, order[: k - len(node.inside)]]))
