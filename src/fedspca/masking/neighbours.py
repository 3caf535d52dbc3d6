"""A site's side of secure aggregation among many sites: it masks with its neighbours, and sums are over all sites.

Each site agrees on a secret with each neighbour, once a run, by X25519 with their certified keys. In each round it adds
or subtracts a mask for each neighbour, whose key follows from their secret, the round, the question and the sites. The
masks cancel when the vectors of *all* sites are added, and in no smaller sum. See :mod:`fedspca.masking.graph` for who
is a neighbour, and how many allies of the coordinator this withstands.

One agreement a run is enough, unlike in :mod:`fedspca.masking.party`. There, others may restore the key of a lost site,
so a key must serve one round only. Here no share of any secret exists, and nobody but its two owners ever holds it.
HKDF makes unrelated keys of it for different rounds, and a site answers a round once. So a round is one
exchange: there is nothing to unmask.

The key of tags must be common to all sites and unknown to the coordinator. The first site by name draws it once a run
and sends it to each other site in a sealed letter. Any site could give the key away, so this site is trusted with
no more than all the others.

The steps: ``keys`` (key of the run and choice of neighbours, certified); ``shares`` (the certificates of neighbours,
and the first site replies with the sealed letters); ``masked``.
"""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from fedspca.letters.identity import split_letter
from fedspca.letters.wire import Message, WireError, decode
from fedspca.masking.fixed_point import Segment, Words, add_into
from fedspca.masking.messages import LETTER, LETTERS, MASKED, SHARES
from fedspca.masking.party import (
    Answer,
    MaskingState,
    Party,
    certificates_in,
    certified,
    masks_are_for,
    names_in,
    pair_key,
    rows_of_bytes,
    segments_asked,
    tagged_terms,
)
from fedspca.masking.secret_sharing import SEED, derive, key_stream, new_seed, seal, shared_secrets, unseal
from fedspca.site.errors import SiteRefusal
from fedspca.site.question import Query, query_hash

SEALED_KEY = 12 + SEED + 16  # a nonce, the key of tags, a seal


def choice_in(certificate: Message, names: list[str]) -> list[str]:
    """Return the neighbours that a site chose, by its certificate."""
    places = certificate.arrays.get("chosen")
    if places is None or places.dtype != np.uint64 or places.ndim != 1 or np.any(places >= len(names)):
        raise WireError("A certificate without its site's choice of neighbours.")
    return [names[place] for place in places]


def opened_certificate(certificate: bytes) -> Message:
    """Return what a certificate holds, unchecked: the coordinator only passes it on."""
    return decode(split_letter(certificate)[1])


# -- before the first round --------------------------------------------------------------------------------------------


def introduce(party: Party, state: MaskingState, message: Message) -> tuple[MaskingState, Message]:
    """Agree on a secret with each neighbour. The first site by name also sends the others the key of tags."""
    if state.peers:
        raise SiteRefusal(party.name, SHARES, "the neighbours of this run were shown before.")
    first = min(party.roster)
    names = _shown(party, state, message, first)
    shown = {site: certified(party, site, each) for site, each in certificates_in(party, message, names).items()}
    secrets = _agreed(state, {site: each.arrays["key"].tobytes() for site, each in shown.items()})
    choices = {site: _choice(party, site, each) for site, each in shown.items()}
    neighbours = [site for site in names if site in state.chosen or party.name in choices[site]]
    peers = {site: secrets[site].hex() for site in neighbours}
    if party.name != first:
        return replace(state, peers=peers, tags={"first": secrets[first].hex()}), Message(SHARES)
    key = new_seed()
    letters = np.frombuffer(_letters(party, secrets, key), np.uint8).reshape(-1, SEALED_KEY)
    return replace(state, peers=peers, tags={"key": key.hex()}), Message(SHARES, {}, {LETTERS: letters})


def _shown(party: Party, state: MaskingState, message: Message, first: str) -> list[str]:
    """Return the sites whose certificates a message brings: all that this site chose, and all that it needs."""
    names = message.fields.get("sites")
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise WireError(f"The field 'sites' of a {message.kind!r} message must be a list of sites.")
    if names != sorted(set(names)) or not set(names) <= set(party.roster) - {party.name}:
        raise SiteRefusal(
            party.name, SHARES, "it shows sites twice, out of order, or that are not others of the study."
        )
    needed = set(party.roster) if party.name == first else {*state.chosen, first}
    if missing := sorted(needed - {party.name} - set(names)):
        reason = f"the key of site {missing[0]!r} is not shown. This site chooses its neighbours itself, and needs all."
        raise SiteRefusal(party.name, SHARES, reason)
    return names


