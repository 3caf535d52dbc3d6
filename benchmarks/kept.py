"""How sparse `variance_kept` is beside the fewest non-zeros, as many in each loading, that keep the same share."""

import time
import warnings
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from benchmarks.measure import verdict
from benchmarks.modes import spikes, table
from benchmarks.workloads import hard, wdbc
from fedspca import ExactSPCA

SHARE = 0.9


def main() -> None:
    """Print both numbers of non-zeros, and whether `variance_kept` has no more."""
    for name, rows, components in cases():
        for r in components:
            began = time.process_time()
            found = ExactSPCA(r, variance_kept=SHARE, proof_seconds=0.0).fit(rows)
            seconds = time.process_time() - began
            own, alike = int(np.count_nonzero(found.components_)), alike_in_each(rows, r, found)
            least = "none" if alike is None else str(alike)
            told = verdict(alike is None or own <= alike)
            print(
                f"{name}, {r} components: {own} non-zeros ({seconds:.2f} s); alike in each: {least}, {told}", flush=True
            )


def cases() -> Iterator[tuple[str, NDArray[Any], tuple[int, ...]]]:
    """Tables below the limit of 320 weights in all, up to which entries are left out one by one, and beyond it."""
    for name in ("wine", "WDBC", "digits"):
        yield name, table(name), (2, 3, 5)
    yield "2,000 × 300 with 25 spikes", spikes(2_000, 300, 25), (5, 20, 50)
    yield "weak spikes, 150 × 400", hard("weak", 0), (3,)
    yield "WDBC*", wdbc(standardised=True), (2,)


def alike_in_each(rows: NDArray[Any], r: int, found: ExactSPCA) -> int | None:
    """The fewest non-zeros, as many in each loading, with which `n_nonzero` keeps the share; None if no fewer do."""
    target = SHARE * -float(found.objective_) / float(found.variance_kept_)
    high = int(np.count_nonzero(found.components_)) // r
    keeps = partial(_keeps, rows, r, target)
    if high < 1 or not keeps(high):
        return None
    low = 0
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if keeps(middle) else (middle, high)
    return high * r


def _keeps(rows: NDArray[Any], r: int, target: float, k: int) -> bool:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return -float(ExactSPCA(r, n_nonzero=k, proof_seconds=0.0).fit(rows).objective_) >= target
