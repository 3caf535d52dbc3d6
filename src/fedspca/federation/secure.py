"""The coordinator's side of secure aggregation: it learns the sum of the sites' terms and nothing else.

See :mod:`fedspca.masking.messages` for the steps. A round is two exchanges, ``masked`` and ``unmask``; before the first
one come ``keys`` and ``shares``. The other sites help to remove the masks of a lost site. They do so once per
round, and for one set of sites only.
"""

import secrets
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedspca.door.agreement import Agreement
from fedspca.door.endpoint import Endpoint
from fedspca.door.session import put_question
from fedspca.door.store import MemoryStore
from fedspca.federation.base import Aggregate, FederationError, check_same_features, check_same_preparation
from fedspca.federation.channel import LocalChannel
from fedspca.federation.conversation import Content, Conversation
from fedspca.federation.roster import Roster
from fedspca.letters.identity import Identity
from fedspca.letters.wire import Message, WireError
from fedspca.masking.aggregator import RoundSecrets, Scale, check_reply, collected, stacked, unmasked
from fedspca.masking.fixed_point import Coding, FixedPointOverflow, Segment, Words, add_into, decode_terms, layout
from fedspca.masking.graph import choices_for
from fedspca.masking.messages import FINISH, KEYS, MASKED, PREVIOUS, SHARES, SUMMED, UNMASK
from fedspca.masking.party import masks_are_for, rows_of_bytes, threshold_of
from fedspca.masking.secret_sharing import SEED, BrokenSecret
from fedspca.site.errors import InvalidQuery
from fedspca.site.queries import PRIVATE, QUERIES
from fedspca.site.question import Query
from fedspca.site.site import Site

ONE_LIES = "One of the sites that helped to unmask did not keep to the protocol. Begin a new run."


class Summed(NamedTuple):
    """The sum of a round without masks, the sites in it, and the bytes that one site sent and was sent."""

    total: Words
    sites: list[str]
    bytes_up: int
    bytes_down: int


def nbytes(arrays: Mapping[str, NDArray[Any]]) -> int:
    """Return how many bytes some arrays take."""
    return sum(array.nbytes for array in arrays.values())


