"""A run of a study, as the coordinator leads it over whatever channel reaches the sites."""

import contextlib
import json
import secrets
import shutil
import time
from collections.abc import Callable
from pathlib import Path

from fedspca.door.agreement import Agreement
from fedspca.federation.base import Aggregate, Federation, FederationError
from fedspca.federation.channel import Channel
from fedspca.federation.conversation import ABSENT, FAILING, Conversation
from fedspca.federation.journal import Journal
from fedspca.federation.plain import PlainFederation
from fedspca.federation.private import under_agreement
from fedspca.federation.resumable import Conversing, ResumableFederation
from fedspca.federation.roster import RosterChanged
from fedspca.federation.secure import SecureFederation, masked_federation
from fedspca.files import disk_is_full, full_disk, new_file
from fedspca.fit.run import versions
from fedspca.letters.identity import InvalidSignature, signed_payload, split_letter
from fedspca.letters.protocol import SOFTWARE
from fedspca.letters.wire import Message, WireError, decode, encode
from fedspca.model import SparsePCAModel
from fedspca.site.errors import SiteError
from fedspca.site.question import Query
from fedspca.solvers.rounds import Round
from fedspca.study.agreed import agreed_model
from fedspca.study.bundle import Recorded, write_bundle
from fedspca.study.coordinator import StudyFolder
from fedspca.study.progress import expected_questions, seconds_left

ACTIONS = ("status", "ping", "run", "resume")
PAUSE = 2.0
WAIT = 90.0  # seconds to wait for absent sites: a disconnected site is admitted again within a minute
APPROVED = "approved"
RUN = "run.json"


def lead(folder: Path, action: str, make_channel: Callable[..., Channel]) -> None:
    """Carry out the coordinator's action. Errors are written to the events in the study's folder."""
    study = StudyFolder(folder)
    action, _, number = action.partition(":")
    try:
        study.tell("begun", action=action)
        study.check()
        agreement, identity = study.agreement(), study.identity
        hello = identity.sign(encode(Message("hello", {"study": agreement.hash})))
        known = {site: int(node["node"]) for site, node in study.nodes().items()}
        channel = make_channel(hello, lambda reply: _name_of(reply, agreement), known)
        if action == "ping":
            ping(study, channel, hello, int(number or 1))
        else:
            run_study(study, channel, action, float(number) if number else None)
    except (ValueError, OSError, FederationError, SiteError) as error:
        _tell_failure(study, error)
        raise
    except BaseException as error:
        study.tell("failed", error=f"{type(error).__name__}: {error}", bug=True)
        raise


def _tell_failure(study: StudyFolder, error: Exception) -> None:
    said = str(error)
    if disk_is_full(error):
        said = f"{full_disk(getattr(error, 'filename', None) or study.path)}: fedspca study resume {study.path}"
    with contextlib.suppress(OSError):  # if the disk is full, the command that follows the run reports it
        study.tell("failed", error=said)


def ping(folder: StudyFolder, channel: Channel, hello: bytes, times: int) -> None:
    """Ask every site who it is, several times, and report the time of each round without any data."""
    sites, agreement = channel.sites, folder.agreement()
    for number in range(1, times + 1):
        began = time.monotonic()
        answers = channel.exchange(dict.fromkeys(sites, hello), agreement.deadline)
        took = round(time.monotonic() - began, 3)
        failing = {site: ABSENT for site in agreement.sites if site not in answers} | getattr(channel, "failures", {})
        folder.tell("ping", number=number, sites=sorted(answers), seconds=took, failing=failing)
    folder.tell("done")


def _name_of(reply: bytes, agreement: Agreement) -> str | None:
    """Return the name of the site that signed a reply, or None if no site of the agreement signed it."""
    try:
        name = decode(split_letter(reply)[1]).text("sender", 100)
        signed_payload(reply, agreement.sites[name], name)
    except (WireError, InvalidSignature, KeyError):
        return None
    return name


