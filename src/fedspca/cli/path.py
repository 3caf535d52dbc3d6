"""``fedspca path``."""

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from fedspca.cli.options import AsJson, Force, with_settings
from fedspca.cli.output import cells, console, notes, print_json, print_table, table
from fedspca.cli.warnings import shown_warnings
from fedspca.fit.settings import OF_THE_PAPER, FitSettings

BAR = 20
# settings that do not apply: a path has its own grid and solver, and needs rows
UNUSED = (
    "solver",
    "nonzero",
    "variance_kept",
    "lam",
    *OF_THE_PAPER,
    "search",
    "sample",
    "proof_seconds",
    "folds",
    "tol",
    "max_rounds",
    "path",
    "covariance",
    "covariance_rows",
)


@with_settings("data", "columns", "adjust", "fit", "policy", without=UNUSED)
def path(
    settings: FitSettings,
    grid: Annotated[str | None, typer.Option("--grid", help="Non-zeros to try, such as 2,5,10,20.")] = None,
    choose: Annotated[
        Literal["knee", "bic", "share"],
        typer.Option("--choose", help="Mark the knee, the least BIC, or the sparsest that keeps 95 % of dense PCA."),
    ] = "knee",
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write the path too: .csv, .parquet or .npy.")
    ] = None,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Show the variance captured against the number of non-zeros, with a choice marked.

    For example:

      fedspca path north.csv south.csv -r 3

      fedspca path fit.toml --grid 2,4,8,16 --choose share -o path.csv
    """
    from fedspca.cli.write import check_output
    from fedspca.federation import LocalFederation
    from fedspca.fit.grid import default_grid, follow_path
    from fedspca.fit.inputs import make_sites, open_inputs

    if output is not None:
        check_output(output, force=force, read=settings.files)
    if stated := [name for name in UNUSED if getattr(settings, name) != getattr(FitSettings(), name)]:
        notes().print(f"Note: a path tries a grid with the exact solver; not used: {', '.join(stated)}.")
    with shown_warnings():
        inputs = open_inputs(settings)
        counts = default_grid(len(inputs.feature_names)) if grid is None else _counts(grid)
        result = follow_path(settings, LocalFederation(make_sites(settings, inputs)), counts, choose)
    if output is not None:
        _write(output, result)
    if as_json:
        print_json(result)
    else:
        _print(result)


def _counts(grid: str) -> list[int]:
    try:
        counts = sorted({int(part) for part in grid.split(",")})
    except ValueError:
        counts = []
    if not counts or counts[0] < 1:
        raise ValueError(f"--grid takes whole numbers of at least 1 with commas between. Got {grid!r} instead.")
    return counts


def _write(output: Path, result: dict[str, Any]) -> None:
    import numpy as np

    from fedspca.cli.write import TableWriter

    kinds: dict[str, type] = {"nonzero": int, "nonzeros": int, "explained": float, "chosen": bool}
    with TableWriter(output, list(kinds), None, kinds) as writer:
        writer.add(np.array([[float(point[name]) for name in kinds] for point in result["points"]]), None)


def _print(result: dict[str, Any]) -> None:
    rows = table(
        ("non-zeros each", "right"), ("in all", "right"), ("captured", "right"), ("of dense", "right"), ("", "")
    )
    for point in result["points"]:
        share = point["explained"] / result["dense"] if result["dense"] else 0.0
        mark = " <- chosen" if point["chosen"] else ""
        figures = (point["nonzero"], point["nonzeros"], f"{point['explained']:.2%}", f"{share:.1%}")
        rows.add_row(*cells(*figures, "#" * max(1, round(BAR * share)) + mark))
    print_table(rows)
    chosen = next(point for point in result["points"] if point["chosen"])
    console().print(
        f"Dense PCA captures {result['dense']:.2%}. By the rule '{result['rule']}': --nonzero {chosen['nonzero']}.",
        soft_wrap=True,
    )
