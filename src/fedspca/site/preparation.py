"""How sites prepare their rows before any question: covariates, weights, and each site's own mean and spread.

Everything here is agreed between the sites, or local to one. A site's own mean and spread never leave it.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedspca.linalg.beside import Adjustment, Beside
from fedspca.linalg.feature_sums import column_sums, deviations_from, missing_counts
from fedspca.linalg.operators import Frame
from fedspca.linalg.row_blocks import AnyRows
from fedspca.site.errors import InvalidData

Array = NDArray[np.float64]

JOINT = ("pearson", "normal", "winsorise")  # transforms of features that need all sites
WINSORISED = 0.01  # the share of values that winsorise moves at each end, unless it says otherwise
CENTRES = ("joint", "site", "combat")
BETWEEN = ":"  # an interaction is written age:sex
MOST_LINES = 10_000  # the most columns of a design; interactions of categories with many levels could have any number


class Line(NamedTuple):
    """One column of the design: its name, and the term that it belongs to."""

    name: str
    term: str


@dataclass(frozen=True)
class Design:
    """Which covariates the features are adjusted for, and their columns in the design.

    Parameters
    ----------
    terms : tuple of str
        The covariates by name; ``a:b`` is their interaction.
    levels : mapping of str to tuple of str
        The levels of the categorical covariates, on which all sites agree. The first is the reference level, and has
        no column.
    """

    terms: tuple[str, ...] = ()
    levels: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "terms", tuple(self.terms))
        object.__setattr__(self, "levels", {name: tuple(found) for name, found in self.levels.items()})
        if twice := sorted({term for term in self.terms if self.terms.count(term) > 1}):
            raise InvalidData(f"The covariate {twice[0]!r} is named more than once.")
        for term in self.terms:
            parts = term.split(BETWEEN)
            if not all(parts) or len(set(parts)) != len(parts):
                raise InvalidData(f"{term!r} is no covariate, nor an interaction such as age:sex.")
        for name, levels in self.levels.items():
            if len(set(levels)) != len(levels) or len(levels) < 2:
                raise InvalidData(f"The covariate {name!r} needs two or more different levels. Got {list(levels)}.")
        if (lines := sum(map(self._count, self.terms))) > MOST_LINES:
            raise InvalidData(f"The covariates have {lines} columns, and at most {MOST_LINES} can be taken out.")

    @property
    def names(self) -> tuple[str, ...]:
        """The columns of the table that are covariates."""
        return tuple(dict.fromkeys(part for term in self.terms for part in term.split(BETWEEN)))

    @property
    def lines(self) -> tuple[Line, ...]:
        """The columns of the design, in order."""
        return tuple(Line(name, term) for term in self.terms for name in self._names_of(term))

    def _count(self, term: str) -> int:
        """Count the columns of a term without making them: anyone may propose a study, with any number of levels."""
        return math.prod(len(self.levels[part]) - 1 for part in term.split(BETWEEN) if part in self.levels)

    def _names_of(self, term: str) -> list[str]:
        names = [""]
        for part in term.split(BETWEEN):
            own = [f"{part}={level}" for level in self.levels[part][1:]] if part in self.levels else [part]
            names = [f"{before}{BETWEEN if before else ''}{name}" for before in names for name in own]
        return names

    def encode(self, where: str, values: Mapping[str, Any]) -> Array:
        """Return the design's columns for rows.

        Parameters
        ----------
        where : str
            Whose rows they are, for errors.
        values : mapping of str to array-like
            Each covariate's values: numbers, or texts where it has levels.
        """
        known = {name: self._encoded(where, name, values) for name in self.names}
        blocks = [self._product([known[part] for part in term.split(BETWEEN)]) for term in self.terms]
        return np.ascontiguousarray(np.hstack(blocks))

    @staticmethod
    def _product(parts: Sequence[Array]) -> Array:
        found = parts[0]
        for part in parts[1:]:
            found = (found[:, :, None] * part[:, None, :]).reshape(len(found), -1)
        return found

    def _encoded(self, where: str, name: str, values: Mapping[str, Any]) -> Array:
        if name not in values:
            raise InvalidData(f"{where}: there is no covariate {name!r}.")
        given = np.asarray(values[name], dtype=object)
        gone = np.array([is_missing(value) for value in given], dtype=bool)
        if gone.any():
            raise InvalidData(
                f"{where}: the covariate {name!r} has no value in {int(gone.sum())} of {len(given)} rows, the first of "
                f"them row {int(np.argmax(gone))}. Leave these rows out, or fill the values in."
            )
        if name in self.levels:
            return self._indicators(where, name, given)
        try:
            numbers = given.astype(np.float64)
        except (TypeError, ValueError):
            raise InvalidData(
                f"{where}: the covariate {name!r} does not hold numbers, and no levels are agreed on for it."
            ) from None
        if not np.isfinite(numbers).all():
            raise InvalidData(f"{where}: the covariate {name!r} has infinite values.")
        return np.asarray(numbers[:, None])

    def _indicators(self, where: str, name: str, given: Any) -> Array:
        texts = np.array([level_text(value) for value in given], dtype=object)
        levels = self.levels[name]
        if unknown := sorted(set(texts) - set(levels)):
            raise InvalidData(
                f"{where}: the covariate {name!r} has the level {unknown[0]!r}, which is not among the agreed ones: "
                f"{', '.join(levels)}."
            )
        return np.column_stack([(texts == level).astype(np.float64) for level in levels[1:]])


def is_missing(value: object) -> bool:
    """Whether a value is None, NaN, or the NA or NaT of pandas."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return True
    return type(value).__name__ in ("NAType", "NaTType")


