"""``fedspca transform``."""

from pathlib import Path
from typing import Annotated

import typer

from fedspca.cli.options import AsJson, Force, Model
from fedspca.cli.output import console, print_json
from fedspca.cli.rows import Decimal, Encoding, Id, Separator, SiteRows, row_blocks_for
from fedspca.data.formats import TextOptions
from fedspca.site.errors import count


def transform(
    model: Model,
    rows: Annotated[Path, typer.Argument(help="The file with new rows.", metavar="FILE")],
    output: Annotated[Path, typer.Option("--output", "-o", help="Where to write: .csv, .parquet or .npy.")],
    id: Id = None,
    encoding: Encoding = None,
    separator: Separator = None,
    decimal: Decimal = None,
    site_rows: SiteRows = None,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Write the scores of new rows on the components of a model.

    For example:

      fedspca transform model new.csv -o scores.parquet

      fedspca transform model new.csv --id patient -o scores.csv

      fedspca transform model new.csv --site-rows north.csv -o scores.csv
    """
    from fedspca.cli.write import TableWriter, check_output
    from fedspca.model import SparsePCAModel

    loaded = SparsePCAModel.load(model)
    check_output(output, force=force, read=[rows, *([site_rows] if site_rows else [])])
    names = [f"component {j + 1}" for j in range(loaded.n_components)]
    n_rows = 0
    with TableWriter(output, names, id) as writer:
        for block in row_blocks_for(loaded, rows, id, TextOptions(encoding, separator, decimal), site_rows):
            writer.add(loaded.transform(block.rows, **block.beside), block.ids)
            n_rows += len(block.rows)
    if as_json:
        print_json({"rows": n_rows, "components": loaded.n_components, "output": str(output)})
    else:
        console().print(f"Wrote the scores of {count(n_rows, 'row')} to {output}.", soft_wrap=True)
