"""``fedspca cache``."""

import shutil
from pathlib import Path
from typing import Annotated

import typer

from fedspca.cli.options import AsJson
from fedspca.cli.output import console, print_json


def cache(
    folder: Annotated[Path | None, typer.Option("--cache", help="Where prepared copies are kept.")] = None,
    clear: Annotated[bool, typer.Option("--clear", help="Delete them.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show, or delete, the prepared copies of large files. They hold the sites' rows.

    For example:

      fedspca cache --clear
    """
    from fedspca.data.prepare import default_cache

    where = folder or default_cache()
    copies = [path for path in where.glob("*") if (path / "sites.json").is_file()] if where.is_dir() else []
    size = sum(file.stat().st_size for copy in copies for file in copy.iterdir())
    if clear:
        for copy in copies:
            shutil.rmtree(copy)
    if as_json:
        print_json({"folder": str(where), "copies": len(copies), "bytes": size, "deleted": clear})
        return
    console().print(f"{'Deleted ' if clear else ''}{len(copies)} prepared copies, {size / 1e6:.1f} MB, in {where}.")