def level_text(value: Any) -> str:
    """Return how a level is written: a whole number without a point."""
    if isinstance(value, float | np.floating) and float(value).is_integer():
        return str(int(value))
    return str(value)


@dataclass(frozen=True)
class Preparation:
    """How the sites of a federation see their rows.

    Attributes
    ----------
    design : Design
        The covariates that features are adjusted for.
    weighted : bool
        Whether rows have weights.
    equal_sites : bool
        Whether all sites count equally, however many rows they have.
    centre : {"joint", "site", "combat"}
        Whose mean is subtracted. With "combat" each site's own shift and spread are taken out, shrunk over the
        features, and the covariates of the design are protected: what they explain stays.
    scale : {"joint", "site", "allele"}
        By whose standard deviation features are divided, if at all; "allele" is that which allele frequencies give.
    transform : tuple of str
        What is done to the values first. Transforms of each row by itself are done before a site has its rows; a
        transform that needs all sites is the last, and is in :attr:`joint`.
    variable : int or None
        How many features to keep: those of the largest variance. None keeps all.
    """

    design: Design = field(default_factory=Design)
    weighted: bool = False
    equal_sites: bool = False
    centre: str = "joint"
    scale: str = "joint"
    transform: tuple[str, ...] = ()
    variable: int | None = None

    def __post_init__(self) -> None:
        if self.variable is not None and self.variable < 1:
            raise InvalidData(f"variable must be at least 1: how many features to keep. Got {self.variable} instead.")
        if self.joint is not None and not self.counts_rows:
            raise InvalidData(
                f"The transform {self.joint[0]} counts every row once. Use it without weight and site_weight."
            )
        if self.centre not in CENTRES:
            raise InvalidData(f"centre must be joint, site or combat. Got {self.centre!r} instead.")
        if self.scale not in ("joint", "site", "allele"):
            raise InvalidData(f"scale_by must be joint, site or allele. Got {self.scale!r} instead.")
        if self.scale == "allele" and (self.centre == "site" or self.design.terms):
            raise InvalidData("Allele frequencies come from the joint mean: leave out covariates and own means.")
        if self.centre == "combat" and not (self.scale == "joint" and self.counts_rows):
            raise InvalidData(
                "ComBat takes each site's spread out itself, and every row counts once. Use it without scale_by, "
                "weight and site_weight."
            )
        if self.scale == "site" and self.centre != "site":
            raise InvalidData(
                "Features divided by a site's own spread need its own mean too: add centre='site' (--centre site)."
            )
        if self.scale == "site" and self.variable is not None:
            raise InvalidData(
                "variable keeps the features of the largest variance, and features divided by each site's own spread "
                "(scale_by site) all have the same. Use one of the two."
            )

    @classmethod
    def of(cls, settings: Mapping[str, Any]) -> "Preparation":
        """Return the preparation that settings ask for; settings that are not given have their defaults."""
        chosen = {**USUAL, **{name: value for name, value in settings.items() if name in USUAL}}
        if chosen["site_weight"] not in ("rows", "equal"):
            raise InvalidData(f"site_weight must be rows or equal. Got {chosen['site_weight']!r} instead.")
        terms = covariates_of(chosen["centre"], chosen["adjust"], chosen["protect"])
        return cls(
            Design(terms, chosen["levels"] if terms else {}),
            weighted=chosen["weight"] is not None,
            equal_sites=chosen["site_weight"] == "equal",
            centre=chosen["centre"],
            scale=chosen["scale_by"],
            transform=tuple(settings.get("transform") or ()),
            variable=chosen["variable"],
        )

    @property
    def settings(self) -> dict[str, Any]:
        """The settings that ask for this preparation, so that :meth:`of` returns it again."""
        terms = list(self.design.terms)
        return {
            "protect" if self.combat else "adjust": terms,
            "levels": {name: list(levels) for name, levels in self.design.levels.items()},
            "weight": "weight" if self.weighted else None,
            "site_weight": "equal" if self.equal_sites else "rows",
            "variable": self.variable,
            "centre": self.centre,
            "scale_by": self.scale,
            "transform": list(self.transform),
        }

    @property
    def counts_rows(self) -> bool:
        """Whether each row counts once."""
        return not (self.weighted or self.equal_sites)

    @property
    def combat(self) -> bool:
        """Whether each site's own shift and spread are taken out, shrunk over the features."""
        return self.centre == "combat"

    @property
    def plain(self) -> bool:
        """Whether rows are used unchanged, or transformed each by itself."""
        return self.joint is None and replace(self, transform=()) == Preparation()

    @property
    def joint(self) -> tuple[str, float] | None:
        """The transform that needs all sites, and the share that it moves at each end; None if there is none."""
        return joint_transform(self.transform[-1]) if self.transform else None


