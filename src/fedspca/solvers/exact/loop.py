"""The rounds of ExactSPCA without communication: ask ``question(state)``, then call ``advance(…, answer)``.

Each round is one product with S. A Nyström model of S keeps all answers. Points are proposed on the model, which costs
no round. They are judged by their exact products, which the next question includes.
"""

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lapack, solve_triangular

from fedspca.linalg import nystrom
from fedspca.linalg.rotations import random_rotations
from fedspca.linalg.small import cholesky_qr
from fedspca.site.answers.products import random_directions
from fedspca.solvers.exact.problem import Incumbent, Problem
from fedspca.solvers.stopping import StopReason

Array = NDArray[np.float64]

ENTERING = 0.75  # the most features that may enter at once, of those that an update asked one by one
POWER_ROUNDS = 3  # one is useless and two often end in a poor basin


class Earlier(NamedTuple):
    """Where an earlier fit ended: its loadings w (d × r), and directions (d × m) that held most of the variance."""

    w: Array
    basis: Array


@dataclass(frozen=True)
class State:
    """Everything the coordinator stores between two rounds: arrays and numbers, so that a fit can be saved and resumed.

    Attributes
    ----------
    n_components, seed, search_rounds, power_rounds, max_rounds : int
        The plan of the rounds.
    rank_tol : float
        An answer below this share of the largest eigenvalue is rounding error.
    rotations : ndarray of shape (n, r, r)
        The rotations from which later starts begin, drawn in advance.
    model : NystromModel
        All that the sites have answered.
    asked : ndarray of shape (d, m)
        The directions of the open question. They are orthonormal, except in the first question, which is sent as a
        seed.
    candidates : tuple of ndarray
        Points in the span of the question. Its answer gives their exact products.
    incumbent : Incumbent or None
        The best point so far.
    round : int
        Rounds taken.
    stopped : StopReason or None
        Why the rounds ended.
    """

    n_components: int
    seed: int
    power_rounds: int
    search_rounds: int
    max_rounds: int
    rank_tol: float
    rotations: Array
    model: nystrom.NystromModel
    asked: Array
    candidates: tuple[Array, ...]
    incumbent: Incumbent | None
    round: int
    stopped: StopReason | None


def begin(
    problem: Problem,
    n_features: int,
    n_components: int,
    trace: float,
    rng: np.random.Generator,
    *,
    n_rotations: int,
    max_rounds: int,
    rank_tol: float,
    asks: bool = True,
) -> State:
    """State before the first round: a random block to ask, and the rotations that later starts will use.

    If S is known, nothing is asked: then ``asks`` is False, and no block is drawn.
    """
    r, seed = n_components, int(rng.integers(2**31))
    width = min(n_features, problem.width(r))
    search = problem.search_rounds(r)
    return State(
        n_components=r,
        seed=seed,
        power_rounds=POWER_ROUNDS,
        search_rounds=search,
        max_rounds=max_rounds,
        rank_tol=rank_tol,
        rotations=random_rotations(search * n_rotations if r > 2 else 0, r, rng),
        model=nystrom.empty(n_features, trace),
        asked=random_directions(seed, (n_features, width)) if asks else np.zeros((n_features, 0)),
        candidates=(),
        incumbent=None,
        round=0,
        stopped=None,
    )


def begin_at(state: State, earlier: Earlier, *, most: int = 0) -> State:
    """Ask first what an earlier fit knew: one round takes the place of the power rounds, and judges its loadings.

    If the features with a weight, and the basis, are at most ``most`` directions, each of these features is asked. Then
    S is known on the old support, and a point that differs from the old one in its weights only needs no round more. By
    the loadings alone a round gains a factor of about ten: what the model does not know of S, over the curvature. One
    search is then enough, since the model ranks starts by what it knows of S.
    """
    used = np.flatnonzero(earlier.w.any(axis=1))
    first, searches = orthonormal(earlier.w), state.search_rounds
    if len(used) + earlier.basis.shape[1] <= most:
        first, searches = np.zeros((len(earlier.w), len(used))), min(searches, 1)
        first[used, np.arange(len(used))] = 1.0
    asked = orthonormal(np.hstack([first, earlier.basis]))
    return replace(state, power_rounds=1, search_rounds=searches, asked=asked, candidates=(earlier.w,))


def ended(state: State, width: int) -> Array:
    """At most ``width`` leading eigenvectors of the model: what a later fit asks first, beside the loadings."""
    return nystrom.leading(state.model, min(width, state.model.rank))[1]


