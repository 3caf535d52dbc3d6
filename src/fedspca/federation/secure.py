"""The coordinator's side of secure aggregation: it learns the sum of the sites' terms and nothing else.

See :mod:`fedspca.site.masking` for the steps. A round is two exchanges, ``masked`` and ``unmask``; before the first one
come ``keys`` and ``shares``. What a lost site did is undone with the help of the others, once, over one set of sites.
"""

import secrets
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedspca.federation.base import Aggregate, Array, FederationError, check_same_features
from fedspca.federation.channel import LocalChannel
from fedspca.federation.conversation import Content, Conversation, Replies, SiteLost
from fedspca.federation.roster import Roster
from fedspca.site.agreement import Agreement
from fedspca.site.endpoint import Endpoint, put_question
from fedspca.site.errors import InvalidQuery
from fedspca.site.fixed_point import WIDE, Coding, FixedPointOverflow, Segment, Words, add_into, decode_terms, layout
from fedspca.site.identity import Identity
from fedspca.site.masking import SURVIVES, own_key, pair_key, rows_of_bytes, tag_of, threshold_of
from fedspca.site.masks import KEY, SEALED, SEED, derive, join, key_stream, public_key
from fedspca.site.queries import QUERIES, random_directions
from fedspca.site.question import Query
from fedspca.site.site import Site
from fedspca.site.store import MemoryStore
from fedspca.wire import Message, WireError

PAUSE = 1.0


