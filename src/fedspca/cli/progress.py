"""A progress line for a fit: the round, the objective, the non-zeros, the time left."""

import math
import time
from contextlib import ExitStack
from types import TracebackType
from typing import Self

from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from fedspca.cli.output import notes
from fedspca.fit import FitSettings
from fedspca.solvers.doing import told_to
from fedspca.solvers.rounds import Round

SEEN = 10  # rounds over which the speed of convergence is estimated
DEFAULT_TOL = 1e-6


class FitProgress:
    """A callback that draws one line on a terminal, also between rounds, and nothing elsewhere."""

    def __init__(self, settings: FitSettings) -> None:
        self._tol = settings.tol or DEFAULT_TOL
        self._listening = ExitStack()
        self._residuals: list[tuple[float, float]] = []
        console = notes()
        self._bar = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            TimeElapsedColumn(),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self._task = self._bar.add_task("Reading the files")

    def __enter__(self) -> Self:
        self._bar.start()
        self._listening.enter_context(told_to(self.tell))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._listening.close()
        self.stop()

    def stop(self) -> None:
        """Take the line away."""
        self._bar.stop()

    def tell(self, doing: str) -> None:
        """Say what is done between rounds."""
        self._bar.update(self._task, description=doing)

    def __call__(self, record: Round) -> None:
        """Redraw the line."""
        parts = [f"Round {record.number}"]
        if record.objective is not None:
            parts.append(f"objective {record.objective:.6g}")
        if record.nonzeros is not None:
            parts.append(f"{record.nonzeros} non-zeros")
        measured = (record.primal_residual, record.dual_residual, record.certificate)
        known = [residual for residual in measured if residual is not None and math.isfinite(residual)]
        if known:
            self._residuals.append((time.monotonic(), max(known)))
            left = seconds_left(self._residuals[-SEEN:], self._tol)
            parts.append("" if left is None else f"about {_duration(left)} left")
        self._bar.update(self._task, description=", ".join(part for part in parts if part))


def seconds_left(seen: list[tuple[float, float]], tol: float) -> float | None:
    """Estimate when residuals that shrink by a steady factor reach the tolerance; None if they do not shrink.

    Parameters
    ----------
    seen : list of (float, float)
        When each of the last rounds was done, and its residual.
    tol : float
        The residual at which the fit ends.
    """
    (began, first), (now, last) = seen[0], seen[-1]
    if last <= tol:
        return 0.0
    if now <= began or not 0 < last < first:
        return None
    return (now - began) * math.log(last / tol) / math.log(first / last)


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
