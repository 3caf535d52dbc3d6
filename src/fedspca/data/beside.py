"""Columns about rows, covariates and weights, gathered block by block and kept beside a prepared copy.

Numbers are kept as they are. Texts are kept as codes: of many rows most have one of a few levels, and a text of its own
for each row would take more memory than the features.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray


class GatheredColumn:
    """The values of one column, taken block by block."""

    def __init__(self) -> None:
        self._parts: list[NDArray[Any]] = []
        self._codes: dict[str | None, int] = {}

    def add(self, values: NDArray[Any]) -> None:
        """Take the values of some rows: numbers, or texts with None where there is none."""
        if values.dtype != object:
            self._parts.append(values.copy())  # a view would keep its whole block of rows in memory
            return
        codes = self._codes
        self._parts.append(np.fromiter((codes.setdefault(text, len(codes)) for text in values), np.int32, len(values)))

    def values(self) -> NDArray[Any]:
        """Return the values of all rows."""
        return _decoded(np.concatenate(self._parts), list(self._codes))

    def keep(self, folder: Path, number: int, name: str) -> None:
        """Write the column of a site, by the site's number."""
        stem = _stem(folder, number, name)
        np.save(f"{stem}.npy", np.concatenate(self._parts), allow_pickle=False)
        if self._codes:
            Path(f"{stem}.json").write_text(json.dumps(list(self._codes)), encoding="utf-8")


class KeptColumns(Mapping[str, NDArray[Any]]):
    """The columns about rows of a site in a prepared copy, by name; each is read when it is used."""

    def __init__(self, folder: Path, number: int, names: Sequence[str]) -> None:
        self._folder, self._number, self._names = folder, number, tuple(dict.fromkeys(names))

    def __getitem__(self, name: str) -> NDArray[Any]:
        if name not in self._names:
            raise KeyError(name)
        stem = _stem(self._folder, self._number, name)
        levels = Path(f"{stem}.json")
        known = json.loads(levels.read_text(encoding="utf-8")) if levels.exists() else []
        return _decoded(np.load(f"{stem}.npy", allow_pickle=False), known)

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


def _decoded(values: NDArray[Any], levels: Sequence[str | None]) -> NDArray[Any]:
    """Return the texts that codes stand for, all of one level as one object; numbers as they are."""
    return np.array(levels, dtype=object)[values] if levels else values


def _stem(folder: Path, number: int, name: str) -> Path:
    return folder / f"{number}.beside-{hashlib.sha256(name.encode()).hexdigest()[:16]}"
