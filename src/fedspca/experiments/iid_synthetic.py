"""Experiment 1: IID synthetic data. Alignment of workers by round, and recovery error against the penalty."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedspca.experiments.methods import SETTINGS, Setting, fit, model, pca
from fedspca.experiments.runner import QUICK_ROUNDS, Record, Task, thinned
from fedspca.experiments.synthetic import N_ROWS, iid_synthetic
from fedspca.experiments.watch import SimulatedFederation
from fedspca.metrics import recovery_error

Array = NDArray[np.float64]

NAME = "iid-synthetic"
AGREEMENT_PENALTIES: dict[str, dict[str, Any]] = {"FSSPCA": {"lam1": 50, "lam2": 100}, "FASPCA": {"lam": 50}}
FSSPCA_GRID = (10, 20, 30, 40, 50)  # λ1, with λ2 = 300
FASPCA_GRID = (50, 100, 150, 200)  # λ
SITES = (1, 3, 5, 10)
MANY_ROWS = 1000  # the paper does not state the number of rows


def loading_errors(components: Array, truth: Array) -> list[float]:
    """Recovery error of each true loading, for the better of the two ways to match estimated to true loadings.

    With 50 rows, the eigenvalues 400 and 300 may change order in the sample, and a random start may find either loading
    first.
    """
    orders = (components, components[::-1])
    matched = [[recovery_error(z, v) for z, v in zip(found, truth, strict=True)] for found in orders]
    return min(matched, key=sum)


def alignment_run(
    method: str, setting: Setting, seed: int, n_rows: int = N_ROWS, rounds: int | None = None
) -> list[Record]:
    """Alignment of workers by round, for each loading."""
    data = iid_synthetic(10, n_rows=n_rows, seed=seed)
    federation = SimulatedFederation(data.rows, data.owners, watch=True)
    found = fit(model(method, setting, seed, AGREEMENT_PENALTIES[method], rounds), federation)
    common = {"what": "alignment", "method": method, "setting": setting, "seed": seed, "n_rows": n_rows}
    return [
        {
            **common,
            "converged": found.converged,
            "loading": number,
            "n_rounds": len(curve),
            "final": float(curve[-1]),
            **thinned(curve),
        }
        for number, curve in enumerate(found.alignments, start=1)
    ]


def recovery_run(
    method: str,
    setting: Setting,
    seed: int,
    n_sites: int,
    penalty: float,
    n_rows: int = N_ROWS,
    rounds: int | None = None,
) -> list[Record]:
    """Recovery error of each loading and of both, at one penalty of the paper's grids."""
    data = iid_synthetic(n_sites, n_rows=n_rows, seed=seed)
    penalties = {"lam1": penalty, "lam2": 300} if method == "FSSPCA" else {"lam": penalty}
    found = fit(model(method, setting, seed, penalties, rounds), SimulatedFederation(data.rows, data.owners))
    return [
        {
            "what": "recovery",
            "method": method,
            "setting": setting,
            "seed": seed,
            "n_sites": n_sites,
            "n_rows": n_rows,
            "penalty": penalty,
            "error": recovery_error(found.components, data.truth),
            "errors": loading_errors(found.components, data.truth),
            "converged": found.converged,
            "rounds": found.rounds,
            "seconds": found.seconds,
        }
    ]


def pca_run(seed: int, n_rows: int = N_ROWS) -> list[Record]:
    """Recovery error of dense PCA of the pooled rows, the baseline for the penalised methods."""
    data = iid_synthetic(1, n_rows=n_rows, seed=seed)
    components = pca(data.rows - data.rows.mean(axis=0))
    error = recovery_error(components, data.truth)
    errors = loading_errors(components, data.truth)
    return [{"what": "pca", "seed": seed, "n_rows": n_rows, "error": error, "errors": errors}]


def tasks(*, quick: bool) -> list[Task]:
    """All runs of the experiment."""
    seeds, sites = (range(1), (1, 5)) if quick else (range(3), SITES)
    grids = {"FSSPCA": (10, 50) if quick else FSSPCA_GRID, "FASPCA": (50, 200) if quick else FASPCA_GRID}
    planned = [
        Task(NAME, pca_run, {"seed": seed, "n_rows": n}, cost=0.2) for n in (N_ROWS, MANY_ROWS) for seed in seeds
    ]
    for method, grid in grids.items():
        for setting in SETTINGS:
            cost = 4.0 if (method, setting) == ("FSSPCA", "paper") else 1.5
            for seed in seeds:
                run = {"method": method, "setting": setting, "seed": seed, "rounds": QUICK_ROUNDS if quick else None}
                planned.append(Task(NAME, alignment_run, run, cost))
                planned.extend(
                    Task(NAME, recovery_run, {**run, "n_sites": k, "penalty": p}, cost * (0.2 + k / 10))
                    for k in sites
                    for p in grid
                )
                many = {**run, "n_rows": MANY_ROWS}
                planned.append(Task(NAME, alignment_run, many, 2 * cost))
                planned.extend(
                    Task(NAME, recovery_run, {**many, "n_sites": k, "penalty": p}, 2 * cost)
                    for k in (sites[0], sites[-1])
                    for p in (grid[0], grid[-1])
                )
    return planned
