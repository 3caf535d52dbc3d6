"""The three problems when all of S is known: one sum, and no further round."""

import math
import time
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.linalg import eigsh

from fedspca.federation.base import Federation
from fedspca.linalg import nystrom
from fedspca.linalg.cardinality.bounds import seconds_for, several_bound
from fedspca.linalg.cardinality.fewest import fewest_nonzeros, no_more_than_alike
from fedspca.linalg.cardinality.joint import finished, near_best
from fedspca.linalg.cardinality.polish import Fit, captured, refit_orthogonal
from fedspca.linalg.cardinality.proof import PROVED, bound_loadings
from fedspca.linalg.cardinality.restarts import restarted
from fedspca.linalg.cardinality.tuning import Tuning
from fedspca.linalg.operators import Frame
from fedspca.linalg.penalised_bound import penalised_bound
from fedspca.linalg.quadratic import DenseQuadratic
from fedspca.linalg.rotations import random_rotations, rotated
from fedspca.linalg.small import largest_eigenpairs
from fedspca.linalg.symmetric import coarse, unpack
from fedspca.site.question import Query
from fedspca.solvers.asking import frame_arrays
from fedspca.solvers.exact import many_nonzeros
from fedspca.solvers.exact.cardinality import Cardinality
from fedspca.solvers.exact.loop import Earlier, State, orthonormal
from fedspca.solvers.exact.penalised import Penalised
from fedspca.solvers.exact.problem import Incumbent, Problem, scatter
from fedspca.solvers.exact.variance_kept import FEW, VarianceKept, sparsest, starts_near
from fedspca.solvers.stopping import StopReason

Array = NDArray[np.float64]

LOCAL_FEATURES = 2000  # on one machine: with more features, forming S takes longer than the rounds that it saves
REMOTE_FEATURES = 4096  # between machines: 67 MB, once
MANY_COLUMNS = 10  # with n_nonzero and more components, the searches on a model take long
_PER_PAIR = 5e7  # products of rows and squared features, for each pair of components: forming S then takes less time
MANY_PENALISED = 10  # with a penalty and more components, products with a model take longer than products with S
_NEAR = 0.85  # share: loadings that keep more lie near the leading eigenvectors; the best that keep less may not
_SMALL = 320  # weights in all: more starts take a few milliseconds each
_ROTATIONS = 2  # further starts of a search for the fewest non-zeros, if it is small
_MANY = 20  # with more components, a search from dense loadings takes long, and ends no better than from a division
_FEW_NONZEROS = (2, 3, 5, 8, 13)  # of further starts with a penalty and one component
_FEW_FEATURES = 800  # with more of them these starts would take long
_PARTITIONS = 60  # further starts with a penalty: hundredths of a second
_HOPE = 0.985  # share of the target: where a first guess captured less, a search hardly ever reached it
_DIGITS = 2.0**26
_LANCZOS = 400  # with more features, a few eigenvectors are computed by Lanczos iterations


@dataclass(frozen=True)
class Solved:
    """What was found on S.

    Attributes
    ----------
    w : ndarray of shape (d, r)
        The loadings.
    stopped : StopReason
        Why the search ended.
    bound : float or None
        Upper bound on captured variance minus penalty, over all loadings; None if there was no time to compute it.
    basis : ndarray of shape (d, r)
        Leading eigenvectors of S.
    dense : float
        The variance that they capture: no loadings capture more.
    certificate : float
        The first-order residual, for a penalty.
    """

    w: Array
    stopped: StopReason
    bound: float | None
    basis: Array
    dense: float
    certificate: float = np.nan


class Seen(NamedTuple):
    """S, perhaps to seven digits, with its largest eigenvalues, descending, and their eigenvectors (d × r)."""

    s: Array
    values: Array
    basis: Array


def pays(n_rows: float, d: int, r: int) -> bool:
    """Whether on one machine S is formed for loadings with a given number of non-zeros.

    Forming it takes a time in proportion to ``n d²``. The searches that it saves take one in proportion to ``r²``.
    """
    if d <= LOCAL_FEATURES:
        return True
    return r > MANY_COLUMNS and d <= REMOTE_FEATURES and n_rows * d * d <= _PER_PAIR * r * r


def ask(federation: Federation, frame: Frame, precision: str) -> Array:
    """S itself, by one sum."""
    query = Query("gram", frame_arrays(frame), {"precision": precision})
    return unpack(federation.sum(query)["gram"].astype(np.float64, copy=False))


