"""Experiment 3: non-IID synthetic data. Alignment by round, and recovery errors by number of rows and sites."""

from typing import Any

from fedspca.experiments.iid_synthetic import AGREEMENT_PENALTIES
from fedspca.experiments.methods import SETTINGS, Setting, fit, model, pca
from fedspca.experiments.runner import QUICK_ROUNDS, Record, Task, thinned
from fedspca.experiments.synthetic import N_ROWS, Rest, non_iid_synthetic
from fedspca.experiments.watch import SimulatedFederation
from fedspca.metrics import recovery_error

NAME = "noniid-synthetic"
PENALTIES: dict[str, dict[str, Any]] = {**AGREEMENT_PENALTIES, "ExactSPCA": {"n_nonzero": 10}}


def recovery_run(
    method: str,
    setting: Setting,
    seed: int,
    n_sites: int = 10,
    n_rows: int = N_ROWS,
    rounds: int | None = None,
) -> list[Record]:
    """Recovery error of a method, and alignment of workers by round."""
    data = non_iid_synthetic(n_sites, n_rows=n_rows, seed=seed)
    federation = SimulatedFederation(data.rows, data.owners, watch=True)
    found = fit(model(method, setting, seed, PENALTIES[method], rounds), federation)
    common = {"method": method, "setting": setting, "seed": seed, "n_sites": n_sites, "n_rows": n_rows}
    common["rest"] = "orthonormal"
    error: Record = {
        "what": "recovery",
        **common,
        "error": recovery_error(found.components, data.truth),
        "converged": found.converged,
        "rounds": found.rounds,
        "seconds": found.seconds,
    }
    curves = [
        {"what": "alignment", **common, "loading": number, "n_rounds": len(curve), "final": float(curve[-1])}
        | thinned(curve)
        for number, curve in enumerate(found.alignments, start=1)
        if n_rows == N_ROWS and n_sites == 10
    ]
    return [error, *curves]


def pca_run(seed: int, n_rows: int = N_ROWS, rest: Rest = "orthonormal") -> list[Record]:
    """Recovery error of dense PCA of the pooled rows."""
    data = non_iid_synthetic(10, n_rows=n_rows, rest=rest, seed=seed)
    error = recovery_error(pca(data.rows - data.rows.mean(axis=0)), data.truth)
    common = {"method": "PCA", "setting": "pooled", "seed": seed, "n_sites": 10, "n_rows": n_rows, "rest": rest}
    return [{"what": "recovery", **common, "error": error, "converged": True}]


def tasks(*, quick: bool) -> list[Task]:
    """All runs: the paper's case over seeds, other numbers of rows and sites, and the other interpretation of V."""
    seeds = range(1) if quick else range(5)
    few = range(1) if quick else range(3)
    planned = [Task(NAME, pca_run, {"seed": seed, "rest": "as drawn"}, 0.2) for seed in few]
    sizes = (50, 200) if quick else (50, 100, 200, 1000)
    planned += [
        Task(NAME, pca_run, {"seed": seed, "n_rows": n}, 0.3) for n in sizes for seed in (seeds if n == N_ROWS else few)
    ]
    cases = [(method, setting) for method in AGREEMENT_PENALTIES for setting in SETTINGS] + [("ExactSPCA", "ours")]
    for method, setting in cases:
        cost = 4.0 if (method, setting) == ("FSSPCA", "paper") else 1.5
        run = {"method": method, "setting": setting, "rounds": QUICK_ROUNDS if quick else None}
        planned += [Task(NAME, recovery_run, {**run, "seed": seed}, cost) for seed in seeds]
        planned += [
            Task(NAME, recovery_run, {**run, "seed": seed, "n_rows": n}, 2 * cost)
            for n in (sizes if setting == "ours" else sizes[-1:])
            if n != N_ROWS
            for seed in few
        ]
        if setting == "ours":
            planned += [
                Task(NAME, recovery_run, {**run, "seed": seed, "n_sites": k}, cost)
                for k in ((3,) if quick else (1, 3, 5))
                for seed in few
            ]
    return planned
