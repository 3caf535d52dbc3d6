"""How good ExactSPCA's loadings are, and what it proves: published matrices, scikit-learn's tables, planted signals.

``python -m benchmarks optima [--data FOLDER] [NAME ...]`` measures every matrix, or those named, one after another.
What is measured goes into docs/optimality.json, matrix by matrix, and docs/optimality.md shows all that is in it: a run
that was stopped is continued by naming the matrices that are left. Every CSV in the folder, a square table with the
features' names in its first row, is taken along. Beside each fit stands an independent search, other_search.py: for
one component from every feature with swaps, for more the best of 500 random starts, for a penalty of 200. Nothing was
chosen on the matrices that are called held out.
"""

import csv
import json
import time
from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_wine

from benchmarks.other_search import best_penalised, best_several, best_single
from fedspca import ExactSPCA, StopReason

Array = NDArray[np.float64]

PAGE = Path(__file__).parents[1] / "docs" / "optimality.md"
PITPROPS = Path(__file__).with_name("pitprops.csv")
MEASURED = PAGE.with_suffix(".json")
SEEDS = range(1, 10)  # beside the usual one
NAMES = (
    "pitprops",
    "wine",
    "WDBC",
    "diabetes",
    "digits",
    "clusters",
    "spikes",
    "random, held out",
    "clusters, held out",
    "spikes, held out",
    "echoes, held out",
)
SECONDS, SECONDS_SEVERAL = 1.0, 8.0  # of CPU time, for each proof
# what certifying papers report as optimal: Berk and Bertsimas (2019), d'Aspremont, Bach and El Ghaoui (2008)
PUBLISHED = {("pitprops", 5): 3.406, ("pitprops", 10): 4.173}


class Case(NamedTuple):
    """One fit: what was captured, also by the worst of ten seeds and by the other search, the bound, and the times."""

    data: str
    r: int
    k: int
    orthogonal: bool
    captured: float
    worst: float
    peer: float
    gap: float
    proved: bool
    search: float
    proof: float


class Penalty(NamedTuple):
    """One fit with a penalty: the objective, the independent search's, the bound's gap, and the times."""

    data: str
    r: int
    lam: float
    objective: float
    peer: float
    gap: float
    search: float
    proved: bool = False
    proof: float = 0.0

    @property
    def above(self) -> float:
        """How far above the other search it ends, relative."""
        return (self.objective - self.peer) / abs(self.peer)


def main(data: str | None = None, names: tuple[str, ...] = ()) -> None:
    """Measure every matrix, or those named, print each case as it comes, and write the page."""
    every = {key(name): (name, s) for name, s in matrices(data)}
    if unknown := [name for name in names if name not in every]:
        raise SystemExit(f"There is no matrix {', '.join(unknown)}; there are {', '.join(every)}.")
    for name in names or tuple(every):
        whole(*every[name])
    print(told(*_recorded(every)), flush=True)


def key(name: str) -> str:
    """Return a matrix's name as one word, for the command line."""
    return name.replace(", ", "-").replace(" ", "-")


def whole(name: str, s: Array) -> None:
    """Measure all cases of one matrix; each is kept at once, so that a run that is stopped leaves what it measured."""
    found: dict[str, Any] = {"cases": [], "penalties": [], "complete": False}
    for r, k, orthogonal in settings(len(s)):
        found["cases"].append(measured(name, s, r, k, orthogonal=orthogonal))
        print(_line(found["cases"][-1]), flush=True)
        keep(key(name), found)
    for r, share in product((1, 2, 3), (0.15, 0.4)):
        found["penalties"].append(penalised(name, s, r, 2.0 * share * float(s.diagonal().max())))
        print(_penalty_row(found["penalties"][-1]).strip("| ").replace(" | ", "  "), flush=True)
    keep(key(name), found | {"complete": True})


def keep(name: str, found: dict[str, Any]) -> None:
    """Put one matrix's cases with those of the others, and write the page."""
    record = _record()
    record[name] = found
    MEASURED.write_text(json.dumps(record, indent=0) + "\n", encoding="utf-8")
    PAGE.write_text(page(*_recorded(dict.fromkeys(map(key, NAMES)) | record)), encoding="utf-8")


def _record() -> dict[str, Any]:
    return dict(json.loads(MEASURED.read_text(encoding="utf-8"))) if MEASURED.exists() else {}


def unfinished() -> list[str]:
    """Return the matrices that were not measured, or not to the end."""
    record = _record()
    return [name for name in map(key, NAMES) if not record.get(name, {}).get("complete")]


def _recorded(order: dict[str, Any]) -> tuple[list[Case], list[Penalty]]:
    record = _record()
    parts = [record[name] for name in order if name in record]
    return [Case(*row) for part in parts for row in part["cases"]], [
        Penalty(*row) for part in parts for row in part["penalties"]
    ]