class SecureFederation(Roster):
    """Sites whose terms are masked: the coordinator sees their sum only."""

    def __init__(
        self,
        conversation: Conversation,
        *,
        sites: tuple[str, ...] | None = None,
        notice: Callable[[str], object] = lambda _: None,
    ) -> None:
        super().__init__(conversation, sites=sites, notice=notice)
        named = len(self.agreement.sites)
        self.threshold = threshold_of(named, self.agreement.min_sites)
        if self.n_sites < self.threshold:
            raise FederationError(
                f"Masks need at least {self.threshold} of the study's {named} sites and there are {self.n_sites}: with "
                "two, each would learn the other's terms from the sum, and with one there is nothing to hide them in."
            )
        self._certificates: dict[str, NDArray[np.uint8]] = {}
        self._introduced = False  # whether sites have seen each other's certificates
        self._ready: RoundSecrets | None = None
        self._scale = Scale()
        self._previous: Content | None = None  # the last sum, which goes back to the sites

    def sum(self, query: Query) -> Aggregate:
        """Ask every site and return the sum of their terms. Nobody sees a single site's terms."""
        codings, segments = self._form(query)
        self._round += 1
        try:
            summed = self._summed(query, codings, segments)
            self._previous = ({PREVIOUS: self._round, SUMMED: summed.sites}, {PREVIOUS: summed.total})
            arrays = decode_terms(summed.total, segments)
        except BrokenSecret as error:
            raise FederationError(f"{query.name!r}: {error} {ONE_LIES}") from None
        except FixedPointOverflow as error:
            raise FederationError(f"{query.name!r}: {error} Check the units of the columns.") from None
        self._scale.learn(query, arrays)
        return Aggregate(arrays, len(summed.sites), summed.bytes_up, summed.bytes_down)

    def _summed(self, query: Query, codings: Mapping[str, Coding], segments: list[Segment]) -> "Summed":
        """Ask every site, and take the masks off the sum."""
        ready, self._ready = self._ready, None  # if the round fails, the next one begins with new secrets
        if ready is None or ready.sites != self.sites:
            ready = self._share_secrets(query)
        contents = self._questions(ready, query, codings)
        answers = self._gather(MASKED, contents, query, segments[-1].stop)
        self._ready = collected(answers, ready.sites)
        self._previous = None
        total = self._unmasked(ready, answers, segments, query, masks_are_for(query, codings, ready.sites))
        sent = nbytes(next(iter(answers.values())).arrays) + SEED * len(ready.sites)
        return Summed(total, sorted(answers), sent, nbytes(contents[self.sites[0]][1]))

    def finish(self) -> dict[str, str]:
        """Send the last sum to the sites, so that each has all sums; return the sites not reached, and why."""
        if self._previous is None:
            return {}
        return self._conversation.ask(FINISH, self._round, dict.fromkeys(self.sites, self._previous), FINISH).lost

    @property
    def last_sum(self) -> Content:
        """The sum of the last round as it goes back to the sites: its number and who is in it, and its words."""
        return self._returned()

    # -- the steps ----------------------------------------------------------------------------------------------------

    def _form(self, query: Query) -> tuple[dict[str, Coding], list[Segment]]:
        """Return how the terms of the answer become integers, and the position of each term."""
        d = len(self.feature_names)
        if query.name not in QUERIES:
            known = ", ".join(sorted(QUERIES))
            raise InvalidQuery(self.sites[0], query.name, f"there is no such question; there are {known}.")
        QUERIES[query.name].validate(self.sites[0], d, query)
        codings = self._scale.codings(query, len(self.agreement.sites))
        return codings, layout(QUERIES[query.name].shapes(d, query), codings)

    def _share_secrets(self, query: Query) -> RoundSecrets:
        """Have the sites share secrets for the round to come, and before the first one show each other their keys."""
        if not self._certificates:
            keys = self._gather(KEYS, dict.fromkeys(self.sites, ({}, {})), query)
            self._certificates = {site: message.arrays["certificate"] for site, message in keys.items()}
        fields: dict[str, Any] = {"sites": list(self.sites)}
        arrays: dict[str, NDArray[Any]] = {}
        if not self._introduced:
            fields["lengths"] = [len(self._certificates[site]) for site in self.sites]
            arrays["certificates"] = np.concatenate([self._certificates[site] for site in self.sites])
        asked = self.sites
        shares = self._gather(SHARES, dict.fromkeys(asked, (fields, arrays)), query)
        self._introduced = True
        return collected(shares, asked)

    def _questions(self, ready: RoundSecrets, query: Query, codings: Mapping[str, Coding]) -> dict[str, Content]:
        """Return what each site is sent: the question, everyone's keys, and the letters to it."""
        fields, arrays = put_question(query)
        fields |= {"coding": {name: list(coding) for name, coding in codings.items()}, "present": list(ready.sites)}
        sum_before = self._returned()
        fields, arrays = {**fields, **sum_before[0]}, {**arrays, **sum_before[1]}
        keys = stacked(ready.keys[site] for site in ready.sites)
        commitments = stacked(ready.commitments[site] for site in ready.sites)
        contents: dict[str, Content] = {}
        for site in ready.sites:
            column = ready.recipients.index(site)
            letters = np.stack([ready.letters[sender][column] for sender in ready.sites])
            contents[site] = (fields, {**arrays, "keys": keys, "commitments": commitments, "shares": letters})
        return contents

    def _returned(self) -> Content:
        """Return the sum of the round before as it goes back to the sites, if there is one."""
        return ({}, {}) if self._previous is None else self._previous

    def _unmasked(
        self, ready: RoundSecrets, answers: Mapping[str, Message], segments: list[Segment], query: Query, about: str
    ) -> Words:
        """Take the masks off the sum of those who answered."""
        survivors = sorted(answers)
        total = np.zeros(segments[-1].stop, np.uint64)
        for site in survivors:
            add_into(total, answers[site].arrays["vector"], segments)
        fields = {"survivors": survivors, "query": query.name}
        shares = self._helped(dict.fromkeys(survivors, (fields, {})), query, len(ready.sites))
        context = (self.agreement.hash, self._conversation.run, self._round, about)
        return unmasked(total, segments, ready, survivors, shares, self.threshold, context)

    # -- lost sites ---------------------------------------------------------------------------------------------------

    def _gather(self, kind: str, contents: Mapping[str, Content], query: Query, length: int = 0) -> dict[str, Message]:
        """Ask for something that every site has to give, and settle what happens if one is lost."""
        answers: dict[str, Message] = {}
        waiting, until = dict(contents), self._patience_ends()
        while waiting:
            replies = self._conversation.ask(kind, self._round, waiting, kind)
            lost = dict(replies.lost)
            for site, message in replies.answered.items():
                try:
                    self._check(kind, message, len(contents), length)
                    answers[site] = message
                except WireError as error:
                    lost[site] = str(error)
            if not lost or not self._asked_again(lost, query, until):
                break
            waiting = {site: contents[site] for site in lost}
        return {site: answers[site] for site in sorted(answers)}

    def _check(self, kind: str, message: Message, sites: int, length: int) -> None:
        check_reply(kind, message, sites, length)

    def _helped(self, contents: Mapping[str, Content], query: Query, sites: int) -> dict[str, NDArray[np.uint8]]:
        """Ask for shares of every site's secret. Not all sites must answer: a sufficient number is enough."""
        until = self._patience_ends()
        told: dict[str, NDArray[np.uint8]] = {}
        while True:
            waiting = {site: content for site, content in contents.items() if site not in told}
            replies = self._conversation.ask(UNMASK, self._round, waiting, UNMASK)
            lost = dict(replies.lost)
            for site, message in replies.answered.items():
                try:
                    told[site] = rows_of_bytes(message, "shares", SEED, sites)
                except WireError as error:
                    lost[site] = str(error)
            if len(told) >= self.threshold:
                return told
            needed = f"{len(told)} sites can unmask nothing where {self.threshold} are needed."
            lost = {site: f"{reason} {needed}" for site, reason in lost.items()}
            self._wait_or_stop(lost, query, until, purpose=" to unmask")

    def _fewest(self) -> int:
        return self.threshold

    def _objection_to_fewer(self, query: Query) -> str | None:
        if self._round == 1 or query.name in PRIVATE:
            return None
        return (
            "To begin again without it would show its terms as the difference of two sums, so under masks the study "
            "waits for it, or a new one is agreed on without it."
        )

    # -- between two starts of the coordinator ------------------------------------------------------------------------

    def snapshot(self) -> Message:
        """Return what the coordinator needs to go on after this round. The sites' secrets in it are sealed."""
        fields: dict[str, Any] = {"round": self._round, "sites": list(self.sites), "lost": self.lost}
        fields["introduced"] = self._introduced
        names = sorted(self._certificates)
        fields["certificates"] = {name: self._certificates[name].tobytes().hex() for name in names}
        arrays: dict[str, NDArray[Any]] = dict(self._scale.arrays)
        if self._previous is not None:
            fields[PREVIOUS] = self._previous[0]
            arrays[PREVIOUS] = self._previous[1][PREVIOUS]
        if self._ready is not None:
            fields |= {"ready": list(self._ready.sites), "recipients": list(self._ready.recipients)}
            arrays["keys"] = stacked(self._ready.keys[site] for site in self._ready.sites)
            arrays["commitments"] = stacked(self._ready.commitments[site] for site in self._ready.sites)
            arrays["letters"] = np.stack([self._ready.letters[site] for site in self._ready.sites])
        return Message("rounds", fields, arrays)

    def restore(self, kept: Message) -> None:
        """Continue from a snapshot: the next letters have the same bytes."""
        fields, arrays = kept.fields, dict(kept.arrays)
        self._round, self.sites, self.lost = kept.number("round"), tuple(fields["sites"]), fields["lost"]
        self._introduced = fields["introduced"]
        self._certificates = {
            name: np.frombuffer(bytes.fromhex(text), np.uint8) for name, text in fields["certificates"].items()
        }
        self._previous = (fields[PREVIOUS], {PREVIOUS: arrays.pop(PREVIOUS)}) if PREVIOUS in fields else None
        self._ready = None
        if "ready" in fields:
            parts = [arrays.pop(name) for name in ("keys", "commitments", "letters")]
            by_site = list(zip(fields["ready"], *parts, strict=True))
            self._ready = RoundSecrets(
                tuple(fields["ready"]),
                {site: key.tobytes() for site, key, _, _ in by_site},
                {site: commitment.tobytes() for site, _, commitment, _ in by_site},
                {site: letters for site, _, _, letters in by_site},
                tuple(fields["recipients"]),
            )
        self._scale = Scale(arrays)