def leading(state: State, n: int) -> tuple[Array, Array] | None:
    """At most n of the model's largest eigenvalues, and their eigenvectors. None before anything was asked.

    The eigenvalues of S are no smaller, since M ⪯ S, and no sum of them is smaller than what the loadings capture.
    """
    n = min(n, state.model.rank)
    return nystrom.leading(state.model, n) if n else None


def question(state: State) -> Array:
    """Directions Q of the next round."""
    return state.asked


def first(state: State) -> bool:
    """Whether the open question is the random one that is sent as a seed."""
    return not state.round and not state.model.rank and not state.candidates


def advance(problem: Problem, state: State, answer: Array) -> State:
    """State after the sum SQ for Q = ``question(state)`` came in."""
    if first(state):
        asked, answer = _orthonormal_pair(state.asked, answer)
        state = replace(state, asked=asked)
    model = nystrom.expand(state.model, state.asked, answer, rtol=state.rank_tol)
    best = _judge(problem, state, model, answer)
    if _found_nothing(problem, state, best):
        state = replace(state, search_rounds=state.round - state.power_rounds + 1)
    searched = state.round >= state.power_rounds + state.search_rounds
    stalled = False
    if searched and best is not None and best is state.incumbent:
        stalled = best.cautious and model.rank == state.model.rank
        best = replace(best, cautious=True)
    state = replace(state, model=model, incumbent=best, round=state.round + 1)
    looked = state.search_rounds == 0 or state.round > state.power_rounds
    if best is not None and best.holds and looked:  # the first point may be stationary too, before any search
        return replace(state, stopped=StopReason.CERTIFIED)
    if state.round >= state.max_rounds:
        return replace(state, stopped=StopReason.MAX_ROUNDS)
    if stalled:
        return replace(state, stopped=StopReason.STALLED)
    return _plan(problem, state, answer)


def warm(problem: Problem, state: State, *, max_rounds: int) -> State:
    """Begin another problem, a point of a path, with all earlier answers: nothing is asked again."""
    at = None if state.incumbent is None else state.incumbent.w
    candidates = tuple(problem.start(state.model, state.n_components, state.rotations[:0], at))
    return replace(
        state,
        power_rounds=0,
        search_rounds=0,
        max_rounds=max_rounds,
        incumbent=None,
        round=0,
        stopped=None,
        candidates=candidates,
        asked=orthonormal(np.hstack(candidates)),
    )


def reopen(state: State, max_rounds: int) -> State:
    """State to resume from: an open one unchanged; a stopped one asks one round to judge its solution again."""
    if state.stopped is None:
        return replace(state, max_rounds=max_rounds)
    w, _ = solution(state)
    return replace(
        state,
        power_rounds=0,
        search_rounds=0,
        max_rounds=state.round + max_rounds,
        candidates=(w,),
        asked=orthonormal(w),
        incumbent=None,
        stopped=None,
    )


def solution(state: State) -> tuple[Array, Array]:
    """Best loadings w so far and Sw; before any point was judged, the model's leading eigenvectors."""
    if state.incumbent is not None:
        return state.incumbent.w, state.incumbent.product
    w = nystrom.leading(state.model, state.n_components)[1]
    return w, state.model @ w


def _judge(problem: Problem, state: State, model: nystrom.NystromModel, answer: Array) -> Incumbent | None:
    """Best of the incumbent and of the candidates whose exact products just came in."""
    best = state.incumbent
    if best is not None and problem.moving:
        again = problem.assess(best.w, best.product, model)
        if again.objective != best.objective:
            best = Incumbent(best.w, best.product, again.objective, again.certificate, again.holds, best.cautious)
    for w in state.candidates:
        # w lies in the span of the asked columns, so its product needs no further round
        used = np.flatnonzero(w.any(axis=1))
        product = answer @ (state.asked[used].T @ w[used])
        verdict = problem.assess(w, product, model)
        if best is None or verdict.better_than(best):
            cautious = best is not None and best.cautious
            best = Incumbent(w, product, verdict.objective, verdict.certificate, verdict.holds, cautious)
    return best


def _found_nothing(problem: Problem, state: State, best: Incumbent | None) -> bool:
    """Whether the candidates just judged came from a search that gained too little for its round."""
    nth = state.round - state.power_rounds
    if best is None or state.incumbent is None or not 0 <= nth < state.search_rounds:
        return False
    gain = state.incumbent.objective - best.objective
    return gain < problem.worthwhile * abs(best.objective)


