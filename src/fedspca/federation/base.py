"""The Federation protocol: one primitive, the sum of the sites' terms, and what can go wrong with it."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from fedspca.linalg.operators import Frame, all_finite
from fedspca.site.preparation import PLAIN, Preparation
from fedspca.site.question import Query, Terms

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Aggregate:
    """The sum of the sites' terms. It does not contain the single terms, so no solver can see them.

    Attributes
    ----------
    arrays : mapping of str to ndarray
        The summed arrays.
    n_sites : int
        How many sites are in the sum.
    bytes_up, bytes_down : int
        How many bytes each site sent and received.
    """

    arrays: Mapping[str, Array]
    n_sites: int
    bytes_up: int
    bytes_down: int

    def __getitem__(self, name: str) -> Array:
        return self.arrays[name]

    def number(self, name: str) -> float:
        """One summed scalar."""
        return float(self.arrays[name])


@runtime_checkable
class Federation(Protocol):
    """Sites that hold rows over the same features, reached by one primitive."""

    @property
    def n_sites(self) -> int:
        """How many sites take part."""

    @property
    def feature_names(self) -> tuple[str, ...]:
        """The features that all sites share, in order."""

    def sum(self, query: Query) -> Aggregate:
        """Ask every site and return the sum of their terms, or raise a :class:`~fedspca.site.errors.SiteError`."""


class Around:
    """A federation that wraps another one, with the same sites and features.

    Parameters
    ----------
    federation : Federation
        The wrapped federation.
    """

    def __init__(self, federation: Federation) -> None:
        self._federation = federation

    @property
    def n_sites(self) -> int:
        """How many sites take part."""
        return self._federation.n_sites

    @property
    def feature_names(self) -> tuple[str, ...]:
        """The features that all sites share, in order."""
        return self._federation.feature_names

    def answers_gram(self) -> bool:
        """Whether the question ``gram`` may be asked."""
        return answers_gram(self._federation)

    def most_directions(self) -> int | None:
        """About how many directions one question may ask; None without a limit."""
        return most_directions(self._federation)

    @property
    def local(self) -> bool:
        """Whether no message leaves this machine."""
        return is_local(self._federation)

    @property
    def single(self) -> bool:
        """Whether all rows are in this process, stored in single precision."""
        return is_single(self._federation)

    @property
    def preparation(self) -> Preparation:
        """How the sites see their rows before anything is asked."""
        return preparation_of(self._federation)

    @property
    def rows_seen(self) -> bool:
        """Whether there are rows behind the answers, and not only a covariance."""
        return rows_seen(self._federation)

    @property
    def rows_counted(self) -> bool:
        """Whether the number of rows is known."""
        return rows_counted(self._federation)

    def noise_in(self, frame: Frame) -> float | None:
        """Return the variance of the semicircle law of the noise in S, seen in a frame; None without noise."""
        return noise_in(self._federation, frame)


def noise_in(federation: Federation, frame: Frame) -> float | None:
    """Return how much noise a federation's S contains, as the variance of a semicircle law; None if it has none."""
    told = getattr(federation, "noise_in", None)
    return None if told is None else told(frame)


def preparation_of(federation: Federation) -> Preparation:
    """Return how a federation's sites see their rows; unchanged, if it does not say."""
    return getattr(federation, "preparation", PLAIN)


def rows_seen(federation: Federation) -> bool:
    """Whether there are rows behind a federation's answers; a covariance that was given has none, and no means."""
    return getattr(federation, "rows_seen", True)


def rows_counted(federation: Federation) -> bool:
    """Whether the number of rows is known; of a covariance that was given it may not be."""
    return getattr(federation, "rows_counted", True)


def is_local(federation: Federation) -> bool:
    """Whether a federation's sites are in this process, as far as it says so."""
    return getattr(federation, "local", False)


def is_single(federation: Federation) -> bool:
    """Whether all rows are in this process and stored in single precision, as far as a federation says so."""
    return getattr(federation, "single", False)


def answers_gram(federation: Federation) -> bool:
    """Whether a federation's sites would answer for the whole covariance; no, if it cannot say."""
    told = getattr(federation, "answers_gram", None)
    return told is not None and told()


def most_directions(federation: Federation) -> int | None:
    """About how many directions one question may ask; None without a limit, and 0 if a federation cannot say."""
    told = getattr(federation, "most_directions", None)
    return 0 if told is None else told()


class FederationError(RuntimeError):
    """The federation as a whole cannot do what was asked."""


class SchemaMismatch(FederationError, ValueError):
    """Sites do not share the same features."""


def add_terms(answers: Mapping[str, Terms], query: Query) -> Aggregate:
    """Add the sites' terms, always in the order of their names, so that the sum always has the same bits."""
    return add_in_order(((name, answers[name]) for name in sorted(answers)), query)


def add_in_order(answers: Iterable[tuple[str, Terms]], query: Query) -> Aggregate:
    """Add the sites' terms one by one, so that only the sum and one site's terms are in memory.

    The terms must come in the order of the sites' names.
    """
    total: dict[str, Array] = {}
    n_sites = bytes_up = 0
    for site, terms in answers:
        check_terms(site, query, terms, total or terms)
        if n_sites == 0:  # terms may travel in single precision
            bytes_up = sum(term.nbytes for term in terms.values())
            total = {key: value.astype(np.float64, copy=False) for key, value in terms.items()}
        elif n_sites == 1:  # the first site's own arrays are left as they are
            total = {key: total[key] + value for key, value in terms.items()}
        else:
            for key, value in terms.items():
                total[key] += value
        n_sites += 1
    return Aggregate(total, n_sites, bytes_up, query.nbytes)


def check_terms(site: str, query: Query, terms: Terms, like: Terms) -> None:
    """Raise a :class:`FederationError` that names the site if its terms cannot be added to the others'."""
    if terms.keys() != like.keys() or any(value.shape != like[key].shape for key, value in terms.items()):
        raise FederationError(f"Site {site!r} answered {query.name!r} with terms of another shape than the others'.")
    for key, value in terms.items():
        if not all_finite(value):
            raise FederationError(
                f"Site {site!r} answered {query.name!r} with NaN or infinity in {key!r}; "
                "its values may be too large to square, so check the units of its columns."
            )


def check_same_features(names: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    """Return the features that all sites share, or raise :class:`SchemaMismatch` with the first difference found."""
    reference, expected = next(iter(names.items()))
    for site, found in names.items():
        if tuple(found) == tuple(expected):
            continue
        if len(found) != len(expected):
            difference = f"{len(found)} features, not {len(expected)}"
        else:
            column = next(j for j, pair in enumerate(zip(found, expected, strict=True)) if pair[0] != pair[1])
            difference = f"{found[column]!r} as column {column}, not {expected[column]!r}"
        raise SchemaMismatch(
            f"Sites must share the same features in the same order: site {site!r} has {difference} "
            f"as site {reference!r} has."
        )
    return tuple(expected)


def check_same_preparation(prepared: Mapping[str, Preparation]) -> Preparation:
    """Return how all sites see their rows, or raise :class:`FederationError` if one sees them in another way."""
    reference, expected = next(iter(prepared.items()))
    if unlike := [site for site, found in prepared.items() if found != expected]:
        raise FederationError(
            f"Sites must see their rows alike (covariates, weights, centre and scale): {unlike[0]!r} does not see "
            f"them as {reference!r} does."
        )
    return expected
