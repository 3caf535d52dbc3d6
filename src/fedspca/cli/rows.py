"""New rows for a model: the model's features from a file, by name, block by block."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from fedspca.cli.output import notes, visible
from fedspca.data.cells import place_of, told_of_cells
from fedspca.data.columns import Feature, listed, refuse_repeated, shown
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
    refuse_repeated(str(path), [column.name for column in table.columns if column.name in used])
    others = [column.name for column in table.columns if column.name not in used]
    if others:
        notes().print(f"Note: not used, since the model does not know them: {listed(others)}.", soft_wrap=True)
    if id is not None and id not in {column.name for column in table.columns}:
        raise ValueError(
            f"{path}: there is no column {id!r}. Its columns are {listed(column.name for column in table.columns)}."
        )
    gaps = _Gaps(model, table)
    numbers = [name for name in covariates if kinds[name].measured]
    texts = [name for name in covariates if name not in numbers]
    read = [*features, *(Feature(name, name, None, kinds[name].dtype) for name in numbers)]
    for block in feature_blocks(table, read, (*texts, *((id,) if id else ()))):
        rows = np.asarray(block.numbers.toarray() if sp.issparse(block.numbers) else block.numbers, dtype=np.float64)
        gaps.add(rows[:, : len(features)])
        values = {name: rows[:, len(features) + j] for j, name in enumerate(numbers)} | block.texts
        beside = {"covariates": model.preparation.design.encode(str(path), values)} if covariates else {}
        yield RowBlock(rows[:, : len(features)], block.texts[id] if id else None, beside)
    if gaps.n_rows == 0:
        raise ValueError(f"{path}: the table has a header and no rows.")
    for told in gaps.in_words():
        notes().print(visible(f"Note: {path}: {told}"), soft_wrap=True)


class _Gaps:
    """What of the rows holds no value at all; infinity is refused where it is."""

    def __init__(self, model: "SparsePCAModel", table: "Table") -> None:
        self._model, self._table = model, table
        self._missing = [0] * len(model.feature_names)
        self._empty: list[int] = []
        self.n_rows = 0

    def add(self, rows: "Array") -> None:
        """Look at some rows."""
        import numpy as np

        if np.isinf(rows).any():
            row, column = np.argwhere(np.isinf(rows))[0]
            raise ValueError(
                f"{self._table.where}: column {shown(self._model.feature_names[column])} holds infinity in "
                f"{place_of(self._table, self.n_rows + int(row) + 1)}. Correct it, or leave the cell empty."
            )
        missing = np.isnan(rows)
        self._missing = [sum(pair) for pair in zip(self._missing, missing.sum(axis=0).tolist(), strict=True)]
        self._empty += [self.n_rows + int(row) + 1 for row in np.flatnonzero(missing.all(axis=1))]
        self.n_rows += len(rows)

    def in_words(self) -> list[str]:
        """Say which features and rows hold no value, and what they count as."""
        names = [
            name for name, count in zip(self._model.feature_names, self._missing, strict=True) if count == self.n_rows
        ]
        found = []
        if names:
            expected = "the mean" if self._model.gap_model is None else "what the other values of the row make expect"
            found.append(
                f"{listed(names)}: {self.n_rows:,} of {self.n_rows:,} values are missing; they count as {expected}."
            )
        if self._empty and len(self._empty) < self.n_rows:
            found.append(
                f"{len(self._empty):,} of {self.n_rows:,} rows hold no value at all, first the one in "
                f"{place_of(self._table, self._empty[0])}; every feature in them counts as the mean."
            )
        return found


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
    found, lacking, texts = [], [], []
    for name in model.feature_names:
        column, category = encoded.get(name, (name, None))
        column = next((other for other in (column, *others.get(column, ())) if other in kinds), column)
        if column not in kinds:
            lacking.append(name)
        elif category is None and kinds[column].kind != "number":
            texts.append(column)
        else:
            found.append(Feature(name, column, category, kinds[column].dtype, tuple(categories.get(column, ()))))
    if lacking:
        raise ValueError(
            f"{path}: it lacks {listed(lacking)}, and the model needs {'it' if len(lacking) == 1 else 'them'}."
        )
    if texts:
        told = told_of_cells(table, [name for name in texts if kinds[name].kind == "text"])
        rest = [name for name in texts if name not in told]
        no_numbers = [f"The model needs numbers in {listed(rest)}, and there are none."] if rest else []
        raise ValueError(f"{path}: {' '.join([*told.values(), *no_numbers])}")
    return found
