"""Solutions over a grid of λ, or of non-zeros, on one model: one or two rounds per point."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedspca.linalg.operators import Frame
from fedspca.solvers.exact.driver import run
from fedspca.solvers.exact.loop import State, solution, warm
from fedspca.solvers.exact.problem import Problem
from fedspca.solvers.rounds import Rounds
from fedspca.solvers.stopping import StopReason

Array = NDArray[np.float64]


@dataclass(frozen=True)
class PathPoint:
    """One solution of a path: its loadings, Sw, the certificate if it has one, and the rounds that it cost."""

    w: Array
    product: Array
    certificate: float
    rounds: int
    stop_reason: StopReason


def follow(
    rounds: Rounds, frame: Frame, state: State, problems: Iterable[Problem], *, max_rounds: int, precision: str
) -> Iterator[PathPoint]:
    """Solve each problem in turn, started at the previous solution and with all earlier answers."""
    for problem in problems:
        state = run(rounds, frame, problem, warm(problem, state, max_rounds=max_rounds), precision=precision)
        w, product = solution(state)
        certificate = np.nan if state.incumbent is None else state.incumbent.certificate
        yield PathPoint(w, product, certificate, state.round, state.stopped or StopReason.MAX_ROUNDS)
