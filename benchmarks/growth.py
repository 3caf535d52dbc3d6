"""How cost grows: time and memory against n, d, non-zeros and sites over two decades, and what many sites cost."""

import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.measure import Measured, measured, verdict
from benchmarks.workloads import sparse_rows, spiked
from fedspca import ExactSPCA
from fedspca.experiments.data import sites_in_order

_MOST = 1.1  # the largest exponent that is still "no faster than the data"


def fit(x: Any, sites: Any = None, r: int = 2) -> int:
    """One fit; returns its rounds."""
    return int(ExactSPCA(r, n_nonzero=10).fit(x, sites=sites).n_rounds_)


CURVES: dict[str, tuple[tuple[int, ...], Callable[[int], Callable[[], Any]]]] = {
    "n": ((2_000, 20_000, 200_000), lambda n: partial(fit, spiked(n, 100, (40, 30), 10))),
    "d": ((200, 2_000, 20_000), lambda d: partial(fit, spiked(500, d, (400, 300), 10))),
    "nnz": ((2_000, 20_000, 200_000), lambda n: partial(fit, sparse_rows(n, 2_000, 1e-2))),
    "K": ((10, 100, 1_000), lambda k: partial(fit, spiked(20_000, 100, (40, 30), 10), sites_in_order(20_000, k))),
}


def run(*, full: bool = False) -> dict[str, Any]:
    """Curves with fitted exponents, ten sites against one and, in full, data larger than memory should have to be."""
    curves: list[dict[str, Any]] = []
    bars: list[dict[str, Any]] = []
    for name, (sizes, make) in CURVES.items():
        print(f"growth in {name}", file=sys.stderr, flush=True)
        outcomes = [measured(make(size), _nothing, limit=60.0) for size in sizes]
        points = [(s, o.cpu, o.grown) for s, o in zip(sizes, outcomes, strict=True) if isinstance(o, Measured)]
        logs = np.log(np.array([point[:2] for point in points], dtype=np.float64))
        exponent = float(np.polyfit(logs[:, 0], logs[:, 1], 1)[0])
        print(f"{name}: " + ", ".join(f"{s:,}: {c:.3f} s, {g / 1e6:.0f} MB" for s, c, g in points), end="")
        print(f"; exponent {exponent:.2f}", flush=True)
        curves.append({"in": name, "points": points, "exponent": exponent})
        bars.append({"workload": f"growth in {name}", "bar": f"exponent at most {_MOST}", "holds": exponent <= _MOST})
    bars += _sites() + (_large() if full else [])
    for bar in bars:
        print(f"  {bar['workload']}: {bar['bar']}: {verdict(bar['holds'])}", flush=True)
    return {"curves": curves, "bars": bars}


def _nothing() -> None:
    """No unit: growth is its own."""


def _sites() -> list[dict[str, Any]]:
    x = spiked(20_000, 500, (40, 35, 30, 25, 20), 10)
    outcome = measured(partial(fit, x, sites_in_order(len(x), 10), 5), partial(fit, x, None, 5), limit=60.0)
    ratio = outcome.cpu_ratio if isinstance(outcome, Measured) else np.inf
    print(f"ten sites cost {ratio:.2f} × one", flush=True)
    return [{"workload": "20,000 × 500", "bar": "ten sites at most 1.5 × one", "holds": ratio <= 1.5}]


def _large() -> list[dict[str, Any]]:
    """CSR with a million columns, and a memory-mapped matrix of 8 GB, by the memory that a fit adds."""
    bars = []
    wide = sparse_rows(100_000, 1_000_000, 1e-5)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.npy"
        for name, limit, job in (
            ("CSR 100,000 × 1,000,000", 2e9, partial(fit, wide)),
            ("memory-mapped, 8 GB", 1e9, partial(_mapped, path, 2_000_000, 500)),
        ):
            print(name, file=sys.stderr, flush=True)
            outcome = measured(job, _nothing, limit=900.0, repeats=1)
            grown = outcome.grown if isinstance(outcome, Measured) else np.inf
            print(f"{name}: {grown / 1e9:.2f} GB" if isinstance(outcome, Measured) else f"{name}: {outcome}")
            bars.append({"workload": name, "bar": f"under {limit / 1e9:.0f} GB", "holds": bool(grown < limit)})
    return bars


def _mapped(path: Path, n: int, d: int) -> int:
    """Fit to rows in a file, written block by block if it is not there yet."""
    if not path.exists():
        rows = np.lib.format.open_memmap(path, mode="w+", dtype=np.float64, shape=(n, d))
        for start in range(0, n, 20_000):
            rows[start : start + 20_000] = spiked(20_000, d, (40, 30), 10, seed=start)
        rows.flush()
    return fit(np.load(path, mmap_mode="r"))