def matrices(data: str | None) -> Iterator[tuple[str, Array]]:
    """Yield each matrix with its name: correlations, so that figures can be compared."""
    yield "pitprops", _read(PITPROPS)
    tables = {"wine": load_wine, "WDBC": load_breast_cancer, "diabetes": load_diabetes, "digits": load_digits}
    for name, load in tables.items():
        yield name, _correlation(load().data)
    yield "clusters", _correlation(_clusters(np.random.default_rng(0)))
    yield "spikes", _correlation(_spikes(np.random.default_rng(1)))
    rng = np.random.default_rng(11)
    yield "random, held out", np.cov(rng.standard_normal((60, 40)).T)
    yield "clusters, held out", np.cov(_clusters(rng).T)
    yield "spikes, held out", np.cov(_spikes(rng).T)
    yield "echoes, held out", _correlation(_echoes(rng))
    for path in sorted(Path(data).glob("*.csv")) if data else ():
        yield path.stem, _read(path)


def settings(d: int) -> Iterator[tuple[int, int, bool]]:
    """Yield components, non-zeros and whether loadings are orthogonal."""
    yield from ((r, k, orthogonal) for r, k, orthogonal in product((2, 3), (5,), (True, False)) if k < d)
    yield from ((1, k, True) for k in range(2, min(20, d - 1) + 1))


def measured(name: str, s: Array, r: int, k: int, *, orthogonal: bool) -> Case:
    """Fit once without a proof, for the time, and once with it; one component with nine more seeds."""
    asked: dict[str, Any] = {"n_nonzero": k, "orthogonal": orthogonal}
    fit, search, proof = _timed(s, r, **asked)
    peer = best_single(s, k) if r == 1 else best_several(s, r, k, orthogonal=orthogonal)
    seeds = [ExactSPCA(1, proof_seconds=0.0, random_state=seed, **asked).fit_covariance(s) for seed in SEEDS if r == 1]
    worst = min([-fit.objective_, *(-other.objective_ for other in seeds)])
    return Case(
        name, r, k, orthogonal, -fit.objective_, worst, peer, fit.optimality_gap_, _is_proved(fit), search, proof
    )


def penalised(name: str, s: Array, r: int, lam: float) -> Penalty:
    """Fit with a penalty once without a proof, for the time, and once with it."""
    fit, search, proof = _timed(s, r, lam=lam)
    peer = best_penalised(s, r, lam)
    return Penalty(name, r, lam, fit.objective_, peer, fit.optimality_gap_, search, _is_proved(fit), proof)


def _timed(s: Array, r: int, **asked: Any) -> tuple[ExactSPCA, float, float]:
    """The fit with a proof, the seconds of one without, and what the proof takes besides."""
    began = time.process_time()
    ExactSPCA(r, proof_seconds=0.0, **asked).fit_covariance(s)
    search = time.process_time() - began
    began = time.process_time()
    # proofs get CPU time here, so that what is proved does not hang on what else the machine does
    with patch("time.monotonic", time.process_time):
        fit = ExactSPCA(r, proof_seconds=SECONDS if r == 1 else SECONDS_SEVERAL, **asked).fit_covariance(s)
    return fit, search, max(time.process_time() - began - search, 0.0)


def _is_proved(fit: ExactSPCA) -> bool:
    return fit.stop_reason_ is StopReason.PROVED


def page(cases: list[Case], penalties: list[Penalty]) -> str:
    """Return the page: what holds, then every case."""
    head = "| data | components | non-zeros | captured | other search | published | bound | search | proof |"
    lines = [
        "# How good the loadings are, and what is proved",
        "",
        "Written by `python -m benchmarks optima`. `captured` is the variance of the span of the loadings, of a",
        "correlation matrix or, where it is held out, of a covariance; nothing was chosen on those. The other search",
        "(`benchmarks/other_search.py`) shares no code with the product: for one component power steps from every",
        "feature, then every swap; for more the best of 500 random starts, each by updates of single columns, the best",
        "by every swap. `bound` says how much better anything can be at most. Times are CPU seconds of one thread:",
        "`search` without a proof and without random starts (`proof_seconds=0`), `proof` what both take besides.",
        "Other matrices were given by `--data`: communities is the correlation of 100 features of UCI's Communities",
        "and Crime data, measured before there were random starts, and before time made bounds with a penalty closer.",
        "",
        *([f"Not measured to the end: {', '.join(unfinished())}.", ""] if unfinished() else []),
        *told(cases, penalties).splitlines(),
        "",
        head,
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- |",
        *(_row(case) for case in cases),
        "",
        "## With a penalty",
        "",
        "The other search is the best of 200 starts of alternating directions. `above` is how far above it the fit",
        "ends; a minus sign means below, which is better. `bound` says how much lower any objective can be at most.",
        "",
        "| data | components | λ | objective | other search | above | bound | search | proof |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- |",
        *(_penalty_row(penalty) for penalty in penalties),
        "",
        "Published values are those of papers that prove optimality on the same matrix: Berk and Bertsimas,",
        "*Certifiably optimal sparse principal component analysis* (2019).",
        "",
    ]
    return "\n".join(lines)


