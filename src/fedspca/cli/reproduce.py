"""``fedspca reproduce``: the paper's experiments, with figures, numbers and a page."""

import os
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from fedspca.experiments.runner import Task

NAMES = (
    "smoothing",
    "iid-synthetic",
    "iid-wdbc",
    "noniid-synthetic",
    "noniid-wdbc",
    "stability",
    "beside",
    "literature",
)


def reproduce(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="[NAME]...", help=f"Which experiments: {', '.join(NAMES)}. All by default."),
    ] = None,
    out: Annotated[Path, typer.Option(help="Where the page and its folder are written.")] = Path("reproduced"),
    quick: Annotated[
        bool, typer.Option("--quick", help="Few rounds and seeds: under two minutes, to see it run.")
    ] = False,
    method: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="Only runs of methods whose names begin so, such as ExactSPCA; --out keeps its other numbers.",
        ),
    ] = "",
    jobs: Annotated[int, typer.Option(min=1, help="Processes to run on.")] = os.cpu_count() or 1,
) -> None:
    """Run the paper's experiments, and write figures, numbers and a page.

    An interrupted run goes on where it was.
    """
    if find_spec("matplotlib") is None:
        raise ValueError("Drawing figures needs matplotlib. Install it with: pip install 'fedspca[cli,reproduce]'")
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    from fedspca.experiments.reproduce import PAGE, plan
    from fedspca.experiments.reproduce import reproduce as run_experiments

    tasks = plan(names or (), quick=quick, method=method)
    console = Console(stderr=True)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[count]} of {task.fields[runs]} runs"),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console) as progress:
        # estimate the remaining time from the cost of each run: some take fifty times as long as others
        bar = progress.add_task(" " * 16, total=sum(task.cost for task in tasks), count=0, runs=len(tasks))

        def done(task: "Task") -> None:
            count = progress.tasks[bar].fields["count"] + 1
            progress.update(bar, advance=task.cost, description=f"{task.experiment:<16}", count=count)

        paths = run_experiments(names or (), out=out, quick=quick, method=method, jobs=jobs, done=done)
    typer.echo(f"Wrote {len(paths)} files; read {out / PAGE}.")
