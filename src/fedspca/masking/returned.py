"""The sum comes back to the sites: each checks that it is the sum of what all of them sent, before it goes on."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedspca.letters.wire import Message
from fedspca.masking.fixed_point import (
    Segment,
    Words,
    decode_terms,
    segments_of,
)
from fedspca.masking.messages import PREVIOUS, SUMMED
from fedspca.masking.party import MaskingState, Party, names_in
from fedspca.masking.tags import fits
from fedspca.site.errors import SiteRefusal


class AlteredSum(SiteRefusal):
    """The coordinator did not return the sum of what the sites sent."""


class Returned(NamedTuple):
    """A sum that came back with the tag of its sites: round, its question's name and hash, who is in it, the sum."""

    round: int
    query: str
    question: str
    sites: tuple[str, ...]
    segments: list[Segment]
    vector: Words

    def arrays(self) -> dict[str, NDArray[np.float64]]:
        """Return the numbers that the sum stands for, as the coordinator decodes them."""
        return decode_terms(self.vector, self.segments)


def take_sum(party: Party, state: MaskingState, message: Message) -> tuple[MaskingState, Returned | None]:
    """Return the sum that a message brings back, if its tag is valid; None if no sum is due or the round has none.

    A round has no sum if numbers did not fit, or if this site did not help to unmask it. Every other sum must come back
    before the site continues.
    """
    held = state.held
    if not held.get("due"):
        return state, None
    if message.fields.get(PREVIOUS) != held["round"]:
        if held["told"] is None:
            return replace(state, held={**held, "due": False}), None
        raise AlteredSum(party.name, message.kind, f"the sum of round {held['round']} was not returned to the sites.")
    segments = segments_of(held["form"])
    sites, vector = names_in(party, message, SUMMED), message.arrays.get(PREVIOUS)
    if vector is None or vector.dtype != np.uint64 or vector.shape != (segments[-1].stop,):
        raise AlteredSum(party.name, message.kind, f"the sum of round {held['round']} has another form than was sent.")
    state = replace(state, held={**held, "due": False})
    if vector[-1]:  # some site's numbers did not fit, so the sum is meaningless
        return state, None
    key = bytes.fromhex(held["key of tags"])
    offsets = held.get("offsets", sites)  # among neighbours one site adds an offset for all
    allowed = set(sites) <= set(held["present"]) if offsets is sites else sites == held["present"]
    if not allowed or not fits(vector, segments, key, offsets):
        reason = (
            f"the sum that the coordinator returned is not the sum of what the sites sent (round {held['round']}, "
            f"{held['name']!r}). Nothing more is answered in this run."
        )
        raise AlteredSum(party.name, message.kind, reason)
    return state, Returned(held["round"], held["name"], held["question"], tuple(sites), segments, vector.copy())


def transcript(before: bytes, number: int, question: str, sites: Sequence[str], vector: Words) -> bytes:
    """Return the digest of a round's question and sum, and of all rounds before it."""
    digest = hashlib.sha256(before + json.dumps([number, question, list(sites)]).encode())
    digest.update(vector.astype("<u8", copy=False).tobytes())
    return digest.digest()
