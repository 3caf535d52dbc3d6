"""A site's side of secure aggregation: its terms leave under masks that cancel in the sum and nowhere else.

After Bonawitz et al. (2017). For every round each site has a pair of keys and a seed of its own. Each two sites agree
on a mask that one adds and the other subtracts. Each site also adds a mask from its own seed. Before the round, each
site splits both secrets into encrypted shares for the other sites. After the round, the sites help the coordinator: for
a site whose terms arrived, they send their shares of its seed; for a lost site, their shares of its key. They never
send both for the same site and round.

The steps, each a message: ``keys`` (the site's key of this run, certified by its identity); ``shares`` (secrets of the
first round); ``masked`` (the question; the reply also brings the secrets of the *next* round, so that it costs no
message of its own); ``unmask`` (who answered). The keys and seeds of masks are used for one round only. So the loss
of a site reveals nothing about its earlier answers.

Each sealed letter also carries a part of the key for the tags of the round. All sites of the round know this key, and
the coordinator does not. So the sites can detect an altered sum: see :mod:`fedspca.masking.tags` and
:mod:`fedspca.masking.returned`.
"""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fedspca.letters.identity import Identity, InvalidSignature, signed_payload
from fedspca.letters.wire import Message, WireError, decode, encode
from fedspca.masking.coding import unruly
from fedspca.masking.fixed_point import (
    Coding,
    Segment,
    Words,
    add_into,
    encode_terms,
    layout,
)
from fedspca.masking.graph import chosen
from fedspca.masking.messages import KEYS, MASKED, SHARES, UNMASK
from fedspca.masking.secret_sharing import (
    KEY,
    SEALED,
    SEED,
    BrokenSecret,
    derive,
    key_stream,
    new_seed,
    public_key,
    seal,
    shared_secrets,
    unseal,
)
from fedspca.masking.shamir import shares_of
from fedspca.masking.tags import stamp
from fedspca.site.errors import InvalidQuery, SiteRefusal
from fedspca.site.queries import PRIVATE, QUERIES
from fedspca.site.question import Query, Terms, query_hash

Bytes = NDArray[np.uint8]
Answer: TypeAlias = Callable[[Query, Mapping[str, float]], Terms | None]  # the float bounds a term

OTHERS = "all other questions"


@dataclass(frozen=True)
class Party:
    """One site of a run, and the rules for its sums.

    Attributes
    ----------
    name : str
        The site.
    identity : Identity
        Its keys.
    roster : mapping of str to str
        The public key of every site of the study, by name.
    study, run : str
        The study and the run. Every run has different masks.
    threshold : int
        How many sites must help to unmask a sum. The sum must also contain at least this number of sites.
    survives : frozenset of str
        The questions that may be summed over fewer sites than before: releases with noise, which hides the difference.
        Averages of consensus steps are not allowed: the last average with a site and the first without it differ by the
        terms of that site alone. A few such differences determine its covariance.
    whole : bool
        Whether all other sums must contain every site: true if the study waits for a lost site or ends without it.
    base : int or None
        The scale of the study's integers, once a question has used one; see :mod:`fedspca.masking.coding`.
    choices : int
        How many neighbours the site chooses if it masks with neighbours only; 0 if with all sites. See
        :mod:`fedspca.masking.neighbours`.
    """

    name: str
    identity: Identity
    roster: Mapping[str, str]
    study: str
    run: str
    threshold: int
    survives: frozenset[str] = PRIVATE
    whole: bool = False
    base: int | None = None
    choices: int = 0

    @property
    def context(self) -> tuple[str, str]:
        """The study and the run, to which every key is bound."""
        return (self.study, self.run)