PLAIN = Preparation()
# the settings that define a preparation, and their defaults
USUAL: Mapping[str, Any] = {
    "adjust": (),
    "protect": (),
    "levels": {},
    "weight": None,
    "site_weight": "rows",
    "variable": None,
    "centre": "joint",
    "scale_by": "joint",
}


def joint_transform(name: str) -> tuple[str, float] | None:
    """Return a transform that needs all sites, with its share, from its name: winsorise:0.05; None if it is no such."""
    base, sign, share = name.partition(":")
    if base not in JOINT:
        return None
    if not sign:
        return base, WINSORISED
    try:
        found = float(share)
    except ValueError:
        found = 0.0
    if base != "winsorise" or not 0 < found < 0.5:
        raise InvalidData(
            f"{name!r}: winsorise takes a share between 0 and 0.5, as winsorise:0.05; the others take none."
        )
    return base, found


def covariates_of(centre: str, adjust: Sequence[str], protect: Sequence[str]) -> tuple[str, ...]:
    """Return the covariates that are needed: those taken out, or with ComBat those protected."""
    if adjust and centre == "combat":
        raise InvalidData(
            "ComBat protects covariates, and takes none out: name them in protect rather than in adjust. To take "
            "covariates out with the sites' means, use centre='site'."
        )
    if protect and centre != "combat":
        raise InvalidData("Covariates are protected from ComBat only: add centre='combat' (--centre combat).")
    return tuple(protect or adjust)


