"""Timing that a noisy machine can bear: medians of interleaved repetitions, as ratios, each peer in its own process."""

import multiprocessing
import resource
import statistics
import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any


def medians(jobs: Mapping[str, Callable[[], object]], repeats: int = 3) -> dict[str, float]:
    """Median wall seconds of each job. Repetitions take turns, so that a slow spell of the machine hits all alike."""
    seconds: dict[str, list[float]] = {name: [] for name in jobs}
    for _ in range(repeats):
        for name, job in jobs.items():
            began = time.perf_counter()
            job()
            seconds[name].append(time.perf_counter() - began)
    return {name: statistics.median(times) for name, times in seconds.items()}


@dataclass(frozen=True)
class Measured:
    """Medians in seconds, as such and as ratios to the unit's in the same turns; memory in bytes; what came out."""

    cpu: float
    wall: float
    cpu_ratio: float
    wall_ratio: float
    grown: int
    result: Any

    def figures(self) -> dict[str, float]:
        """Everything but the result."""
        return {key: value for key, value in asdict(self).items() if key != "result"}


def measured(job: Callable[[], Any], unit: Callable[[], Any], *, limit: float, repeats: int = 5) -> Measured | str:
    """Measure a job in a process of its own, in turns with the unit; the reason where it fails or takes too long."""
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    child = context.Process(target=_measure, args=(job, unit, limit, repeats, sender))
    child.start()
    sender.close()
    try:
        if not receiver.poll(limit + 5.0):
            return f"none in {limit:.0f} s"
        outcome: Measured | str = receiver.recv()
    except EOFError:
        return "its process ended"
    finally:
        child.kill()
        child.join()
    return outcome


def _measure(job: Callable[[], Any], unit: Callable[[], Any], limit: float, repeats: int, sender: Any) -> None:
    warnings.simplefilter("ignore")
    try:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        began = time.perf_counter()
        result = job()
        first = time.perf_counter() - began
        grown = 1024 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
        turns = []
        for _ in range(repeats):
            turns.append((*_timed(unit), *_timed(job)))
            if time.perf_counter() - began + 2.0 * first > 0.5 * limit:
                break
        unit_cpu, unit_wall, cpu, wall = (statistics.median(column) for column in zip(*turns, strict=True))
        sender.send(Measured(cpu, wall, cpu / max(unit_cpu, 1e-9), wall / unit_wall, grown, result))
    except Exception as error:  # a peer may fail in any way, and the others go on
        sender.send(f"{type(error).__name__}: {error}".splitlines()[0][:60])


def _timed(job: Callable[[], Any]) -> tuple[float, float]:
    cpu, wall = time.process_time(), time.perf_counter()
    job()
    return time.process_time() - cpu, time.perf_counter() - wall


def verdict(holds: bool) -> str:
    """Return the word for a line that states a requirement."""
    return "holds" if holds else "FAILS"
