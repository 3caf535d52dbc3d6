"""The solvers that settings can name, and how the settings become theirs."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from fedspca.estimators import FASPCA, FSSPCA, ExactSPCA
from fedspca.estimators.base import FederatedSparsePCA
from fedspca.fit.settings import SolverSettings


@dataclass(frozen=True)
class Solver:
    """An estimator, what it calls the settings, and what it must be given."""

    make: Callable[..., FederatedSparsePCA]
    names: Mapping[str, str]
    required: tuple[str, ...] = ()


SHARED = {"scale": "scale", "max_missing": "max_missing", "tol": "tol", "max_rounds": "max_rounds"}
SOLVERS: Mapping[str, Solver] = {
    "exact": Solver(
        ExactSPCA,
        {
            **SHARED,
            "nonzero": "n_nonzero",
            "variance_kept": "variance_kept",
            "lam": "lam",
            "search": "search",
            "proof_seconds": "proof_seconds",
        },
    ),
    "faspca": Solver(FASPCA, {**SHARED, "lam": "lam"}, required=("lam",)),
    "fsspca": Solver(FSSPCA, {**SHARED, "lam": "lam2"}, required=("lam",)),
}
SPARSITY = ("nonzero", "variance_kept", "lam")


def make_estimator(settings: SolverSettings, callbacks: list[Any]) -> FederatedSparsePCA:
    """Return the estimator that the settings ask for, checked and not fitted yet."""
    if settings.solver not in SOLVERS:
        raise ValueError(f"There is no solver {settings.solver!r}; there are {', '.join(SOLVERS)}.")
    solver = SOLVERS[settings.solver]
    _check_sparsity(settings, solver)
    given = {
        theirs: getattr(settings, ours) for ours, theirs in solver.names.items() if getattr(settings, ours) is not None
    }
    estimator = solver.make(settings.components, random_state=settings.seed, callbacks=callbacks, **given)
    estimator._validate_params()  # before owners are asked to approve them, and before any file is read
    return estimator


def _check_sparsity(settings: SolverSettings, solver: Solver) -> None:
    given = [name for name in SPARSITY if getattr(settings, name) is not None]
    option = {name: f"--{name.replace('_', '-')}" for name in SPARSITY}
    if len(given) > 1:
        raise ValueError(
            f"Sparsity is asked for in more than one way: {', '.join(option[g] for g in given)}. Choose one."
        )
    unknown = [name for name in given if name not in solver.names]
    takes = ", ".join(option[name] for name in SPARSITY if name in solver.names)
    if unknown:
        raise ValueError(f"The solver {settings.solver!r} does not take {option[unknown[0]]}; it takes {takes}.")
    if any(getattr(settings, name) is None for name in solver.required):
        raise ValueError(f"The solver {settings.solver!r} needs {takes}.")
