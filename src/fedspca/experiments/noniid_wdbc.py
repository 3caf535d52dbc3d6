"""Experiment 4: WDBC* whose random columns differ from site to site. Small weights and reconstruction errors."""

from typing import Any, Literal

import numpy as np

from fedspca.experiments.alternatives import span_error
from fedspca.experiments.data import non_iid_wdbc_star
from fedspca.experiments.iid_wdbc import small_weights
from fedspca.experiments.methods import SETTINGS, Setting, fit, model, pca
from fedspca.experiments.runner import QUICK_ROUNDS, Record, Task
from fedspca.experiments.watch import SimulatedFederation

NAME = "noniid-wdbc"
PENALTIES: dict[str, dict[str, Any]] = {
    "FASPCA": {"lam": [60, 600], "block_sizes": [1, 1]},
    "FSSPCA": {"lam1": 10, "lam2": 30},
    "ExactSPCA": {"lam": 190},
}


def run(method: str, setting: Setting, seed: int, centred: bool, rounds: int | None = None) -> list[Record]:
    """Fit to the rows as generated (``centred`` false) or minus their joint mean, and evaluate on the same rows."""
    data = non_iid_wdbc_star(10, seed)
    rows = data.rows - data.rows.mean(axis=0) if centred else data.rows
    federation = SimulatedFederation(rows, data.owners, centred=True)
    found = fit(model(method, setting, seed, PENALTIES[method], rounds), federation)
    return [
        {
            "what": "fit",
            "method": method,
            "setting": setting,
            "seed": seed,
            "centred": centred,
            "error": span_error(rows, found.components),
            "nonzeros": found.nonzeros,
            "rounds": found.rounds,
            "converged": found.converged,
            "seconds": found.seconds,
            **small_weights(found.components),
        }
    ]


def pca_run(seed: int, centred: bool, variances: Literal["column", "site"] = "column") -> list[Record]:
    """Reconstruction error and small weights of dense PCA of the pooled rows."""
    rows = non_iid_wdbc_star(10, seed, variances=variances).rows
    rows = rows - rows.mean(axis=0) if centred else rows
    components = pca(rows)
    common = {"what": "pca", "method": "PCA", "setting": "pooled", "seed": seed, "centred": centred}
    return [
        {
            **common,
            "variances": variances,
            "error": span_error(rows, components),
            "nonzeros": int(np.count_nonzero(components)),
            "converged": True,
            **small_weights(components),
        }
    ]


def tasks(*, quick: bool) -> list[Task]:
    """All runs of the experiment; the seeds generate the random columns."""
    seeds = (1,) if quick else (1, 2, 3)
    planned = [
        Task(NAME, pca_run, {"seed": seed, "centred": centred, "variances": variances}, 0.5)
        for variances in ("column", "site")
        for centred in (False, True)
        for seed in (seeds if quick else range(1, 11))
    ]
    cases = [(m, s) for m in ("FASPCA", "FSSPCA") for s in SETTINGS] + [("ExactSPCA", "ours")]
    for method, setting in cases:
        cost = {"FASPCA": 5.0, "FSSPCA": 8.0, "ExactSPCA": 0.4}[method]
        case = {"method": method, "setting": setting, "rounds": QUICK_ROUNDS if quick else None}
        planned += [
            Task(NAME, run, {**case, "seed": seed, "centred": centred}, cost)
            for seed in seeds
            for centred in (False, True)
        ]
    return planned
