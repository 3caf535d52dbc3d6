"""The letters of a study with masks: how a site's door hands them to :mod:`fedspca.masking.party`."""

import json
from functools import wraps

import numpy as np

from fedspca.door.session import Handler, Session, question
from fedspca.letters.wire import Message
from fedspca.masking.coding import stated_base
from fedspca.masking.messages import KEYS, MASKED, PROTOCOL_ARRAYS, SHARES, UNMASK
from fedspca.masking.party import (
    MaskingState,
    Party,
    announce_key,
    mask_terms,
    share,
    threshold_of,
    unmask,
)
from fedspca.masking.secret_sharing import BrokenSecret
from fedspca.site.errors import SiteRefusal

STATE = "masking"
ASKED = "study:asked"  # for as long as the study, whatever the run
BASE = "study:base"


def _safely(handler: Handler) -> Handler:
    """Refuse where a key or a letter that came through the coordinator turns out to be no such thing."""

    @wraps(handler)
    def safe(session: Session, message: Message) -> Message:
        try:
            return handler(session, message)
        except BrokenSecret as error:
            raise SiteRefusal(session.site.name, message.kind, f"{error}.") from None

    return safe


def keys(session: Session, _message: Message) -> Message:
    """Make the site's key of this run."""
    state, reply = announce_key(_party(session))
    session.secrets[STATE] = state.to_array()
    return reply


def shares(session: Session, message: Message) -> Message:
    """Share the secrets of the round to come."""
    state, reply = share(_party(session), _state(session, message), message)
    session.secrets[STATE] = state.to_array()
    return reply


def masked(session: Session, message: Message) -> Message:
    """Answer a question under masks."""
    plain = {name: array for name, array in message.arrays.items() if name not in PROTOCOL_ARRAYS}
    query = question(session.site.name, Message(message.kind, message.fields, plain))
    before = _state(session, message)
    state, reply = mask_terms(_party(session), before, message, query, session.site.n_features, session.answer)
    session.secrets[STATE] = state.to_array()
    if (base := stated_base(query, message.fields["coding"])) is not None:
        session.secrets[BASE] = np.array([base])
    return reply


def unmasked(session: Session, message: Message) -> Message:
    """Help to unmask the sum of those who answered."""
    asked = json.loads(session.secrets[ASKED].tobytes()) if ASKED in session.secrets else {}
    state, asked, reply = unmask(_party(session), _state(session, message), message, asked)
    session.secrets[STATE] = state.to_array()
    session.secrets[ASKED] = np.frombuffer(json.dumps(asked).encode(), np.uint8)
    return reply


MASKED_HANDLERS: dict[str, Handler] = {
    kind: _safely(handler) for kind, handler in {KEYS: keys, SHARES: shares, MASKED: masked, UNMASK: unmasked}.items()
}


def _party(session: Session) -> Party:
    agreement = session.agreement
    if not agreement.masked:
        raise SiteRefusal(session.site.name, KEYS, "the owner approved a study without masks.")
    threshold = threshold_of(len(agreement.sites), agreement.min_sites)
    base = int(session.secrets[BASE][0]) if BASE in session.secrets else None
    return Party(
        session.site.name, session.identity, agreement.sites, agreement.hash, session.run, threshold, base=base
    )


def _state(session: Session, message: Message) -> MaskingState:
    if STATE not in session.secrets:
        raise SiteRefusal(session.site.name, message.kind, "this run has not exchanged keys.")
    return MaskingState.from_array(session.secrets[STATE])