class Secrets(NamedTuple):
    """What the sites shared for a round: who they are, their keys and commitments, and sealed letters to each other."""

    sites: tuple[str, ...]
    keys: dict[str, bytes]
    commitments: dict[str, bytes]
    letters: dict[str, NDArray[np.uint8]]  # by sender: one row for each of `recipients`
    recipients: tuple[str, ...]


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
        self._ready: Secrets | None = None
        self._scale = Scale()

    def sum(self, query: Query) -> Aggregate:
        """Ask every site and return the sum of their terms; nobody has seen any one of them."""
        codings, segments = self._form(query)
        self._round += 1
        ready, self._ready = self._ready, None  # if the round fails, the next one begins with new secrets
        if ready is None or ready.sites != self.sites:
            ready = self._share_secrets(query)
        contents = self._questions(ready, query, codings)
        answers = self._gather("masked", contents, query, segments[-1].stop)
        self._ready = _collected(answers, ready.sites)
        about = tag_of(query, codings, ready.sites)
        total = self._unmasked(ready, answers, segments, query, about)
        try:
            arrays = decode_terms(total, segments)
        except FixedPointOverflow as error:
            raise FederationError(f"{query.name!r}: {error} Check the units of the columns.") from None
        self._scale.learn(query, arrays)
        up = next(iter(answers.values())).arrays
        down = contents[self.sites[0]][1]
        sent = sum(array.nbytes for array in up.values()) + SEED * len(ready.sites)
        return Aggregate(arrays, len(answers), sent, sum(array.nbytes for array in down.values()))

    # -- the steps ----------------------------------------------------------------------------------------------------

    def _form(self, query: Query) -> tuple[dict[str, Coding], list[Segment]]:
        """Return how the terms of the answer become integers, and where each of them stands."""
        d = len(self.feature_names)
        if query.name not in QUERIES:
            known = ", ".join(sorted(QUERIES))
            raise InvalidQuery(self.sites[0], query.name, f"there is no such question; there are {known}.")
        QUERIES[query.name].validate(self.sites[0], d, query)
        codings = self._scale.codings(query, len(self.agreement.sites))
        return codings, layout(QUERIES[query.name].shapes(d, query), codings)

    def _share_secrets(self, query: Query) -> Secrets:
        """Have the sites share secrets for the round to come, and before the first one show each other their keys."""
        if not self._certificates:
            keys = self._gather("keys", dict.fromkeys(self.sites, ({}, {})), query)
            self._certificates = {site: message.arrays["certificate"] for site, message in keys.items()}
        fields: dict[str, Any] = {"sites": list(self.sites)}
        arrays: dict[str, NDArray[Any]] = {}
        if not self._introduced:
            fields["lengths"] = [len(self._certificates[site]) for site in self.sites]
            arrays["certificates"] = np.concatenate([self._certificates[site] for site in self.sites])
        asked = self.sites
        shares = self._gather("shares", dict.fromkeys(asked, (fields, arrays)), query)
        self._introduced = True
        return _collected(shares, asked)

    def _questions(self, ready: Secrets, query: Query, codings: Mapping[str, Coding]) -> dict[str, Content]:
        """Return what each site is sent: the question, everyone's keys, and the letters to it."""
        fields, arrays = put_question(query)
        fields |= {"coding": {name: list(coding) for name, coding in codings.items()}, "present": list(ready.sites)}
        keys = _stacked(ready.keys[site] for site in ready.sites)
        commitments = _stacked(ready.commitments[site] for site in ready.sites)
        contents: dict[str, Content] = {}
        for site in ready.sites:
            column = ready.recipients.index(site)
            letters = np.stack([ready.letters[sender][column] for sender in ready.sites])
            contents[site] = (fields, {**arrays, "keys": keys, "commitments": commitments, "shares": letters})
        return contents

    def _unmasked(
        self, ready: Secrets, answers: Mapping[str, Message], segments: list[Segment], query: Query, about: str
    ) -> Words:
        """Take the masks off the sum of those who answered."""
        survivors = sorted(answers)
        total = np.zeros(segments[-1].stop, np.uint64)
        for site in survivors:
            add_into(total, answers[site].arrays["vector"], segments)
        fields = {"survivors": survivors, "query": query.name}
        shares = self._helped(dict.fromkeys(survivors, (fields, {})), query, len(ready.sites))
        context = (self.agreement.hash, self._conversation.run, self._round, about)
        for row, site in enumerate(ready.sites):
            mine = {ready.recipients.index(helper): rows[row].tobytes() for helper, rows in shares.items()}
            seed = join(mine, self.threshold)
            if site in answers:
                if derive(seed, "commitment") != ready.commitments[site]:
                    raise FederationError(
                        f"The shares of site {site!r}'s seed do not fit together: a site tells another."
                    )
                add_into(total, key_stream(own_key(seed, context), len(total)), segments, subtract=True)
                continue
            if public_key(seed) != ready.keys[site]:
                raise FederationError(f"The shares of site {site!r}'s key do not fit together: a site tells another.")
            for other in survivors:  # they added or subtracted a mask that the lost site did not take away
                mask = key_stream(pair_key(seed, ready.keys[other], site, other, context), len(total))
                add_into(total, mask, segments, subtract=other < site)
        return total

    # -- lost sites ---------------------------------------------------------------------------------------------------

    def _gather(self, kind: str, contents: Mapping[str, Content], query: Query, length: int = 0) -> dict[str, Message]:
        """Ask for something that every site has to give, and settle what happens if one is lost."""
        agreement = self.agreement
        answers: dict[str, Message] = {}
        until = time.monotonic() + agreement.patience
        waiting = dict(contents)
        while waiting:
            replies = self._conversation.ask(kind, self._round, waiting, kind)
            answers |= _well_formed(kind, replies, len(contents), length)
            waiting = {site: content for site, content in contents.items() if site not in answers}
            if not waiting:
                break
            site = next(iter(waiting))
            reason = replies.lost[site]
            if agreement.on_dropout == "continue":
                self._go_on_without(tuple(waiting), reason, query)
                break
            if agreement.on_dropout == "abort" or time.monotonic() >= until:
                raise SiteLost(site, query.name, reason)
            self._notice(f"Round {self._round}: waiting for {', '.join(waiting)} ({reason})")
            time.sleep(PAUSE)
        return {site: answers[site] for site in sorted(answers)}

    def _helped(self, contents: Mapping[str, Content], query: Query, sites: int) -> dict[str, NDArray[np.uint8]]:
        """Ask for shares of every site's secret; enough helpers will do, whatever becomes of the others."""
        agreement = self.agreement
        until = time.monotonic() + agreement.patience
        told: dict[str, NDArray[np.uint8]] = {}
        while True:
            waiting = {site: content for site, content in contents.items() if site not in told}
            replies = self._conversation.ask("unmask", self._round, waiting, "unmask")
            for site, message in replies.answered.items():
                try:
                    told[site] = rows_of_bytes(message, "shares", SEED, sites)
                except WireError as error:
                    replies.lost[site] = str(error)
            if len(told) >= self.threshold:
                return told
            site, reason = next(iter(replies.lost.items()))
            if agreement.on_dropout != "wait" or time.monotonic() >= until:
                reason = f"{reason} {len(told)} sites can unmask nothing where {self.threshold} are needed."
                raise SiteLost(site, query.name, reason)
            self._notice(f"Round {self._round}: waiting for {', '.join(replies.lost)} to unmask ({reason})")
            time.sleep(PAUSE)

    def _go_on_without(self, lost: tuple[str, ...], reason: str, query: Query) -> None:
        left = tuple(site for site in self.sites if site not in lost)
        if len(left) < self.threshold:
            reason = f"{reason} The {len(left)} sites left are fewer than the {self.threshold} needed."
            raise SiteLost(lost[0], query.name, reason)
        if self._round > 1 and query.name not in SURVIVES:
            reason = (
                f"{reason} To begin again without it would show its terms as the difference of two sums, so under "
                "masks the study waits for it, or a new one is agreed on without it."
            )
            raise SiteLost(lost[0], query.name, reason)
        self.sites, self.lost = left, {**self.lost, **dict.fromkeys(lost, reason)}
        self._notice(f"Round {self._round}: going on without {', '.join(lost)} ({reason})")

    # -- between two starts of the coordinator ------------------------------------------------------------------------

    def snapshot(self) -> Message:
        """Return what the coordinator needs to go on after this round. The sites' secrets in it are sealed."""
        fields: dict[str, Any] = {"round": self._round, "sites": list(self.sites), "lost": self.lost}
        fields["introduced"] = self._introduced
        names = sorted(self._certificates)
        fields["certificates"] = {name: self._certificates[name].tobytes().hex() for name in names}
        arrays: dict[str, NDArray[Any]] = dict(self._scale.arrays)
        if self._ready is not None:
            fields |= {"ready": list(self._ready.sites), "recipients": list(self._ready.recipients)}
            arrays["keys"] = _stacked(self._ready.keys[site] for site in self._ready.sites)
            arrays["commitments"] = _stacked(self._ready.commitments[site] for site in self._ready.sites)
            arrays["letters"] = np.stack([self._ready.letters[site] for site in self._ready.sites])
        return Message("rounds", fields, arrays)

    def restore(self, kept: Message) -> None:
        """Go on from where a snapshot was taken: the next letters have the same bytes."""
        fields, arrays = kept.fields, dict(kept.arrays)
        self._round, self.sites, self.lost = kept.number("round"), tuple(fields["sites"]), fields["lost"]
        self._introduced = fields["introduced"]
        self._certificates = {
            name: np.frombuffer(bytes.fromhex(text), np.uint8) for name, text in fields["certificates"].items()
        }
        self._ready = None
        if "ready" in fields:
            parts = [arrays.pop(name) for name in ("keys", "commitments", "letters")]
            by_site = list(zip(fields["ready"], *parts, strict=True))
            self._ready = Secrets(
                tuple(fields["ready"]),
                {site: key.tobytes() for site, key, _, _ in by_site},
                {site: commitment.tobytes() for site, _, commitment, _ in by_site},
                {site: letters for site, _, _, letters in by_site},
                tuple(fields["recipients"]),
            )
        self._scale = Scale(arrays)


