"""The letters of a study with masks: how a site's door hands them to :mod:`fedspca.masking.party`.

Before a site says anything more, the sum of the round before must have come back with a tag that fits. The question
must then be the one that the agreed study asks next, and its integers those that follow from the sums. Anything else
ends the run at this site.
"""

import json
from functools import wraps

import numpy as np
from numpy.typing import NDArray

from fedspca.door.replay import Replay, Replays, Stated, Summed, difference
from fedspca.door.session import Handler, RunEnded, Session, question
from fedspca.letters.wire import Message
from fedspca.masking.aggregator import Scale
from fedspca.masking.coding import stated_base
from fedspca.masking.fixed_point import decode_terms, segments_of
from fedspca.masking.graph import choices_for
from fedspca.masking.messages import FINISH, KEYS, MASKED, PROTOCOL_ARRAYS, SHARES, UNMASK
from fedspca.masking.neighbours import introduce, mask_among_neighbours
from fedspca.masking.party import MaskingState, Party, announce_key, mask_terms, share, threshold_of, unmask
from fedspca.masking.returned import AlteredSum, Returned, take_sum, transcript
from fedspca.masking.secret_sharing import BrokenSecret
from fedspca.site.errors import SiteRefusal
from fedspca.site.question import Query

STATE = "masking"
SCALE = "scale:"  # what the sums so far imply for the scale of the integers
MEAN = "mean of the question"  # the mean in the last question, for the scale
ROUNDS = "rounds"  # the rounds of this run whose sums came back
TRANSCRIPT = "transcript"  # one digest of all questions and sums of this run, chained by hash
UNLIKE = (
    "If the coordinator is honest, its machine or its version of fedspca computes otherwise than this site's; see "
    "'replay' in the owner's policy.toml."
)
ASKED = "study:asked"  # kept for the whole study, over all runs
BASE = "study:base"


def _safely(handler: Handler) -> Handler:
    """Turn an invalid key or sealed letter, received through the coordinator, into a refusal."""

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
    """Share the secrets of the round to come, or among many sites meet the neighbours."""
    party = _party(session)
    state, reply = (introduce if party.choices else share)(party, _state(session, message), message)
    session.secrets[STATE] = state.to_array()
    return reply


def masked(session: Session, message: Message) -> Message:
    """Answer a question under masks."""
    plain = {name: array for name, array in message.arrays.items() if name not in PROTOCOL_ARRAYS}
    query = question(session.site.name, Message(message.kind, message.fields, plain))
    before = _with_sum(session, message)
    _check_next(session, query)
    _check_codings(session, query, message)
    party = _party(session)
    mask = mask_among_neighbours if party.choices else mask_terms
    state, reply = mask(party, before, message, query, session.site.n_features, session.answer)
    session.secrets[STATE] = state.to_array()
    if (base := stated_base(query, message.fields["coding"])) is not None:
        session.secrets[BASE] = np.array([base])
    session.secrets[MEAN] = query.arrays.get("mean", np.zeros(0))
    return reply


def unmasked(session: Session, message: Message) -> Message:
    """Help to unmask the sum of those who answered."""
    asked = json.loads(session.secrets[ASKED].tobytes()) if ASKED in session.secrets else {}
    party = _party(session)
    if party.choices:
        raise SiteRefusal(party.name, UNMASK, "among so many sites nobody helps to unmask: every sum is over all.")
    state, asked, reply = unmask(party, _state(session, message), message, asked)
    session.secrets[STATE] = state.to_array()
    session.secrets[ASKED] = np.frombuffer(json.dumps(asked).encode(), np.uint8)
    return reply


def finish(session: Session, message: Message) -> Message:
    """Take the last sum, keep the result of the study, and state it in a signed reply that others can check."""
    session.secrets[STATE] = _with_sum(session, message).to_array()
    stated: Stated = {}
    if session.replays is not None:
        replay = _replay(session, session.replays)
        if (left := replay.question()) is not None:
            raise RunEnded(session.site.name, FINISH, f"the agreed study is not over: it asks {left.name!r} next.")
        stated = session.replays.keep(session.agreement, replay.result())
    ledger = session.site.ledger if session.agreement.privacy is not None else None
    spent = None if ledger is None else ledger.spent(session.agreement.hash)
    told = {"transcript": _transcript(session).tobytes().hex(), "beside": session.replays is not None, "spent": spent}
    return Message(FINISH, told, stated)


MASKED_HANDLERS: dict[str, Handler] = {
    kind: _safely(handler)
    for kind, handler in {KEYS: keys, SHARES: shares, MASKED: masked, UNMASK: unmasked, FINISH: finish}.items()
}


