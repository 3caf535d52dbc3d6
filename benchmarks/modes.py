"""Every mode beside dense PCA, time and variance: W1 to W7, small tables (W8), many components (W9), float32 (W10)."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from sklearn.decomposition import PCA

from benchmarks.growth import exponent
from benchmarks.measure import Bar, Measured, measured
from benchmarks.workloads import hard, spiked, wdbc, workloads
from fedspca import ExactSPCA

Array = NDArray[Any]

BEST = Path(__file__).parent / "best_known.json"
LOST = 1e-4  # share of the best known value that a fit may lose
SAMPLE = 20  # one row in so many is fitted first
LIMIT = 60.0  # CPU seconds of one run
TABLES = {"iris": load_iris, "wine": load_wine, "WDBC": load_breast_cancer, "digits": load_digits}
MODES = ("n_nonzero", "overlapping", "variance_kept", "lam")
# penalty for each row on W1 to W7, with which about as many weights are left as ``machine`` asks for
LAM = {
    "W1 1000 × 500": 14.0,
    "W2 WDBC* raw, 60": 24.0,
    "W2 WDBC* std, 60": 1.5,
    "W3 200,000 × 500": 0.1,
    "W4 500 × 20,000": 9.3,
    "W5 CSR 20,000²": 5e-3,
    "W6 weak, draw 0": 1.4,
    "W6 overlapping, draw 0": 1.5,
    "W6 correlated, draw 0": 2.1,
    "W6 wide, draw 0": 7.5,
    "W7 PBMC, 60": 5.0,
}


@dataclass(frozen=True)
class Case:
    """A mode on some rows. ``most`` is the bar on its CPU seconds, given PCA's, and ``what`` says it in words."""

    workload: str
    make: Callable[[], Array]
    r: int
    k: int
    mode: str
    what: str
    most: Callable[[float], float]
    repeats: int = 9
    lam: float = 0.1  # for each row

    @property
    def name(self) -> str:
        """The key of the best value known."""
        return f"{self.workload}, {self.r} components, {self.mode}"


def table(name: str) -> Array:
    """A table of scikit-learn's, each column that varies centred and divided by its deviation."""
    x = TABLES[name]().data
    x = x[:, x.std(axis=0) > 0.0]
    return np.asarray((x - x.mean(axis=0)) / x.std(axis=0, ddof=1))


def spikes(n: int, d: int, n_spikes: int, k: int = 10) -> Array:
    """Rows with spikes whose sizes fall from 40 to 4 times the noise."""
    return spiked(n, d, tuple(float(size) for size in np.geomspace(40.0, 4.0, n_spikes)), k)


def cases() -> Iterator[Case]:
    """All but W10."""
    yield from _peers_workloads()
    yield from _small_tables()
    yield from _many_components()


def _peers_workloads() -> Iterator[Case]:
    """W1 to W7, which ``machine`` measures with ``n_nonzero``: here the other two modes."""
    for work in workloads():
        if work.name in LAM:
            what, most = "at most 20 × PCA", partial(_times, 20.0)
            yield Case(work.name, work.make, work.r, work.k, "variance_kept", what, most, 3)
            yield Case(work.name, work.make, work.r, work.k, "lam", what, most, 3, LAM[work.name])


def _small_tables() -> Iterator[Case]:
    for name in TABLES:
        make = partial(table, name)
        k = 3 if name == "iris" else 5
        for r in (1, 2, 3, 5, 20):
            if r >= make().shape[1] or (r == 20 and name != "digits"):
                continue
            what, most = _bar(name, r)
            yield from (Case(f"W8 {name}", make, r, k, mode, what, most, 31 if r < 20 else 5) for mode in MODES)
    for name, make, r in (("WDBC*", partial(wdbc, standardised=True), 2), ("weak spikes", partial(hard, "weak", 0), 3)):
        what = "at most 6 × PCA or 0.1 s"
        yield from (Case(f"W8 {name}", make, r, 12, mode, what, small, 5) for mode in MODES)


def _many_components() -> Iterator[Case]:
    for n, d, n_spikes, k, components in (
        (2_000, 300, 25, 10, (5, 20, 50)),
        (1_000, 3_000, 20, 15, (20,)),
        (5_000, 2_000, 50, 10, (50,)),
    ):
        make = partial(spikes, n, d, n_spikes)
        for r in components:
            five = (n, r) == (5_000, 50)
            what = f"at most {5 if five else 20} × PCA"
            most = partial(_times, 5.0 if five else 20.0)
            yield from (Case(f"W9 {n:,} × {d:,}", make, r, k, mode, what, most, 3) for mode in MODES)


