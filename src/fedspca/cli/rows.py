"""New rows for a model: the model's features from a file, by name, block by block."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from fedspca.cli.output import notes
from fedspca.data.columns import Feature, listed
from fedspca.data.formats import TextOptions, open_table

if TYPE_CHECKING:
    from fedspca.data.tables import Table, Texts
    from fedspca.model.model import Array, SparsePCAModel

Id = Annotated[str | None, typer.Option("--id", help="A column that names rows, carried along.")]
Encoding = Annotated[str | None, typer.Option("--encoding", help="The encoding of a text table; by default detected.")]
Separator = Annotated[str | None, typer.Option("--separator", help="The sign between values; by default detected.")]
SiteRows = Annotated[
    Path | None,
    typer.Option(
        "--site-rows",
        help="The rows with which this site took part in the fit. If the model goes by each site's own mean, or by "
        "ComBat, these rows tell what to take out of the new ones; by default the new rows themselves do.",
    ),
]
Decimal = Annotated[
    str | None, typer.Option("--decimal", help="The decimal sign of a text table; by default detected.")
]


class RowBlock(NamedTuple):
    """Some rows over the model's features, what names them, and what a model that was adjusted needs beside them."""

    rows: "Array"
    ids: "Texts | None"
    beside: dict[str, Any]


def row_blocks_for(
    model: "SparsePCAModel", path: Path, id: str | None, options: TextOptions, site_rows: Path | None = None
) -> Iterator[RowBlock]:
    """Go through a file's rows in the order of the model's features; other columns are named and left out.

    ``site_rows`` is a file with the rows of the same site in the fit, if the model takes something of each site's own
    out.
    """
    import numpy as np
    import scipy.sparse as sp

    from fedspca.data.tables import feature_blocks

    if model.preparation.centre != "joint":
        yield from _by_site(model, path, id, options, site_rows)
        return
    if site_rows is not None:
        raise ValueError("--site-rows is for models that go by each site's own mean, or by ComBat; this one does not.")
    table = open_table(path, options)
    features = model_features(model, table, path)
    covariates = model.preparation.design.names
    kinds = {column.name: column for column in table.columns}
    if lacking := [name for name in covariates if name not in kinds]:
        raise ValueError(f"{path}: it lacks {listed(lacking)}, which the model was adjusted for: new rows need it too.")
    used = {*(feature.column for feature in features), *covariates, *((id,) if id else ())}
    others = [column.name for column in table.columns if column.name not in used]
    if others:
        notes().print(f"Note: not used, since the model does not know them: {listed(others)}.", soft_wrap=True)
    if id is not None and id not in {column.name for column in table.columns}:
        raise ValueError(
            f"{path}: there is no column {id!r}. Its columns are {listed(column.name for column in table.columns)}."
        )
    n_rows = 0
    numbers = [name for name in covariates if kinds[name].measured]
    texts = [name for name in covariates if name not in numbers]
    read = [*features, *(Feature(name, name, None, kinds[name].dtype) for name in numbers)]
    for block in feature_blocks(table, read, (*texts, *((id,) if id else ()))):
        rows = np.asarray(block.numbers.toarray() if sp.issparse(block.numbers) else block.numbers, dtype=np.float64)
        n_rows += rows.shape[0]
        values = {name: rows[:, len(features) + j] for j, name in enumerate(numbers)} | block.texts
        beside = {"covariates": model.preparation.design.encode(str(path), values)} if covariates else {}
        yield RowBlock(rows[:, : len(features)], block.texts[id] if id else None, beside)
    if n_rows == 0:
        raise ValueError(f"{path}: the table has a header and no rows.")


def _by_site(
    model: "SparsePCAModel", path: Path, id: str | None, options: TextOptions, site_rows: Path | None
) -> Iterator[RowBlock]:
    """Return all rows at once, with what their site takes out of them: finding that needs all rows."""
    what = "shift and spread (ComBat)" if model.preparation.combat else "mean"
    if site_rows is None:
        notes().print(
            f"Note: the model takes each site's own {what} out of its rows. {path} is taken as the rows of one site, "
            "and tells what that is. If the site took part in the fit, name its rows there with --site-rows.",
            soft_wrap=True,
        )
    rows = _whole(model, path, id, options)
    known = rows if site_rows is None else _whole(model, site_rows, None, options)
    own = model.own(known.rows, **known.beside)
    yield RowBlock(rows.rows, rows.ids, {**rows.beside, "own": own})


def _whole(model: "SparsePCAModel", path: Path, id: str | None, options: TextOptions) -> RowBlock:
    """Return all rows of a file at once."""
    import numpy as np

    from fedspca.model.model import replace_preparation

    simple = {"centre": "joint", "scale_by": "joint", "protect": [], "adjust": list(model.preparation.design.terms)}
    parts = list(row_blocks_for(replace_preparation(model, **simple), path, id, options))
    rows = np.concatenate([part.rows for part in parts])
    ids = None if id is None else np.concatenate([part.ids for part in parts if part.ids is not None])
    covariates = [part.beside["covariates"] for part in parts if part.beside]
    return RowBlock(rows, ids, {"covariates": np.concatenate(covariates)} if covariates else {})


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
