"""The three problems where S is known as a whole: one sum, and no round after it."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.linalg import eigsh

from fedspca.federation.base import Federation
from fedspca.linalg import nystrom
from fedspca.linalg.cardinality.bounds import penalised_bound, seconds_for, several_bound
from fedspca.linalg.cardinality.fewest import fewest_nonzeros
from fedspca.linalg.cardinality.joint import best_loadings
from fedspca.linalg.cardinality.polish import Fit
from fedspca.linalg.cardinality.proof import certify
from fedspca.linalg.cardinality.tuning import Tuning
from fedspca.linalg.operators import Frame
from fedspca.linalg.quadratic import DenseQuadratic
from fedspca.linalg.rotations import rotated
from fedspca.linalg.small import cholesky_qr, largest_eigenpairs
from fedspca.linalg.symmetric import unpack
from fedspca.site.question import Query
from fedspca.solvers.exact.cardinality import Cardinality
from fedspca.solvers.exact.loop import State, advance, question, solution
from fedspca.solvers.exact.penalised import Penalised
from fedspca.solvers.exact.problem import Incumbent, Problem
from fedspca.solvers.exact.variance_kept import VarianceKept, sparsest
from fedspca.solvers.start import frame_arrays
from fedspca.solvers.stopping import StopReason

Array = NDArray[np.float64]

LOCAL_FEATURES = 2000  # on one machine: beyond, forming S takes longer than the rounds that it saves
REMOTE_FEATURES = 4096  # between machines: 67 MB, once
_LANCZOS = 400  # features beyond which a few eigenvectors are found by products


@dataclass(frozen=True)
class Solved:
    """What was found on S: loadings, why it ended, and what nothing better exceeds (in captured variance, penalty off).

    ``bound`` is None where nothing was proved; ``certificate`` is the first-order residual, for a penalty.
    """

    w: Array
    stopped: StopReason
    bound: float | None
    certificate: float = np.nan


def ask(federation: Federation, frame: Frame, precision: str) -> Array:
    """S itself, by one sum."""
    query = Query("gram", frame_arrays(frame), {"precision": precision})
    return unpack(federation.sum(query)["gram"].astype(np.float64, copy=False))


def solve(s: Array, problem: Problem, state: State, *, seconds: float) -> Solved:
    """Solve any of the three problems on S. Features that do not vary take no part."""
    if isinstance(problem, Cardinality):
        return _within_varying(s, lambda part: _cardinality(part, problem, seconds))
    if isinstance(problem, VarianceKept):
        return _within_varying(s, lambda part: _variance_kept(part, problem, state.n_components, seconds))
    return _by_rounds(s, problem, state, seconds)


def _cardinality(s: Array, problem: Cardinality, seconds: float) -> Solved:
    k = tuple(min(kj, len(s)) for kj in problem.k)
    tuning = Tuning.for_size(len(s), max(k), len(k))
    starts = rotated(leading(s, len(k))[1], np.zeros((0, len(k), len(k))))
    fit = best_loadings(s, k, orthogonal=problem.orthogonal, tuning=tuning, starts=starts)
    certificate = certify(s, fit, k, orthogonal=problem.orthogonal, seconds=seconds)
    stopped = StopReason.PROVED if certificate.proved else StopReason.STATIONARY
    return Solved(certificate.fit.w, stopped, certificate.bound)


def _variance_kept(s: Array, problem: VarianceKept, r: int, seconds: float) -> Solved:
    values, basis = leading(s, r)
    target = problem.share * float(values.sum()) * (1.0 - 1e-10)
    dense = rotated(basis, np.zeros((0, r, r)))
    sparse = [sparsest(DenseQuadratic(s), w, target, within=256) for w in dense]
    starts = [w for w in sparse if w is not None] or dense
    longest = max(int(np.count_nonzero(w, axis=0).max()) for w in starts)
    tuning = Tuning.for_size(len(s), longest, r).lighter()
    fit = fewest_nonzeros(s, r, target, tuning=tuning, starts=starts) or Fit(basis, float(values.sum()))
    bound = None
    if 16 * seconds_for(len(s)) <= seconds:
        bound = max(several_bound(s, r, float(np.count_nonzero(fit.w) - r)), fit.variance)
    return Solved(fit.w, StopReason.STATIONARY, bound)


def _by_rounds(s: Array, problem: Problem, state: State, seconds: float) -> Solved:
    """The usual rounds, each answered from S."""
    while state.stopped is None:
        state = advance(problem, state, s @ question(state))
    w, product = solution(state)
    bound = None
    if isinstance(problem, Penalised) and 16 * seconds_for(len(s)) <= seconds:
        value = float(problem.lam @ np.abs(w).sum(axis=0)) - float(np.vdot(w, product))
        bound = penalised_bound(s, problem.lam, value)
    certificate = np.nan if state.incumbent is None else state.incumbent.certificate
    return Solved(w, state.stopped or StopReason.MAX_ROUNDS, bound, certificate)
