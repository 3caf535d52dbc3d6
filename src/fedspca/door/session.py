"""Where one study stands at a site, and how a question is read from a letter."""

import logging
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fedspca.door.agreement import Agreement, noise_among
from fedspca.door.meaning import objection, remembered, tidied
from fedspca.door.replay import Replays
from fedspca.door.store import ROWS, Store
from fedspca.dp.accounting import Budget, Purpose
from fedspca.letters.identity import Identity
from fedspca.letters.wire import Message
from fedspca.site.errors import InvalidQuery, SiteError, SiteRefusal
from fedspca.site.queries import QUERIES
from fedspca.site.question import Query, Terms
from fedspca.site.site import Site

FAILURES = "study:failures"
MOST_FAILURES = 3  # each failure reveals one bit about the rows of a site
OTHER_ROWS = (
    "the rows are not those with which the study began, and the difference of two sums would be the rows that came or "
    "went. Give back the file as it was, or agree on a new study of another name."
)
SMALL_FOLDS = (
    "the site holds too few rows for so many folds. Kept together in one of them, they would be told apart from those "
    "of other sites."
)
UNFIT = "its covariates or weights are not as the study needs them; the owner can read why."

log = logging.getLogger(__name__)


class RunEnded(SiteRefusal):
    """The coordinator deviated from the agreed study, so the site answers nothing more in this run."""


@dataclass
class Session:
    """Where one study stands at a site.

    Attributes
    ----------
    agreement : Agreement
        The agreement, approved by the owner.
    site : Site
        The rows.
    identity : Identity
        The site's keys.
    run, round : str, int
        Which run of the study this is, and the last round that was asked.
    runs : list of str
        The runs that there were, this one last.
    replies : dict
        The answers of this round, by kind: the letter's digest and the bytes of the reply.
    secrets : dict of str to ndarray
        What handlers keep between messages. It never leaves the site.
    failed : bool
        Whether the last question could not be computed, for the log.
    store : Store or None
        Where sums are kept.
    replays : Replays or None
        The site's own run of the agreed study; None if questions are not compared with it.
    """

    agreement: Agreement
    site: Site
    identity: Identity
    run: str = ""
    round: int = 0
    runs: list[str] = field(default_factory=list)
    replies: dict[str, tuple[str, bytes]] = field(default_factory=dict)
    secrets: dict[str, NDArray[Any]] = field(default_factory=dict)
    failed: bool = False
    store: Store | None = None
    replays: Replays | None = None

    def answer(self, query: Query, limits: Mapping[str, float] | None = None) -> Terms | None:
        """Return this site's terms, if the agreement and the policy allow the question; None if computing them failed.

        A term that is not below its limit counts as a failure too.

        A refusal depends on the question alone. A later failure may depend on the rows, so it is not reported: the
        caller answers as usual. A coordinator could still count failures, so after a few of them the site
        treats every further question of the study as a failure.
        """
        self._check(query)
        self.failed = False
        terms = self._computed(drawn_here(tidied(query, self.secrets)))
        self.secrets |= {**remembered(query, self.secrets), ROWS: self.secrets.get(ROWS, self.site.totals)}
        if terms is None or not all(_below(term, (limits or {}).get(name, np.inf)) for name, term in terms.items()):
            self.failed = True
            self.secrets[FAILURES] = np.array([self.failures + 1])
        if self.failures >= MOST_FAILURES:
            self.failed = True
        return None if self.failed else terms

    def _computed(self, query: Query) -> Terms | None:
        """Return the terms; None if they could not be computed, or if rounding would have removed single rows."""
        try:
            terms = self.site.answer(query, self._purpose())
            # with noise nothing is checked: noise hides a row, and a failure would not
            exact = self.agreement.masked and self.agreement.privacy is None
            if exact and (name := self.site.singled_out(query)) is not None:
                log.warning("Not answered: the transform would make %r one of a few rows", name)
                return None
            return None if self.site.outweighed_by(query) else terms
        except SiteError:
            raise
        except Exception:
            log.exception("A question could not be answered")
            return None

    @property
    def failures(self) -> int:
        """How often a question of this study could not be computed."""
        return int(self.secrets[FAILURES][0]) if FAILURES in self.secrets else 0

    def _check(self, query: Query) -> None:
        """Raise unless the agreement allows the question."""
        name = self.site.name
        if query.name not in QUERIES:
            known = ", ".join(sorted(QUERIES))
            raise InvalidQuery(name, query.name, f"there is no such question; there are {known}.")
        if query.name not in self.agreement.questions:
            raise SiteRefusal(name, query.name, "the question is not part of what the owner approved.")
        if ROWS in self.secrets and not self.site.holds(self.secrets[ROWS]):
            raise SiteRefusal(name, query.name, OTHER_ROWS)
        if self.agreement.masked and (told := self.site.disclosed) is not None:
            log.warning("Nothing is answered: %s", told)
            raise SiteRefusal(name, query.name, UNFIT)
        if self.site.n_rows < query.folds * self.site.policy.min_fold_rows:
            raise SiteRefusal(name, query.name, SMALL_FOLDS)
        if self.round > self.agreement.max_rounds:
            raise SiteRefusal(name, query.name, f"the owner approved {self.agreement.max_rounds} questions.")
        asked = QUERIES[query.name].components(query)
        if asked > self.agreement.max_components:
            limit = self.agreement.max_components
            raise SiteRefusal(name, query.name, f"it asks about {asked} directions and the owner approved {limit}.")
        QUERIES[query.name].validate(name, self.site.n_features, query)
        if (problem := objection(self.agreement, query, self.secrets)) is not None:
            raise SiteRefusal(name, query.name, problem)

    def _purpose(self) -> Purpose | None:
        """The purpose and the approved terms of releases in a private study; None in other studies."""
        privacy = self.agreement.privacy
        if privacy is None:
            return None
        budget = Budget(float(privacy["epsilon"]), float(privacy["delta"]))
        return Purpose(self.agreement.hash, self.run, self.round, budget, noise_among(self.agreement))


def drawn_here(query: Query) -> Query:
    """Return the question with a seed of the site's own, where its columns are to be permuted.

    Anyone who knew the permutations would know which rows are multiplied, and could solve for the rows.
    """
    if query.name != "permuted_gram":
        return query
    return Query(query.name, query.arrays, {**query.scalars, "seed": secrets.randbits(128)})


def _below(term: NDArray[np.floating], limit: float) -> bool:
    return bool(np.all(np.abs(term.astype(np.float64)) < limit))  # false for NaN and infinity


Handler: TypeAlias = Callable[[Session, Message], Message]


def question(site: str, message: Message) -> Query:
    """Return the question that a message puts; its form is checked when it is answered."""
    scalars = message.fields.get("scalars")
    if not isinstance(scalars, dict) or not all(isinstance(value, str | int | float) for value in scalars.values()):
        raise InvalidQuery(site, "?", "its scalars must be a table of numbers and texts.")
    arrays = {name: array for name, array in message.arrays.items() if array.dtype == np.float64}
    if len(arrays) != len(message.arrays):
        raise InvalidQuery(site, "?", "its arrays must be float64.")
    return Query(message.text("query", 40), arrays, scalars)


def put_question(query: Query) -> tuple[dict[str, Any], Mapping[str, NDArray[Any]]]:
    """Return the fields and arrays in which a question travels: what :func:`question` reads."""
    return {"query": query.name, "scalars": dict(query.scalars)}, query.arrays
