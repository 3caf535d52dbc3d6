"""The solvers that settings can name, and how the settings become theirs."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from fedspca.estimators import FASPCA, FSSPCA, ExactSPCA
from fedspca.estimators.base import Array, FederatedSparsePCA
from fedspca.estimators.exact_solving import Course
from fedspca.estimators.paper import paper_settings
from fedspca.federation import Federation
from fedspca.fit.settings import AUTO, CONSENSUS, WORKERS, SolverSettings
from fedspca.solvers.exact.loop import Earlier


@dataclass(frozen=True)
class Solver:
    """An estimator, what it calls the settings, and what it must be given."""

    make: Callable[..., FederatedSparsePCA]
    names: Mapping[str, str]
    required: tuple[str, ...] = ()


def _same(names: Sequence[str]) -> dict[str, str]:
    """Settings that have the estimator's own names."""
    return {name: name for name in names}


SHARED = {"scale": "scale", "max_missing": "max_missing", "tol": "tol", "max_rounds": "max_rounds"}
SOLVERS: Mapping[str, Solver] = {
    "exact": Solver(
        ExactSPCA,
        {
            **SHARED,
            "missing": "missing",
            "nonzero": "n_nonzero",
            "variance_kept": "variance_kept",
            "lam": "lam",
            "search": "search",
            "proof_seconds": "proof_seconds",
            "folds": "folds",
            "sample": "sample",
        },
    ),
    "faspca": Solver(FASPCA, {**SHARED, **_same(CONSENSUS), "lam": "lam"}, required=("lam",)),
    "fsspca": Solver(FSSPCA, {**SHARED, **_same((*CONSENSUS, *WORKERS)), "lam": "lam2"}, required=("lam",)),
}
SPARSITY = ("nonzero", "variance_kept", "lam")


def make_estimator(settings: SolverSettings, callbacks: list[Any]) -> FederatedSparsePCA:
    """Return the estimator that the settings ask for, checked and not fitted yet."""
    if settings.solver not in SOLVERS:
        raise ValueError(f"There is no solver {settings.solver!r}; there are {', '.join(SOLVERS)}.")
    solver = SOLVERS[settings.solver]
    _check_choices(settings, solver)
    _check_sparsity(settings, solver)
    _check_taken(settings, solver)
    given = _preset(settings) | {
        theirs: getattr(settings, ours) for ours, theirs in solver.names.items() if getattr(settings, ours) is not None
    }
    if settings.auto and settings.solver != "exact":
        raise ValueError(f"The solver {settings.solver!r} takes numbers; auto is for --solver exact.")
    estimator = solver.make(settings.components, random_state=settings.seed, callbacks=callbacks, **given)
    estimator._validate_params()  # before owners are asked to approve them, and before any file is read
    return estimator


def fit_from(estimator: FederatedSparsePCA, federation: Federation, earlier: Earlier | None) -> Array | None:
    """Fit, and return S if it was asked for. An earlier fit's directions are asked first, or sites begin there."""
    if earlier is None:
        return estimator._fit(federation)
    if isinstance(estimator, ExactSPCA):
        return estimator._fit(federation, Course(earlier=earlier))
    made: FederatedSparsePCA = estimator.set_params(init=earlier.w.T)
    return made._fit(federation)


def _preset(settings: SolverSettings) -> dict[str, Any]:
    """Return what the preset sets, by the estimator's names."""
    if settings.preset is None:
        return {}
    if settings.preset != "paper":
        raise ValueError(f"There is no preset {settings.preset!r}; there is 'paper'.")
    if settings.solver not in ("faspca", "fsspca"):
        raise ValueError(
            f"The preset 'paper' is for the paper's methods; {settings.solver!r} is not one of them. "
            "Write --solver faspca or --solver fsspca."
        )
    return paper_settings(settings.solver.upper(), settings.number_of_components("The preset 'paper'"))


def _check_choices(settings: SolverSettings, solver: Solver) -> None:
    """Refuse a word that is none of a setting's choices; what is wrong is told before what is missing."""
    for about in fields(settings):
        value, choices = getattr(settings, about.name), about.metadata.get("choices", ())
        if about.name in solver.names and choices and isinstance(value, str) and value not in choices:
            raise ValueError(f"{as_option(about.name)} must be one of {', '.join(choices)}. Got {value!r} instead.")


def _check_taken(settings: SolverSettings, solver: Solver) -> None:
    """Refuse a setting that the solver would ignore, and FSSPCA without the norm that makes it FSSPCA."""
    for name in dict.fromkeys(name for each in SOLVERS.values() for name in each.names):
        if getattr(settings, name) is not None and name not in solver.names:
            takers = ", ".join(known for known, each in SOLVERS.items() if name in each.names)
            raise ValueError(
                f"The solver {settings.solver!r} does not take {as_option(name)}; it is for {takers}. Leave it out."
            )
    if "lam1" in solver.names and settings.lam1 is None:
        raise ValueError(
            f"The solver {settings.solver!r} needs --lam1, the weight of each site's smoothed norm, beside --lam. The "
            "paper has --lam1 10 with --lam 190; --lam1 0 is the method of Tan et al. (2019), without smoothing."
        )


def as_option(name: str) -> str:
    """Return a setting's name as it is typed at the command line."""
    return f"--{name.replace('_', '-')}"


def _check_sparsity(settings: SolverSettings, solver: Solver) -> None:
    given = [name for name in SPARSITY if getattr(settings, name) is not None]
    option = {name: as_option(name) for name in SPARSITY}
    if len(given) > 1:
        raise ValueError(
            f"Sparsity is asked for in more than one way: {', '.join(option[g] for g in given)}. Choose one."
        )
    unknown = [name for name in given if name not in solver.names]
    takes = ", ".join(option[name] for name in SPARSITY if name in solver.names)
    if unknown:
        raise ValueError(f"The solver {settings.solver!r} does not take {option[unknown[0]]}; it takes {takes}.")
    if settings.sample is not None and settings.nonzero in (None, AUTO) and settings.lam is None:
        raise ValueError(
            "--sample needs a number of non-zeros (--nonzero) or --lam: with a share of the variance, or auto, it "
            "takes all rows to say how many features there are."
        )
    for name in ("nonzero", "lam", "lam1"):
        each = getattr(settings, name)
        if isinstance(each, tuple | list) and settings.components not in (len(each), AUTO):
            one = settings.components == 1
            there = "there is 1 component" if one else f"there are {settings.components} components"
            raise ValueError(
                f"{as_option(name)} has {len(each)} numbers, and {there}. Give one number, or one for each component."
            )
    if any(getattr(settings, name) is None for name in solver.required):
        raise ValueError(f"The solver {settings.solver!r} needs {takes}.")
