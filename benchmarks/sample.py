"""A sample first: time against dense PCA and against the usual fit, and the variance lost, on many rows.

CPU seconds of one process; each is the least of a few runs.
"""

import time
from collections.abc import Callable
from functools import partial
from typing import Any

from sklearn.decomposition import PCA

from benchmarks.workloads import spiked
from fedspca import ExactSPCA

PARTS = 20
SIZES = (50_000, 200_000)
LOST_AT_MOST = 1e-4
REPEATS = 2


def main() -> None:
    """Print what a sample gains with ten non-zeros in each of five components."""
    for n in SIZES:
        rows = spiked(n, 500, (40.0, 35.0, 30.0, 25.0, 20.0), 10)
        _, dense = _least(partial(PCA(5, random_state=0).fit, rows))
        usual, whole = _least(partial(ExactSPCA(5, n_nonzero=10).fit, rows))
        found, sampled = _least(partial(ExactSPCA(5, n_nonzero=10, sample=PARTS).fit, rows))
        lost = (found.objective_ - usual.objective_) / abs(usual.objective_)
        verdict = "met" if lost <= LOST_AT_MOST else "NOT MET"
        print(
            f"{n} × 500: with a sample {sampled:.2f} s, {sampled / dense:.2f} × dense PCA ({dense:.2f} s); without "
            f"{whole:.2f} s, {whole / dense:.2f} ×. Lost: {lost:.0e}, at most {LOST_AT_MOST:g}: {verdict}"
        )


def _least(fit: Callable[[], Any]) -> tuple[Any, float]:
    fitted, seconds = None, []
    for _ in range(REPEATS):
        began = time.process_time()
        fitted = fit()
        seconds.append(time.process_time() - began)
    return fitted, min(seconds)