class Scale:
    """How terms become integers, from what the sums so far have told: bounds, where they are known, else wide words."""

    def __init__(self, arrays: Mapping[str, Array] | None = None) -> None:
        self.arrays: dict[str, Array] = dict(arrays or {})  # rows, and the squares about a mean

    def learn(self, query: Query, sums: Mapping[str, Array]) -> None:
        """Remember what bounds later sums."""
        if query.name == "moments":
            self.arrays["rows"] = np.atleast_1d(sums["rows"])
        elif query.name == "deviations" and "rows" in self.arrays:
            self.arrays |= {"squares": sums["squares"], "mean": query.arrays["mean"]}

    def codings(self, query: Query, sites: int) -> dict[str, Coding]:
        """Return the coding of each term of a question's answer."""
        terms = QUERIES[query.name].terms
        if "grid" in query.scalars:  # the site rounds to a grid itself, before it adds noise
            return dict.fromkeys(terms, Coding(1, int(query.scalars["grid"])))
        special = {"rows": Coding(1, 0), "counts": Coding(1, 0), "consensus": Coding(2, 64)}
        codings = {name: special.get(name, WIDE) for name in terms}
        trace = self._trace(query) if {"product", "captured"} & set(terms) else None
        if trace is not None:
            # |AᵀAq| ≤ tr(S)‖q‖ in every entry
            size = float(np.linalg.norm(_asked(query), axis=0).max(initial=0.0))
            bound = max(trace * max(size, size**2), np.finfo(float).tiny)
            exponent = 62 - (sites - 1).bit_length() - int(np.ceil(np.log2(bound)))
            if abs(exponent) < 900:
                codings |= {name: Coding(1, exponent) for name in ("product", "captured") if name in terms}
        return codings

    def _trace(self, query: Query) -> float | None:
        """Bound tr(S) in the frame of the question by Σ(x − m)² ≤ 2Σ(x − μ)² + 2n(μ − m)²."""
        if "squares" not in self.arrays:
            return None
        squares = self.arrays["squares"] + self.arrays["rows"] * (self.arrays["mean"] - query.arrays["mean"]) ** 2
        trace = 2.01 * float(np.sum(squares / query.arrays["scale"] ** 2))
        return trace if np.isfinite(trace) and trace > 0 else None


