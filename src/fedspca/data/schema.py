"""What all sites must share: ordered feature names and their types, and how sites differ from it."""

import hashlib
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from fedspca.data.columns import Feature, listed, shown
from fedspca.federation.base import SchemaMismatch

FORMAT = "fedspca-schema"
VERSION = 1


@dataclass(frozen=True)
class Schema:
    """Ordered features and their types.

    Attributes
    ----------
    names : tuple of str
        The features in order.
    dtypes : tuple of str
        What each holds: ``number`` or ``category``. Widths differ between files without harm and are left out.
    """

    names: tuple[str, ...]
    dtypes: tuple[str, ...]

    @classmethod
    def of(cls, features: Sequence[Feature]) -> "Schema":
        """Return the schema of a table's features."""
        kinds = ("number" if feature.category is None else "category" for feature in features)
        return cls(tuple(feature.name for feature in features), tuple(kinds))

    def without(self, names: Collection[str]) -> "Schema":
        """Return the schema without some features."""
        kept = [pair for pair in zip(self.names, self.dtypes, strict=True) if pair[0] not in names]
        return Schema(tuple(name for name, _ in kept), tuple(dtype for _, dtype in kept))

    @property
    def hash(self) -> str:
        """Two sites whose schemas have the same hash can be analysed together as they are."""
        text = json.dumps([self.names, self.dtypes], ensure_ascii=False, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()

    def to_json(self) -> str:
        """Write the schema as a site would send it to others: no value of any row is in it."""
        features = [{"name": name, "dtype": dtype} for name, dtype in zip(self.names, self.dtypes, strict=True)]
        content = {"format": FORMAT, "version": VERSION, "hash": self.hash, "features": features}
        return json.dumps(content, indent=1, ensure_ascii=False) + "\n"

    @classmethod
    def from_json(cls, text: str) -> "Schema":
        """Read a schema that another site sent, or refuse what is not one."""
        try:
            content: Any = json.loads(text)
            features = content["features"]
            schema = cls(tuple(str(f["name"]) for f in features), tuple(str(f["dtype"]) for f in features))
            known = content["format"] == FORMAT and content["version"] == VERSION
            fits = schema.hash == content.get("hash")
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            raise SchemaMismatch("This is not a schema that fedspca wrote.") from None
        if not known:
            raise SchemaMismatch("This schema is of a format that this version of fedspca does not know.")
        if not fits:
            raise SchemaMismatch("This schema was changed after it was written: its hash does not fit.")
        return schema


@dataclass(frozen=True)
class Difference:
    """How one site differs from the reference."""

    site: str
    missing: tuple[str, ...] = ()
    extra: tuple[str, ...] = ()
    retyped: tuple[str, ...] = ()
    reordered: bool = False

    @property
    def fatal(self) -> bool:
        """Whether the site cannot be analysed with the others as it is. A different order is no obstacle."""
        return bool(self.missing or self.extra or self.retyped)

    def sentences(self, reference: str) -> list[str]:
        """Say it in words."""
        told = []
        if self.missing:
            told.append(f"lacks {listed(self.missing)}, which {shown(reference)} has{self._near_names()}")
        if self.extra:
            told.append(f"has {listed(self.extra)}, which {shown(reference)} lacks")
        if self.retyped:
            told.append(f"has another type for {listed(self.retyped)}")
        if self.reordered:
            told.append("has its columns in another order; they are matched by name")
        return [f"site {shown(self.site)} {what}" for what in told]

    def _near_names(self) -> str:
        """Return a question about columns that may be meant, since their names are nearly those that are missing."""
        plain = {_plain(name): name for name in self.extra}
        near = ((name, get_close_matches(_plain(name), plain, n=1, cutoff=0.8)) for name in self.missing)
        pairs = [f"{shown(plain[found[0]])} for {shown(name)}" for name, found in near if found]
        return (
            f" (is {listed(pairs, most=3, quote=False)} meant? Take both for one with --rename NAME=OTHER)"
            if pairs
            else ""
        )


def _plain(name: str) -> str:
    """Return a name without what people spell differently: case, spaces, dots, dashes and underscores."""
    return "".join(letter for letter in name.casefold() if letter.isalnum())


def differences(schemas: Mapping[str, Schema]) -> list[Difference]:
    """Compare every site with the first, and return those that differ."""
    reference = next(iter(schemas.values()))
    types = dict(zip(reference.names, reference.dtypes, strict=True))
    found = []
    for site, schema in schemas.items():
        mine = dict(zip(schema.names, schema.dtypes, strict=True))
        shared = [name for name in schema.names if name in types]
        difference = Difference(
            site,
            missing=tuple(name for name in reference.names if name not in mine),
            extra=tuple(name for name in schema.names if name not in types),
            retyped=tuple(name for name in shared if mine[name] != types[name]),
            reordered=shared != [name for name in reference.names if name in mine],
        )
        if difference.fatal or difference.reordered:
            found.append(difference)
    return found


def agree(schemas: Mapping[str, Schema], *, common: bool = False) -> tuple[tuple[str, ...], list[str]]:
    """Return the features to analyse, in the first site's order, and what a reader must be told about it.

    Parameters
    ----------
    schemas : mapping of str to Schema
        Each site's own.
    common : bool, default=False
        Whether to take only the features that every site has, and name those left out, rather than refuse.
    """
    reference = next(iter(schemas))
    found = differences(schemas)
    told = [sentence for difference in found for sentence in difference.sentences(reference)]
    names = schemas[reference].names
    if not any(difference.fatal for difference in found):
        return names, told
    if not common:
        raise SchemaMismatch(
            f"The sites do not hold the same features: {'; '.join(told)}. Correct the files, or take only the features "
            "that every site has with --common."
        )
    retyped = {name for difference in found for name in difference.retyped}
    kept = tuple(n for n in names if n not in retyped and all(n in schema.names for schema in schemas.values()))
    if not kept:
        raise SchemaMismatch("The sites have no feature in common.")
    every = dict.fromkeys(name for schema in schemas.values() for name in schema.names)
    left_out = [name for name in every if name not in set(kept)]
    return kept, [*told, f"left out, since not every site has them: {listed(left_out, most=50)}"]