def masked_federation(
    conversation: Conversation, *, notice: Callable[[str], object] = lambda _: None
) -> SecureFederation:
    """Return the masked federation that an agreement asks for: with masks between all sites, or among neighbours."""
    from fedspca.federation.neighbours import NeighbourFederation

    agreement = conversation.agreement
    few = choices_for(len(agreement.sites), whole=agreement.on_dropout != "continue") == 0
    return (SecureFederation if few else NeighbourFederation)(conversation, notice=notice)


def secure_federation(
    sites: Iterable[Site],
    *,
    min_sites: int = 3,
    on_dropout: str = "abort",
    privacy: Mapping[str, Any] | None = None,
    consensus: bool = True,
    folds: int = 0,
    sample: int = 0,
    seed: int = 0,
    missing: str = "mean",
) -> SecureFederation:
    """Return a federation of sites in this process whose terms are masked, to try out what a study would be like.

    The sites' covariates, weights, transforms and centres are part of what they agree on.

    Parameters
    ----------
    sites : iterable of Site
        The sites: at least three.
    min_sites : int
        The fewest that may be in a sum.
    on_dropout : {"wait", "continue", "abort"}
        What happens when a site is lost.
    privacy : mapping, optional
        The settings of differential privacy; see :class:`~fedspca.federation.release_plan.Privacy`.
    consensus : bool
        Whether sites answer consensus steps. Their sums can reveal something about single sites, so between
        institutions the owners must approve them.
    folds, sample, seed : int
        The number of folds by which sums may be answered, one row in how many is asked about first, and the seed that
        assigns rows to folds or to the sample. Between institutions the owners must approve this.
    missing : {"mean", "em-once"}
        Whether missing values may be filled in once; see :class:`~fedspca.ExactSPCA`.
    """
    named = {site.name: site for site in sites}
    features = check_same_features({name: site.feature_names for name, site in named.items()})
    preparation = check_same_preparation({name: site.preparation for name, site in named.items()})
    if len(named) < min_sites:
        raise FederationError(
            f"Masks need at least {min_sites} sites and there are {len(named)}: with two, each would learn the other's "
            "terms from the sum, and with one there is nothing to hide them in."
        )
    coordinator = Identity.new()
    identities = {name: Identity.new() for name in named}
    agreement = Agreement(
        "in this process",
        coordinator.public,
        {name: identity.public for name, identity in identities.items()},
        features,
        {"folds": folds, "sample": sample, "seed": seed, "missing": missing, **preparation.settings},
        max_rounds=10**9,
        max_components=len(features),
        min_sites=min_sites,
        on_dropout=on_dropout,
        privacy=privacy,
        consensus_under_masks=consensus,
    )
    endpoints = {}
    for name, site in named.items():
        store = MemoryStore()
        store.propose(agreement)
        endpoints[name] = Endpoint(site, identities[name], coordinator.public, store)
    return masked_federation(Conversation(LocalChannel(endpoints), coordinator, agreement, secrets.token_hex(16)))