# -- checks before a question is answered ------------------------------------------------------------------------------


def _with_sum(session: Session, message: Message) -> MaskingState:
    """Take the sum of the round before, if its tag fits, and update the scale and the replay with it."""
    before = _state(session, message)
    try:
        state, returned = take_sum(_party(session), before, message)
    except AlteredSum as error:
        raise RunEnded(error.site, error.query, error.reason) from None
    if returned is None:
        if session.replays is not None and before.held.get("due"):
            raise RunEnded(session.site.name, message.kind, "the sum of the round before did not come back.")
        return state
    scale = _scale(session)
    scale.learn(Query(returned.query, {"mean": session.secrets[MEAN]}), returned.arrays())
    session.secrets |= {SCALE + name: array for name, array in scale.arrays.items()}
    round_sum = (returned.round, returned.question, returned.sites, returned.vector)
    session.secrets[TRANSCRIPT] = np.frombuffer(transcript(_transcript(session).tobytes(), *round_sum), np.uint8)
    if session.replays is not None and session.store is not None:
        session.store.keep_sum(session.agreement.hash, session.run, returned.round, _kept(returned))
        session.secrets[ROUNDS] = np.append(_rounds(session), returned.round)
    return state


def _check_next(session: Session, query: Query) -> None:
    """End the run unless this is the question that the agreed study asks next."""
    if session.replays is None:
        return
    own = _replay(session, session.replays).question()
    told = "the agreed study is over" if own is None else difference(own, query)
    if told is not None:
        reason = f"this is not what the agreed study asks next: {told}. Nothing more is answered in this run. {UNLIKE}"
        raise RunEnded(session.site.name, query.name, reason)


def _check_codings(session: Session, query: Query, message: Message) -> None:
    """End the run unless the coding of terms as integers follows from the sums so far.

    A coordinator that could choose the coding could try different bounds, and learn which of them a site exceeds.
    """
    if session.replays is None:
        return  # without a replay, only the general rule and the one scale of the study are checked
    own = _scale(session).codings(query, len(session.agreement.sites))
    if message.fields.get("coding") != {name: list(coding) for name, coding in own.items()}:
        reason = (
            "its integers are not those that follow from the sums of the study. Nothing more is answered in this run."
        )
        raise RunEnded(session.site.name, query.name, reason)


def _replay(session: Session, replays: Replays) -> Replay:
    """Return the replay, up to the last sum. An error in it ends the run, here and at the coordinator."""

    def load(number: int) -> Summed:
        assert session.store is not None
        kept = session.store.kept_sum(session.agreement.hash, session.run, number)
        arrays = decode_terms(kept.arrays["vector"], segments_of(kept.fields["form"]))
        return Summed(arrays, tuple(kept.fields["sites"]))

    replay = replays.at(session.agreement, session.run, _rounds(session).tolist(), load)
    try:
        replay.question()
    except (ValueError, ArithmeticError, RuntimeError) as error:
        reason = f"the agreed study cannot go on from these sums: {error}"
        raise RunEnded(session.site.name, "replay", reason) from None
    return replay


def _rounds(session: Session) -> NDArray[np.int64]:
    return session.secrets.get(ROUNDS, np.zeros(0, np.int64))


def _transcript(session: Session) -> NDArray[np.uint8]:
    return session.secrets.get(TRANSCRIPT, np.zeros(0, np.uint8))


def _scale(session: Session) -> Scale:
    return Scale({name.removeprefix(SCALE): kept for name, kept in session.secrets.items() if name.startswith(SCALE)})


def _kept(returned: Returned) -> Message:
    """Return a sum as it is kept."""
    fields = {"round": returned.round, "query": returned.query, "sites": returned.sites, "form": returned.segments}
    return Message("sum", fields, {"vector": returned.vector})


def _party(session: Session) -> Party:
    agreement = session.agreement
    if not agreement.masked:
        raise SiteRefusal(session.site.name, KEYS, "the owner approved a study without masks.")
    threshold = threshold_of(len(agreement.sites), agreement.min_sites)
    base = int(session.secrets[BASE][0]) if BASE in session.secrets else None
    whole = agreement.on_dropout != "continue"
    return Party(
        session.site.name,
        session.identity,
        agreement.sites,
        agreement.hash,
        session.run,
        threshold,
        whole=whole,
        base=base,
        choices=choices_for(len(agreement.sites), whole=whole),
    )


def _state(session: Session, message: Message) -> MaskingState:
    if STATE not in session.secrets:
        raise SiteRefusal(session.site.name, message.kind, "this run has not exchanged keys.")
    return MaskingState.from_array(session.secrets[STATE])
