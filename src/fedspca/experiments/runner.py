"""Run independent tasks on several processes and bring their numbers back in order."""

import json
import signal
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field
from functools import cache
from hashlib import sha256
from multiprocessing import active_children, get_context
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from fedspca.files import new_file

Record: TypeAlias = dict[str, Any]

CODE = ("linalg", "site", "federation", "solvers", "estimators", "literature")
DIGITS = 17  # significant digits that identify a double exactly
QUICK_ROUNDS = 5  # a quick run shows that everything runs; its numbers mean nothing


@dataclass(frozen=True)
class Task:
    """One run: a function, its arguments (with the seeds), and roughly how many seconds it takes.

    The result depends only on the arguments. The function returns records of plain numbers. Times are under the key
    ``seconds``. ``fits`` names the method that is fitted, if no argument does.
    """

    experiment: str
    function: Callable[..., list[Record]]
    arguments: Mapping[str, Any] = field(default_factory=dict)
    cost: float = 1.0
    fits: str = ""

    @property
    def method(self) -> str:
        """The method that is fitted, or an empty string."""
        return str(self.arguments.get("method") or self.arguments.get("row") or self.fits)

    @property
    def key(self) -> str:
        """The name of the file for the result, from a hash of the function, its arguments and the code."""
        module = Path(sys.modules[self.function.__module__].__file__ or "").read_bytes()
        what = (
            f"{self.function.__module__}.{self.function.__qualname__} {sorted(self.arguments.items())!r} {code_hash()}"
        )
        return f"{self.experiment}-{sha256(what.encode() + module).hexdigest()[:24]}.json"

    def __call__(self) -> list[Record]:
        """Run the task on one BLAS thread, so that the result does not depend on the number of processes."""
        with threadpool_limits(1):
            return self.function(**self.arguments)


def run(
    tasks: Sequence[Task], jobs: int, done: Callable[[Task], object], keep: Path | None = None
) -> list[list[Record]]:
    """Run the tasks on ``jobs`` processes, call ``done`` as each ends, and return their records in the tasks' order.

    Each result is written to the folder ``keep`` when its task ends. A task that already has a result there, from the
    same code, is not run again. So an interrupted run can continue.
    """
    results: dict[int, list[Record]] = {}
    for number, task in enumerate(tasks):
        if keep is not None and (kept := _kept(keep / task.key)) is not None:
            results[number] = kept
            done(task)
    left = [number for number in range(len(tasks)) if number not in results]
    for place, records in _finished([tasks[number] for number in left], jobs):
        number = left[place]
        results[number] = rounded(records, DIGITS)
        if keep is not None:
            with new_file(keep / tasks[number].key) as draft:
                draft.write_text(json.dumps(results[number]), encoding="utf-8")
        done(tasks[number])
    return [results[number] for number in range(len(tasks))]


def _kept(path: Path) -> list[Record] | None:
    """The result of an earlier run, or None if the file is missing or damaged."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return found if isinstance(found, list) else None


@cache
def code_hash() -> str:
    """A hash of the code that the numbers depend on."""
    root = Path(__file__).parents[1]
    files = sorted(path for folder in CODE for path in (root / folder).rglob("*.py"))
    return sha256(b"".join(path.read_bytes() for path in [*files, root / "metrics.py"])).hexdigest()[:16]


def _finished(tasks: Sequence[Task], jobs: int) -> Iterator[tuple[int, list[Record]]]:
    if jobs == 1:
        yield from ((number, task()) for number, task in enumerate(tasks))
        return
    # forked processes would inherit locks of BLAS threads, so spawn them; only the parent process handles Ctrl-C
    fresh, quiet, others = get_context("spawn"), (signal.SIGINT, signal.SIG_IGN), active_children()
    with ProcessPoolExecutor(jobs, mp_context=fresh, initializer=signal.signal, initargs=quiet) as pool:
        # the longest tasks first, so that no long task runs alone at the end
        order = sorted(range(len(tasks)), key=lambda number: -tasks[number].cost)
        futures = {pool.submit(tasks[number]): number for number in order}
        try:
            for future in as_completed(futures):
                yield futures[future], future.result()
        except BaseException:
            # end at once: what has ended is kept, and who interrupts does not want to wait for a long task
            for process in active_children():
                if process not in others:
                    process.terminate()
            pool.shutdown(cancel_futures=True)
            raise


def replaced(old: Sequence[Record], new: Sequence[Record], method: str) -> list[Record]:
    """Return the old records, in their order, with the new ones in the places of those that this method made.

    Examples
    --------
    >>> old = [{"method": "A", "error": 1}, {"method": "B, fast", "error": 2}, {"method": "A", "error": 3}]
    >>> replaced(old, [{"method": "B, fast", "error": 7}], "B")[1]
    {'method': 'B, fast', 'error': 7}
    """
    places = [number for number, record in enumerate(old) if str(record.get("method", "")).startswith(method)]
    if len(places) != len(new):
        raise ValueError(
            f"There are {len(places)} stored records of {method} and {len(new)} new ones: the experiment has changed. "
            "Run all of it."
        )
    fresh = dict(zip(places, new, strict=True))
    return [fresh.get(number, record) for number, record in enumerate(old)]


def rounded(value: Any, digits: int = 6) -> Any:
    """Round every float to this number of significant digits, for files and for the page."""
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
    """A curve up to round ``most``, at rounds evenly spaced on a logarithmic scale, with the first and the last."""
    last = min(len(curve), most)
    rounds = np.unique(np.geomspace(1, last, points).round().astype(int))
    return {"rounds": rounds.tolist(), "values": [float(curve[k - 1]) for k in rounds]}
