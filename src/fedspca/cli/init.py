"""``fedspca init``."""

from pathlib import Path
from typing import Annotated

import typer

from fedspca.cli.options import AsJson, Force
from fedspca.cli.output import console, print_json
from fedspca.files import new_file
from fedspca.fit.settings import FitSettings
from fedspca.fit.template import template


def init(
    files: Annotated[list[str] | None, typer.Argument(help="Files to name in it.", metavar="[FILES]...")] = None,
    output: Annotated[Path, typer.Option("--output", "-o", help="Where to write it.")] = Path("fit.toml"),
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Write a fit.toml that holds every setting, with comments.

    For example:

      fedspca init north.csv south.csv && fedspca fit fit.toml -o model
    """
    if output.exists() and not force:
        raise FileExistsError(f"{output}: it is there already. Choose another name, or replace it with --force.")
    with new_file(output) as draft:
        draft.write_text(template(FitSettings(files=tuple(files or ()))), encoding="utf-8")
    if as_json:
        print_json({"output": str(output), "files": files or []})
        return
    console().print(
        f"Wrote {output}. Read it, change what you need, then: fedspca fit {output} -o model", soft_wrap=True
    )
