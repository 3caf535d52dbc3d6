"""How cost grows: time and memory against n, d, non-zeros, components and sites, over two decades each."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from benchmarks.measure import Bar, Measured, measured
from benchmarks.sites import owners_in_order
from benchmarks.workloads import sparse_rows, spiked
from fedspca import ExactSPCA

MOST = 1.1  # the largest exponent that is still "no faster than the data"


class Curve(NamedTuple):
    """What grows, from where to where, and the data and the fit at each size."""

    sizes: tuple[int, ...]
    make: Callable[[int], Callable[[], Any]]
    job: Callable[[int], Callable[[Any], Any]]
    of: str
    most: float | None = MOST


def fit(r: int, k: int, sites: int, x: Any) -> int:
    """One fit; returns its rounds."""
    owners = None if sites == 1 else owners_in_order(x.shape[0], sites)
    return int(ExactSPCA(r, n_nonzero=k).fit(x, sites=owners).n_rounds_)


def _steps(least: int) -> tuple[int, ...]:
    """Five sizes over two decades."""
    return tuple(round(least * 10 ** (step / 2)) for step in range(5))


def _two(_size: int) -> Callable[[Any], Any]:
    return partial(fit, 2, 10, 1)


CURVES = {
    "n": Curve(_steps(4_000), lambda n: partial(spiked, n, 100, (40.0, 30.0), 10), _two, "n × 100"),
    "d": Curve(_steps(1_000), lambda d: partial(spiked, 300, d, (400.0, 300.0), 10), _two, "300 × d"),
    "nnz": Curve(
        _steps(100_000), lambda nnz: partial(sparse_rows, nnz // 20, 5_000, 4e-3), _two, "nnz/20 × 5,000, CSR"
    ),
    "K": Curve(
        (10, 32, 100, 316, 1_000),
        lambda _k: partial(spiked, 20_000, 100, (40.0, 30.0), 10),
        lambda k: partial(fit, 2, 10, k),
        "20,000 × 100 over K sites",
    ),
    "r": Curve(
        (1, 3, 10, 32, 100),
        lambda r: partial(spiked, 1_000, 1_000, (100.0,) * r, 5),
        lambda r: partial(fit, r, 5, 1),
        "1,000 × 1,000",
        None,
    ),
}


def run(say: Callable[[str], None], only: tuple[str, ...] = ()) -> tuple[list[dict[str, Any]], list[Bar]]:
    """Curves with fitted exponents of CPU time and of added memory."""
    rows, bars = [], []
    for name, curve in CURVES.items():
        if only and name not in only:
            continue
        points = []
        for size in curve.sizes:
            outcome = measured(curve.make(size), curve.job(size), repeats=3, limit=60.0)
            if isinstance(outcome, Measured):
                points.append((size, outcome.cpu, outcome.grown))
                say(f"  {name} = {size:,}: {outcome.cpu:.3f} s, {outcome.grown / 1e6:.0f} MB")
            else:
                say(f"  {name} = {size:,}: {outcome}")
        time, memory = (exponent([(point[0], point[column]) for point in points]) for column in (1, 2))
        row = {"in": name, "of": curve.of, "points": points, "time_exponent": time, "memory_exponent": memory}
        rows.append(row)
        say(f"  time grows as {name}^{time:.2f}, memory as {name}^{memory:.2f} ({curve.of})")
        if curve.most is not None:
            for what, value in (("time", time), ("memory", memory)):
                holds = value <= curve.most and len(points) == len(curve.sizes)
                bars.append(Bar(f"growth in {name}", f"exponent of {what} at most {curve.most}", f"{value:.2f}", holds))
    return rows, bars


def exponent(points: list[tuple[int, float]]) -> float:
    """Slope of the line through the points on logarithmic scales."""
    if len(points) < 2:
        return float("nan")
    logs = np.log(np.maximum(np.array(points, dtype=np.float64), 1e-9))
    return float(np.polyfit(logs[:, 0], logs[:, 1], 1)[0])