def _bar(name: str, r: int) -> tuple[str, Callable[[float], float]]:
    if r == 5:  # a search for five columns has five times the starts and the updates of one for two
        return "at most 10 × PCA + 10 ms", _ten_times
    if name != "digits":
        return "at most PCA + 5 ms", _five_ms_more
    return ("at most 0.15 s", _fixed) if r == 20 else ("at most 6 × PCA or 0.1 s", small)


def _five_ms_more(pca: float) -> float:
    return pca + 5e-3


def _ten_times(pca: float) -> float:
    return 10.0 * pca + 1e-2


def _fixed(_pca: float) -> float:
    return 0.15


def small(pca: float) -> float:
    """The bar where dense PCA takes less than half a second."""
    return max(6.0 * pca, 0.1)


def _times(factor: float, pca: float) -> float:
    return factor * pca


def settings(mode: str, k: int, lam: float) -> dict[str, Any]:
    """What an estimator is told for a mode. No proof is asked for."""
    asked: dict[str, dict[str, Any]] = {
        "n_nonzero": {"n_nonzero": k},
        "overlapping": {"n_nonzero": k, "orthogonal": False},
        "variance_kept": {"variance_kept": 0.9},
        "lam": {"lam": lam},
    }
    return {**asked[mode], "proof_seconds": 0.0}


def fit(mode: str, r: int, k: int, x: Any, lam: float = 0.1) -> ExactSPCA:
    """One fit. The penalty is for each row."""
    return ExactSPCA(r, **settings(mode, k, lam * x.shape[0])).fit(x)


def value(mode: str, x: Any, model: ExactSPCA) -> float:
    """What is maximised: captured variance, less the penalty if there is one, or minus the number of non-zeros."""
    if mode == "variance_kept":
        return -float(np.count_nonzero(model.components_))
    return -float(model.objective_) / int(x.shape[0])


def best_known() -> dict[str, float]:
    """The best value of each case that an earlier fit or the other search has found; see `best_known.py`."""
    found: dict[str, float] = json.loads(BEST.read_text(encoding="utf-8")) if BEST.exists() else {}
    return found


def run(say: Callable[[str], None], only: tuple[str, ...] = ()) -> tuple[list[dict[str, Any]], list[Bar]]:
    """Measure every case, or those whose workloads begin so."""
    known = best_known()
    rows: list[dict[str, Any]] = []
    bars: list[Bar] = []
    for case in cases():
        if only and not case.workload.startswith(only):
            continue
        row = _one(case, known)
        rows.append(row)
        bars += _bars(case, row)
        say(line(row))
    bars += _growth(rows)
    if not only or any("W10".startswith(word) for word in only):
        for row, found in _precisions():
            rows.append(row)
            bars += found
            say(line(row))
    return rows, bars


def _one(case: Case, known: dict[str, float]) -> dict[str, Any]:
    outcome = measured(
        case.make,
        partial(_fit_case, case.mode, case.r, case.k, case.lam),
        partial(_pca, case.r),
        judge=partial(_judged, case.mode),
        limit=LIMIT,
        repeats=case.repeats,
    )
    row: dict[str, Any] = {"workload": case.workload, "r": case.r, "k": case.k, "mode": case.mode}
    if isinstance(outcome, str):
        return row | {"failed": outcome}
    best = known.get(case.name, float("nan"))
    return row | outcome.figures() | {"pca": outcome.cpu / outcome.cpu_ratio, "best": best}


def _fit_case(mode: str, r: int, k: int, lam: float, x: Any) -> ExactSPCA:
    return fit(mode, r, k, x, lam)


def _pca(r: int, x: Any) -> object:
    return PCA(r, svd_solver="arpack" if sp.issparse(x) else "auto", random_state=0).fit(x)


def _judged(mode: str, x: Any, model: ExactSPCA) -> dict[str, float]:
    return {"value": value(mode, x, model), "captured": float(model.captured_variance_ratio_[-1])}


def _bars(case: Case, row: dict[str, Any]) -> list[Bar]:
    where = f"{case.workload}, r = {case.r}, {case.mode}"
    if "failed" in row:
        return [Bar(where, case.what, str(row["failed"]), False)]
    found = f"{1e3 * row['cpu']:.1f} ms, PCA {1e3 * row['pca']:.1f}"
    lost = (row["best"] - row["value"]) / abs(row["best"])
    return [
        Bar(where, case.what, found, row["cpu"] <= case.most(row["pca"])),
        Bar(where, f"loses at most {LOST:g} of the best known", f"{max(lost, 0.0):.1e}", lost <= LOST),
    ]


