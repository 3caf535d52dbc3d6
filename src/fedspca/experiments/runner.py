"""Run independent tasks on several processes and bring their numbers back in order."""

import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field
from multiprocessing import get_context
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

Record: TypeAlias = dict[str, Any]

QUICK_ROUNDS = 5  # a quick run shows that everything runs; its numbers mean nothing


@dataclass(frozen=True)
class Task:
    """One run: a function of its arguments alone, seeds among them, and about how many seconds it takes.

    The function returns records of plain numbers. What they say of time they say under the key ``seconds``.
    """

    experiment: str
    function: Callable[..., list[Record]]
    arguments: Mapping[str, Any] = field(default_factory=dict)
    cost: float = 1.0

    def __call__(self) -> list[Record]:
        """Run it, on one BLAS thread: the same bits on any number of processes."""
        with threadpool_limits(1):
            return self.function(**self.arguments)


def run(tasks: Sequence[Task], jobs: int, done: Callable[[Task], object]) -> list[list[Record]]:
    """Run the tasks on ``jobs`` processes, call ``done`` as each ends, and return their records in the tasks' order."""
    results: list[list[Record] | None] = [None] * len(tasks)
    for number, records in _finished(tasks, jobs):
        results[number] = records
        done(tasks[number])
    return [records for records in results if records is not None]


def _finished(tasks: Sequence[Task], jobs: int) -> Iterator[tuple[int, list[Record]]]:
    if jobs == 1:
        yield from ((number, task()) for number, task in enumerate(tasks))
        return
    # a forked process would inherit locks of BLAS threads, so start fresh ones; an interrupt is for this one to handle
    fresh, quiet = get_context("spawn"), (signal.SIGINT, signal.SIG_IGN)
    with ProcessPoolExecutor(jobs, mp_context=fresh, initializer=signal.signal, initargs=quiet) as pool:
        # the longest first, so that none is left running alone at the end
        order = sorted(range(len(tasks)), key=lambda number: -tasks[number].cost)
        futures = {pool.submit(tasks[number]): number for number in order}
        try:
            for future in as_completed(futures):
                yield futures[future], future.result()
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


def rounded(value: Any, digits: int = 6) -> Any:
    """Round every number to so many significant digits: what a file keeps, and what a page may say."""
    if isinstance(value, dict):
        return {key: rounded(item, digits) for key, item in value.items()}
    if isinstance(value, list | tuple | np.ndarray):
        return [rounded(item, digits) for item in value]
    if isinstance(value, float | np.floating):
        return float(f"{float(value):.{digits}g}")
    if isinstance(value, np.integer):
        return int(value)
    return value


def thinned(curve: Sequence[float] | NDArray[np.float64], most: int = 300, points: int = 40) -> Record:
    """A curve at rounds spaced evenly on a logarithmic scale, the first and the last among them."""
    last = min(len(curve), most)
    rounds = np.unique(np.geomspace(1, last, points).round().astype(int))
    return {"rounds": rounds.tolist(), "values": [float(curve[k - 1]) for k in rounds]}
