"""A question to the sites, and the form in which it must be put."""

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fedspca.dp.accounting import Cost
from fedspca.linalg.beside import NOTHING, Adjustment, Beside, Reference
from fedspca.linalg.feature_sums import column_sums, deviations_from
from fedspca.linalg.maps import FeatureMap, MappedRows, map_of
from fedspca.linalg.operators import COLUMNS_OF_A_FIT, DeflatedRows, Frame, StandardisedRows, all_finite
from fedspca.linalg.row_blocks import AnyRows, RemoteRows
from fedspca.linalg.spread import Spread
from fedspca.linalg.stiefel import orthonormality_error
from fedspca.linalg.symmetric import packed_size
from fedspca.site.consensus import ConsensusState
from fedspca.site.errors import InvalidQuery
from fedspca.site.harmony import Harmony, harmony_of
from fedspca.site.preparation import PLAIN, Own, Preparation, own_view

Array = NDArray[np.float64]
Scalar: TypeAlias = float | int | str
Terms: TypeAlias = dict[str, Array]
State: TypeAlias = ConsensusState | None
Shape: TypeAlias = tuple[str, ...]

LARGEST, SMALLEST = 1e30, 1e-30  # of the numbers in a question; their squares and short products do not overflow
BESIDE = frozenset(
    {"removed", "coefficients", "edges", "knots", "images", "loadings"}
)  # matrices of a question that are not directions
ORTHONORMAL = 1e-6  # tolerance; the solvers' directions are orthonormal to about ten digits
MOST_EDGES = 128  # the most edges of one question at which values are counted
MOST_PERMUTATIONS = 100  # the most permutations in one answer
AT_ONCE = 8 << 20  # the most numbers in one answer, unless it is for a single permutation
FOLDS, DEAL = "folds", "deal"  # the scalars of a question that is answered by fold: how many, and the seed
SAMPLE = "sample"  # the scalar of a question about one of so many parts of the rows; the seed is beside it


@dataclass(frozen=True, eq=False)
class Query:
    """One question to all sites: its name, the arrays to broadcast, the scalars."""

    name: str
    arrays: Mapping[str, Array] = field(default_factory=dict)
    scalars: Mapping[str, Scalar] = field(default_factory=dict)

    @property
    def nbytes(self) -> int:
        """Size of what is sent to each site."""
        return sum(array.nbytes for array in self.arrays.values()) + 8 * len(self.scalars)

    @property
    def folds(self) -> int:
        """By how many folds to answer; 0 if as a whole."""
        folds = self.scalars.get(FOLDS, 0)
        return folds if isinstance(folds, int) else 0

    @property
    def sample(self) -> int:
        """One row in how many is asked about; 0 if all rows are."""
        parts = self.scalars.get(SAMPLE, 0)
        return parts if isinstance(parts, int) else 0

    def of_sample(self, parts: int, deal: int) -> "Query":
        """Return the same question about a sample, one of so many parts of each site's rows."""
        return Query(self.name, self.arrays, {**self.scalars, SAMPLE: parts, DEAL: deal})

    def by_fold(self, folds: int, deal: int) -> "Query":
        """Return the same question, to be answered by fold."""
        return Query(self.name, self.arrays, {**self.scalars, FOLDS: folds, DEAL: deal})

    def as_a_whole(self) -> "Query":
        """Return the same question, to be answered by one sum over all rows."""
        scalars = {name: value for name, value in self.scalars.items() if name not in (FOLDS, SAMPLE, DEAL)}
        return Query(self.name, self.arrays, scalars)


def query_hash(query: Query) -> str:
    """Return a hash of all that a question says."""
    digest = hashlib.sha256(json.dumps([query.name, sorted(query.scalars.items())]).encode())
    for name, array in sorted(query.arrays.items()):
        digest.update(f"{name}{array.shape}".encode())
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()


