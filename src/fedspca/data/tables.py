"""A table that is read in row blocks, whatever file it comes from."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from fedspca.data.columns import Column, Feature, listed, shown
from fedspca.linalg.row_blocks import Rows
from fedspca.site.errors import InvalidData

Texts: TypeAlias = NDArray[np.object_]
BLOCK_BYTES = 4 << 20


class Block(NamedTuple):
    """Some rows: columns of numbers as a matrix, and columns of text beside it, None where there is no value."""

    numbers: Rows
    texts: dict[str, Texts]


class Table(Protocol):
    """Columns, and a way to go through the rows once, in blocks."""

    where: str
    columns: tuple[Column, ...]

    def blocks(self, numbers: Sequence[str], texts: Sequence[str]) -> Iterator[Block]:
        """Go through the rows, with these columns as numbers and those as text."""


def feature_blocks(table: Table, features: Sequence[Feature], beside: Sequence[str] = ()) -> Iterator[Block]:
    """Go through the rows with the features as one matrix, categories encoded, and other columns beside it."""
    numbers = [feature.column for feature in features if feature.category is None]
    encoded = list(dict.fromkeys(feature.column for feature in features if feature.category is not None))
    allowed = {name: {level for f in features if f.column == name for level in f.levels} for name in encoded}
    for block in table.blocks(numbers, list(dict.fromkeys([*encoded, *beside]))):
        for name in encoded:
            _refuse_unknown(table.where, name, block.texts[name], allowed[name])
        rows = _encoded(block, features, numbers) if encoded else block.numbers
        yield Block(rows, {name: block.texts[name] for name in beside})


def _encoded(block: Block, features: Sequence[Feature], numbers: Sequence[str]) -> Rows:
    at = {name: j for j, name in enumerate(numbers)}
    dense = np.asarray(block.numbers.todense()) if sp.issparse(block.numbers) else block.numbers
    rows = np.empty((dense.shape[0], len(features)))
    for j, feature in enumerate(features):
        if feature.category is None:
            rows[:, j] = dense[:, at[feature.column]]
        else:
            values = block.texts[feature.column]
            rows[:, j] = np.where([value is None for value in values], np.nan, values == feature.category)
    return rows


def _refuse_unknown(where: str, column: str, values: Texts, allowed: set[str]) -> None:
    unknown = sorted({str(value) for value in values if value is not None} - allowed)
    if unknown:
        raise InvalidData(
            f"{where}: column {shown(column)} holds {listed(unknown)}, which is not among the agreed categories. "
            "Add it to --categories at every site, or correct it."
        )


def rows_a_block(n_columns: int) -> int:
    """How many rows of so many numbers fit a block."""
    return max(1, min(65_536, BLOCK_BYTES // (8 * max(n_columns, 1))))


def as_texts(values: Any) -> Texts:
    """Values as text, None where there is none."""
    missing = [value is None or (isinstance(value, float) and np.isnan(value)) for value in values]
    texts = np.empty(len(missing), dtype=object)
    texts[:] = [None if gone else str(value) for gone, value in zip(missing, values, strict=True)]
    return texts
