"""Fits to subsamples, near the fit to all rows, and their components in its order and with its signs.

Half samples are many similar problems with several nearly best loadings each. A search that misses the best ones makes
selection frequencies a matter of luck. So some half samples are searched, and then all of them begin with the best of
what was found on any: loadings that one search missed are there from another.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import combinations

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from fedspca.linalg.cardinality.joint import best_loadings, loadings_near
from fedspca.linalg.cardinality.polish import Fit, orthonormal_basis
from fedspca.linalg.cardinality.tuning import Tuning
from fedspca.linalg.rotations import rotated
from fedspca.solvers.doing import counted
from fedspca.solvers.exact.whole import leading
from fedspca.solvers.folds.sums import Centred, FoldSums

Array = NDArray[np.float64]
Chosen = NDArray[np.bool_]
Supports = tuple[tuple[int, ...], ...]

SMALL = 100  # up to so many features the search begins with every feature; with more it would take too long
SHARED = 3  # loadings found on other half samples that a half sample begins with
STRIDES = (4, 2, 1)  # one half sample of four is searched; where searches miss much, one of two, or all
RELIABLE = 0.1  # searches are enough if fewer than this share of them missed the best, or found anything new
_GAIN = 1e-9  # relative


def half_samples(folds: int, most: int, rng: np.random.Generator) -> list[tuple[Chosen, Chosen]]:
    """Return complementary pairs of half samples: all of them, or at most ``most`` drawn at random."""
    first = [(0, *rest) for rest in combinations(range(1, folds), folds // 2 - 1)]
    if len(first) > most:
        first = [first[at] for at in sorted(rng.choice(len(first), most, replace=False))]
    halves = [np.isin(np.arange(folds), chosen) for chosen in first]
    return [(half, ~half) for half in halves]


def refit(s: Array, k: Sequence[int], starts: Sequence[Array], *, orthogonal: bool) -> Array:
    """Sparse loadings of S with k_j non-zeros each: quick, for scores that are compared over many k.

    Truncated power steps from each start; the best end is swept once.
    """
    counts, tuning = _counts(k, s), _tuning(k, s)
    best = loadings_near(s, counts, starts, orthogonal=orthogonal, tuning=replace(tuning, long=0))
    if max(counts) > tuning.long:
        return best.w
    return loadings_near(s, counts, [best.w], orthogonal=orthogonal, tuning=tuning).w


def _searched(s: Array, k: Sequence[int], w: Array, *, orthogonal: bool) -> Fit:
    """Search sparse loadings of S from w and from its dense loadings; with few features also from each of them."""
    search = best_loadings if len(s) <= SMALL else loadings_near
    return search(s, _counts(k, s), starts=[w, *dense_starts(s, len(k))], orthogonal=orthogonal, tuning=_tuning(k, s))


def _counts(k: Sequence[int], s: Array) -> tuple[int, ...]:
    return tuple(min(int(kj), len(s)) for kj in k)


def _tuning(k: Sequence[int], s: Array) -> Tuning:
    return Tuning.for_size(len(s), min(max(k), len(s)), len(k)).lighter()


def dense_starts(s: Array, r: int) -> list[Array]:
    """Return the r leading eigenvectors of S, and their varimax rotation."""
    return rotated(leading(s, r)[1], np.zeros((0, r, r)))


class Pool:
    """Loadings that were found on similar matrices: each set of supports once."""

    def __init__(self) -> None:
        self._kept: dict[Supports, Array] = {}

    def __len__(self) -> int:
        return len(self._kept)

    def add(self, w: Array) -> None:
        """Keep loadings, unless some with the same supports are here."""
        self._kept.setdefault(supports(w), w)

    def best(self, s: Array, n: int) -> dict[Supports, Array]:
        """Return the n of them that capture most of the variance of S."""
        bases = [orthonormal_basis(w) for w in self._kept.values()]
        used = np.flatnonzero(np.any([basis.any(axis=1) for basis in bases], axis=0))
        columns = np.hstack([basis[used] for basis in bases])
        owner = np.repeat(np.arange(len(bases)), [basis.shape[1] for basis in bases])
        captured = np.bincount(owner, np.einsum("ij,ij->j", columns, s[np.ix_(used, used)] @ columns), len(bases))
        named = list(self._kept.items())
        return dict(named[at] for at in np.argsort(-captured, kind="stable")[:n])


def supports(w: Array) -> Supports:
    """Return the features of each column, in an order that does not depend on that of the columns."""
    return tuple(sorted(tuple(np.flatnonzero(column).tolist()) for column in w.T))


def refits(sums: FoldSums, halves: Sequence[Chosen], w: Array, *, orthogonal: bool) -> Iterator[tuple[Centred, Array]]:
    """Fit half samples near w with its numbers of non-zeros; yield their moments and loadings in w's order and signs.

    Parameters
    ----------
    sums : FoldSums
        The sums by fold.
    halves : sequence of ndarray of bool
        The folds of each half sample.
    w : ndarray of shape (features in sight, r)
        The loadings of all rows.
    orthogonal : bool
        Whether loadings are orthogonal.
    """
    fitting = _Fitting(w, orthogonal)
    for stride in STRIDES:
        known = len(fitting.pool)
        begun = [at for at in range(0, len(halves), stride) if at not in fitting.found]
        for at in counted("Fitting half samples", begun):
            fitting.search(at, sums.subsample(halves[at]).matrix)
        missed = [fitting.share(at, sums.subsample(halves[at]).matrix) for at in begun]
        if min(sum(missed), len(fitting.pool) - known) < RELIABLE * len(begun):
            break
    for at, half in enumerate(counted("Comparing half samples", halves)):
        sample = sums.subsample(half)
        fitting.share(at, sample.matrix)
        yield sample, matched(fitting.found[at].w, w)


class _Fitting:
    """Loadings of similar matrices, by number, while they are fitted near w."""

    def __init__(self, w: Array, orthogonal: bool) -> None:
        self._w, self._orthogonal = w, orthogonal
        self._k = [int(kj) for kj in np.count_nonzero(w, axis=0)]
        self.pool = Pool()
        self.pool.add(w)
        self._tried: defaultdict[int, set[Supports]] = defaultdict(set)
        self.found: dict[int, Fit] = {}

    def search(self, at: int, s: Array) -> None:
        """Search loadings of S on its own."""
        self._keep(at, _searched(s, self._k, self._w, orthogonal=self._orthogonal))

    def share(self, at: int, s: Array) -> bool:
        """Begin with the best loadings of all, unless they were tried on S before; return whether S gained."""
        tried = self._tried[at]
        starts = {named: w for named, w in self.pool.best(s, SHARED).items() if named not in tried}
        if not starts:
            return False
        tried |= set(starts)
        counts, tuning = _counts(self._k, s), _tuning(self._k, s)
        other = loadings_near(s, counts, starts.values(), orthogonal=self._orthogonal, tuning=tuning)
        if at in self.found and other.variance <= self.found[at].variance * (1.0 + _GAIN):
            return False
        self._keep(at, other)
        return True

    def _keep(self, at: int, fit: Fit) -> None:
        self.found[at] = fit
        self._tried[at].add(supports(fit.w))
        self.pool.add(fit.w)


def matched(w: Array, reference: Array) -> Array:
    """Return components in the order and with the signs of a reference: the matching maximises the sum of cosines."""
    cosines = reference.T @ w
    at, found = linear_sum_assignment(-np.abs(cosines))
    signs = np.where(cosines[at, found] < 0, -1.0, 1.0)
    ordered = np.zeros_like(reference)
    ordered[:, at] = w[:, found] * signs
    return ordered