def solve(
    s: Array,
    problem: Problem,
    state: State,
    *,
    seconds: float,
    deadline: float = math.inf,
    earlier: Earlier | None = None,
) -> Solved:
    """Solve any of the three problems on S. Features that do not vary take no part.

    Searches see S to seven digits, so that rounding errors decide nothing: neither the number of sites nor the order of
    rows. What they find is then solved on S itself.

    Parameters
    ----------
    s : ndarray of shape (d, d)
        Symmetric, positive semidefinite.
    problem : Problem
        What is asked for.
    state : State
        The first state of the rounds. The penalised problem runs these rounds, each answered from S.
    seconds : float
        How long a proof may take; 0 leaves it out.
    deadline : float
        When, by ``time.monotonic()``, the search ends with what it has.
    earlier : Earlier, optional
        Where an earlier fit ended: one more start, beside the usual ones.
    """
    varying = np.flatnonzero(s.diagonal() > 0.0)
    part = s if len(varying) == len(s) else s[np.ix_(varying, varying)]
    r = state.n_components
    values, basis = leading(part, r)
    seen = _to_seven_digits(Seen(part, values, basis))
    before = [] if earlier is None else [w] if (w := _on_rows(earlier.w, varying)) is not None else []
    bound: float | None
    if isinstance(problem, Cardinality):
        w, stopped, bound = _cardinality(part, seen, problem, before, seconds, deadline)
    elif isinstance(problem, VarianceKept):
        w, stopped, bound = _variance_kept(Seen(part, values, basis), seen, problem, before, seconds, deadline)
    elif isinstance(problem, Penalised):
        rough = seen.s if part is s else coarse(s)
        seen = Seen(rough, seen.values, scatter(seen.basis, varying, len(s)))
        solved = _penalised(s, seen, problem, state, earlier, seconds, deadline)
        return replace(solved, basis=scatter(basis, varying, len(s)), dense=float(values.sum()))
    else:
        raise TypeError(f"{type(problem).__name__} is no problem that can be solved on S.")
    return Solved(scatter(w, varying, len(s)), stopped, bound, scatter(basis, varying, len(s)), float(values.sum()))


def _to_seven_digits(whole: Seen) -> Seen:
    """What a search sees of S. With many features, eigenvectors take long: those of S are rounded instead."""
    rough, basis = coarse(whole.s), whole.basis
    if len(basis) <= _LANCZOS:
        return Seen(rough, *leading(rough, basis.shape[1]))
    return Seen(rough, whole.values, np.rint(_DIGITS * basis) / _DIGITS)


def _on_rows(w: Array, rows: NDArray[np.intp]) -> Array | None:
    """Loadings over some features, of length one; None if a loading has no weight there."""
    inside = w[rows]
    lengths = np.linalg.norm(inside, axis=0)
    return None if not lengths.all() else inside / lengths


def leading(s: Array, r: int) -> tuple[Array, Array]:
    """The r largest eigenvalues of S, descending, and their eigenvectors."""
    if len(s) <= max(_LANCZOS, 4 * r):
        return largest_eigenpairs(s, r)
    start = np.cos(0.7 * np.arange(1, len(s) + 1) ** 2)  # fixed, so that a fit gives the same bits each time
    values, vectors = eigsh(s, k=r, v0=start)
    return values[::-1], vectors[:, ::-1]


def known(s: Array, problem: Problem, state: State, solved: Solved) -> State:
    """State of a fit that ended on S, with a model of its important part, so that rounds can check or continue it."""
    asked = orthonormal(np.hstack([solved.w, solved.basis]))
    model = nystrom.expand(state.model, asked, s @ asked, rtol=state.rank_tol)
    product = s @ solved.w
    if isinstance(problem, Penalised):
        verdict = problem.assessed(solved.w, product, solved.certificate)
    else:
        verdict = problem.assess(solved.w, product, model)
    best = Incumbent(solved.w, product, verdict.objective, solved.certificate, verdict.holds)
    return replace(state, model=model, asked=asked, candidates=(), incumbent=best, round=1, stopped=solved.stopped)


def _cardinality(
    s: Array, seen: Seen, problem: Cardinality, before: list[Array], seconds: float, deadline: float
) -> tuple[Array, StopReason, float]:
    k = tuple(min(kj, len(s)) for kj in problem.k)
    if len(k) > 1 and max(k) > many_nonzeros.MANY:
        starts = [*_turned(seen.basis, many_nonzeros.STARTS), *before]
        fits = [many_nonzeros.loadings(seen.s, k, problem.orthogonal, starts, problem.tuning)]
    else:
        tuning = replace(Tuning.for_size(len(s), max(k), len(k)), deadline=deadline)
        turned = _turned(seen.basis, tuning.rotations) if tuning.points > 1 else [seen.basis]
        fits = [near_best(seen.s, k, orthogonal=problem.orthogonal, tuning=tuning, starts=[*turned, *before])]
        if seconds > 0.0 and len(k) > 1:
            again = restarted(seen.s, fits[0], k, orthogonal=problem.orthogonal, tuning=tuning)
            fits = [again, fits[0]] if again is not fits[0] else fits
    # seven digits say little of columns that are nearly parallel: all digits decide
    ends = [finished(s, Fit(fit.w, captured(s, fit.w)), k, problem.orthogonal) for fit in fits]
    fit = max(ends, key=lambda end: end.variance)
    ended = _ended(deadline)
    bounded = bound_loadings(s, fit, k, orthogonal=problem.orthogonal, seconds=_left(seconds, deadline))
    stopped = StopReason.PROVED if bounded.proved else ended
    return bounded.fit.w, stopped, bounded.bound


