"""Timing that a noisy machine can bear: medians of interleaved repetitions, as ratios."""

import statistics
import time
from collections.abc import Callable, Mapping


def medians(jobs: Mapping[str, Callable[[], object]], repeats: int = 3) -> dict[str, float]:
    """Median wall seconds of each job. Repetitions take turns, so that a slow spell of the machine hits all alike."""
    seconds: dict[str, list[float]] = {name: [] for name in jobs}
    for _ in range(repeats):
        for name, job in jobs.items():
            began = time.perf_counter()
            job()
            seconds[name].append(time.perf_counter() - began)
    return {name: statistics.median(times) for name, times in seconds.items()}


def verdict(holds: bool) -> str:
    """Return the word for a line that states a requirement."""
    return "holds" if holds else "FAILS"