def secure_federation(
    sites: Iterable[Site],
    *,
    min_sites: int = 3,
    on_dropout: str = "abort",
    privacy: Mapping[str, Any] | None = None,
) -> SecureFederation:
    """Return a federation of sites in this process whose terms are masked, to try out what a study would be like.

    Parameters
    ----------
    sites : iterable of Site
        The sites: at least three.
    min_sites : int
        The fewest that may be in a sum.
    on_dropout : {"wait", "continue", "abort"}
        What happens when a site is lost.
    privacy : mapping, optional
        The settings of differential privacy; see :class:`~fedspca.federation.private.Privacy`.
    """
    named = {site.name: site for site in sites}
    features = check_same_features({name: site.feature_names for name, site in named.items()})
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
        {},
        max_rounds=10**9,
        max_components=len(features),
        min_sites=min_sites,
        on_dropout=on_dropout,
        privacy=privacy,
    )
    endpoints = {}
    for name, site in named.items():
        store = MemoryStore()
        store.propose(agreement)
        endpoints[name] = Endpoint(site, identities[name], coordinator.public, store)
    return SecureFederation(Conversation(LocalChannel(endpoints), coordinator, agreement, secrets.token_hex(16)))


def _asked(query: Query) -> Array:
    if "directions" in query.arrays:
        return query.arrays["directions"]
    return random_directions(int(query.scalars["seed"]), (len(query.arrays["mean"]), int(query.scalars["columns"])))


def _collected(messages: Mapping[str, Message], recipients: tuple[str, ...]) -> Secrets:
    """Return the secrets that sites shared in their replies."""
    sites = tuple(sorted(messages))
    return Secrets(
        sites,
        {site: messages[site].arrays["key"].tobytes() for site in sites},
        {site: messages[site].arrays["commitment"].tobytes() for site in sites},
        {site: messages[site].arrays["shares"] for site in sites},
        recipients,
    )


def _well_formed(kind: str, replies: Replies, sites: int, length: int) -> dict[str, Message]:
    """Return the answers that have the form of the protocol; the others count as lost."""
    good = {}
    for site, message in replies.answered.items():
        try:
            if kind == "keys":
                _checked(message, "certificate", np.uint8)
            else:
                rows_of_bytes(message, "key", KEY)
                rows_of_bytes(message, "commitment", KEY)
                rows_of_bytes(message, "shares", SEALED, sites)
            if kind == "masked":
                _checked(message, "vector", np.uint64, length)
            good[site] = message
        except WireError as error:
            replies.lost[site] = str(error)
    return good


def _checked(message: Message, name: str, dtype: type, length: int | None = None) -> None:
    array = message.arrays.get(name)
    if array is None or array.dtype != dtype or array.ndim != 1 or len(array) != (length or len(array)):
        raise WireError(f"A {message.kind!r} message without its array {name!r}, or with one of another length.")


def _stacked(parts: Iterable[bytes]) -> NDArray[np.uint8]:
    return np.stack([np.frombuffer(part, np.uint8) for part in parts])