def _growth(rows: list[dict[str, Any]]) -> list[Bar]:
    """The exponent of time in the number of components, where PCA takes longer than a few calls."""
    bars = []
    for mode in MODES:
        mine = [row for row in rows if row["workload"].startswith("W9 2,000") and row["mode"] == mode and "cpu" in row]
        if len(mine) > 1:
            power = exponent([(row["r"], row["cpu"]) for row in mine])
            bars.append(Bar(f"W9 2,000 × 300, {mode}", "exponent in r at most 1.5", f"{power:.2f}", power <= 1.5))
    return bars


def _precisions() -> Iterator[tuple[dict[str, Any], list[Bar]]]:
    """W10: float32 rows beside the same rows in float64, and a sample first beside dense PCA."""
    tall = partial(spiked, 200_000, 500, (40.0, 35.0, 30.0, 25.0, 20.0), 10)
    wide = partial(spiked, 500, 20_000, (400.0, 350.0, 300.0, 250.0, 200.0), 50)
    half, whole = ("at most 0.65 of float64", 0.65), ("at most 1.0 × PCA", 1.0)
    # with 500 rows the products take less than half of a fit, and the model and the search are in float64
    some = ("at most 0.9 of float64", 0.9)
    for name, make, k, job, unit, (what, most) in (
        ("W10 W3, float32", tall, 10, partial(_fit_one, 1, 10), partial(_fit_one, 0, 10), half),
        ("W10 W4, float32", wide, 50, partial(_fit_one, 1, 50), partial(_fit_one, 0, 50), some),
        ("W10 W3, sample", tall, 10, partial(_fit_sample, 10), _pca_of_both, whole),
    ):
        outcome = measured(partial(_both, make), job, unit, judge=_same, limit=LIMIT, repeats=5)
        row: dict[str, Any] = {"workload": name, "r": 5, "k": k, "mode": "n_nonzero"}
        if isinstance(outcome, Measured):
            best = outcome.quality["float64"]
            row |= outcome.figures() | {"best": best}
            lost = (best - outcome.quality["value"]) / abs(best)
            yield (
                row,
                [
                    Bar(name, what, f"{outcome.cpu_ratio:.2f}", outcome.cpu_ratio <= most),
                    Bar(name, f"loses at most {LOST:g} of float64's variance", f"{max(lost, 0.0):.1e}", lost <= LOST),
                ],
            )
        else:
            yield row | {"failed": outcome}, [Bar(name, what, outcome, False)]


def _both(make: Callable[[], Array]) -> tuple[Array, Array]:
    x = make()
    return x, x.astype(np.float32)


def _fit_one(which: int, k: int, data: tuple[Array, Array]) -> ExactSPCA:
    return fit("n_nonzero", 5, k, data[which])


def _fit_sample(k: int, data: tuple[Array, Array]) -> ExactSPCA:
    return ExactSPCA(5, sample=SAMPLE, **settings("n_nonzero", k, 0.0)).fit(data[0])


def _pca_of_both(data: tuple[Array, Array]) -> object:
    return _pca(5, data[0])


def _same(data: tuple[Array, Array], model: ExactSPCA) -> dict[str, float]:
    """The variance captured, on the rows in double precision, beside that of the usual fit to them."""
    k = int(np.count_nonzero(model.components_[0]))
    twice = _fit_one(0, k, data)
    return _judged("n_nonzero", data[0], model) | {
        "value": _captured(data[0], model),
        "float64": _captured(data[0], twice),
    }


def _captured(x: Array, model: ExactSPCA) -> float:
    w = np.linalg.qr(np.asarray(model.components_).T)[0]
    return float(np.var((x - x.mean(axis=0)) @ w, axis=0).sum())


def line(row: dict[str, Any]) -> str:
    """One row of the table in the terminal."""
    head = f"  {row['workload']:<18}r = {row['r']:<4}{row['mode']:<15}"
    if "failed" in row:
        return head + str(row["failed"])
    return f"{head}{1e3 * row['cpu']:>9.1f} ms{row['cpu_ratio']:>9.2f} ×{row['value']:>12.5f} best {row['best']:.5f}"