class SiteData:
    """A site's rows, seen in the frame that a question names. ``missing`` says whether some values may be NaN.

    ``beside`` holds the covariates and weights of the rows, ``weight`` the sum of the weights as given, and ``spread``
    the sums of the features, where they are known already. ``few`` has the owner's ``min_rows`` and ``min_fold_rows``:
    the fewest rows that may be told of together.
    """

    def __init__(
        self,
        site: str,
        rows: AnyRows,
        *,
        missing: bool = False,
        beside: Beside = NOTHING,
        weight: float | None = None,
        preparation: Preparation = PLAIN,
        spread: Spread | None = None,
        few: tuple[int, int] = (1, 1),
    ) -> None:
        self.site = site
        self.few = few
        self.rows = rows
        self.missing = missing
        self.beside = beside
        self.weight = float(rows.shape[0]) if weight is None else weight
        self.preparation = preparation
        self._spread = spread
        self.own: Own | None = own_view(rows, beside, preparation, missing=missing)
        self._harmony: Harmony | None = None
        self._mapped: SiteData | None = None
        self.expected = COLUMNS_OF_A_FIT  # by how many columns a fit will multiply the rows, as far as is known
        self._last: tuple[Frame, StandardisedRows] | None = None

    def under(self, query: Query) -> "SiteData":
        """Return the data as a question sees them: through the transform that it brings, if it brings one."""
        seen = map_of(query.arrays)
        if seen is None:
            return self if self.own is None or self.preparation.joint is None else self._before_transform
        last = self._mapped
        if last is None or not isinstance(last.rows, MappedRows) or not _same_arrays(last.rows.seen, seen):
            if isinstance(self.rows, RemoteRows):
                raise InvalidQuery(self.site, query.name, "genotypes and rows on a cluster are not transformed.")
            about: dict[str, Any] = {"missing": self.missing, "beside": self.beside, "weight": self.weight}
            about |= {"preparation": self.preparation, "few": self.few}
            last = SiteData(self.site, MappedRows(self.rows, seen), **about)
            self._mapped = last
        return last

    @cached_property
    def _before_transform(self) -> "SiteData":
        """The rows as they are, of which a transform is learnt; the site's own mean is that of transformed rows."""
        raw = replace(self.preparation, centre="joint", scale="joint")
        return SiteData(self.site, self.rows, missing=self.missing, few=self.few, preparation=raw)

    @cached_property
    def totals(self) -> NDArray[np.float64]:
        """Σ1, Σx and Σx² by column: the features, the covariates and the weights."""
        n, d = self.rows.shape
        sums, squares = self.deviations_from(np.zeros(d), weighted=False)
        beside = [part for part in (self.beside.covariates, self.beside.weights) if part is not None]
        more = np.column_stack([np.zeros((n, 0)), *beside])
        sums, squares = np.append(sums, more.sum(axis=0)), np.append(squares, (more**2).sum(axis=0))
        return np.stack([np.full(len(sums), float(n)), sums, squares])

    def sums(self) -> NDArray[np.float64]:
        """Σx by feature; zero if the site's own mean is subtracted."""
        if self.own is not None:
            return np.zeros(self.rows.shape[1])
        if self._spread is not None and not self.beside:
            return self._spread.totals
        return column_sums(self.rows, missing=self.missing, beside=self.beside)

    def deviations_from(
        self, mean: NDArray[np.float64], adjustment: Adjustment | None = None, *, weighted: bool = True
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Σ(x − μ) and Σ(x − μ)² by feature, less what covariates explain: without a pass if the sums are known."""
        beside = self.beside if weighted else NOTHING
        if self._spread is not None and not beside and adjustment is None:
            return self._spread.about(mean)
        return deviations_from(self.rows, mean, missing=self.missing, beside=beside, adjustment=adjustment)

    def seen_in(self, frame: Frame, expected: int | None = None) -> DeflatedRows:
        """Return the rows in this frame as an operator, to be multiplied by so many columns."""
        return DeflatedRows(self.standardised_in(frame), frame.removed, self.expected if expected is None else expected)

    def standardised_in(self, frame: Frame) -> StandardisedRows:
        """Return the rows, centred and scaled as the frame says. The last operator is kept for its Gram matrix."""
        if self._last is None or not _same_view(self._last[0], frame):
            self._last = (frame, self._operator(self.raw(frame)))
        return self._last[1]

    def raw(self, frame: Frame) -> Frame:
        """Return the frame in terms of the raw rows: the site's own mean and spread, if used, come first."""
        if frame.reference is not None:
            return self.harmony(frame.reference, frame.adjustment).seen(frame)
        return frame if self.own is None else self.own.seen(frame)

    def harmony(self, reference: Reference, protected: Adjustment | None) -> Harmony:
        """Return the site's shift and spread relative to all sites; the last one is kept."""
        last = self._harmony
        if last is None or not last.reference.same_as(reference) or not _same_adjustment(last.adjustment, protected):
            self._harmony = last = harmony_of(self.rows, self.beside, reference, protected)
        return last

    def _operator(self, frame: Frame) -> StandardisedRows:
        # only products in single precision ask for the squares, and many sites would keep them
        told = self.rows.dtype == np.float32 and self._spread is not None and not self.beside
        return StandardisedRows(
            self.rows,
            frame.mean,
            frame.scale,
            missing=self.missing,
            beside=self.beside,
            adjustment=frame.adjustment,
            squares=self.deviations_from(frame.mean)[1] if told else None,
        )


def _same_view(one: Frame, other: Frame) -> bool:
    if not (_same(one.mean, other.mean) and _same(one.scale, other.scale)):
        return False
    if not _same_adjustment(one.adjustment, other.adjustment):
        return False
    return one.reference.same_as(other.reference) if one.reference is not None else other.reference is None


def _same_arrays(one: FeatureMap, other: FeatureMap) -> bool:
    mine, theirs = one.arrays, other.arrays
    return mine.keys() == theirs.keys() and all(_same(mine[name], theirs[name]) for name in mine)


def _same_adjustment(one: Adjustment | None, other: Adjustment | None) -> bool:
    return one.same_as(other) if one is not None else other is None


def not_orthonormal(name: str, columns: Array) -> str | None:
    """Return what is wrong with columns that should be orthonormal, to the digits that every solver keeps, or None."""
    with np.errstate(over="ignore", invalid="ignore"):
        error = orthonormality_error(columns)
    return None if error <= ORTHONORMAL else f"{name} must be orthonormal, and they are not by {error:.1e}."


def out_of_range(query: Query) -> str | None:
    """Return which number of a question is too large or too small for any study in sensible units, or None.

    Within this range, squares and short products of the numbers neither underflow nor overflow. Beyond it, whoever
    chooses the numbers could choose which rows rounding removes before the sum. An infinite scale leaves a feature out.
    """
    for name, array in query.arrays.items():
        size = np.abs(array[np.isfinite(array)] if name == "scale" else array)
        if not (size <= LARGEST).all() or (name == "scale" and not (size >= SMALLEST).all()):
            return f"{name} has numbers beyond 10^±30, which no study in sensible units needs."
    for name, value in query.scalars.items():
        if isinstance(value, float) and not SMALLEST <= abs(value) <= LARGEST:
            return f"{name} is beyond 10^±30, which no study in sensible units needs. Got {value!r}."
        if isinstance(value, int) and abs(value) >= 1 << 63:
            return f"{name} is a number of more than 63 bits."
    return None


def permutations_at_once(d: int) -> int:
    """Return how many permutations of d features one answer may cover."""
    return max(1, AT_ONCE // packed_size(d))


def _same(a: NDArray[np.float64], b: NDArray[np.float64]) -> bool:
    return a is b or np.array_equal(a, b)


@dataclass(frozen=True)
class Question:
    """A question's answer, what it releases in words, and the form in which it must be put."""

    answer: Callable[[SiteData, State, Query], tuple[State, Terms]]
    releases: str
    terms: Mapping[str, Shape]
    arrays: Mapping[str, Shape] = field(default_factory=dict)
    optional: Mapping[str, Shape] = field(default_factory=dict)
    scalars: Mapping[str, type | frozenset[str]] = field(default_factory=dict)
    cost: Callable[[int, Query], Cost] | None = None  # of d features and the question; None if there is no noise
    averaged: bool = False  # the sum averages the sites' states, so it is still valid over fewer sites
    orthonormal: bool = False  # whether directions must be orthonormal, so that what is released is bounded
    additive: bool = False  # the answer is a sum over rows, without a state: it may be given by fold
    divides: bool = False  # the question divides the rows into folds itself, to add noise to each

    @property
    def private(self) -> bool:
        """Whether the answer carries noise, whose cost a ledger keeps."""
        return self.cost is not None

    def components(self, query: Query) -> int:
        """Count the directions that the question asks about."""
        asked = [array.shape[1] for name, array in query.arrays.items() if name not in BESIDE and array.ndim == 2]
        columns = query.scalars.get("columns", 0)
        return max(asked, default=columns if isinstance(columns, int) else 0)

    def shapes(self, d: int, query: Query) -> dict[str, tuple[int, ...]]:
        """Return the shape of each term of the answer, which the question alone determines."""
        known = self._known
        sizes = {"d": d, "m": self.components(query), "moments": 2 * d + 1}
        sizes |= {"packed": packed_size(d), "triangle": packed_size(d + 1)}
        sizes |= {
            name: size for name, size in query.scalars.items() if name == "permutations" and isinstance(size, int)
        }
        for name, array in query.arrays.items():
            sizes |= dict(zip(known[name], array.shape, strict=True))
        folds = (query.folds,) if query.folds else ()
        return {name: (*folds, *(sizes[symbol] for symbol in shape)) for name, shape in self.terms.items()}

    def validate(self, site: str, d: int, query: Query) -> None:
        """Raise :class:`InvalidQuery` unless every array and scalar is there, of its type and shape, and finite."""
        problem = self._array_problem(d, query) or self._scalar_problem(query)
        if problem is None and self.orthonormal:
            problem = not_orthonormal("directions", query.arrays["directions"])
        if problem is None and self.private:
            problem = out_of_range(query)
        most = min(MOST_PERMUTATIONS, permutations_at_once(d))
        if problem is None and not 1 <= int(query.scalars.get("permutations", 1)) <= most:
            problem = f"it asks for {query.scalars['permutations']} permutations of 1 to {most}."
        if problem is None and "edges" in query.arrays and len(query.arrays["edges"]) > MOST_EDGES:
            problem = f"it brings {len(query.arrays['edges'])} edges, and values are counted at {MOST_EDGES} at most."
        if problem is None and self.components(query) > d:
            problem = f"it asks about {self.components(query)} directions of {d} features."
        if problem is not None:
            raise InvalidQuery(site, query.name, problem)

    @cached_property
    def _known(self) -> dict[str, Shape]:
        return {**self.arrays, **self.optional}

    def _array_problem(self, d: int, query: Query) -> str | None:
        known = self._known
        if missing := sorted(set(self.arrays) - set(query.arrays)):
            return f"it lacks {', '.join(missing)}."
        if unknown := sorted(set(query.arrays) - set(known)):
            return f"it brings {', '.join(unknown)}, which the question does not take."
        sizes = {"d": d}
        for name, array in query.arrays.items():
            if array.dtype != np.float64 or array.ndim != len(known[name]):
                return f"{name} must be a float64 array of {len(known[name])} dimension(s)."
            for symbol, size in zip(known[name], array.shape, strict=True):
                if sizes.setdefault(symbol, size) != size:
                    return f"{name} has shape {array.shape} where {symbol} is {sizes[symbol]}."
            if array.ndim == 2 and known[name][1] != "d" and array.shape[1] > d:  # the removed directions too
                return f"{name} has {array.shape[1]} columns for {d} features."
            if name == "scale":  # an infinite scale leaves a feature out
                if not (array > 0).all():
                    return "scale must be positive."
            elif not all_finite(array):
                return f"{name} contains NaN or infinity."
        return None

    def _scalar_problem(self, query: Query) -> str | None:
        sampled = SAMPLE in query.scalars
        dealt: Mapping[str, type] = {}
        if {FOLDS, SAMPLE, DEAL} & set(query.scalars):
            dealt = {SAMPLE if sampled else FOLDS: int, DEAL: int}
        if sampled and not self.additive:
            return "it cannot be asked of a sample of the rows."
        if dealt and not (self.additive or self.divides):
            return "it cannot be answered by fold."
        scalars = {**self.scalars, **dealt}
        if set(query.scalars) != set(scalars):
            return f"it takes the scalars {sorted(scalars)} and got {sorted(query.scalars)}."
        for name, kind in scalars.items():
            value = query.scalars[name]
            if isinstance(kind, frozenset):
                if value not in kind:
                    return f"{name} must be one of {sorted(kind)}, got {value!r}."
            elif not isinstance(value, kind) or isinstance(value, bool):
                return f"{name} must be of type {kind.__name__}, got {value!r}."
            elif isinstance(value, float) and not (np.isfinite(value) and value > 0):
                return f"{name} must be positive and finite, got {value!r}."
            elif isinstance(value, int) and value < 0:
                return f"{name} must not be negative, got {value!r}."
        if sampled and query.sample < 2:
            return f"a sample is one row in two or more, got {query.sample}."
        if dealt and not sampled and query.folds < 2:
            return f"one fold is no fold: there must be two or more, got {query.folds}."
        return None
