"""How much better than given loadings any others can be: the cheapest bounds first, until the time is up."""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from fedspca.linalg.cardinality.beside import Beside, Column
from fedspca.linalg.cardinality.bounds import (
    ROUNDING,
    Dual,
    cheap_bound,
    line_search,
    orthogonal_mass,
    projection_mass,
    seconds_for,
    tightened,
)
from fedspca.linalg.cardinality.branch import Proof, prove
from fedspca.linalg.cardinality.chains import Sets, none_listed
from fedspca.linalg.cardinality.column import best_columns, largest_row_bound
from fedspca.linalg.cardinality.packings import columns_bound, shared_bound
from fedspca.linalg.cardinality.polish import Fit, orthonormal_basis
from fedspca.linalg.cardinality.tuning import ProofTuning, Tuning

Array = NDArray[np.float64]
Counts = tuple[int, ...]
Progress = Callable[[float, int], object]

PROVED = 1e-6  # relative: loadings this close to the bound are called optimal
_TUNING = ProofTuning()


@dataclass(frozen=True)
class BoundedFit:
    """Loadings, and an upper bound on the variance of all loadings of the same kind.

    Attributes
    ----------
    fit : Fit
        The loadings: those given, or better ones if the proof found any.
    bound : float
        No loadings of the same kind capture more.
    """

    fit: Fit
    bound: float

    @property
    def gap(self) -> float:
        """The largest possible relative improvement over these loadings."""
        return max(self.bound / self.fit.variance - 1.0, 0.0) if self.fit.variance > 0.0 else 0.0

    @property
    def proved(self) -> bool:
        """Whether the loadings are optimal."""
        return self.gap <= PROVED


def bound_loadings(
    s: Array, fit: Fit, k: Counts, *, orthogonal: bool, seconds: float, progress: Progress = lambda _bound, _nodes: None
) -> BoundedFit:
    """Bound the variance that any loadings with at most ``k_j`` non-zeros capture.

    Bounds by rows first, then a line search over rho. For one component branch and bound and first-order steps on U
    follow; for several, lists of all supports that can be part of a better solution, then first-order steps.
    A step is left out if an earlier one proved the loadings optimal, or if it would take more than ``seconds``.
    """
    d = len(s)
    k = tuple(min(kj, d) for kj in k)
    deadline = time.monotonic() + seconds
    found = BoundedFit(fit, max(cheap_bound(s, k, orthogonal=orthogonal), fit.variance))
    if found.proved or 16 * seconds_for(d) > max(seconds, 0.0):
        return found
    if len(k) == 1:
        return _one(s, found, k[0], deadline, progress)
    return _several(s, found, k, orthogonal, deadline, progress)


def _one(s: Array, found: BoundedFit, k: int, deadline: float, progress: Progress) -> BoundedFit:
    """Bounds for one component, branch and bound among them."""
    proof = _proved_column(s, _column(found.fit.w[:, 0]), k, found.bound, deadline, progress)
    fit = found.fit
    if proof.column.gain > fit.variance * (1.0 + 1e-12):
        w = np.zeros((len(s), 1))
        w[proof.column.support, 0] = proof.column.weights
        fit = Fit(w, proof.column.gain)
    return BoundedFit(fit, max(min(found.bound, proof.bound), fit.variance))


def _proved_column(s: Array, column: Column, k: int, known: float, deadline: float, progress: Progress) -> Proof:
    """The largest variance of k features: a bound, and a better column where there is one."""
    x = np.zeros(len(s))
    x[column.support] = column.weights
    column = column._replace(gain=float(x @ s @ x))
    enough = column.gain * (1.0 + 1e-9)
    dual = line_search(s, 1, k - 1.0)
    bound = min(known, dual.bound)
    proof = Proof(column, bound, 0)
    whole = len(column.support) == k  # otherwise S has too low a rank for k non-zeros, and the bounds show it
    if bound > enough and whole:  # most problems take a few milliseconds
        proof = _searched(s, proof, dual, _within(deadline, _TUNING.a_try), progress)
    if proof.bound > enough:
        dual = tightened(s, 1, k - 1.0, dual, np.outer(x, x), enough, _within(deadline, _TUNING.dual))
        proof = replace(proof, bound=min(proof.bound, dual.bound))
        if proof.bound > enough and whole:
            proof = _searched(s, proof, dual, deadline, progress)
    return proof


