"""Many sites: ten against one, the federated peers, and the coordinator's own time against the number of rows."""

import statistics
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.measure import Bar, Measured, measured
from benchmarks.peers import quality
from benchmarks.workloads import Workload, cell_types, spiked, workloads
from fedspca import ExactSPCA, LocalFederation, Site
from fedspca.experiments.alternatives import Dense, covariance_sum, subspace_iteration
from fedspca.federation import Aggregate
from fedspca.site import Query

ITERATIONS = 10  # of subspace iteration: as many rounds as ExactSPCA takes, and a few more


class TimedFederation(LocalFederation):
    """A federation that knows how much CPU its sites took."""

    seconds = 0.0

    def sum(self, query: Query) -> Aggregate:
        """Sum, and count the time."""
        began = time.process_time()
        answer = super().sum(query)
        self.seconds += time.process_time() - began
        return answer


def run(say: Callable[[str], None], only: tuple[str, ...] = ()) -> tuple[list[dict[str, Any]], list[Bar]]:
    """Ten sites against one on W1 to W5, federated peers on W1 and W7, and the coordinator."""
    chosen = [work for work in workloads() if not only or work.name.startswith(only)]
    rows: list[dict[str, Any]] = []
    bars: list[Bar] = []
    for work in chosen:
        if work.timed:
            row, bar = _ten_against_one(work)
            say(f"  {work.name}: ten sites cost {bar.found} one")
            rows.append(row)
            bars.append(bar)
    for work in chosen:
        if work.name in ("W1 1000 × 500", "W7 PBMC, 60"):
            rows += _peers(work, say)
    row, bar = _coordinator(say)
    return [*rows, row], [*bars, bar]


def owners_in_order(n: int, sites: int) -> NDArray[np.intp]:
    """Who owns each row where sites hold consecutive rows, about equally many."""
    return np.asarray(np.arange(n) * sites // n)


def fit(work: Workload, sites: int, x: Any) -> Any:
    """One fit over so many sites."""
    owners = None if sites == 1 else owners_in_order(x.shape[0], sites)
    return ExactSPCA(work.r, n_nonzero=work.k).fit(x, sites=owners).components_


def _ten_against_one(work: Workload) -> tuple[dict[str, Any], Bar]:
    outcome = measured(work.make, partial(fit, work, 10), partial(fit, work, 1))
    row: dict[str, Any] = {"what": "ten sites", "workload": work.name}
    if not isinstance(outcome, Measured):
        return row | {"failed": outcome}, Bar(work.name, "K = 10 at most 1.5 × K = 1", outcome, False)
    ratio = outcome.cpu_ratio
    return row | outcome.figures(), Bar(work.name, "K = 10 at most 1.5 × K = 1", f"{ratio:.2f} ×", ratio <= 1.5)


def _peers(work: Workload, say: Callable[[str], None]) -> list[dict[str, Any]]:
    """What else ten owners could do: dense directions, cut off at k."""
    x = work.make()
    owners = cell_types() if work.name.startswith("W7") else owners_in_order(len(x), 10)
    parts = [x[owners == owner] for owner in np.unique(owners)]
    ordered = np.vstack(parts)
    federation = LocalFederation([Site(str(number), part) for number, part in enumerate(parts)])
    methods: dict[str, Callable[[], Dense]] = {
        "ExactSPCA": lambda: _exact(work, federation),
        "covariance sum": lambda: covariance_sum(federation, work.r, scale=False),
        "subspace iteration": lambda: subspace_iteration(federation, work.r, scale=False, rounds=ITERATIONS),
        "one-shot merge of SVDs": lambda: merged_svds(parts, work.r),
    }
    rows = []
    for name, method in methods.items():
        times = []
        for _ in range(3):
            began = time.process_time()
            found = method()
            times.append(time.process_time() - began)
        row: dict[str, Any] = {
            "what": "federated",
            "workload": work.name,
            "peer": name,
            "cpu": statistics.median(times),
            "rounds": found.rounds,
            "megabytes_up": found.bytes_up / 1e6,
            **quality(work, ordered, found.components),
        }
        rows.append(row)
        say(
            f"  {work.name}, {len(parts)} sites, {name}: {row['rounds']} rounds, {row['megabytes_up']:.2f} MB a site, "
            f"{row['cpu']:.3f} s, explained {row['explained']:.5f}"
        )
    return rows


def merged_svds(parts: list[Any], r: int) -> Dense:
    """Each site sends its r leading singular vectors times their values, about its own mean; decompose them again."""
    sketches = []
    for part in parts:
        _, values, vectors = np.linalg.svd(part - part.mean(axis=0), full_matrices=False)
        sketches.append(values[:r, None] * vectors[:r])
    merged = np.linalg.svd(np.vstack(sketches), full_matrices=False)[2][:r]
    return Dense(merged, 1, 8 * r * parts[0].shape[1], 0)


def _exact(work: Workload, federation: LocalFederation) -> Dense:
    model = ExactSPCA(work.r, n_nonzero=work.k, orthogonal=False).fit_federation(federation)
    up, down = (sum(getattr(record, way) for record in model.history_) for way in ("bytes_up", "bytes_down"))
    return Dense(model.components_, model.n_rounds_, up, down)


def _coordinator(say: Callable[[str], None]) -> tuple[dict[str, Any], Bar]:
    """CPU seconds outside the sums, as rows grow a hundredfold."""
    sizes, seconds = (2_000, 20_000, 200_000), []
    for n in sizes:
        site = Site("all", spiked(n, 100, (40.0, 30.0), 10))
        times = []
        for _ in range(5):
            federation = TimedFederation([site])
            began = time.process_time()
            ExactSPCA(2, n_nonzero=10).fit_federation(federation)
            times.append(time.process_time() - began - federation.seconds)
        seconds.append(statistics.median(times))
    text = ", ".join(f"{n:,} rows: {1000 * s:.1f} ms" for n, s in zip(sizes, seconds, strict=True))
    say(f"  the coordinator alone: {text}")
    bar = Bar("coordinator", "cost does not depend on the rows (× 100 rows, at most 1.5 ×)", text, False)
    return (
        {"what": "coordinator", "points": list(zip(sizes, seconds, strict=True))},
        bar._replace(holds=max(seconds) <= 1.5 * min(seconds)),
    )
