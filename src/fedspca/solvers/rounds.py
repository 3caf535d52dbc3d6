"""The record of a fit: one entry per round, passed to callbacks as soon as the round ends."""

import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TextIO, TypeAlias

from fedspca.federation.base import Aggregate, Around, Federation
from fedspca.site.question import Query


@dataclass(frozen=True)
class Round:
    """One sum over the sites, and the figures that the solver computed from it.

    Attributes
    ----------
    number : int
        Which round it was, from 1.
    query : str
        The name of the question.
    stage : int
        The deflation stage, from 0.
    bytes_up, bytes_down : int
        What each site sent and received.
    seconds : float
        How long the federation took to answer.
    objective : float or None
        The penalised objective, where the round gave it: captured variance enters with a minus sign.
    primal_residual, dual_residual : float or None
        How far the sites are from consensus, and how far the consensus still moves, both relative.
    rho : float or None
        The penalty of the augmented Lagrangian in this round.
    nonzeros : int or None
        Non-zero weights in the loadings of this stage.
    alignment : float or None
        Average pairwise cosine between the sites' loadings.
    certificate : float or None
        First-order residual of the pooled problem, relative, or another measure of how far the solver has come.
    upper_bound : float or None
        Upper bound on minus the objective over all admissible loadings, if it was computed.
    """

    number: int
    query: str
    stage: int
    bytes_up: int
    bytes_down: int
    seconds: float
    objective: float | None = None
    primal_residual: float | None = None
    dual_residual: float | None = None
    rho: float | None = None
    nonzeros: int | None = None
    alignment: float | None = None
    certificate: float | None = None
    upper_bound: float | None = None


Callback: TypeAlias = Callable[[Round], object]


class StopFit(Exception):
    """Raise it in a callback to end the fit after this round; what has been found is kept."""


class Rounds(Around):
    """A federation that records every question. Solvers add their figures to the record of each round.

    Parameters
    ----------
    federation : Federation
        Who answers.
    callbacks : sequence of callables
        Each is called with the :class:`Round` once the solver has reported on it.
    history : sequence of Round
        Rounds of an earlier fit that this one continues.
    """

    def __init__(
        self, federation: Federation, callbacks: Sequence[Callback] = (), history: Sequence[Round] = ()
    ) -> None:
        super().__init__(federation)
        self._callbacks = tuple(callbacks)
        self.stage = 0
        self.history = list(history)
        self._shown = len(self.history)
        self.stop_requested = False  # whether a callback raised StopFit

    def sum(self, query: Query) -> Aggregate:
        """Ask every site, and open a record of the round."""
        self.show()
        began = time.perf_counter()
        answer = self._federation.sum(query)
        seconds = time.perf_counter() - began
        number = len(self.history) + 1
        self.history.append(Round(number, query.name, self.stage, answer.bytes_up, answer.bytes_down, seconds))
        return answer

    def report(self, **figures: Any) -> None:
        """Complete the record of the last round with the solver's figures, and show it to the callbacks."""
        self.history[-1] = replace(self.history[-1], **figures)
        self.show()

    def show(self) -> None:
        """Show the last round to the callbacks, unless they have seen it."""
        if self._shown == len(self.history):
            return
        self._shown = len(self.history)
        for callback in self._callbacks:
            try:
                callback(self.history[-1])
            except StopFit:
                self.stop_requested = True


class ProgressBar:
    """A callback that draws one line: the round, the residuals and the non-zeros."""

    def __init__(self, label: str, max_rounds: int, stream: TextIO | None = None) -> None:
        self.label = label
        self.max_rounds = max_rounds
        self.stream = stream if stream is not None else sys.stderr

    def __call__(self, record: Round) -> None:
        """Redraw the line."""
        done = min(20, 20 * record.number // self.max_rounds)
        parts = [f"{self.label} [{'#' * done}{'.' * (20 - done)}] round {record.number}"]
        if record.primal_residual is not None and record.dual_residual is not None:
            parts.append(f"primal {record.primal_residual:.1e}  dual {record.dual_residual:.1e}")
        if record.certificate is not None:
            parts.append(f"certificate {record.certificate:.1e}")
        if record.nonzeros is not None:
            parts.append(f"non-zeros {record.nonzeros}")
        self.stream.write("\r" + "  ".join(parts).ljust(100))
        self.stream.flush()

    def close(self) -> None:
        """End the line."""
        self.stream.write("\n")