def _plan(problem: Problem, state: State, answer: Array) -> State:
    """Choose the next question: power iterations first, then starts, then steps from the incumbent."""
    number = state.round + 1
    if number < state.power_rounds:
        return replace(state, asked=orthonormal(answer, rough=True), candidates=())
    if number == state.power_rounds:
        # the last power round also includes a first solution: judging it costs no extra round
        candidates = tuple(problem.start(state.model, state.n_components, state.rotations[:0], None)[:1])
        return replace(state, asked=orthonormal(np.hstack([*candidates, answer])), candidates=candidates)
    nth = number - state.power_rounds - 1
    if nth == max(1, min(2, state.n_components - 1)) and len(state.candidates) == 1:
        state = replace(state, search_rounds=nth)  # all starts ended in one point: no more searches
    if nth < state.search_rounds or state.incumbent is None:
        candidates = _searched(problem, state, nth)
    else:
        candidates = tuple(problem.improve(state.model, state.incumbent))
    features = _asked_features(state)
    if features.any() and state.incumbent is not None and nth < state.search_rounds:
        candidates = (*problem.improve(state.model, state.incumbent), *candidates)
    if not candidates:
        return replace(state, stopped=StopReason.STATIONARY)
    probes = problem.probes(state.model, state.n_components, state.incumbent)
    columns = candidates if probes is None else (*candidates, probes)
    return replace(
        state, asked=orthonormal(np.hstack([*columns, _entered(features, candidates)])), candidates=candidates
    )


def _asked_features(state: State) -> NDArray[np.bool_]:
    """Return which features the first question of an update asked one by one."""
    if state.power_rounds != 1 or state.round != 1:
        return np.zeros(len(state.asked), dtype=bool)
    return np.asarray(np.einsum("ij,ij->i", state.asked, state.asked) > 1 - 1e-9)


def _entered(asked: NDArray[np.bool_], candidates: tuple[Array, ...]) -> Array:
    """Return features that points have beside those that were asked one by one, if these are not too many: e_j each."""
    new = np.flatnonzero(np.any([w.any(axis=1) for w in candidates], axis=0) & ~asked)
    if not asked.any() or len(new) > ENTERING * np.count_nonzero(asked):
        new = new[:0]
    columns = np.zeros((len(asked), len(new)))
    columns[new, np.arange(len(new))] = 1.0
    return columns


def _searched(problem: Problem, state: State, nth: int) -> tuple[Array, ...]:
    """Points from new starts. Later searches use more rotations, because the model ranks them better."""
    rounds = max(state.search_rounds, 1)
    first, last = (int(len(state.rotations) * (i / rounds) ** 2) for i in (nth, nth + 1))
    at = None if state.incumbent is None else state.incumbent.w
    return tuple(problem.start(state.model, state.n_components, state.rotations[first:last], at))


def _orthonormal_pair(directions: Array, product: Array) -> tuple[Array, Array]:
    """Q and SQ from Ω = QR and SΩ."""
    factor, info = lapack.dpotrf(directions.T @ directions, clean=1)
    sizes = factor.diagonal()
    if info or float(sizes.min()) < 0.1 * float(sizes.max()):  # few features, many directions
        q, upper = np.linalg.qr(directions)
        return q, np.asarray(solve_triangular(upper.T, product.T, lower=True).T)
    inverse, _ = lapack.dtrtri(factor)
    return directions @ inverse, product @ inverse


def orthonormal(columns: Array, *, rough: bool = False) -> Array:
    """Orthonormal basis of the columns; a leading orthonormal block is unchanged, with its exact zeros.

    With ``rough`` it is orthonormal to ten digits only. That is enough if no candidate's product is computed from the
    answer.
    """
    fast = cholesky_qr(columns, rough=rough)
    if fast is not None:
        return fast
    q, upper = np.linalg.qr(columns)
    if columns.shape[1] > columns.shape[0]:
        return np.asarray(q)
    pivots = np.diag(upper)
    keep = np.abs(pivots) > 1e-12 * np.maximum(np.linalg.norm(columns, axis=0), 1e-300)
    if not keep.all():
        # a dependent column puts an arbitrary direction into q and affects later ones: drop it before the QR
        return orthonormal(columns[:, keep])
    return np.asarray(q * np.where(pivots < 0.0, -1.0, 1.0))
