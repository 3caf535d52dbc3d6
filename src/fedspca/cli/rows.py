"""New rows for a model: the model's features from a file, by name, block by block."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from fedspca.cli.output import notes
from fedspca.data.columns import Feature, listed
from fedspca.data.formats import TextOptions, open_table

if TYPE_CHECKING:
    from fedspca.data.tables import Table, Texts
    from fedspca.model import Array, SparsePCAModel

Id = Annotated[str | None, typer.Option("--id", help="A column that names rows, carried along.")]
Encoding = Annotated[str, typer.Option("--encoding", help="How the letters of a text table are stored.")]
Delimiter = Annotated[str | None, typer.Option("--delimiter", help="What stands between values, if it is not found.")]
Decimal = Annotated[str, typer.Option("--decimal", help="The decimal sign of a text table.")]


class RowBlock(NamedTuple):
    """Some rows over the model's features, and what names them."""

    rows: "Array"
    ids: "Texts | None"


def row_blocks_for(model: "SparsePCAModel", path: Path, id: str | None, options: TextOptions) -> Iterator[RowBlock]:
    """Go through a file's rows in the order of the model's features; other columns are named and left out."""
    import numpy as np
    import scipy.sparse as sp

    from fedspca.data.tables import feature_blocks

    table = open_table(path, options)
    features = model_features(model, table, path)
    used = {*(feature.column for feature in features), *((id,) if id else ())}
    others = [column.name for column in table.columns if column.name not in used]
    if others:
        notes().print(f"Note: not used, since the model does not know them: {listed(others)}.", soft_wrap=True)
    if id is not None and id not in {column.name for column in table.columns}:
        raise ValueError(f"{path}: there is no column {id!r} to name rows by.")
    n_rows = 0
    for block in feature_blocks(table, features, (id,) if id else ()):
        rows = block.numbers.toarray() if sp.issparse(block.numbers) else block.numbers
        n_rows += rows.shape[0]
        yield RowBlock(np.asarray(rows, dtype=np.float64), block.texts[id] if id else None)
    if n_rows == 0:
        raise ValueError(f"{path}: the table has a header and no rows.")


def model_features(model: "SparsePCAModel", table: "Table", path: Path) -> list[Feature]:
    """Return the model's features as the file has them, or refuse by name what is missing or not a number."""
    kinds = {column.name: column for column in table.columns}
    categories = model.facts.get("study", {}).get("categories", {})
    encoded = {f"{name}={value}": (name, value) for name, values in categories.items() for value in values}
    others = model.facts.get("study", {}).get("rename", {})
    found, lacking = [], []
    for name in model.feature_names:
        column, category = encoded.get(name, (name, None))
        column = next((other for other in (column, *others.get(column, ())) if other in kinds), column)
        if column not in kinds or (category is None and kinds[column].kind != "number"):
            lacking.append(name)
        else:
            found.append(Feature(name, column, category, kinds[column].dtype, tuple(categories.get(column, ()))))
    if lacking:
        raise ValueError(
            f"{path}: it lacks {listed(lacking)}, or does not hold numbers there, and the model needs "
            f"{'it' if len(lacking) == 1 else 'them'}."
        )
    return found
