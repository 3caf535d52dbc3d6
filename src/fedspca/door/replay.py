"""A site's own run of the agreed study: the site answers a question only if its own run asks the same one next.

The contract
------------
A solver is a deterministic function of the agreement and of the sums. Every site has both: the agreement is what its
owner signed, and the sums come back with tags (:mod:`fedspca.masking.tags`). So a site runs the solver itself, and a
question is answered only if it is the solver's next one, to within rounding. The coordinator chooses nothing.

The work is passed in as a function with one argument: the function that asks a question. The work runs in its own
thread, since a solver calls its federation and waits. :class:`Replay` returns its questions and gives it the sums.

The tolerance
-------------
All sites decode the same integers to the same bits, and what is computed entry by entry is the same on every machine.
Products, decompositions and the order of their sums depend on the processor. So their last digits differ, and a solver
magnifies these differences. With the same processor, the same versions and one thread there is no difference.

With other kernels, fits that ask for the whole covariance differed by up to 1.4e-8. Of the other fits, some stayed
together: they differed by up to 9e-7, hence the tolerance. Most of the others diverged at once, in the number or the
signs of the directions, and no tolerance would help.

Entries of a vector (means, scales: each with its own unit) are compared one by one. Directions are
compared by columns, relative to the largest entry of the column.
"""

import queue
import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fedspca.door.agreement import Agreement
from fedspca.site.question import Query

Array = NDArray[np.float64]

TOLERANCE = 1e-6


class Summed(NamedTuple):
    """The sum of a round: its arrays, and the sites that are in it."""

    arrays: Mapping[str, Array]
    sites: tuple[str, ...]


Ask: TypeAlias = Callable[[Query], Summed]
Work: TypeAlias = Callable[[Ask], Any]
Stated: TypeAlias = Mapping[str, Array]


class _Closed(BaseException):
    """The replay was closed. This is not an Exception, so that no solver catches it as an error of its own."""


class _End(NamedTuple):
    result: Any = None
    error: BaseException | None = None


class Replay:
    """A study that runs in a thread, one question at a time.

    Parameters
    ----------
    work : callable
        The work. Its argument is a function that takes a question and returns its sum.
    """

    def __init__(self, work: Work) -> None:
        self.fed = 0
        self._questions: queue.SimpleQueue[Query | _End] = queue.SimpleQueue()
        self._sums: queue.SimpleQueue[Summed | None] = queue.SimpleQueue()
        self._next: Query | _End | None = None
        # the thread refers to the queues, not to the replay, so that it ends when the replay is garbage-collected
        self.close = weakref.finalize(self, self._sums.put, None)
        arguments = (work, self._questions, self._sums)
        threading.Thread(target=_run, args=arguments, name="fedspca replay", daemon=True).start()

    def question(self) -> Query | None:
        """Return the question that comes next, once it is known; None if no question is left.

        An error of the work is raised here.
        """
        if self._next is None:
            self._next = self._questions.get()
        if isinstance(self._next, Query):
            return self._next
        if self._next.error is not None:
            raise self._next.error
        return None

    def feed(self, summed: Summed) -> None:
        """Give the sum that answers the current question."""
        if self.question() is None:
            raise ValueError("There is a sum and no question any more.")
        self._next = None
        self.fed += 1
        self._sums.put(summed)

    def result(self) -> Any:
        """Return what came of the work, once no question is left."""
        if self.question() is not None:
            raise ValueError("The work has not ended.")
        assert isinstance(self._next, _End)
        return self._next.result


def _run(work: Work, questions: queue.SimpleQueue[Query | _End], sums: queue.SimpleQueue[Summed | None]) -> None:
    def ask(query: Query) -> Summed:
        questions.put(query)
        summed = sums.get()
        if summed is None:
            raise _Closed
        return summed

    try:
        questions.put(_End(work(ask)))
    except _Closed:
        pass
    except BaseException as error:  # it is raised where the next question is asked for
        questions.put(_End(error=error))


class Replays:
    """What a site replays: one run of one study at a time.

    Parameters
    ----------
    work_of : callable
        Returns what is run for an agreement; a ValueError if the agreement does not say it.
    keep : callable
        Called with the agreement and the result when a study has ended. Returns what the site states about it.
    """

    def __init__(
        self, work_of: Callable[[Agreement], Work], keep: Callable[[Agreement, Any], Stated] = lambda *_: {}
    ) -> None:
        self.work_of = work_of
        self.keep = keep
        self._of: tuple[str, str] | None = None
        self._replay: Replay | None = None

    def at(self, agreement: Agreement, run: str, rounds: Sequence[int], load: Callable[[int], Summed]) -> Replay:
        """Return the replay of a run, fed with the sums of these rounds.

        If this process does not have the replay, for example after a restart, the replay starts again.
        """
        key = (agreement.hash, run)
        if self._replay is None or self._of != key or self._replay.fed > len(rounds):
            if self._replay is not None:
                self._replay.close()
            self._of, self._replay = key, Replay(self.work_of(agreement))
        for number in rounds[self._replay.fed :]:
            self._replay.feed(load(number))
        return self._replay


def difference(own: Query, asked: Query, tolerance: float = TOLERANCE) -> str | None:
    """Return in words how a question differs from one's own by more than rounding; None if it does not."""
    if own.name != asked.name:
        return f"it asks {asked.name!r} where the study asks {own.name!r}"
    if own.scalars.keys() != asked.scalars.keys() or own.arrays.keys() != asked.arrays.keys():
        return "it brings other numbers than the study does"
    for name, value in own.scalars.items():
        if not _same_scalar(value, asked.scalars[name], tolerance):
            return f"its {name} is {asked.scalars[name]!r} where the study has {value!r}"
    for name, array in own.arrays.items():
        if asked.arrays[name].shape != array.shape:
            return f"its {name} has the shape {asked.arrays[name].shape} where the study has {array.shape}"
        apart = _apart(
            array, _turned_like(array, asked.arrays[name]) if own.name == "row_errors" else asked.arrays[name]
        )
        if not apart <= tolerance:  # also true for NaN
            return f"its {name} differs from the study's by {apart:.1e}, where at most {tolerance:.0e} may be rounding"
    return None


def _same_scalar(own: object, asked: object, tolerance: float) -> bool:
    if isinstance(own, float) and isinstance(asked, float):
        return abs(own - asked) <= tolerance * abs(own)
    return type(own) is type(asked) and own == asked


def _turned_like(own: Array, asked: Array) -> Array:
    """Return columns with the signs of the site's own: q and −q have the same errors, and a QR may give either."""
    return asked * np.where(np.sum(own * asked, axis=0) < 0, -1.0, 1.0) if own.ndim == 2 else asked


def _apart(own: Array, asked: Array) -> float:
    """Return the largest relative difference: of entries, or of columns."""
    if np.array_equal(own, asked):
        return 0.0
    both = np.isinf(own) & (own == asked)  # an infinite scale leaves a feature out
    with np.errstate(all="ignore"):  # what was asked may be anything
        gap = np.abs(np.where(both, 0.0, asked) - np.where(both, 0.0, own))
        size = np.abs(np.where(both, 0.0, own))
        if own.ndim == 2:
            gap, size = gap.max(axis=0, initial=0.0), size.max(axis=0, initial=0.0)
        relative = np.divide(gap, size, out=np.where(gap > 0, np.inf, 0.0), where=size > 0)
    return float(relative.max(initial=0.0))
