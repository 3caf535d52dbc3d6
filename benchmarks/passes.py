"""What a round of the paper's methods costs a site: passes over its rows, counted, and timed beside one bare pass."""

import statistics
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from benchmarks.measure import Bar
from fedspca import FASPCA, FSSPCA, LocalFederation, Site
from fedspca.experiments.data import sites_in_order, wdbc_star
from fedspca.federation import Aggregate
from fedspca.linalg.operators import StandardisedRows
from fedspca.site import Query

TABLE_I = {  # the penalties of Table I's rows
    "FASPCA": (FASPCA(2, lam=190, scale=True, max_rounds=60), 3),
    "FSSPCA": (FSSPCA(2, lam1=10, lam2=190, scale=True, max_rounds=60), 15),
}


class Counter:
    """How many times AᵀAx was formed, by all sites; each is one pass over a site's rows."""

    passes = 0

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Count while this lasts."""
        multiply = StandardisedRows.gram_product

        def counted(rows: StandardisedRows, *args: Any) -> Any:
            self.passes += 1
            return multiply(rows, *args)

        with patch.object(StandardisedRows, "gram_product", counted):
            yield


class CountingFederation(LocalFederation):
    """A federation that notes, for every consensus round, the passes a site made and the CPU seconds it took.

    After each round it makes one bare pass over every site's rows, which are as far from the cache as they were for it.
    """

    def __init__(self, sites: list[Site], parts: list[Any], counter: Counter) -> None:
        super().__init__(sites, n_threads=1)
        self.parts = parts
        self.counter = counter
        self.rounds: list[tuple[float, float, float]] = []

    def sum(self, query: Query) -> Aggregate:
        """Sum, and note."""
        passes, began = self.counter.passes, time.process_time()
        answer = super().sum(query)
        if query.name in ("faspca_step", "fsspca_step"):
            made, seconds, n = self.counter.passes - passes, time.process_time() - began, self.n_sites
            self.rounds.append((made / n, seconds / n, _bare_pass(self.parts) / n))
        return answer


def run(say: Callable[[str], None], _only: tuple[str, ...] = ()) -> tuple[list[dict[str, Any]], list[Bar]]:
    """Table I's setting, over one site and over ten."""
    raw = wdbc_star().rows
    rows, bars = [], []
    for n_sites in (1, 10):
        owners = sites_in_order(len(raw), n_sites)
        parts = [raw[owners == owner] for owner in np.unique(owners)]
        for name, (model, most) in TABLE_I.items():
            counter = Counter()
            federation = CountingFederation([Site(str(i), part) for i, part in enumerate(parts)], parts, counter)
            with counter.watching(), warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)  # sixty rounds are enough to count
                model.fit_federation(federation)
            passes = [count for count, _, _ in federation.rounds]
            seconds = statistics.median(taken for _, taken, _ in federation.rounds)
            bare = statistics.median(taken for _, _, taken in federation.rounds)
            row = {
                "what": name,
                "sites": n_sites,
                "mean_passes": statistics.mean(passes),
                "most_passes": max(passes),
                "round_ms": 1e3 * seconds,
                "bare_pass_ms": 1e3 * bare,
                "in_bare_passes": seconds / bare,
            }
            rows.append(row)
            found = f"{row['most_passes']:.1f} at most, {row['mean_passes']:.1f} on average"
            where = f"Table I, K = {n_sites}"
            bars.append(
                Bar(where, f"a round of {name} makes at most {most} passes, counted", found, max(passes) <= most)
            )
            found = f"{row['in_bare_passes']:.1f} × {row['bare_pass_ms']:.3f} ms"
            bars.append(
                Bar(where, f"a round of {name} takes at most {most} bare passes", found, seconds <= most * bare)
            )
            say("\n".join(f"  {bar}" for bar in bars[-2:]))
    return rows, bars


def _bare_pass(parts: list[Any]) -> float:
    """CPU seconds of Aᵀ(AW) for two columns, over all sites' rows."""
    w = np.ones((parts[0].shape[1], 2))
    began = time.process_time()
    for part in parts:
        _ = part.T @ (part @ w)
    return time.process_time() - began
