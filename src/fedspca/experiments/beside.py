"""Beyond the paper: other current methods on WDBC* over ten sites, and how partitions change their results."""

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_breast_cancer

from fedspca.experiments import partitions
from fedspca.experiments.alternatives import (
    Dense,
    covariance_sum,
    merged_svds,
    span_error,
    subspace_iteration,
    truncate,
)
from fedspca.experiments.data import sites_in_order, standardised, wdbc_star
from fedspca.experiments.methods import fit, model
from fedspca.experiments.runner import QUICK_ROUNDS, Record, Task
from fedspca.experiments.watch import SimulatedFederation

Array = NDArray[np.float64]

NAME = "beside"
SITES = 10
SEED = 1
PARTITIONS = ("in order", "label", "dirichlet", "quantity", "feature", "score")
DENSE = ("merged SVDs, local means", "merged SVDs, global means", "subspace iteration", "covariance sum")
KEPT = (5, 8, 10, 12, 15, 20, 30, 50, 100, 200, 400, 830)  # weights kept in each loading
FASPCA_PATH = (100.0, 190.0, 290.0, 400.0, 600.0, 900.0, 1300.0)
RANK, ROUNDS = 10, 8  # vectors that a site sends for merging; rounds of subspace iteration


@cache
def _wdbc() -> Array:
    return wdbc_star(SEED).rows


def owners_of(partition: str, n_sites: int = SITES) -> NDArray[np.str_]:
    """The owner of each row of WDBC* under one of the partitions."""
    rows, labels = _wdbc(), load_breast_cancer().target
    if partition == "in order":
        return sites_in_order(len(rows), n_sites)
    if partition == "label":
        return partitions.by_label(labels, n_sites)
    if partition == "dirichlet":
        return partitions.dirichlet(labels, n_sites, alpha=0.3)
    if partition == "quantity":
        return partitions.by_quantity(len(rows), n_sites, alpha=0.5)
    if partition == "feature":
        return partitions.by_feature(rows[:, 3], n_sites)  # mean area
    return partitions.by_principal_score(rows[:, :30], n_sites)


def dense_directions(method: str, owners: NDArray[np.str_]) -> Dense:
    """Dense leading directions of WDBC* by one of the alternatives."""
    rows = _wdbc()
    if method.startswith("merged"):
        parts = [rows[owners == name] for name in np.unique(owners)]
        return merged_svds(parts, 2, rank=RANK, means="local" if "local" in method else "global")
    federation = SimulatedFederation(rows, owners)
    if method == "covariance sum":
        return covariance_sum(federation, 2, scale=True)
    return subspace_iteration(federation, 2, scale=True, rounds=ROUNDS)


def dense_run(method: str, partition: str, kept: tuple[int, ...] = KEPT) -> list[Record]:
    """Error of an alternative's directions, truncated to each number of non-zeros."""
    dense = dense_directions(method, owners_of(partition))
    rows = standardised(_wdbc())
    common = {"what": "curve", "method": method, "partition": partition, "rounds": dense.rounds, "converged": True}
    cost = {"bytes_up": dense.bytes_up, "bytes_down": dense.bytes_down}
    return [
        {**common, **cost, "nonzeros": 2 * k, "error": span_error(rows, truncate(dense.components, k))} for k in kept
    ]


def sparse_run(method: str, partition: str, penalties: dict[str, Any], rounds: int | None = None) -> list[Record]:
    """Error and non-zeros of a sparse method at one penalty, with our settings."""
    federation = SimulatedFederation(_wdbc(), owners_of(partition))
    found = fit(model(method, "ours", 0, {**penalties, "scale": True}, rounds), federation)
    return [
        {
            "what": "curve",
            "method": method + (", n_nonzero" if "n_nonzero" in penalties else ", λ"),
            "partition": partition,
            "penalties": penalties,
            "rounds": found.rounds,
            "converged": found.converged,
            "bytes_up": found.bytes_up,
            "bytes_down": found.bytes_down,
            "nonzeros": found.nonzeros,
            "error": span_error(standardised(_wdbc()), found.components),
            "seconds": found.seconds,
        }
    ]


def tasks(*, quick: bool) -> list[Task]:
    """Curves of error against sparsity for rows distributed in order; one sparsity for every other partition."""
    planned = [Task(NAME, dense_run, {"method": method, "partition": "in order"}, 1.0) for method in DENSE]
    path, counts = ((190.0, 600.0), (10, 30)) if quick else (FASPCA_PATH, KEPT[:-2])
    limit = {"rounds": QUICK_ROUNDS if quick else None}
    first = {"partition": "in order", **limit}
    planned += [Task(NAME, sparse_run, {**first, "method": "FASPCA", "penalties": {"lam": lam}}, 3.0) for lam in path]
    planned += [
        Task(NAME, sparse_run, {**first, "method": "ExactSPCA", "penalties": {"lam": lam}}, 0.3) for lam in path
    ]
    planned += [
        Task(NAME, sparse_run, {**first, "method": "ExactSPCA", "penalties": {"n_nonzero": k}}, 0.5) for k in counts
    ]
    for partition in PARTITIONS[1:2] if quick else PARTITIONS[1:]:
        planned += [
            Task(NAME, dense_run, {"method": method, "partition": partition, "kept": (15, 830)}, 1.0)
            for method in DENSE
        ]
        planned += [
            Task(NAME, sparse_run, {"method": method, "partition": partition, "penalties": penalties, **limit}, 3.0)
            for method, penalties in (("FASPCA", {"lam": 600.0}), ("ExactSPCA", {"n_nonzero": 15}))
        ]
    return planned