def run_study(folder: StudyFolder, channel: Channel, action: str, wait: float | None = None) -> SparsePCAModel | None:
    """Do what the coordinator asked for: see which sites are connected, run the study, or resume a stopped run.

    Parameters
    ----------
    folder : StudyFolder
        The coordinator's folder. What happens is told in its events.
    channel : Channel
        The way to the sites.
    action : {"status", "run", "resume"}
        What to do.
    wait : float, optional
        How many seconds to wait for sites that are absent or whose owners have not approved yet. Without it, the run
        waits only for absent sites: after a restart of the server they take up to a minute to return.
    """
    if action not in ACTIONS:
        raise ValueError(f"There is no action {action!r}; there are {', '.join(ACTIONS)}.")
    agreement = folder.agreement()
    run = _run_name(folder, agreement, resume=action == "resume")
    conversation = Conversation(channel, folder.identity, agreement, run)
    said = _gather(folder, conversation, 0.0 if action == "status" else wait)
    if action == "status":
        folder.tell("done")
        return None
    absent = {site: state for site, state in said.items() if state != APPROVED}
    if absent:
        told = "; ".join(f"{site}: {state.rstrip('.')}" for site, state in absent.items())
        raise FederationError(f"The study does not start, since not every site is here and has approved it. {told}.")
    _tell_releases(folder, conversation)
    inside, kept = _resumable(folder, conversation)
    sums = Recorded(kept, inside, folder.transcript) if isinstance(inside, SecureFederation) else kept
    try:
        model = _fit(folder, agreement, kept, sums)
        model.save(folder.model, overwrite=True)
        _finish(folder, kept)
        if sums is not kept:
            papers = {"approvals": conversation.approvals, "statements": conversation.statements}
            write_bundle(folder.bundle, agreement, folder.identity, folder.transcript, papers, model)
    finally:
        folder.keep_heads(conversation.heads)
    shutil.rmtree(folder.journal)
    folder.tell("done", rounds=len(model.facts["history"]), sites=model.n_sites)
    return model


def _gather(folder: StudyFolder, conversation: Conversation, wait: float | None) -> dict[str, str]:
    """Send the agreement. Return the sites' responses when all have approved or the time is over."""
    said = conversation.propose()
    until = time.monotonic() + (WAIT if wait is None else wait)
    before: dict[str, str] = {}
    while True:
        if said != before:
            folder.tell("sites", said=said, agreement=conversation.agreement.hash)
        awaited = [site for site, state in said.items() if _may_come(state, for_approval=wait is not None)]
        settled = [state for site, state in said.items() if site not in awaited]
        left = until - time.monotonic()
        if not awaited or left <= 0 or settled.count(APPROVED) < len(settled):  # after a refusal, waiting is useless
            return said
        if said != before:
            folder.tell("notice", text=f"Waiting up to {left:.0f} s for {', '.join(awaited)}.")
        time.sleep(PAUSE)
        before, said = said, conversation.propose()


def _tell_releases(folder: StudyFolder, conversation: Conversation) -> None:
    """Report sites that run another release: it is compatible, but the last digits of results may differ."""
    others = {site: release for site, release in conversation.software.items() if release != SOFTWARE}
    if others:
        named = ", ".join(f"{site} {release}" for site, release in sorted(others.items()))
        strict = " A site that checks each question may refuse to go on." if conversation.agreement.masked else ""
        folder.tell("notice", text=f"Other releases of fedspca than {SOFTWARE} here: {named}.{strict}")


def _may_come(state: str, *, for_approval: bool) -> bool:
    """Return whether the response of a site may still change soon."""
    return state == ABSENT or state.startswith(FAILING) or (for_approval and state != APPROVED)