def told(cases: list[Case], penalties: list[Penalty]) -> str:
    """Say how often the other search was reached, what was proved, and the gaps."""
    single = [case for case in cases if case.r == 1]
    orthogonal = [case for case in cases if case.r > 1 and case.orthogonal]
    free = [case for case in cases if case.r > 1 and not case.orthogonal]
    several = orthogonal + free
    close = sum(case.captured >= case.peer * (1 - 1e-3) for case in several)
    least = min((case.captured / case.peer for case in several), default=float("nan"))
    near = sum(penalty.above <= 1e-3 for penalty in penalties)
    worst = max((penalty.above for penalty in penalties), default=0.0)
    met = sum(case.worst >= case.peer * (1 - 1e-6) for case in single)
    lone, joint = [each for each in penalties if each.r == 1], [each for each in penalties if each.r > 1]
    gaps = [f"{_median_gap(group):.2%}" for group in (cases, single, orthogonal, free)]
    return (
        f"- One component, 2 to 20 non-zeros, ten seeds each: all ten within a millionth of the other search, or "
        f"better, in {met} of {len(single)} cases. With {SECONDS:g} s of CPU time to prove it, {_proved(single)} are "
        f"proved optimal.\n"
        f"- Two and three components: within a thousandth of the other search, or better, in {close} of "
        f"{len(several)}; the least share of its variance is {least:.4f}. With {SECONDS_SEVERAL:g} s to prove it, "
        f"{_proved(orthogonal)} of {len(orthogonal)} orthogonal ones are proved optimal and "
        f"{_proved(free)} of {len(free)} that may overlap.\n"
        f"- With a penalty: within a thousandth of the other search, or lower, in {near} of {len(penalties)}; the "
        f"worst ends {max(worst, 0.0):.2%} above it. With {SECONDS:g} s to prove it, {_proved(lone)} of {len(lone)} "
        f"with one component are proved optimal, and with {SECONDS_SEVERAL:g} s {_proved(joint)} of {len(joint)} with "
        f"two or three, whose median gap is {_median_gap(joint):.2%}.\n"
        f"- Median gap: {gaps[0]} over all {len(cases)} cases; {gaps[1]} for one component, {gaps[2]} for several "
        f"orthogonal ones, {gaps[3]} for several that may overlap. Most cases have one component: the last three "
        f"figures say more than the first."
    )


def _proved(cases: Sequence[Case | Penalty]) -> int:
    return sum(case.proved for case in cases)


def _median_gap(cases: Sequence[Case | Penalty]) -> float:
    return median(case.gap for case in cases) if cases else float("nan")


def _row(case: Case) -> str:
    kind = f"{case.r}" if case.r == 1 else f"{case.r}, {'orthogonal' if case.orthogonal else 'free'}"
    bound = "proved" if case.proved else f"{case.gap:.2%}"
    published = PUBLISHED.get((case.data, case.k)) if case.r == 1 else None
    return (
        f"| {case.data} | {kind} | {case.k} | {case.captured:.4f} | {case.peer:.4f} | "
        f"{published or ''} | {bound} | {case.search:.2f} | {case.proof:.2f} |"
    )


def _penalty_row(penalty: Penalty) -> str:
    bound = "proved" if penalty.proved else f"{penalty.gap:.2%}"
    return (
        f"| {penalty.data} | {penalty.r} | {penalty.lam:.3f} | {penalty.objective:.4f} | {penalty.peer:.4f} | "
        f"{penalty.above:.2%} | {bound} | {penalty.search:.2f} | {penalty.proof:.2f} |"
    )


def _line(case: Case) -> str:
    return _row(case).strip("| ").replace(" | ", "  ")


def _read(path: Path) -> Array:
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.reader(file))
    first = 1 if len(rows[0]) == len(rows) else 0
    return np.array([row[first:] for row in rows[1:]], dtype=np.float64)


def _correlation(x: Array) -> Array:
    return np.asarray(np.corrcoef(x[:, x.std(axis=0) > 0].T))


def _clusters(rng: np.random.Generator) -> Array:
    """Eight groups of features that say almost the same, of different sizes and noise."""
    group = rng.integers(0, 8, 45)
    return rng.standard_normal((150, 8))[:, group] * rng.uniform(0.5, 1.5, 45) + 0.4 * rng.standard_normal((150, 45))


def _spikes(rng: np.random.Generator) -> Array:
    """Three sparse directions near the threshold below which nobody finds them."""
    w = np.zeros((3, 50))
    for row in w:
        row[rng.choice(50, 8, replace=False)] = 1.0 / np.sqrt(8.0)
    return np.asarray(1.5 * rng.standard_normal((100, 3)) @ w + rng.standard_normal((100, 50)))


def _echoes(rng: np.random.Generator) -> Array:
    """Sixty neighbouring features that resemble each other the more, the nearer they are."""
    at = np.arange(60)
    near = np.linalg.cholesky(np.exp(-np.abs(at[:, None] - at) / 5.0))
    return np.asarray(rng.standard_normal((208, 60)) @ near.T + 0.5 * rng.standard_normal((208, 60)))
