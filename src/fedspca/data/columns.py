"""Which columns of a table are features, and what each of them is."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple, TypeAlias

from fedspca.site.errors import InvalidData

Kind: TypeAlias = Literal["number", "text", "date", "other", "beside"]  # beside: about rows, never a feature by itself
MAX_FEATURES = 50_000  # a text table with more columns has, most often, its rows and columns swapped
NUMBER = re.compile(r"\s*[-+]?(\d+([.,]\d*)?|[.,]\d+)(e[-+]?\d+)?\s*", re.IGNORECASE)
LABELLED = "labelled"  # the type of a column of numbers whose values have labels


class Column(NamedTuple):
    """A column as the file has it: its name, what it holds, and the file's own name for the type."""

    name: str
    kind: Kind
    dtype: str

    @property
    def measured(self) -> bool:
        """Whether its values are numbers, and not codes of a category with labels."""
        return self.kind == "number" and self.dtype != LABELLED


class Feature(NamedTuple):
    """One column of the matrix that is analysed: a column of numbers, or one category of a column of text.

    ``levels`` are all categories that the sites agreed on, the reference level, which has no feature, among them.
    """

    name: str
    column: str
    category: str | None
    dtype: str
    levels: tuple[str, ...] = ()


@dataclass(frozen=True)
class Columns:
    """What each column is for. Columns of numbers are features unless something else is said.

    Parameters
    ----------
    features : sequence of str, optional
        The features, in order; by default every column that is not named below.
    exclude : sequence of str
        Columns to leave out.
    id, label, site : str, optional
        The column that names rows, the one with a label, and the one with each row's owner; none of them is a feature.
    covariates : tuple of str
        Columns that the features are adjusted for.
    weight : str, optional
        The column that says how often a row counts.
    transform : tuple of str
        What is done to each row before anything else; see :mod:`fedspca.data.transforms`.
    categories : mapping of str to sequence of str
        Columns of text to encode. All sites must agree on the categories. The first is the reference level; each
        other is one feature.
    rename : mapping of str to str
        Features to be called otherwise, where a table has them under the old name.
    max_features : int
        The most features that are taken from one table.
    """

    features: tuple[str, ...] | None = None
    exclude: tuple[str, ...] = ()
    id: str | None = None
    label: str | None = None
    site: str | None = None
    covariates: tuple[str, ...] = ()
    weight: str | None = None
    transform: tuple[str, ...] = ()
    categories: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    rename: Mapping[str, str] = field(default_factory=dict)
    max_features: int = MAX_FEATURES

    @property
    def beside(self) -> tuple[str, ...]:
        """Columns that are kept out of the features and carried along."""
        return tuple(name for name in (self.id, self.label, self.site, *self.about_rows) if name is not None)

    @property
    def about_rows(self) -> tuple[str, ...]:
        """Columns whose values stand beside the rows: covariates, and the weight."""
        return (*self.covariates, *(() if self.weight is None else (self.weight,)))

    def kept_out_of(self, found: Sequence[Column]) -> "Columns":
        """Return the same without the columns to keep out that this table lacks: only some sites may have them."""
        known = {column.name for column in found}
        return replace(
            self,
            exclude=tuple(name for name in self.exclude if name in known),
            id=self.id if self.id in known else None,
            label=self.label if self.label in known else None,
        )