def threshold_of(sites: int, min_sites: int) -> int:
    """Return how many sites must help to unmask a sum: more than two thirds, and at least the agreed minimum.

    A dishonest coordinator could tell some sites that a site was lost, and the others that it was not. To get both
    secrets of that site, it needs ``threshold`` sites for each. If c sites collude with it, this requires
    2(threshold − c) ≤ sites − c. A threshold above two thirds is therefore safe if at most a third of them collude.
    """
    return max(min_sites, 2, 2 * sites // 3 + 1)


@dataclass
class MaskingState:
    """What a site keeps between messages. It never leaves the site in this form."""

    seed: str  # seed of the key with which other sites seal letters to this site
    peers: dict[str, str] = field(default_factory=dict)  # the secret shared with each other site, for these letters
    ready: dict[str, Any] = field(default_factory=dict)  # this site's secrets of the round to come
    held: dict[str, Any] = field(default_factory=dict)  # everyone's shares of the round that was answered
    chosen: list[str] = field(default_factory=list)  # the neighbours that this site chose for the run, if it did
    tags: dict[str, str] = field(
        default_factory=dict
    )  # among neighbours: whence the run's key of tags comes, and the key

    def to_array(self) -> Bytes:
        """Return the state as bytes."""
        return np.frombuffer(json.dumps(vars(self)).encode(), np.uint8)

    @classmethod
    def from_array(cls, array: Bytes) -> "MaskingState":
        """Return the state that bytes hold."""
        return cls(**json.loads(array.tobytes()))


# -- the certificate of a key ------------------------------------------------------------------------------------------


def announce_key(party: Party) -> tuple[MaskingState, Message]:
    """Make the site's key of this run, signed with its identity; and choose its neighbours, if it masks with few."""
    seed, names = new_seed(), sorted(party.roster)
    fields = {"study": party.study, "run": party.run, "site": party.name}
    arrays: dict[str, NDArray[Any]] = {"key": np.frombuffer(public_key(seed), np.uint8)}
    neighbours = chosen(names, party.name, party.choices)
    if neighbours:
        arrays["chosen"] = np.array([names.index(name) for name in neighbours], np.uint64)
    certificate = party.identity.sign(encode(Message("certificate", fields, arrays)))
    state = MaskingState(seed.hex(), chosen=neighbours)
    return state, Message(KEYS, {}, {"certificate": np.frombuffer(certificate, np.uint8)})


def certified_key(party: Party, site: str, certificate: bytes) -> bytes:
    """Return the key that a site's certificate holds; a refusal if the site did not sign it for this run."""
    return certified(party, site, certificate).arrays["key"].tobytes()


def certified(party: Party, site: str, certificate: bytes) -> Message:
    """Return what a site's certificate holds; a refusal if the site did not sign it for this run."""
    try:
        message = decode(signed_payload(certificate, party.roster[site], f"site {site!r}"))
        rows_of_bytes(message, "key", KEY)
    except (InvalidSignature, WireError) as error:
        raise SiteRefusal(party.name, SHARES, f"the key shown as site {site!r}'s is not: {error}") from None
    if (message.kind, message.fields) != ("certificate", {"study": party.study, "run": party.run, "site": site}):
        raise SiteRefusal(party.name, SHARES, f"the key shown as site {site!r}'s is one of another run.")
    return message


# -- secrets of a round, shared before it ------------------------------------------------------------------------------


def share(party: Party, state: MaskingState, message: Message) -> tuple[MaskingState, Message]:
    """Take the others' keys, if they are not known yet, and share this site's secrets of the round among them."""
    names = names_in(party, message, "sites")
    if not state.peers:
        certificates = certificates_in(party, message, names)
        keys = {site: certified_key(party, site, certificates[site]) for site in names}
        seed = bytes.fromhex(state.seed)
        if keys[party.name] != public_key(seed):
            raise SiteRefusal(party.name, SHARES, "the key shown as this site's own is not.")
        shared = zip(names, shared_secrets(seed, keys.values()), strict=True)  # once a run: letters go in every round
        state = MaskingState(state.seed, {site: secret.hex() for site, secret in shared})
    elif set(names) - set(state.peers):
        raise SiteRefusal(party.name, SHARES, "a site is named that was not there when keys were exchanged.")
    ready, arrays = _share_new_secrets(party, state, message.number("round"), names)
    return MaskingState(state.seed, state.peers, ready, state.held), Message(SHARES, {}, arrays)


def _share_new_secrets(
    party: Party, state: MaskingState, number: int, names: Sequence[str]
) -> tuple[dict[str, Any], dict[str, Bytes]]:
    """Make the secrets of a round, and seal for every site a share of each and a part of the tags' key."""
    seeds = {"own": new_seed(), "key": new_seed()}
    public, commitment = public_key(seeds["key"]), derive(seeds["own"], "commitment")
    shares = zip(*shares_of([seeds["own"], seeds["key"]], party.threshold, len(names)), strict=True)
    part = new_seed()
    mine, sealed = "", []
    for site, pair in zip(names, shares, strict=True):
        secret = b"".join([*pair, part])
        if site == party.name:
            mine = secret.hex()
            sealed.append(bytes(SEALED))
        else:
            key = _letter_key(party, state, number, party.name, site)
            sealed.append(seal(key, secret, _about(party, number, party.name, site, public, commitment)))
    ready = {"round": number, "sites": list(names), "mine": mine, **{kind: seed.hex() for kind, seed in seeds.items()}}
    arrays = {
        "key": np.frombuffer(public, np.uint8),
        "commitment": np.frombuffer(commitment, np.uint8),
        "shares": np.frombuffer(b"".join(sealed), np.uint8).reshape(-1, SEALED),
    }
    return ready, arrays


def _letter_key(party: Party, state: MaskingState, number: int, sender: str, receiver: str) -> bytes:
    other = receiver if sender == party.name else sender
    return derive(bytes.fromhex(state.peers[other]), *party.context, "letter", number, sender, receiver)


def _about(party: Party, number: int, sender: str, receiver: str, public: bytes, commitment: bytes) -> bytes:
    """What a sealed letter is bound to. It proves that the public key passed on by the coordinator is the sender's."""
    return json.dumps([*party.context, number, sender, receiver, public.hex(), commitment.hex()]).encode()


# -- a round -----------------------------------------------------------------------------------------------------------


def mask_terms(
    party: Party, state: MaskingState, message: Message, query: Query, d: int, answer: Answer
) -> tuple[MaskingState, Message]:
    """Answer a question about d features under masks, and share the secrets of the next round with its sites."""
    number, present = message.number("round"), names_in(party, message, "present")
    if state.ready.get("round") != number:
        raise SiteRefusal(party.name, query.name, f"the secrets of round {number} were not shared before it.")
    if not set(present) <= set(state.ready["sites"]):
        raise SiteRefusal(party.name, query.name, "a site is named with whom no secrets were shared.")
    keys = rows_of_bytes(message, "keys", KEY, len(present))
    commitments = rows_of_bytes(message, "commitments", KEY, len(present))
    sealed = rows_of_bytes(message, "shares", SEALED, len(present))
    shares = {}
    for site, *letter in zip(present, keys, commitments, sealed, strict=True):
        shares[site] = _opened(party, state, number, site, *(part.tobytes() for part in letter)).hex()
    segments = segments_asked(party, message, query, d)
    about = masks_are_for(query, message.fields["coding"], present)
    tag_key = key_of_tags(shares, (*party.context, number, about))
    vector = tagged_terms(party, query, segments, answer, tag_key)
    public = {site: key.tobytes() for site, key in zip(present, keys, strict=True)}
    seeds = {kind: bytes.fromhex(state.ready[kind]) for kind in ("own", "key")}
    add_masks(vector, segments, party.name, seeds, public, (*party.context, number, about))
    ready, arrays = _share_new_secrets(party, state, number + 1, present)
    held = {"round": number, "shares": shares, "question": query_hash(query), "name": query.name, "told": None}
    held |= {"present": present, "key of tags": tag_key.hex(), "form": segments, "due": True}
    return MaskingState(state.seed, state.peers, ready, held), Message(MASKED, {}, {"vector": vector, **arrays})


def tagged_terms(
    party: Party, query: Query, segments: list[Segment], answer: Answer, key: bytes, *, offset: bool = True
) -> Words:
    """Return this site's terms as integers, with their tag; random words if they cannot be computed or do not fit."""
    limits = {segment.name: segment.coding.limit(len(party.roster)) for segment in segments[:-2]}
    vector = encode_terms(answer(query, limits), segments, len(party.roster))
    if not vector[-1]:  # a non-zero last word marks random words, which get no tag
        stamp(vector, segments, key, party.name if offset else None)
    return vector


def key_of_tags(letters: Mapping[str, str], context: tuple[object, ...]) -> bytes:
    """Return the key of a round's tags, from the parts that all its sites sent each other, in the order of names."""
    parts = [bytes.fromhex(letters[site])[2 * SEED :] for site in sorted(letters)]
    return derive(b"".join(parts), *context, "tags", sorted(letters))


def _opened(
    party: Party, state: MaskingState, number: int, site: str, public: bytes, commitment: bytes, sealed: bytes
) -> bytes:
    """Return this site's shares of another's secrets, after checking that its key and commitment are authentic."""
    if site == party.name:
        if public != public_key(bytes.fromhex(state.ready["key"])):
            raise SiteRefusal(party.name, MASKED, "the key shown as this site's own is not.")
        return bytes.fromhex(state.ready["mine"])
    try:
        key = _letter_key(party, state, number, site, party.name)
        return unseal(key, sealed, _about(party, number, site, party.name, public, commitment))
    except BrokenSecret as error:
        raise SiteRefusal(party.name, MASKED, f"the key shown as site {site!r}'s is not: {error}.") from None


def add_masks(
    vector: Words,
    segments: list[Segment],
    name: str,
    seeds: Mapping[str, bytes],
    public: Mapping[str, bytes],
    context: tuple[object, ...],
) -> None:
    """Add to the vector the site's own mask and, for each other site, a mask that cancels with the other's."""
    add_into(vector, key_stream(own_key(seeds["own"], context), len(vector)), segments)
    others = [site for site in public if site != name]
    for site, shared in zip(others, shared_secrets(seeds["key"], (public[site] for site in others)), strict=True):
        mask = key_stream(pair_key(shared, name, site, context), len(vector))
        add_into(vector, mask, segments, subtract=site < name)


def masks_are_for(query: Query, codings: Mapping[str, Sequence[int]], present: Sequence[str]) -> str:
    """Return what the masks of a round are bound to: the question, how its terms are coded, and who was asked.

    If sites are asked different questions, their masks do not cancel. Otherwise a coordinator could ask one site for
    its terms and the others for zeros, and the sum would be the terms of that one site.
    """
    about = [query_hash(query), sorted((name, list(coding)) for name, coding in codings.items()), list(present)]
    return hashlib.sha256(json.dumps(about).encode()).hexdigest()


def own_key(seed: bytes, context: tuple[object, ...]) -> bytes:
    """Return the key of a site's own mask."""
    return derive(seed, *context, "own mask")


def pair_key(shared: bytes, one: str, other: str, context: tuple[object, ...]) -> bytes:
    """Return the key of two sites' mask, from what they share: the first by name adds it, the second subtracts it."""
    return derive(shared, *context, "pair mask", *sorted((one, other)))


def unmask(
    party: Party, state: MaskingState, message: Message, asked: dict[str, str]
) -> tuple[MaskingState, dict[str, str], Message]:
    """Help to unmask the sum of the sites whose terms arrived: return one share for each site of the round, never two.

    ``asked`` remembers each question of the study and over whom its sum was taken. The same question over other sites
    is refused: the difference of the two sums would be the terms of the sites in only one of them. Since different
    questions can ask for the same thing, all questions of a solver must be summed over the same sites.
    """
    number, survivors = message.number("round"), names_in(party, message, "survivors")
    held = state.held
    if held.get("round") != number or held["told"] is not None:
        raise SiteRefusal(party.name, UNMASK, f"round {number} is not waiting to be unmasked.")
    if set(survivors) - set(held["shares"]):
        raise SiteRefusal(party.name, UNMASK, "a site is named whose secrets were not shared.")
    if party.whole and held["name"] not in party.survives and set(survivors) != set(party.roster):
        reason = (
            "the agreement says that the study waits for a lost site or ends, and this sum would be over fewer. With "
            "another study over all sites, the difference of the sums would be the terms of those who are left out."
        )
        raise SiteRefusal(party.name, held["name"], reason)
    group = hashlib.sha256(json.dumps(survivors).encode()).hexdigest()
    keys = [held["question"], *([] if held["name"] in party.survives else [OTHERS])]
    if any(asked.get(key, group) != group for key in keys):
        reason = (
            "questions of this study were summed over other sites before, and the difference of the sums would be the "
            "terms of those in only one. Wait for the lost site, or agree on a new study without it."
        )
        raise SiteRefusal(party.name, held["name"], reason)
    told = []
    for site, shares in held["shares"].items():
        own, key = bytes.fromhex(shares)[:SEED], bytes.fromhex(shares)[SEED : 2 * SEED]
        told.append(own if site in survivors else key)
    reply = Message(UNMASK, {}, {"shares": np.frombuffer(b"".join(told), np.uint8).reshape(-1, SEED)})
    state = MaskingState(state.seed, state.peers, state.ready, {**held, "told": survivors, "shares": {}})
    return state, {**asked, **dict.fromkeys(keys, group)}, reply


# -- reading messages --------------------------------------------------------------------------------------------------


def rows_of_bytes(message: Message, name: str, width: int, count: int | None = None) -> Bytes:
    """Return an array of bytes, after checking its shape and type."""
    array = message.arrays.get(name)
    shape = (width,) if count is None else (count, width)
    if array is None or array.dtype != np.uint8 or array.shape != shape:
        raise WireError(f"The array {name!r} of a {message.kind!r} message must be {shape} bytes.")
    return array


def names_in(party: Party, message: Message, field_name: str) -> list[str]:
    """Return the sites that a message names: enough of them, this one among them, all of the study, in order."""
    names = message.fields.get(field_name)
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise WireError(f"The field {field_name!r} of a {message.kind!r} message must be a list of sites.")
    if names != sorted(set(names)) or not set(names) <= set(party.roster):
        raise SiteRefusal(party.name, message.kind, "it names sites twice, out of order, or that are not in the study.")
    if party.name not in names:
        raise SiteRefusal(party.name, message.kind, "it goes on without this site.")
    if len(names) < party.threshold:
        reason = f"a sum of {len(names)} sites is fewer than the {party.threshold} that must be in it."
        raise SiteRefusal(party.name, message.kind, reason)
    return names


def certificates_in(party: Party, message: Message, names: list[str]) -> dict[str, bytes]:
    """Return the certificates that a message brings, one for each of these sites."""
    lengths, joined = message.fields.get("lengths"), message.arrays.get("certificates")
    if (
        not isinstance(lengths, list)
        or len(lengths) != len(names)
        or not all(isinstance(length, int) and 0 < length < 10_000 for length in lengths)
        or joined is None
        or joined.dtype != np.uint8
        or joined.shape != (sum(lengths),)
    ):
        raise SiteRefusal(party.name, message.kind, "it does not bring a certificate of each site's key.")
    ends = np.cumsum(lengths)
    return {name: joined[end - length : end].tobytes() for name, end, length in zip(names, ends, lengths, strict=True)}


def segments_asked(party: Party, message: Message, query: Query, d: int) -> list[Segment]:
    """Return where each term stands in the vector, from the question alone."""
    if query.name not in QUERIES:
        raise InvalidQuery(
            party.name, query.name, f"there is no such question; there are {', '.join(sorted(QUERIES))}."
        )
    question, codings = QUERIES[query.name], message.fields.get("coding")
    question.validate(party.name, d, query)
    if not isinstance(codings, dict) or set(codings) != set(question.terms):
        raise InvalidQuery(party.name, query.name, "it does not say how each term becomes integers.")
    if not all(
        isinstance(coding, list) and [type(part) for part in coding] == [int, int] for coding in codings.values()
    ):
        raise InvalidQuery(party.name, query.name, "it does not say how each term becomes integers.")
    if (problem := unruly(query, codings, party.base)) is not None:
        raise InvalidQuery(party.name, query.name, problem)
    return layout(question.shapes(d, query), {name: Coding(*coding) for name, coding in codings.items()})
