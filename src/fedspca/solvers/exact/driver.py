"""ExactSPCA's rounds over a federation: each question is one sum."""

from collections.abc import Callable
from dataclasses import replace
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

from fedspca.linalg.operators import Frame
from fedspca.site.question import Query
from fedspca.solvers.asking import frame_arrays, gram_product
from fedspca.solvers.exact.loop import State, advance, first, question, solution
from fedspca.solvers.exact.problem import Problem
from fedspca.solvers.rounds import Rounds
from fedspca.solvers.stopping import StopReason

Array = NDArray[np.float64]


def run(
    rounds: Rounds,
    frame: Frame,
    problem: Problem,
    state: State,
    *,
    precision: str = "float64",
    lam: Array | None = None,
    on_state: Callable[[State], object] | None = None,
    max_seconds: float = np.inf,
) -> State:
    """Ask and advance until the state has stopped. ``on_state`` receives every state, so that it can be saved.

    Once a point has been found, no round begins after ``max_seconds``; the best point so far is returned.
    """
    begin = perf_counter()
    while state.stopped is None:
        state = advance(problem, state, _answer(rounds, frame, state, precision))
        _report(rounds, state, lam)
        if rounds.stop_requested and state.stopped is None:
            state = replace(state, stopped=StopReason.CALLBACK)
        if perf_counter() - begin > max_seconds and state.stopped is None and state.incumbent is not None:
            state = replace(state, stopped=StopReason.MAX_SECONDS)
        if on_state is not None:
            on_state(state)
    return state


def _answer(rounds: Rounds, frame: Frame, state: State, precision: str) -> Array:
    """S times the open question, by one sum. The first question is sent as a seed."""
    if first(state):
        scalars = {"seed": state.seed, "columns": question(state).shape[1], "precision": precision}
        return rounds.sum(Query("gram_sketch", frame_arrays(frame), scalars))["product"]
    return gram_product(rounds, frame, question(state), precision)


def _report(rounds: Rounds, state: State, lam: Array | None) -> None:
    """Record the best point so far, in the terms of the other solvers: captured variance enters with a minus sign."""
    if state.incumbent is None:
        return
    w, product = solution(state)
    rounds.report(
        objective=penalised_objective(w, w.T @ product, lam),
        certificate=None if np.isnan(state.incumbent.certificate) else state.incumbent.certificate,
        nonzeros=int(np.count_nonzero(w)),
    )


def penalised_objective(w: Array, captured: Array, lam: Array | None) -> float:
    """Penalty λ‖w‖₁, if there is one, less the variance captured by span(w)."""
    gram = w.T @ w
    if float(np.abs(gram - np.eye(len(gram))).max()) > 1e-12:
        captured = np.asarray(np.linalg.lstsq(gram, captured, rcond=1e-12)[0])
    inside = float(np.trace(captured))
    return (0.0 if lam is None else float(lam @ np.abs(w).sum(axis=0))) - inside