def choose(
    where: str,
    found: Sequence[Column],
    wanted: Columns,
    wrong: Callable[[list[str]], Mapping[str, str]] | None = None,
) -> tuple[Feature, ...]:
    """Return the features of a table, or refuse by name what cannot be one.

    Parameters
    ----------
    where : str
        The table's name, for errors.
    found : sequence of Column
        The columns that the table has.
    wanted : Columns
        What they are for.
    wrong : callable, optional
        Returns a sentence for each of these columns of text, by the table's names, in which only some cells are no
        numbers.
    """
    old_names = {wanted.rename.get(column.name, column.name): column.name for column in found}
    found = [column._replace(name=wanted.rename.get(column.name, column.name)) for column in found]
    _check_named(where, found, wanted)
    by_name = {column.name: column for column in found}
    apart = {*wanted.exclude, *wanted.beside}
    names = wanted.features if wanted.features is not None else _ordinary(found, apart)
    refused = [by_name[name] for name in names if by_name[name].kind != "number" and name not in wanted.categories]
    if refused:
        texts = {old_names[column.name]: column.name for column in refused if column.kind == "text"}
        told = {} if wrong is None or not texts else wrong(list(texts))
        few_wrong = {texts[name] for name in told}
        rest = [column for column in refused if column.name not in few_wrong]
        raise InvalidData(f"{where}: {' '.join([*dict.fromkeys(told.values()), *([_refusal(rest)] if rest else [])])}")
    features = tuple(feature for name in names for feature in _features(by_name[name], wanted.categories))
    if not features:
        raise InvalidData(f"{where}: no column is left as a feature. Name the features, or exclude fewer columns.")
    if len(features) > wanted.max_features:
        raise InvalidData(
            f"{where}: it has {len(features):,} features, more than the {wanted.max_features:,} that are taken "
            "from one table. If its rows and columns are swapped, turn it round; otherwise raise the limit with "
            "--max-features."
        )
    refuse_repeated(where, [feature.name for feature in features])
    return tuple(feature._replace(column=old_names[feature.column]) for feature in features)


def _ordinary(found: Sequence[Column], apart: set[str]) -> tuple[str, ...]:
    """Return the columns that are features unless something else is said."""
    return tuple(column.name for column in found if column.name not in apart and column.kind != "beside")


def _features(column: Column, categories: Mapping[str, Sequence[str]]) -> list[Feature]:
    if column.name not in categories:
        return [Feature(column.name, column.name, None, column.dtype)]
    levels = tuple(categories[column.name])
    # one level has no feature: the other levels determine it
    return [Feature(f"{column.name}={value}", column.name, value, "category", levels) for value in levels[1:] or levels]


def _check_named(where: str, found: Sequence[Column], wanted: Columns) -> None:
    refuse_repeated(where, [column.name for column in found])
    named = [*(wanted.features or ()), *wanted.exclude, *wanted.beside, *wanted.categories]
    known = {column.name for column in found}
    lacking = list(dict.fromkeys(name for name in named if name not in known))
    if lacking:
        raise InvalidData(
            f"{where}: there is no column {listed(lacking)}. Its columns are {listed([c.name for c in found])}."
        )
    if wanted.features is not None:
        both = sorted(set(wanted.features) & {*wanted.exclude, *wanted.beside})
        if both:
            raise InvalidData(f"{where}: {listed(both)} cannot be a feature and be kept out as well.")
        refuse_repeated(where, wanted.features)


def refuse_repeated(where: str, names: Sequence[str]) -> None:
    """Refuse columns that have the same name."""
    if len(set(names)) == len(names):
        return
    twice = [name for name, count in Counter(names).items() if count > 1]
    bare = " Does the table lack the row with the names? Add it." if all(map(is_number, twice)) else " Rename them."
    raise InvalidData(f"{where}: column names must differ; given more than once: {listed(twice)}.{bare}")


def is_number(name: str) -> bool:
    """Whether a name is a number: perhaps a value of the first row, where a table has no row with names."""
    return NUMBER.fullmatch(name) is not None


def _refusal(refused: Sequence[Column]) -> str:
    held = {"text": "text", "date": "dates or times", "other": "values that are not numbers"}
    held["beside"] = "about rows"
    named = [f"{shown(column.name)} ({held[column.kind]})" for column in refused]
    texts = [column.name for column in refused if column.kind == "text"]
    encode = f" A category such as {shown(texts[0])} can be encoded with --categories." if texts else ""
    return (
        f"these columns do not hold numbers: {listed(named, quote=False)}. "
        f"Leave them out with --exclude, or say what they are with --id, --label or --site-column.{encode}"
    )


def shown(name: str) -> str:
    """Quote a name for a message: control characters are visible, and it is no longer than a line."""
    quoted = repr(name)
    return quoted if len(quoted) <= 80 else f"{quoted[:76]}…{quoted[0]}"


def listed(names: Iterable[str], most: int = 5, *, quote: bool = True) -> str:
    """List a few names, and say how many more there are."""
    every = [shown(name) if quote else name for name in names]
    more = f" and {len(every) - most} more" if len(every) > most else ""
    return ", ".join(every[:most]) + more