def _run_name(folder: StudyFolder, agreement: Agreement, *, resume: bool) -> str:
    """Return the name of the run: a new one, or that of the run that goes on."""
    path = folder.journal / RUN
    if resume:
        if not path.exists():
            raise ValueError(f"{folder.path}: there is no run to resume. Begin one with: fedspca study run")
        kept = json.loads(path.read_text(encoding="utf-8"))
        if kept["agreement"] != agreement.hash:
            raise ValueError("The study's settings or sites were changed since the run began. Begin a new run.")
        return str(kept["run"])
    return secrets.token_hex(16)


def _resumable(folder: StudyFolder, conversation: Conversation) -> tuple[Conversing, ResumableFederation]:
    """Return the sites of this run, and a federation around them that reuses the earlier sums of a stopped run."""

    def notice(text: str) -> None:
        folder.tell("notice", text=text)

    inside = make_federation(conversation, notice)
    kept = ResumableFederation(inside, _journal(folder, conversation), _tell_question(folder, conversation))
    if kept.replayed:
        notice(f"{kept.replayed} sums were taken before the run was stopped.")
    return inside, kept


def _fit(folder: StudyFolder, agreement: Agreement, kept: ResumableFederation, sums: Federation) -> SparsePCAModel:
    """Fit the model. If a site is lost and the study continues without it, restart the fit with the remaining sites."""

    def notice(text: str) -> None:
        folder.tell("notice", text=text)

    # the private federation wraps the kept sums: a resumed run reuses what was released, and spends nothing twice
    private = None if agreement.privacy is None else under_agreement(sums, agreement, notice)
    told: tuple[str, ...] = ()
    while True:
        try:
            return agreed_model(
                agreement,
                sums,
                lambda: kept.lost,
                private=private,
                callback=lambda record: _tell_round(folder, record),
                told=told,
            )
        except RosterChanged as change:
            told = (*told, str(change).rstrip("."))
            notice(f"{change} What was learned with them is dropped, and the fit begins again.")


def _finish(folder: StudyFolder, kept: ResumableFederation) -> None:
    """Send the last sum to every site, so that it has the model. A site that is absent now gets neither."""
    for site, reason in kept.finish().items():
        folder.tell("notice", text=f"Site {site} was not told the last sum, so it has no model of its own ({reason})")


def make_federation(conversation: Conversation, notice: Callable[[str], object]) -> Conversing:
    """Return the federation that the agreement asks for: plain, or under masks."""
    make = masked_federation if conversation.agreement.masked else PlainFederation
    return make(conversation, notice=notice)


def _journal(folder: StudyFolder, conversation: Conversation) -> Journal:
    """Return the journal of this run; the journal of an earlier run is deleted."""
    path = folder.journal / RUN
    about = {"run": conversation.run, "agreement": conversation.agreement.hash}
    if not path.exists() or json.loads(path.read_text(encoding="utf-8")) != about:
        shutil.rmtree(folder.journal, ignore_errors=True)
        with new_file(path) as draft:
            draft.write_text(json.dumps(about), encoding="utf-8")
    return Journal(folder.journal / "rounds", json.dumps([about, versions()]))


def _tell_question(folder: StudyFolder, conversation: Conversation) -> Callable[[int, Query, Aggregate, float], object]:
    """Return a function that reports every sum: its number, the expected number of sums, and the time that is left."""
    expected, took = expected_questions(conversation.agreement), list[float]()

    def tell(number: int, query: Query, answer: Aggregate, seconds: float) -> None:
        took.append(seconds)
        folder.tell(
            "question",
            number=number,
            expected=expected,
            query=query.name,
            seconds=round(seconds, 3),
            left=seconds_left(number, expected, took),
            bytes_up=answer.bytes_up,
            bytes_down=answer.bytes_down,
        )

    return tell


def _tell_round(folder: StudyFolder, record: Round) -> None:
    folder.tell(
        "round",
        number=record.number,
        query=record.query,
        seconds=round(record.seconds, 3),
        bytes_up=record.bytes_up,
        bytes_down=record.bytes_down,
        objective=record.objective,
        certificate=record.certificate,
    )
