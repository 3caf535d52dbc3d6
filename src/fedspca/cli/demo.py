"""``fedspca demo``."""

from pathlib import Path
from typing import Annotated

import typer


def demo(
    output: Annotated[Path, typer.Option("--output", "-o", help="Where to write the report.")] = Path(
        "fedspca-demo.html"
    ),
) -> None:
    """Fit embedded data held by ten sites, print the loadings, and write a report."""
    from fedspca.demo import main

    main(output)