def _variance_kept(
    whole: Seen, seen: Seen, problem: VarianceKept, before: list[Array], seconds: float, deadline: float
) -> tuple[Array, StopReason, float | None]:
    s, r = whole.s, whole.basis.shape[1]
    fit = refit_orthogonal(s, _fewest(seen, problem, before, seconds, deadline))
    if fit.variance < _target(whole, problem):  # an eighth digit decides
        fit = refit_orthogonal(s, _fewest(whole, problem, before, seconds, deadline))
    ended, bound = _ended(deadline), None
    if 16 * seconds_for(len(s)) <= _left(seconds, deadline):
        bound = max(several_bound(s, r, float(np.count_nonzero(fit.w) - r)), fit.variance)
    return fit.w, ended, bound


def _target(seen: Seen, problem: VarianceKept) -> float:
    """The variance to keep."""
    return problem.share * float(seen.values.sum()) * (1.0 - 1e-10)


def _fewest(seen: Seen, problem: VarianceKept, before: list[Array], seconds: float, deadline: float) -> Array:
    """The sparsest loadings that keep the share."""
    s, basis, r = seen.s, seen.basis, seen.basis.shape[1]
    target, tuning = _target(seen, problem), replace(Tuning(), deadline=deadline)
    dense_starts = _turned(basis, _ROTATIONS if basis.size <= _SMALL else 0)
    turned = dense_starts[min(1, r - 1)]
    coarsest = turned
    if basis.size > FEW and (r <= _MANY or not starts_near(s, turned, target)):
        found = sparsest(DenseQuadratic(s), turned, target, problem.tuning.to_the_end())
        coarsest = turned if found is None else found
    starts = [*starts_near(s, coarsest, target), *dense_starts[2:], *before]
    fit = fewest_nonzeros(s, target, tuning=tuning, starts=starts) or refit_orthogonal(s, coarsest)
    checked = seconds > 0.0  # like a proof: it takes as long as the fit, and seldom finds anything
    if np.count_nonzero(fit.w) <= FEW and (checked or problem.share < _NEAR or r == 1 or basis.size <= _SMALL):
        hope = 0.0 if checked or problem.share < _NEAR else _HOPE
        alike = _turned(basis, Tuning.for_size(len(s), 1, r).rotations) if checked else dense_starts[:2]
        fit = no_more_than_alike(s, fit, target, hope=hope, tuning=tuning, starts=alike, whole=checked)
    return fit.w


def _ended(deadline: float) -> StopReason:
    """Why a search ended: it found nothing better, or its time was up."""
    return StopReason.MAX_SECONDS if time.monotonic() > deadline else StopReason.STATIONARY


def _left(seconds: float, deadline: float) -> float:
    """How long a proof may take: no longer than until the fit has to end."""
    return min(seconds, max(deadline - time.monotonic(), 0.0))


def _turned(basis: Array, n: int) -> list[Array]:
    """The leading eigenvectors, their varimax rotation, and n more rotations, the same ones each time."""
    return rotated(basis, _rotations(n, basis.shape[1]))


@lru_cache(maxsize=32)
def _rotations(n: int, r: int) -> Array:
    """The same n rotations each time; none for one component."""
    drawn = random_rotations(n if r > 1 else 0, r, np.random.default_rng(0))
    drawn.flags.writeable = False  # they are shared
    return drawn


def _penalised(
    s: Array,
    seen: Seen,
    problem: Penalised,
    state: State,
    earlier: Earlier | None,
    seconds: float,
    deadline: float,
) -> Solved:
    start = nystrom.complete(seen.basis, state.n_components)
    before = [] if earlier is None else [orthonormal(earlier.w)]
    if seconds > 0.0 and state.n_components == 1:
        before += _of_few_nonzeros(seen, deadline)
    partitions = _PARTITIONS if seconds > 0.0 else 0
    near = problem.on(DenseQuadratic(seen.s), start, state.rotations, before, deadline, partitions=partitions)
    found, certificate = problem.finished(DenseQuadratic(s), near, deadline)
    stopped = StopReason.CERTIFIED if certificate <= problem.tol else StopReason.STALLED
    if time.monotonic() > deadline:
        stopped = StopReason.MAX_SECONDS
    bound, lam = None, problem.lam
    if 16 * seconds_for(len(s)) <= _left(seconds, deadline):
        bound = -penalised_bound(s, len(lam), lam, near=found.w, seconds=_left(seconds, deadline))
        if bound + found.objective <= PROVED * abs(found.objective):
            stopped = StopReason.PROVED
    return Solved(found.w, stopped, bound, seen.basis, float(seen.values.sum()), certificate)


def _of_few_nonzeros(seen: Seen, deadline: float) -> list[Array]:
    """The best columns of a few non-zeros each, as starts: where the penalty is large, no dense one leads to them."""
    d = len(seen.s)
    if d > _FEW_FEATURES:
        return []
    tuning = replace(Tuning.for_size(d, 1, 1), deadline=deadline)
    counts = [(k,) for k in _FEW_NONZEROS if k <= d]
    return [near_best(seen.s, k, orthogonal=True, tuning=tuning, starts=[seen.basis]).w for k in counts]
