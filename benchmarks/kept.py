"""How sparse `variance_kept` is beside the fewest non-zeros, as many in each loading, that keep the same share."""

import time
import warnings
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_linnerud, make_low_rank_matrix
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
            found = ExactSPCA(r, variance_kept=SHARE).fit(rows)
            seconds = time.process_time() - began
            own, alike = int(np.count_nonzero(found.components_)), alike_in_each(rows, r, found)
            least = "none" if alike is None else str(alike)
            told = verdict(alike is None or own <= alike)
            print(
                f"{name}, {r} components: {own} non-zeros ({seconds:.2f} s); alike in each: {least}, {told}", flush=True
            )


def cases() -> Iterator[tuple[str, NDArray[Any], tuple[int, ...]]]:
    """Tables on which the search was tuned, then three on which it was not."""
    for name in ("wine", "WDBC", "digits"):
        yield name, table(name), (1, 2, 3, 5)
    yield "digits", table("digits"), (20,)
    yield "2,000 × 300 with 25 spikes", spikes(2_000, 300, 25), (5, 20, 50)
    yield "weak spikes, 150 × 400", hard("weak", 0), (3,)
    yield "WDBC*", wdbc(standardised=True), (2,)
    yield "held out: low rank, 300 × 150", make_low_rank_matrix(300, 150, effective_rank=12, random_state=0), (3, 8)
    yield "held out: neighbours alike, 500 × 120", neighbours(500, 120), (4, 10)
    yield "held out: exercise, 20 × 6", exercise(), (2,)


def neighbours(n: int, d: int) -> NDArray[Any]:
    """Rows whose features correlate with those beside them: .9 to the power of their distance."""
    rng = np.random.default_rng(0)
    away = np.abs(np.arange(d)[:, None] - np.arange(d))
    return np.asarray(rng.standard_normal((n, d)) @ np.linalg.cholesky(0.9**away).T)


def exercise() -> NDArray[Any]:
    """Six measurements of twenty men, standardised."""
    data = load_linnerud()
    x = np.hstack([data.data, data.target])
    return np.asarray((x - x.mean(axis=0)) / x.std(axis=0, ddof=1))


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
