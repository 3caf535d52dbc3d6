"""As many BLAS threads as there are cores: wall time of ExactSPCA against dense PCA, and against one thread."""

import os
from collections.abc import Callable
from functools import partial
from typing import Any

from benchmarks.measure import Bar, Measured, measured
from benchmarks.peers import dense_pca
from benchmarks.peers import run as run_peer
from benchmarks.workloads import Workload, workloads


def run(say: Callable[[str], None], only: tuple[str, ...] = ()) -> tuple[list[dict[str, Any]], list[Bar]]:
    """W1 to W5 with all cores. The bars are on one thread, where they do not hang on how a library splits its work."""
    cores, rows = os.cpu_count() or 1, []
    for work in workloads():
        if not work.timed or (only and not work.name.startswith(only)):
            continue
        outcome = measured(work.make, partial(run_peer, "ExactSPCA", work), partial(_pca, work), threads=cores)
        if isinstance(outcome, Measured):
            rows.append({"workload": work.name, "threads": cores, **outcome.figures()})
            say(f"  {work.name}, {cores} threads: {outcome.wall:.4f} s wall, {outcome.wall_ratio:.2f} × PCA's wall")
    return rows, []


def _pca(work: Workload, x: Any) -> Any:
    return dense_pca(x, work)