def _choice(party: Party, site: str, certificate: Message) -> list[str]:
    try:
        return choice_in(certificate, sorted(party.roster))
    except WireError:
        reason = f"the certificate of site {site!r} does not say whom it chose as neighbours."
        raise SiteRefusal(party.name, SHARES, reason) from None


def _agreed(state: MaskingState, keys: Mapping[str, bytes]) -> dict[str, bytes]:
    return dict(zip(keys, shared_secrets(bytes.fromhex(state.seed), keys.values()), strict=True))


def _letters(party: Party, secrets: Mapping[str, bytes], key: bytes) -> bytes:
    """Return a sealed letter with the key of tags for every site in order; an empty one for this site itself."""
    sealed = [
        seal(_letter_key(party, secrets[site], site), key, _about(party, site))
        if site in secrets
        else bytes(SEALED_KEY)
        for site in sorted(party.roster)
    ]
    return b"".join(sealed)


def _letter_key(party: Party, secret: bytes, receiver: str) -> bytes:
    return derive(secret, *party.context, "letter of the first site", receiver)


def _about(party: Party, receiver: str) -> bytes:
    return repr((*party.context, "key of tags", receiver)).encode()


# -- a round -----------------------------------------------------------------------------------------------------------


def mask_among_neighbours(
    party: Party, state: MaskingState, message: Message, query: Query, d: int, answer: Answer
) -> tuple[MaskingState, Message]:
    """Answer a question about d features under the masks of this site's neighbours."""
    number, present = message.number("round"), names_in(party, message, "present")
    if set(present) != set(party.roster):
        reason = "among so many sites every sum is over all of them, and this one would be over fewer."
        raise SiteRefusal(party.name, query.name, reason)
    if not state.peers:
        raise SiteRefusal(party.name, query.name, "the neighbours of this site were not shown before.")
    if number <= state.held.get("round", 0):
        raise SiteRefusal(party.name, query.name, f"round {number} was answered before: its masks are used up.")
    state = _with_key_of_tags(party, state, message)
    segments = segments_asked(party, message, query, d)
    context = (*party.context, number, masks_are_for(query, message.fields["coding"], present))
    key = derive(bytes.fromhex(state.tags["key"]), *context, "tags")
    first = min(party.roster)
    vector = tagged_terms(party, query, segments, answer, key, offset=party.name == first)
    add_pair_masks(vector, segments, party.name, state.peers, context)
    held = {"round": number, "question": query_hash(query), "name": query.name, "told": present, "present": present}
    held |= {"key of tags": key.hex(), "offsets": [first], "form": segments, "due": True}
    return replace(state, held=held), Message(MASKED, {}, {"vector": vector})


def _with_key_of_tags(party: Party, state: MaskingState, message: Message) -> MaskingState:
    """Take the key of tags from the first site's letter, if it is not known yet."""
    if "key" in state.tags:
        return state
    sealed = rows_of_bytes(message, LETTER, SEALED_KEY).tobytes()
    opened = unseal(
        _letter_key(party, bytes.fromhex(state.tags["first"]), party.name), sealed, _about(party, party.name)
    )
    return replace(state, tags={"key": opened.hex()})


def add_pair_masks(
    vector: Words, segments: list[Segment], name: str, peers: Mapping[str, str], context: tuple[object, ...]
) -> None:
    """Add for each neighbour a mask that cancels with the neighbour's."""
    for site, shared in peers.items():
        mask = key_stream(pair_key(bytes.fromhex(shared), name, site, context), len(vector))
        add_into(vector, mask, segments, subtract=site < name)


def check_masked(message: Message, length: int) -> None:
    """Raise :class:`WireError` unless a masked reply has the form that the protocol gives it."""
    vector: NDArray[np.uint64] | None = message.arrays.get("vector")
    if vector is None or vector.dtype != np.uint64 or vector.shape != (length,):
        raise WireError(f"A {message.kind!r} message without its array 'vector', or with one of another length.")
