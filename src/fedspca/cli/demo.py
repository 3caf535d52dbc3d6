"""``fedspca demo``."""

from pathlib import Path
from typing import Annotated

import typer

from fedspca import demo as demonstration


def demo(
    output: Annotated[Path, typer.Option("--output", "-o", help="Where to write the report.")] = demonstration.REPORT,
) -> None:
    """Run a federated sparse PCA of embedded data over ten sites, print what it found, and write a report."""
    demonstration.main(output)
