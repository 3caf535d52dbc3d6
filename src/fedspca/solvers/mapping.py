"""Transforms that need all sites: their parameters from sums, and a federation whose rows are seen through them.

Quantiles come from counts: how many values of all sites are not above each of some edges. The edges are first spread
widely about the joint mean, then set where the counts so far say that the quantiles are. Between two edges the number
of values is known, and their places are not: that is the error, and
:class:`~fedspca.linalg.maps.Learnt` says how large it can be.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from fedspca.federation.base import Aggregate, Around, Federation, preparation_of
from fedspca.federation.private import PrivateFederation
from fedspca.linalg.maps import CountModel, Curves, FeatureMap, Learnt
from fedspca.site.errors import InvalidData
from fedspca.site.question import MOST_EDGES, Query

Array = NDArray[np.float64]

WIDTH = 4.4  # the first edges reach sinh(4.4) = 41 standard deviations, and are dense about the mean
ROUNDING = 1e-9  # of shares
REFINED = 2  # how often edges are set anew
NORMAL_REACH = 3.6  # normal scores beyond this are those of one row in 6,000
WITHIN = MOST_EDGES // 2 - 2  # edges between two, to find one quantile


class Mapped(Around):
    """A federation whose rows are seen through a transform: every question brings the transform with it."""

    def __init__(self, federation: Federation, learnt: Learnt) -> None:
        super().__init__(federation)
        self.learnt = learnt

    def sum(self, query: Query) -> Aggregate:
        """Ask every site about its transformed rows."""
        return self._federation.sum(Query(query.name, {**query.arrays, **self.learnt.seen.arrays}, query.scalars))


def mapped(federation: Federation, asking: Federation) -> Federation:
    """Return the federation with the joint transform of its preparation learnt, if it has one that is not learnt.

    What the transform needs is asked of ``asking``, which may record the questions.
    """
    joint = preparation_of(federation).joint
    if joint is None or learnt_of(federation) is not None:
        return federation
    name, share = joint
    learn = {"pearson": _count_model, "normal": _normal_scores}.get(name, lambda asked: _winsorised(asked, share))
    return Mapped(federation, learn(asking))


def through(federation: Federation, seen: FeatureMap | None) -> Federation:
    """Return the federation seen through a transform that was learnt before."""
    return federation if seen is None else Mapped(federation, Learnt(seen, 0.0))


def learnt_of(federation: Federation) -> Learnt | None:
    """Return the joint transform of a federation, however it is wrapped; None if it has none."""
    inner: object = federation
    while isinstance(inner, Around):
        if isinstance(inner, Mapped | PrivateFederation):
            return inner.learnt
        inner = inner._federation
    return None


def _count_model(federation: Federation) -> Learnt:
    first = federation.sum(Query("moments"))
    if (first["counts"] < first.number("rows")).any():
        raise InvalidData("Pearson residuals need every count, and some are missing. Fill them in first.")
    total = float(first["sums"].sum())
    if total <= 0:
        raise InvalidData("Pearson residuals are of counts, and all counts are zero.")
    return Learnt(CountModel(first["sums"] / total, np.sqrt([first.number("rows")])), 0.0)


@dataclass(frozen=True, eq=False)
class _Known:
    """The share of values not above each edge, by feature; edges rise."""

    edges: Array
    shares: Array
    counts: Array
    spread: Array

    def with_more(self, other: "_Known") -> "_Known":
        """Return what is known at the edges of both."""
        edges, shares = np.vstack([self.edges, other.edges]), np.vstack([self.shares, other.shares])
        order = np.argsort(edges, axis=0, kind="stable")
        edges, shares = (np.take_along_axis(array, order, axis=0) for array in (edges, shares))
        return _Known(edges, shares, self.counts, self.spread)

    def reached(self, share: float) -> Array:
        """The first edge that so large a share of the values is not above (d)."""
        return self.edges[self._at(share), np.arange(self.edges.shape[1])]

    def between(self, share: float) -> Array:
        """Evenly spaced edges from the last edge before a quantile to the first that reaches it (m × d)."""
        at = self._at(share)
        low = self.edges[np.maximum(at - 1, 0), np.arange(len(at))]
        return np.linspace(low, self.reached(share), WITHIN + 2)

    def _at(self, share: float) -> NDArray[np.intp]:
        reached = self.shares >= share - ROUNDING
        return np.where(reached.any(axis=0), reached.argmax(axis=0), len(self.edges) - 1)

    def quantiles(self, wanted: Array) -> Array:
        """Where the shares are reached, by interpolation (m × d)."""
        columns = zip(wanted.T, self.shares.T, self.edges.T, strict=True)
        return np.column_stack([np.interp(p, shares, edges) for p, shares, edges in columns])


def _first_counts(federation: Federation) -> _Known:
    first = federation.sum(Query("moments"))
    counts = np.maximum(first["counts"], 1.0)
    mean = first["sums"] / counts
    second = federation.sum(Query("deviations", {"mean": mean}))
    spread = np.sqrt(np.maximum(second["squares"], 0.0) / counts)
    steps = np.sinh(np.linspace(-WIDTH, WIDTH, MOST_EDGES))
    return _counted(federation, mean + steps[:, None] * spread, counts, spread)


def _counted(federation: Federation, edges: Array, counts: Array, spread: Array) -> _Known:
    edges = np.maximum.accumulate(edges, axis=0)
    below = federation.sum(Query("counts_below", {"edges": edges}))["below"]
    return _Known(edges, below / counts, counts, spread)


def _normal_scores(federation: Federation) -> Learnt:
    """Φ⁻¹ of the share of values below: exact at the edges, interpolated between them."""
    known = _first_counts(federation)
    least = 0.5 / known.counts
    reach = np.minimum(NORMAL_REACH, -ndtri(least))
    wanted = ndtr(np.linspace(-1, 1, MOST_EDGES)[:, None] * reach)
    for _ in range(REFINED):
        finer = _counted(federation, known.quantiles(wanted), known.counts, known.spread)
        known, last = known.with_more(finer), finer
    shares = np.clip(last.shares, least, 1 - least)
    steps = np.diff(np.vstack([np.zeros_like(least), last.shares, np.ones_like(least)]), axis=0)
    return Learnt(Curves(last.edges, ndtri(shares)), float(steps.max()))


def _winsorised(federation: Federation, share: float) -> Learnt:
    """Values beyond the quantiles of share and 1 − share become these quantiles."""
    first = _first_counts(federation)
    ends = (share, 1 - share)
    inner = _counted(federation, np.vstack([first.between(q) for q in ends]), first.counts, first.spread)
    halves = (slice(0, WITHIN + 2), slice(WITHIN + 2, None))
    parts = [_Known(inner.edges[at], inner.shares[at], inner.counts, inner.spread) for at in halves]
    widths = [np.diff(part.edges, axis=0).max(axis=0) for part in parts]
    knots = np.maximum.accumulate(np.vstack([part.reached(q) for part, q in zip(parts, ends, strict=True)]), axis=0)
    unit = np.where(inner.spread > 0, inner.spread, 1.0)
    return Learnt(Curves(knots, knots), float(np.max(np.maximum(*widths) / unit)))
