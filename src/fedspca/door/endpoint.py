"""A site's door: letters in, letters out. A site answers only what is signed, agreed, approved and allowed.

These are checked in this order: the coordinator's signature; the letter's form and size; the owner's approval of
the study; whether this question was answered before; under masks, the sum of the round before and whether the agreed
study asks this question next; the owner's policy; the question's own form. Only then the site uses its data, writes the
answer into the log, and sends it.

Each (run, round, kind) is answered once. A repeated letter gets exactly the same reply, so a coordinator can continue
after an interruption. A different letter for the same round is refused, so nobody gets a second answer by changing the
question.
"""

import hashlib
import logging
import re
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedspca.door.agreement import Agreement, InvalidAgreement, objections, read_agreement, standing_objections
from fedspca.door.masked import MASKED_HANDLERS
from fedspca.door.replay import Replays
from fedspca.door.session import UNFIT, Handler, RunEnded, Session, question
from fedspca.door.store import ROWS, Store
from fedspca.door.update import update_objections
from fedspca.files import disk_is_full
from fedspca.letters.audit import Audit
from fedspca.letters.identity import Identity, InvalidSignature, signed_payload
from fedspca.letters.protocol import introduction, misunderstanding
from fedspca.letters.wire import MAX_BYTES, Message, WireError, decode, encode
from fedspca.site.errors import InvalidData, InvalidQuery, SiteError, SiteRefusal
from fedspca.site.site import Site

MAX_RUNS = 1000
LONGEST_REASON = 1000
FAILED = "it could not be computed."
RUN = re.compile(r"[0-9a-f]{32}")
ENDED = "ended"  # the key of the reason why nothing more is answered in this run

log = logging.getLogger(__name__)


def ask(session: Session, message: Message) -> Message:
    """Answer a plain question with this site's terms, which the coordinator sees without masks."""
    query = question(session.site.name, message)
    if session.agreement.masked:
        raise SiteRefusal(session.site.name, query.name, "in this study terms leave the site only under masks.")
    terms = session.answer(query)
    if terms is None:  # a normal answer, so that it is counted; it does not say what failed
        return Message("refused", {"query": query.name, "error": "SiteError", "reason": FAILED})
    return Message("terms", {"query": query.name}, terms)


HANDLERS: dict[str, Handler] = {"ask": ask, **MASKED_HANDLERS}


