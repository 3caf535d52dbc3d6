"""The letters of a study with masks: how a site's door hands them to :mod:`fedspca.site.masking`."""

import json
from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from fedspca.site.errors import SiteRefusal
from fedspca.site.masking import SURVIVES, MaskingState, Party, certify, mask_terms, share, threshold_of, unmask
from fedspca.site.masks import BrokenSecret
from fedspca.site.queries import PRIVATE
from fedspca.wire import Message

if TYPE_CHECKING:
    from fedspca.site.agreement import Agreement
    from fedspca.site.endpoint import Session

STATE = "masking"
ASKED = "study:asked"  # for as long as the study, whatever the run
COLLUDING = 1  # every site knows the noise that it added itself
PROTOCOL = frozenset({"keys", "commitments", "shares"})  # arrays of a question that are about masks

MaskedHandler: TypeAlias = "Callable[[Session, Message], Message]"


def _safely(handler: MaskedHandler) -> MaskedHandler:
    """Refuse where a key or a letter that came through the coordinator turns out to be no such thing."""

    @wraps(handler)
    def safe(session: "Session", message: Message) -> Message:
        try:
            return handler(session, message)
        except BrokenSecret as error:
            raise SiteRefusal(session.site.name, message.kind, f"{error}.") from None

    return safe


def keys(session: "Session", _message: Message) -> Message:
    """Make the site's key of this run."""
    state, reply = certify(_party(session))
    session.secrets[STATE] = state.to_array()
    return reply


def shares(session: "Session", message: Message) -> Message:
    """Share the secrets of the round to come."""
    state, reply = share(_party(session), _state(session, message), message)
    session.secrets[STATE] = state.to_array()
    return reply


def masked(session: "Session", message: Message) -> Message:
    """Answer a question under masks."""
    from fedspca.site.endpoint import question

    plain = {name: array for name, array in message.arrays.items() if name not in PROTOCOL}
    query = question(session.site.name, Message(message.kind, message.fields, plain))
    before = _state(session, message)
    state, reply = mask_terms(_party(session), before, message, query, session.site.n_features, session.answer)
    session.secrets[STATE] = state.to_array()
    return reply


def unmasked(session: "Session", message: Message) -> Message:
    """Help to unmask the sum of those who answered."""
    asked = json.loads(session.secrets[ASKED].tobytes()) if ASKED in session.secrets else {}
    state, asked, reply = unmask(_party(session), _state(session, message), message, asked)
    session.secrets[STATE] = state.to_array()
    session.secrets[ASKED] = np.frombuffer(json.dumps(asked).encode(), np.uint8)
    return reply


MASKED: dict[str, MaskedHandler] = {
    kind: _safely(handler)
    for kind, handler in {"keys": keys, "shares": shares, "masked": masked, "unmask": unmasked}.items()
}


def noise_among(agreement: "Agreement") -> int:
    """Return how many sites' noise is certainly in a sum and unknown to everyone, lost and colluding ones left out."""
    if not agreement.masked:
        return 1
    colluding = int((agreement.privacy or {}).get("colluding", COLLUDING))
    return max(1, threshold_of(len(agreement.sites), agreement.min_sites) - colluding)


def _party(session: "Session") -> Party:
    agreement = session.agreement
    if not agreement.masked:
        raise SiteRefusal(session.site.name, "keys", "the owner approved a study without masks.")
    threshold = threshold_of(len(agreement.sites), agreement.min_sites)
    survives = SURVIVES if agreement.on_dropout == "continue" else PRIVATE
    return Party(session.site.name, session.identity, agreement.sites, agreement.hash, session.run, threshold, survives)


def _state(session: "Session", message: Message) -> MaskingState:
    if STATE not in session.secrets:
        raise SiteRefusal(session.site.name, message.kind, "this run has not exchanged keys.")
    return MaskingState.from_array(session.secrets[STATE])
