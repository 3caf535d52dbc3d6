"""``fedspca choose``."""

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from fedspca.cli.options import AsJson, as_typed, with_settings
from fedspca.cli.output import cells, console, notes, print_json, print_table, table, visible
from fedspca.cli.warnings import shown_warnings
from fedspca.fit.settings import OF_THE_PAPER, FitSettings
from fedspca.fit.settings_file import count_or_auto

if TYPE_CHECKING:
    from fedspca.estimators.selection import Selection

# settings that do not apply: a choice uses the exact solver, finds these numbers itself, and needs rows
UNUSED = (
    "solver",
    "components",
    "nonzero",
    "variance_kept",
    "lam",
    *OF_THE_PAPER,
    "search",
    "sample",
    "proof_seconds",
    "tol",
    "max_rounds",
    "path",
    "covariance",
    "covariance_rows",
)


@with_settings("data", "columns", "fit", "policy", without=UNUSED)
def choose(
    settings: FitSettings,
    components: Annotated[
        str, typer.Option("--components", "-r", help="A number of components, where you have decided.")
    ] = "auto",
    by: Annotated[
        Literal["cross-validation", "stability"],
        typer.Option("--by", help="What decides on the number of non-zeros."),
    ] = "cross-validation",
    as_json: AsJson = False,
) -> None:
    """Say how many components there are and how sparse to make them, and how sure that is.

    For example:

      fedspca choose north.csv south.csv west.csv

      fedspca choose north.csv south.csv -r 3 --by stability
    """
    from fedspca.estimators import ExactSPCA
    from fedspca.federation import LocalFederation
    from fedspca.fit.inputs import make_sites, open_inputs

    count: Any = count_or_auto("--components", components)
    if settings.missing not in (None, "mean"):
        raise ValueError(
            f"choose compares folds of the rows, and --missing {settings.missing} makes one covariance of all rows. "
            "Leave it out: missing values then count as the joint mean."
        )
    estimator = ExactSPCA(
        count, scale=settings.scale, max_missing=settings.max_missing, folds=settings.folds, random_state=settings.seed
    )
    estimator._validate_params()
    with shown_warnings():
        inputs = open_inputs(settings)
        for told in inputs.told:
            notes().print(f"Note: {told}.", soft_wrap=True)
        found = estimator.choose_federation(LocalFederation(make_sites(settings, inputs)))
    if by == "stability" and found.nonzeros:
        found = replace(found, n_nonzero=found.nonzeros[by])
    if as_json:
        print_json(found.to_plain())
    else:
        _print(found, settings)


def _print(found: "Selection", settings: FitSettings) -> None:
    out = console()
    _print_components(found)
    _print_nonzeros(found)
    for told in found.in_words():
        out.print(told, soft_wrap=True)
    if found.n_components and found.n_nonzero:
        given = as_typed(settings, without={*UNUSED, "folds"})
        numbers = f"-r {found.n_components} --nonzero {found.n_nonzero} --folds {settings.folds or 10}"
        out.print(visible(f"\nFit them: fedspca fit {given} {numbers}"), soft_wrap=True)


def _print_components(found: "Selection") -> None:
    rows = table(
        ("component", "right"), ("variance", "right"), ("by chance, at most", "right"), ("Q²", "right"), ("", "")
    )
    curve = found.by_components
    for at, (value, chance) in enumerate(zip(found.eigenvalues, found.null.high, strict=True), 1):
        by = ", ".join(name for name, count in found.components.items() if count == at)
        rows.add_row(*cells(at, f"{value:.3g}", f"{chance:.3g}", f"{curve.mean[at]:.3f}", f"<- {by}" if by else ""))
    print_table(rows)
    if nobody := [name for name, count in found.components.items() if count == 0]:
        console().print(f"No component: {', '.join(nobody)}.", soft_wrap=True)


def _print_nonzeros(found: "Selection") -> None:
    if found.by_nonzeros is None:
        return
    curve = found.by_nonzeros
    rows = table(
        ("non-zeros each", "right"), ("Q²", "right"), ("± to the best", "right"), ("selected again", "right"), ("", "")
    )
    for k, score, error, again in zip(curve.grid, curve.mean, curve.standard_error, found.recurrence, strict=True):
        by = ", ".join(name for name, count in found.nonzeros.items() if count == k)
        rows.add_row(*cells(k, f"{score:.3f}", f"{error:.3f}", f"{again:.0%}", f"<- {by}" if by else ""))
    print_table(rows)
