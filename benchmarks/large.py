"""Memory: what a fit adds to data that fill the machine, or would not fit it."""

import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.growth import fit
from benchmarks.measure import Bar, Measured, measured
from benchmarks.workloads import sparse_rows, spiked

GB = 1e9


def run(say: Callable[[str], None], only: tuple[str, ...] = ()) -> tuple[list[dict[str, Any]], list[Bar]]:
    """W3, W5, CSR with a million columns, and a memory-mapped matrix of 8 GB, by the memory that a fit adds."""
    rows: list[dict[str, Any]] = []
    bars: list[Bar] = []
    folder = Path("build")
    folder.mkdir(exist_ok=True)
    w3 = partial(spiked, 200_000, 500, (40.0, 35.0, 30.0, 25.0, 20.0), 10)
    with tempfile.TemporaryDirectory(dir=folder) as place:
        path = Path(place) / "rows.npy"
        for name, make, job, most in (
            ("W3 200,000 × 500", w3, partial(fit, 5, 10, 1), 0.2 * 0.8 * GB),  # the data are 0.8 GB
            ("W5 CSR 20,000²", partial(sparse_rows, 20_000, 20_000, 1e-3), partial(fit, 5, 50, 1), 2 * GB),
            ("CSR 100,000 × 1,000,000", partial(sparse_rows, 100_000, 1_000_000, 1e-5), partial(fit, 2, 10, 1), 2 * GB),
            ("mapped, 8 GB", partial(write, path), fit_mapped, 1 * GB),
        ):
            if only and not name.startswith(only):
                continue
            say(f"  {name} …")
            outcome = measured(make, job, limit=900.0, repeats=1)
            what = f"a fit adds under {most / GB:.2f} GB at its peak"
            if isinstance(outcome, Measured):
                rows.append({"what": name, **outcome.figures()})
                bars.append(Bar(name, what, f"{outcome.grown / GB:.2f} GB", outcome.grown < most))
            else:
                rows.append({"what": name, "failed": outcome})
                bars.append(Bar(name, what, outcome, False))
            say(f"  {bars[-1]}")
    return rows, bars


def write(path: Path, n: int = 2_000_000, d: int = 500) -> Path:
    """Write 8 GB of rows, block by block."""
    rows = np.lib.format.open_memmap(path, mode="w+", dtype=np.float64, shape=(n, d))
    block = spiked(20_000, d, (40.0, 30.0), 10)
    for start in range(0, n, len(block)):
        rows[start : start + len(block)] = np.roll(block, start // len(block), axis=0)
    rows.flush()
    return path


def fit_mapped(path: Path) -> int:
    """Fit to the file, mapped read-only: its pages count as resident while they are."""
    return fit(2, 10, 1, np.load(path, mmap_mode="r"))
