"""Experiment 2: WDBC*, IID. The objective by round, the share of small weights, and Table I."""

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedspca.experiments.alternatives import span_error
from fedspca.experiments.data import sites_in_order, standardised, wdbc_star
from fedspca.experiments.methods import SETTINGS, Fit, Setting, fit, model, pca, rounds_to
from fedspca.experiments.runner import QUICK_ROUNDS, Record, Task, thinned
from fedspca.experiments.watch import SimulatedFederation
from fedspca.metrics import share_of_small_weights

Array = NDArray[np.float64]

NAME = "iid-wdbc"
SITES = (1, 3, 5, 10)
OBJECTIVE_SITES = (1, 3, 10)
N_MEASURED = 30
TOLERANCES = (0.1, 0.01, 0.001)  # the paper states no stopping rule: rounds are compared at each of these
BOUNDS = tuple(10.0**-i for i in range(1, 11))
TABLE: dict[str, tuple[str, dict[str, Any]]] = {
    "FASPCA, λ = 170": ("FASPCA", {"lam": 170}),
    "FSSPCA, λ₁ = 10, λ₂ = 190": ("FSSPCA", {"lam1": 10, "lam2": 190}),
    "ExactSPCA, λ = 190": ("ExactSPCA", {"lam": 190}),
    "ExactSPCA, 100 non-zeros each": ("ExactSPCA", {"n_nonzero": 100}),
    "ExactSPCA, 95 % of PCA's variance": ("ExactSPCA", {"variance_kept": 0.95}),
}
COST = {"FASPCA": 2.0, "FSSPCA": 5.0, "ExactSPCA": 0.4}
SMALL: dict[str, dict[str, Any]] = {"FASPCA": {"lam": 60}, "FSSPCA": {"lam1": 10, "lam2": 30}}


@cache
def _standardised(seed: int) -> Array:
    return standardised(wdbc_star(seed).rows)


def _fit(method: str, setting: Setting, seed: int, n_sites: int, penalties: dict[str, Any], rounds: int | None) -> Fit:
    """Fit to standardised WDBC*, with its rows distributed to the sites in order."""
    rows = _standardised(seed)
    federation = SimulatedFederation(rows, sites_in_order(len(rows), n_sites))
    return fit(model(method, setting, seed, penalties, rounds), federation)


def small_weights(components: Array) -> Record:
    """Share of weights within 10⁻ⁱ for measured and for random features, and the largest weight of a random feature."""
    return {
        "measured": share_of_small_weights(components[:, :N_MEASURED], BOUNDS).tolist(),
        "random": share_of_small_weights(components[:, N_MEASURED:], BOUNDS).tolist(),
        "largest_random": float(np.abs(components[:, N_MEASURED:]).max()),
    }


def objective_run(lam1: float, setting: Setting, seed: int, n_sites: int, rounds: int | None = None) -> list[Record]:
    """Objective of FSSPCA by round, with λ2 = 30."""
    found = _fit("FSSPCA", setting, seed, n_sites, {"lam1": lam1, "lam2": 30}, rounds)
    tail = found.objectives[-50:]
    return [
        {
            "what": "objective",
            "method": "FSSPCA",
            "lam1": lam1,
            "setting": setting,
            "seed": seed,
            "n_sites": n_sites,
            "converged": found.converged,
            "n_rounds": len(found.objectives),
            "swing": max(tail) - min(tail),
            **thinned(found.objectives, points=120),
        }
    ]


def small_weights_run(method: str, setting: Setting, seed: int, rounds: int | None = None) -> list[Record]:
    """Share of small weights at the penalties of the paper's figure."""
    found = _fit(method, setting, seed, 10, SMALL[method], rounds)
    common = {"what": "small", "method": method, "setting": setting, "seed": seed, "converged": found.converged}
    return [{**common, **small_weights(found.components)}]


def table_run(row: str, setting: Setting, seed: int, n_sites: int, rounds: int | None = None) -> list[Record]:
    """One row of Table I."""
    method, penalties = TABLE[row]
    found = _fit(method, setting, seed, n_sites, penalties, rounds)
    return [
        {
            "what": "table",
            "row": row,
            "method": method,
            "setting": setting,
            "seed": seed,
            "n_sites": n_sites,
            "error": span_error(_standardised(seed), found.components),
            "nonzeros": found.nonzeros,
            "consensus_nonzeros": found.consensus_nonzeros,
            "rounds": found.rounds,
            "rounds_to": [rounds_to(found.residuals, tol) for tol in TOLERANCES] if found.residuals else None,
            "converged": found.converged,
            "seconds": found.seconds,
        }
    ]


def pca_run(seed: int) -> list[Record]:
    """Reconstruction error of dense PCA of the pooled rows."""
    rows = _standardised(seed)
    return [{"what": "pca", "seed": seed, "error": span_error(rows, pca(rows)), "nonzeros": 2 * rows.shape[1]}]


def tasks(*, quick: bool) -> list[Task]:
    """All runs of the experiment; the seeds generate the random columns."""
    seeds, sites = ((1,), (1, 10)) if quick else ((1, 2, 3), SITES)
    planned = [Task(NAME, pca_run, {"seed": seed}, 0.5) for seed in (seeds if quick else range(1, 11))]
    for setting in SETTINGS:
        for seed in seeds:
            run = {"setting": setting, "seed": seed, "rounds": QUICK_ROUNDS if quick else None}
            planned += [
                Task(NAME, objective_run, {**run, "lam1": lam1, "n_sites": k}, COST["FSSPCA"], "FSSPCA")
                for k in OBJECTIVE_SITES
                for lam1 in (0, 10)
            ]
            planned += [Task(NAME, small_weights_run, {**run, "method": method}, COST[method]) for method in SMALL]
            planned += [
                Task(NAME, table_run, {**run, "row": row, "n_sites": k}, COST[method])
                for row, (method, _) in TABLE.items()
                for k in sites
                if method != "ExactSPCA" or setting == "ours"
            ]
    return planned