def _searched(s: Array, proof: Proof, dual: Dual, deadline: float, progress: Progress) -> Proof:
    """Branch and bound; the known column and bound are kept unless better ones are found."""
    k = len(proof.column.support)
    after = prove(s, proof.column, dual, _heads(s, k, dual), deadline, _TUNING, progress=progress)
    return Proof(after.column, min(proof.bound, after.bound), proof.nodes + after.nodes)


def _within(deadline: float, share: float) -> float:
    """The time at which a given share of the remaining time will have passed."""
    now = time.monotonic()
    return now + share * max(deadline - now, 0.0)


def _several(
    s: Array, found: BoundedFit, k: Counts, orthogonal: bool, deadline: float, progress: Progress
) -> BoundedFit:
    """Bounds for several components.

    Loadings that need not be orthogonal fall into two cases. Either their supports are disjoint, and they are
    orthogonal; or two of them share a feature, and then all together use at most ``sum_j k_j - 1`` features. The larger
    of the two bounds always holds.
    """
    fit = found.fit
    if orthogonal:
        single = _single_bound(s, max(k), _within(deadline, _TUNING.single), progress)
        bound = _apart(s, fit, k, single, deadline, orthogonal=True)[0]
    elif sum(k) > len(s):  # too few features for disjoint supports that are all full
        bound = _together(s, fit, len(k), projection_mass(len(s), len(k)), deadline)
    else:
        bound = _overlapping(s, fit, k, deadline, progress)
    return BoundedFit(fit, max(min(found.bound, bound), fit.variance))


def _overlapping(s: Array, fit: Fit, k: Counts, deadline: float, progress: Progress) -> float:
    """A bound for loadings that may share features, if there are features enough for all."""
    r, widest = len(k), max(k)
    single = _single_bound(s, widest, _within(deadline, _TUNING.single), progress)
    apart, listed = _apart(s, fit, k, single, _within(deadline, _TUNING.apart), orthogonal=False)

    def by_lists() -> float:
        if r > 3 or r * widest > len(s):
            return math.inf
        until = _within(deadline, _TUNING.lists)
        return shared_bound(s, widest, r, max(fit.variance, apart), single, listed, until)

    return max(apart, _together(s, fit, r, projection_mass(sum(k) - 1, r), deadline, by_lists))


def _apart(s: Array, fit: Fit, k: Counts, single: float, deadline: float, *, orthogonal: bool) -> tuple[float, Sets]:
    """A bound for loadings that are orthogonal, or have disjoint supports; and the supports that were listed for it."""
    r, widest = len(k), max(k)
    listed = none_listed(widest, single)

    def by_lists() -> float:
        nonlocal listed
        if not orthogonal and r * widest > len(s):
            return r * single
        until = _within(deadline, _TUNING.lists)
        bound, listed = columns_bound(s, widest, r, fit.variance, single, until, orthogonal=orthogonal)
        return bound

    return _together(s, fit, r, orthogonal_mass(k), deadline, by_lists), listed


def _together(
    s: Array, fit: Fit, r: int, mass: float, deadline: float, by_lists: Callable[[], float] = lambda: math.inf
) -> float:
    """A bound for r components with this off-diagonal mass. ``by_lists`` gives another one, from lists of supports."""
    enough = fit.variance * (1.0 + 1e-9)
    dual = line_search(s, r, mass)
    bound = dual.bound
    if bound > enough:
        bound = min(bound, by_lists())
    if bound > enough:
        basis = orthonormal_basis(fit.w)
        bound = min(bound, tightened(s, r, mass, dual, basis @ basis.T, enough, deadline).bound)
    return bound


def _single_bound(s: Array, k: int, deadline: float, progress: Progress) -> float:
    """What no single column of k non-zeros exceeds."""
    column = best_columns(Beside(s, np.zeros((len(s), 0)), orthogonal=True), k, Tuning())[0]
    return _proved_column(s, column, k, math.inf, deadline, progress).bound


def _heads(s: Array, k: int, dual: Dual) -> Array:
    """Upper bounds on the variance that n features capture, for n = 0 … k."""
    heads = [0.0]
    for n in range(1, k + 1):
        rows = largest_row_bound(s, n)
        heads.append(min(rows * (1.0 + ROUNDING), dual.for_mass(n - 1.0)))
    return np.array(heads)


def _column(x: Array) -> Column:
    support = np.flatnonzero(x)
    return Column(support, x[support], 0.0)
