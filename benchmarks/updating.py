"""Rounds of an update against those of a new fit: ``python -m benchmarks updating``."""

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_breast_cancer, load_digits

from fedspca import ExactSPCA

STANDARD = 2  # rounds for the mean and the spread, which any fit needs
SHARES = (0.99, 0.95, 0.8)  # of the rows that the model before had
PROBLEMS = (
    ("2 components of 12", {"n_components": 2, "n_nonzero": 12}),
    ("4 components of 12", {"n_components": 4, "n_nonzero": 12}),
    ("λ = 190", {"n_components": 2, "lam": 190.0}),
    ("95 % of the variance", {"n_components": 2}),
)


def tables() -> dict[str, NDArray[np.float64]]:
    """Return the tables, with their rows in a random order."""
    noise = np.random.default_rng(1).random((569, 800))
    found = {"WDBC*": np.hstack([load_breast_cancer().data, noise]), "digits": load_digits().data}
    return {name: np.random.default_rng(0).permutation(table) for name, table in found.items()}


def main() -> None:
    """Print one line for each table, problem and share of rows that were there before."""
    warnings.simplefilter("ignore")  # constant pixels
    print("| data | problem | rows added | rounds of a new fit | of the update | non-zeros | objective, relative |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for name, rows in tables().items():
        for said, problem in PROBLEMS:
            settings: dict[str, Any] = {**problem, "scale": True, "search": "products"}
            fresh = ExactSPCA(**settings).fit(rows)
            for share in SHARES:
                updated = ExactSPCA(**settings).fit(rows[: int(share * len(rows))]).update(rows)
                rounds = [fit.n_rounds_ - STANDARD for fit in (fresh, updated)]
                worse = (updated.objective_ - fresh.objective_) / abs(fresh.objective_)
                nonzeros = " / ".join(str(np.count_nonzero(fit.components_)) for fit in (fresh, updated))
                figures = f"{rounds[0]} | {rounds[1]} | {nonzeros} | {worse:+.1e}"
                print(f"| {name} | {said} | {1 - share:.0%} | {figures} |", flush=True)
