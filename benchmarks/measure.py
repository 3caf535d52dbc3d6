"""Figures that a shared machine can bear: jobs in processes of their own, in turns with what they are compared with."""

import ctypes
import multiprocessing
import os
import statistics
import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

PATIENCE = 8.0  # on a machine that is shared, a CPU second may take several


class Bar(NamedTuple):
    """One thing that must hold: where, what, the figure found, and whether it does."""

    where: str
    what: str
    found: str
    holds: bool

    def __str__(self) -> str:
        return f"{'PASS' if self.holds else 'FAIL'}  {self.where}: {self.what} ({self.found})"


@dataclass(frozen=True)
class Measured:
    """Medians in seconds, as such and as ratios to the unit's in the same turns; memory in bytes; quality."""

    cpu: float
    wall: float
    cpu_ratio: float
    wall_ratio: float
    grown: int
    quality: dict[str, float] = field(default_factory=dict)

    def figures(self) -> dict[str, float]:
        """All of it, flat."""
        figures: dict[str, Any] = asdict(self)
        quality: dict[str, float] = figures.pop("quality")
        return figures | quality


def measured(
    make: Callable[[], Any],
    job: Callable[[Any], Any],
    unit: Callable[[Any], Any] | None = None,
    *,
    judge: Callable[[Any, Any], dict[str, float]] | None = None,
    limit: float = 60.0,
    repeats: int = 5,
    threads: int = 1,
) -> Measured | str:
    """Measure ``job(make())`` in a fresh process, in turns with the unit; the reason where it fails or is too slow.

    Everything handed over must pickle: the process is forked from a server that has imported this package and holds
    no data, so that what a fit adds to its memory is the fit's. The limit is on the CPU seconds of one run, which other
    work on the machine does not use up. Repetitions end when as many seconds have passed.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["benchmarks.peers"])
    receiver, sender = context.Pipe(duplex=False)
    child = context.Process(target=_measure, args=(make, job, unit, judge, limit, repeats, threads, sender))
    child.start()
    sender.close()
    try:
        receiver.recv()  # the data are made, and the clock begins
        if not _answers(receiver, child.pid or 0, limit):
            return f"none in {limit:g} CPU s"
        if isinstance(failed := receiver.recv(), str):
            return failed
        outcome: Measured | str = receiver.recv()
    except EOFError:
        return "its process ended"
    else:
        return outcome
    finally:
        child.kill()
        child.join()


def _measure(
    make: Callable[[], Any],
    job: Callable[[Any], Any],
    unit: Callable[[Any], Any] | None,
    judge: Callable[[Any, Any], dict[str, float]] | None,
    limit: float,
    repeats: int,
    threads: int,
    sender: Any,
) -> None:
    """Send word once the data are there, again after the first run, and at last the figures or what went wrong."""
    from threadpoolctl import threadpool_limits

    warnings.simplefilter("ignore")
    try:
        with threadpool_limits(threads, user_api="blas"):
            data = make()
            sender.send("ready")
            before = _fresh_peak()
            began, spent = time.perf_counter(), time.process_time()
            result = job(data)
            spent, first = time.process_time() - spent, time.perf_counter() - began
            grown = resident("VmHWM") - before
            sender.send(first)
            quality = judge(data, result) if judge else {}
            turns = [] if unit else [(1.0, 1.0, spent, first)]
            while len(turns) < repeats and (not turns or time.perf_counter() - began + 2.0 * first < limit):
                turns.append((*(_timed(unit, data) if unit else (1.0, 1.0)), *_timed(job, data)))
        unit_cpu, unit_wall, cpu, wall = (statistics.median(column) for column in zip(*turns, strict=True))
        sender.send(Measured(cpu, wall, cpu / max(unit_cpu, 1e-9), wall / unit_wall, grown, quality))
    except Exception as error:  # a peer may fail in any way, and the others go on
        sender.send(f"{type(error).__name__}: {error}".splitlines()[0][:80])


def _answers(receiver: Any, pid: int, limit: float) -> bool:
    """Wait until there is an answer, or the process has had its CPU seconds, or shows no sign of using them."""
    before, began = _cpu_seconds(pid), time.monotonic()
    while not receiver.poll(0.1):
        if _cpu_seconds(pid) - before > limit or time.monotonic() - began > PATIENCE * limit:
            return False
    return True


def _cpu_seconds(pid: int) -> float:
    """CPU seconds that a process has used: the 14th and 15th fields of its stat, counted after its name."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    except FileNotFoundError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def resident(kind: str = "VmRSS") -> int:
    """Bytes resident now (VmRSS; RssAnon and RssFile are its parts) or at the peak (VmHWM)."""
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    return next(1024 * int(line.split()[1]) for line in lines if line.startswith(kind + ":"))


def _fresh_peak() -> int:
    """Begin the peak anew at what is resident now, with what making the data left in the heap given back."""
    ctypes.CDLL(None).malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5", encoding="utf-8")
    return resident()


def _timed(job: Callable[[Any], Any], data: Any) -> tuple[float, float]:
    cpu, wall = time.process_time(), time.perf_counter()
    job(data)
    return time.process_time() - cpu, time.perf_counter() - wall


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