class Endpoint:
    """Answers letters beside the data.

    Parameters
    ----------
    site : Site
        The rows and the owner's policy.
    identity : Identity
        The site's keys.
    coordinator : str
        The public key of the coordinator who invited the site.
    store : Store
        Where the site keeps what it knows of studies.
    audit : Audit, optional
        The log of what left; by default one in memory.
    max_bytes : int
        The longest letter that is taken.
    arrange : callable, optional
        Returns the site with its rows prepared for a study: features in the study's order, covariates and weights.
    replays : Replays, optional
        The site's own run of the agreed study. With masks, only the questions of this run are answered.
    """

    def __init__(
        self,
        site: Site,
        identity: Identity,
        coordinator: str,
        store: Store,
        audit: Audit | None = None,
        max_bytes: int = MAX_BYTES,
        arrange: Callable[[Agreement | None], Site] | None = None,
        replays: Replays | None = None,
    ) -> None:
        self.site = site
        self.identity = identity
        self.audit = audit or Audit()
        self._coordinator = coordinator
        self._store = store
        self._max_bytes = max_bytes
        self._arrange = arrange
        self._prepares: dict[str, Any] = {}
        self._replays = replays
        self._session: Session | None = None
        self._lock = threading.Lock()

    def handle(self, letter: bytes) -> bytes:
        """Return the signed reply to a letter: an answer, or a refusal that says why."""
        with self._lock:
            about: dict[str, Any] = {"bytes_in": len(letter)}
            try:
                payload = self._opened(letter)
                message = decode(payload, self._max_bytes)
                about |= _about(message)
                return self._answered(message, hashlib.sha256(payload).hexdigest(), about)
            except (WireError, InvalidSignature, InvalidAgreement, SiteError) as error:
                return self._refused(error, about)
            except Exception as error:  # no letter may stop the guard; the error is logged
                if disk_is_full(
                    error
                ):  # not caused by the letter, and cannot be logged: nothing leaves until there is space
                    self._session = None
                    raise
                log.exception("A letter could not be answered")
                self._session = None
                return self._refused(SiteError(self.site.name, "?", FAILED), about)

    def _opened(self, letter: bytes) -> bytes:
        if len(letter) > self._max_bytes:
            raise WireError(f"A letter of {len(letter)} bytes is longer than the {self._max_bytes} that are taken.")
        return signed_payload(letter, self._coordinator, "the coordinator")

    def _answered(self, message: Message, digest: str, about: dict[str, Any]) -> bytes:
        if message.kind == "hello":
            return self._sent(self._hello(message), message, about)
        if message.kind == "propose":
            return self._sent(self._proposal(message), message, about)
        session = self._current(message)
        if ENDED in session.secrets:
            raise SiteRefusal(self.site.name, message.kind, session.secrets[ENDED].tobytes().decode())
        if message.kind in session.replies:
            before, reply = session.replies[message.kind]
            if before != digest:
                raise SiteRefusal(self.site.name, message.kind, "the round was answered before, to another letter.")
            self.audit.add(verdict="repeated", digest=_digest(reply), **about)
            return reply
        if message.kind not in HANDLERS:
            raise InvalidQuery(self.site.name, message.kind, f"there is no such kind; there are {sorted(HANDLERS)}.")
        try:
            answer = HANDLERS[message.kind](session, message)
        except BaseException as error:
            self._session = None  # undo partial changes of the handler: read the session again from the store
            if isinstance(error, RunEnded):
                self._end(session.agreement, error)
            raise
        failed = {"failed": True, "failures": session.failures} if session.failed else {}
        session.failed = False
        reply = self._sent(answer, message, {**about, **failed})
        session.replies[message.kind] = (digest, reply)
        self._store.save(session.agreement.hash, _kept(session))
        return reply

    def _end(self, agreement: Agreement, error: RunEnded) -> None:
        """Remember, also after a restart, that nothing more is answered in this run."""
        session = self._session = self._restored(agreement)
        session.secrets[ENDED] = np.frombuffer(error.reason.encode(), np.uint8)
        self._store.save(agreement.hash, _kept(session))

    def _hello(self, message: Message) -> Message:
        study = message.text("study", 64)
        agreement = self._store.approved(study) if study else None
        state = "approved" if agreement else "not approved"
        return Message("hello", {"state": state, "features": len(self.site.feature_names), **introduction()})

    def _proposal(self, message: Message) -> Message:
        """Keep the agreement for the owner, unless the site could not take part in it anyway."""
        if otherwise := misunderstanding(message.fields, "the coordinator"):
            raise InvalidAgreement(otherwise)
        text = message.arrays.get("agreement")
        if text is None or text.dtype != np.uint8 or text.ndim != 1:
            raise InvalidAgreement("A proposal without an agreement.")
        agreement = read_agreement(text.tobytes())
        if agreement.coordinator != self._coordinator:
            raise InvalidAgreement("The agreement names another coordinator than the one who invited this site.")
        if agreement.sites.get(self.site.name) != self.identity.public:
            raise InvalidAgreement(f"The agreement does not name site {self.site.name!r} with its own key.")
        self._arranged(agreement)
        site = self.site
        found = objections(agreement, site.policy, rows=site.n_rows, features=site.feature_names)
        found += update_objections(agreement, self._store, site)
        if agreement.masked and site.disclosed is not None:
            log.warning("A study was not taken: %s", site.disclosed)
            found.append(UNFIT.removesuffix("."))
        if found:
            raise SiteRefusal(site.name, "propose", "; ".join(found) + ".")
        if self._replays is not None and agreement.masked:
            self._check_replay(agreement, self._replays)
        self._store.propose(agreement)
        about = {"agreement": agreement.hash, **introduction()}
        if self._store.approved(agreement.hash) is None:
            return Message("proposal", {"state": "not approved", **about})
        signature = np.frombuffer(self._store.approval(agreement.hash), np.uint8)
        return Message("proposal", {"state": "approved", **about}, {"approval": signature})

    def _check_replay(self, agreement: Agreement, replays: Replays) -> None:
        """Refuse an agreement from which the site cannot compute the questions itself."""
        try:
            replays.work_of(agreement)
        except (ValueError, TypeError) as error:
            raise SiteRefusal(self.site.name, "propose", f"the terms do not say what is asked: {error}") from None

    def _arranged(self, agreement: Agreement) -> None:
        """Prepare the rows for a study: its features in its order, if the site has all of them."""
        wanted = agreement.features
        if (wanted, agreement.prepares) == (self.site.feature_names, self._prepares) or self._arrange is None:
            return
        if set(wanted) <= set(self._arrange(None).feature_names):
            try:
                self.site = self._arrange(agreement)
            except InvalidData as error:  # it may reveal rows: only the owner may read it
                log.warning("The rows cannot be seen as a study asks: %s", error)
                raise SiteRefusal(self.site.name, "propose", UNFIT) from None
            self._prepares = agreement.prepares
            self._session = None

    def _current(self, message: Message) -> Session:
        """Return the session at the round that the message names; an older round or run is refused."""
        study, run, number = message.text("study", 64), message.text("run", 32), message.number("round")
        agreement = self._store.approved(study)
        if agreement is None:
            self._session = None
            raise SiteRefusal(self.site.name, message.kind, "its owner has not approved this study.")
        session = self._session
        if session is None or session.agreement.hash != study:
            session = self._session = self._restored(agreement)
        if not RUN.fullmatch(run):
            raise WireError("The name of a run must be 32 hexadecimal digits.")
        if run != session.run:
            self._begin(session, run)
        if number < session.round or number == 0:
            raise SiteRefusal(self.site.name, message.kind, f"round {number} is over; round {session.round} was asked.")
        if number > session.round:
            session.round, session.replies = number, {}
        return session

    def _begin(self, session: Session, run: str) -> None:
        if run in session.runs or len(session.runs) >= MAX_RUNS:
            raise SiteRefusal(self.site.name, "run", "the run is over: another one was begun after it.")
        session.runs.append(run)
        session.run, session.round, session.replies = run, 0, {}
        # the record of questions and their sites is kept for the whole study
        session.secrets = {name: kept for name, kept in session.secrets.items() if name.startswith("study:")}
        self.site.begin()

    def _restored(self, agreement: Agreement) -> Session:
        self._arranged(agreement)
        found = standing_objections(agreement, self.site.policy)  # policy and rows may have changed since the approval
        kept = self._store.load(agreement.hash)
        if (
            kept is None or f"secret:{ROWS}" not in kept.arrays
        ):  # later, the session compares the rows with those of its first answer
            found += update_objections(agreement, self._store, self.site)
        if found:
            raise SiteRefusal(self.site.name, "run", "; ".join(found) + ".")
        session = Session(agreement, self.site, self.identity, store=self._store, replays=self._replays)
        if kept is None:
            self.site.restore({"answered": np.array(0)})
            return session
        parts: dict[str, dict[str, NDArray[Any]]] = {"site": {}, "secret": {}, "reply": {}}
        for name, array in kept.arrays.items():
            kind, _, rest = name.partition(":")
            parts[kind][rest] = array.copy()
        self.site.restore(parts["site"])
        session.run, session.round, session.runs = kept.fields["run"], kept.fields["round"], list(kept.fields["runs"])
        session.secrets = parts["secret"]
        digests = kept.fields["digests"]
        session.replies = {kind: (digests[kind], reply.tobytes()) for kind, reply in parts["reply"].items()}
        return session

    def _sent(self, answer: Message, message: Message, about: dict[str, Any]) -> bytes:
        """Return the signed reply, written into the log before it leaves."""
        released = [[name, array.dtype.str, list(array.shape)] for name, array in answer.arrays.items()]
        fields = {name: message.fields[name] for name in ("study", "run", "round") if name in message.fields}
        # the reply carries the head of the log: with it, others can detect later that the log was rewritten
        heading = {**fields, "sender": self.site.name, "log": self.audit.head}
        payload = encode(Message(answer.kind, {**answer.fields, **heading}, answer.arrays))
        self.audit.add(
            verdict="refused" if answer.kind == "refused" else "answered",
            reply=answer.kind,
            released=released,
            bytes=len(payload),
            digest=_digest(payload),
            **about,
        )
        return self.identity.sign(payload)

    def _refused(self, error: Exception, about: dict[str, Any]) -> bytes:
        reason = (error.reason if isinstance(error, SiteError) else str(error))[:LONGEST_REASON]
        self.audit.add(verdict="refused", reason=reason, **about)
        about = {name: about[name] for name in ("study", "run", "round", "query") if name in about}
        fields = {**about, "error": type(error).__name__, "reason": reason, "sender": self.site.name}
        return self.identity.sign(encode(Message("refused", fields)))


def _kept(session: Session) -> Message:
    """Return a session as it is kept."""
    arrays = {f"site:{name}": array for name, array in session.site.snapshot().items()}
    arrays |= {f"secret:{name}": array for name, array in session.secrets.items()}
    arrays |= {f"reply:{kind}": np.frombuffer(reply, np.uint8) for kind, (_, reply) in session.replies.items()}
    digests = {kind: digest for kind, (digest, _) in session.replies.items()}
    fields = {"run": session.run, "round": session.round, "runs": session.runs, "digests": digests}
    return Message("state", fields, arrays)


def _about(message: Message) -> dict[str, Any]:
    """Return what the log says of a letter, cut to a sensible length: its writer may be hostile."""
    about: dict[str, Any] = {"kind": message.kind}
    for name in ("study", "run", "round", "query"):
        value = message.fields.get(name)
        if isinstance(value, str | int):
            about[name] = value if isinstance(value, int) and abs(value) < 1 << 63 else str(value)[:64]
    return about


def _digest(payload: bytes) -> str:
    return hashlib.sha256(payload).hexdigest()