def unusual(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a preparation that differ from their defaults."""
    chosen = {name: settings[name] for name in USUAL if name in settings}
    return {name: value for name, value in chosen.items() if value not in (USUAL[name], [])}


def columns_beside(settings: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the columns of a table that are covariates or weights, and therefore not features."""
    weight = settings.get("weight")
    terms = (*settings.get("adjust", ()), *settings.get("protect", ()))
    return (*Design(tuple(dict.fromkeys(terms))).names, *((weight,) if weight is not None else ()))


@dataclass(frozen=True, eq=False)
class Own:
    """A site's own mean and spread: rows become (X − mean)/scale before any frame is applied."""

    mean: Array
    scale: Array

    def seen(self, frame: Frame) -> Frame:
        """Return the frame that does to the raw rows what the given frame does to the prepared rows."""
        adjustment = frame.adjustment
        if adjustment is not None:
            adjustment = Adjustment(adjustment.mean, adjustment.coefficients * self.scale)
        return Frame(self.mean + self.scale * frame.mean, self.scale * frame.scale, frame.removed, adjustment)


def own_view(rows: AnyRows, beside: Beside, preparation: Preparation, *, missing: bool) -> Own | None:
    """Return a site's own mean and spread, or None if only the joint ones are used."""
    if preparation.centre != "site":
        return None
    n = beside.ones(rows.shape[0]).sum()
    counts = np.maximum(n - missing_counts(rows, beside), np.finfo(float).tiny)
    mean = column_sums(rows, missing=missing, beside=beside) / counts
    offsets, squares = deviations_from(rows, mean, missing=missing, beside=beside)
    mean = mean + offsets / counts
    scale = np.ones(len(mean))
    if preparation.scale == "site":
        squares = np.maximum(squares - offsets**2 / counts, 0.0)
        constant = squares <= n * (2 * np.finfo(float).eps * np.abs(mean)) ** 2
        # with equal sites the weights of each site sum to one, so the number of rows is used instead
        free = counts * (1 - 1 / rows.shape[0]) if preparation.equal_sites else counts - 1
        scale = np.where(constant, 1.0, np.sqrt(squares / np.where(free > 0, free, 1.0)))
    return Own(mean, scale)


def checked_weights(where: str, weights: Any, n: int) -> Array:
    """Return the weights of n rows, or refuse them."""
    found = np.asarray(weights, dtype=np.float64)
    if found.shape != (n,):
        raise InvalidData(f"{where}: there must be one weight for each of the {n} rows. Got shape {found.shape}.")
    bad = ~(np.isfinite(found) & (found >= 0))
    if bad.any():
        first = int(np.argmax(bad))
        told = "has no weight" if np.isnan(found[first]) else f"has the weight {found[first]:g}"
        raise InvalidData(
            f"{where}: weights must be finite and not negative, and {int(bad.sum())} of {n} are not: row {first} "
            f"{told}. Correct them, or leave these rows out."
        )
    if not found.any():
        raise InvalidData(f"{where}: every weight is zero, so that no row counts.")
    return found


def beside_rows(
    where: str, n: int, covariates: Array | None, weights: Any | None, preparation: Preparation
) -> tuple[Beside, float]:
    """Return a site's covariates and weights, as the preparation says, and the sum of the weights as given.

    If the site's own mean is subtracted from features, it is subtracted from covariates too: no comparison between
    sites remains.
    """
    given = np.ones(n) if weights is None else checked_weights(where, weights, n)
    lines = preparation.design.lines
    if lines and (covariates is None or covariates.shape != (n, len(lines))):
        raise InvalidData(f"{where}: covariates are taken out, and there are none for its {n} rows.")
    total = float(given.sum())
    used = None if preparation.counts_rows else given / total if preparation.equal_sites else given
    if covariates is not None and preparation.centre == "site":
        mean = (given @ covariates) / total
        covariates = covariates - mean
        covariates = covariates - (given @ covariates) / total
    return Beside(covariates if lines else None, used), total
