"""The coordinator's folder: the study's settings and keys, the papers that went out and came back, runs and results.

::

    study.toml              what is to be fitted, and how
    coordinator.key         the key that signs every question
    certificates/           the study's own authority, and the certificate of this machine; given/, if sites see another
    invitations/, replies/  one paper a site
    agreement.json          the agreement as it was last sent to the sites
    update.json             the model that is updated, and which sites add rows or join, if one is
    run/                    the sums of the current run: a resumed run continues from them
    events.jsonl            what happened, one line each
    heads.json              the heads of the sites' logs after each run
    model/                  the result
    bundle/                 what others need to check the study; see fedspca verify
    flower/                 Flower's own files: database, logs, process ids
"""

import json
import secrets
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedspca.data import Schema, agree
from fedspca.door.agreement import Agreement
from fedspca.files import append_line, new_file, new_folder
from fedspca.fit.template import template
from fedspca.letters.identity import Identity
from fedspca.site.preparation import columns_beside
from fedspca.study.papers import Invitation, Reply, invite, read_paper, write_paper
from fedspca.study.settings import OPENING, StudySettings, read_joint_study

if TYPE_CHECKING:
    from fedspca.flower.certificates import Certificates


class StudyFolder:
    """The coordinator's folder of one study."""

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()
        if not (self.path / "study.toml").exists():
            raise ValueError(f"{path}: there is no study here. Make one with: fedspca study init {path}")

    @classmethod
    def create(cls, path: Path, study: StudySettings) -> "StudyFolder":
        """Make the folder of a new study: keys, certificates, and an invitation to each site."""
        from fedspca.flower.certificates import make_certificates

        study.check()
        if path.exists():
            raise FileExistsError(f"{path}: it is there already. Choose another name.")
        coordinator = Identity.new()
        with new_folder(path) as draft:
            certificates = make_certificates(draft / "certificates", [study.host], study.name)
            authority = certificates.authority.read_text(encoding="ascii")
            coordinator.save(draft / "coordinator.key")
            (draft / "study.toml").write_text(template(study, OPENING), encoding="utf-8")
            (draft / "replies").mkdir()
            for site in study.sites:
                paper = invite(study.name, site, study.host, study.port, authority, coordinator)
                write_paper(paper, draft / "invitations" / f"{site}.invitation", coordinator)
        return cls(path)

    @property
    def settings(self) -> StudySettings:
        """The settings, as they now are."""
        return read_joint_study(self.path / "study.toml")

    def check(self) -> None:
        """Raise a ValueError for settings with which no study can run, before anything is sent to the sites."""
        read_joint_study(self.path / "study.toml", whole=True)

    @property
    def identity(self) -> Identity:
        """The coordinator's keys."""
        return Identity.load(self.path / "coordinator.key")

    @property
    def certificates(self) -> "Certificates":
        """Where the certificates are."""
        from fedspca.flower.certificates import Certificates

        home = self.path / "certificates"
        return Certificates(home / "ca.crt", home / "server.crt", home / "server.key")

    @property
    def served(self) -> "Certificates":
        """The certificate that sites are shown: the institution's own, if the coordinator gave one, or the study's."""
        from fedspca.flower.certificates import Certificates

        given = self.path / "certificates" / "given"
        named = Certificates(given / "ca.crt", given / "server.crt", given / "server.key")
        return named if given.exists() else self.certificates

    def renew(self, given: "Certificates | None" = None) -> list[str]:
        """Replace the server's certificate, for the host as it now is in the settings; return who must join anew.

        Parameters
        ----------
        given : Certificates, optional
            A certificate of the institution's own, its key, and the authority that signed it. Without it, the study's
            authority issues one.
        """
        from fedspca.flower.certificates import renew_certificate
        from fedspca.flower.reaching import try_certificate

        study, home = self.settings, self.path / "certificates"
        if given is None:
            shutil.rmtree(home / "given", ignore_errors=True)
            renew_certificate(home, [study.host], study.name)
        elif (wrong := try_certificate(given, study.host)) is not None:
            raise ValueError(f"{given.certificate}: {wrong}.")
        else:
            with new_folder(home / "given") as draft:
                for source, name in zip(given, ("ca.crt", "server.crt", "server.key"), strict=True):
                    with new_file(draft / name, private=True) as copy:
                        copy.write_bytes(source.read_bytes())
        return self._invite_again()

    def _invite_again(self) -> list[str]:
        """Write the invitations anew that name another host, port or authority; return whose they are."""
        study, changed = self.settings, []
        for site in study.sites:
            path = self.path / "invitations" / f"{site}.invitation"
            before = read_paper(path, Invitation, "coordinator")
            authority = self.served.authority.read_text(encoding="ascii", errors="ignore")  # PEM is ASCII
            now = replace(before, host=study.host, port=study.port, authority=authority)
            if now != before:
                write_paper(now, path, self.identity)
                changed.append(site)
        return changed

    @property
    def flower(self) -> Path:
        """Where Flower's own files are."""
        return self.path / "flower"

    @property
    def registered(self) -> Path:
        """The file that records which Flower node belongs to which site."""
        return self.flower / "registered.json"

    @property
    def current_run(self) -> Path:
        """The file that records the number of the current Flower run."""
        return self.flower / "current-run.json"

    @property
    def secret(self) -> Path:
        """The secret file that a process must be able to read to lead a run of this study. It is made on first use."""
        path = self.flower / "lead.secret"
        if not path.exists():
            with new_file(path, private=True) as draft:
                draft.write_bytes(secrets.token_bytes(32))
        return path

    def nodes(self) -> dict[str, Any]:
        """Return the key and the number of each site's node, as Flower registered them."""
        return dict(json.loads(self.registered.read_text(encoding="utf-8"))) if self.registered.exists() else {}

    @property
    def journal(self) -> Path:
        """Where the sums of the current run are."""
        return self.path / "run"

    @property
    def transcript(self) -> Path:
        """Where the questions and sums of the current run are, for the bundle."""
        return self.journal / "transcript"

    @property
    def bundle(self) -> Path:
        """Where the bundle goes, from which others can check the study."""
        return self.path / "bundle"

    @property
    def model(self) -> Path:
        """Where the result goes."""
        return self.path / "model"

    @property
    def finished(self) -> bool:
        """Whether the last run finished: there is a result, and nothing to resume."""
        return not self.journal.exists() and (self.model / "manifest.json").exists()

    def admit(self, path: Path) -> Reply:
        """Take a site's reply to its invitation."""
        reply = read_paper(path, Reply, "public")
        invited = self.path / "invitations" / f"{reply.site}.invitation"
        if not invited.exists():
            raise ValueError(f"{path}: the site {reply.site!r} was not invited to this study.")
        if read_paper(invited, Invitation, "coordinator").token != reply.token:
            raise ValueError(f"{path}: it does not answer the invitation of site {reply.site!r} to this study.")
        Schema.from_json(reply.schema)
        known = self.replies().get(reply.site)
        if known is not None and known.public != reply.public:
            raise ValueError(
                f"{path}: site {reply.site!r} replied before with another key. If it has a new one, remove "
                f"{self.path / 'replies' / reply.site}.reply first."
            )
        with new_file(self.path / "replies" / f"{reply.site}.reply") as draft:
            draft.write_bytes(path.read_bytes())
        return reply

    def replies(self) -> dict[str, Reply]:
        """Return the sites' replies, by name."""
        paths = sorted((self.path / "replies").glob("*.reply"))
        return {path.stem: read_paper(path, Reply, "public") for path in paths}

    def agreement(self) -> Agreement:
        """Return the agreement that follows from the settings and from the sites' replies as they now are."""
        study, replies = self.settings, self.replies()
        missing = [site for site in study.sites if site not in replies]
        if missing:
            raise ValueError(
                f"No reply yet from {', '.join(missing)}. Send the invitation in {self.path / 'invitations'}, and take "
                f"the reply with: fedspca study admit {self.path} REPLY"
            )
        schemas = {site: Schema.from_json(replies[site].schema) for site in study.sites}
        beside = columns_beside(study.fit_settings())
        features, _ = agree({site: schema.without(beside) for site, schema in schemas.items()}, common=study.common)
        keys = {site: replies[site].public for site in study.sites}
        agreement = study.agreement(self.identity.public, keys, tuple(features), self.path, self.update())
        with new_file(self.path / "agreement.json") as draft:
            draft.write_text(agreement.text(), encoding="utf-8")
        return agreement

    def update(self) -> dict[str, Any] | None:
        """Return what the agreement says of the update of a model; None for a new fit."""
        path = self.path / "update.json"
        return dict(json.loads(path.read_text(encoding="utf-8"))) if path.exists() else None

    def plan_update(self, adds: Sequence[str]) -> None:
        """Have the next run update the model of the last one. These sites add rows, or join.

        Called again before that run is finished, it changes nothing: owners may have signed the agreement.
        """
        from fedspca.model import SparsePCAModel
        from fedspca.study.agreed import planned_update

        if not self.model.exists():
            raise ValueError(f"{self.path}: there is no model to update yet. Run the study first.")
        planned, known = planned_update(SparsePCAModel.load(self.model), adds), self.update()
        if known is not None and (known["of"], known["adds"]) == (planned["of"], planned["adds"]):
            return
        before = (self.path / "update.json").read_bytes() if known is not None else None
        with new_file(self.path / "update.json") as draft:
            draft.write_text(json.dumps(planned), encoding="utf-8")
        try:
            self.agreement()
        except ValueError:  # nothing that owners could not sign is left behind
            (self.path / "update.json").unlink()
            if before is not None:
                (self.path / "update.json").write_bytes(before)
            raise

    def invite(self, site: str) -> Path:
        """Invite one more site: it is added to the settings, and its invitation is written."""
        study = self.settings
        if site in study.sites:
            raise ValueError(f"The site {site!r} takes part already.")
        more = replace(study, sites=(*study.sites, site))
        more.check()
        authority = self.certificates.authority.read_text(encoding="ascii")
        path = self.path / "invitations" / f"{site}.invitation"
        write_paper(invite(study.name, site, study.host, study.port, authority, self.identity), path, self.identity)
        with new_file(self.path / "study.toml") as draft:
            draft.write_text(template(more, OPENING), encoding="utf-8")
        return path

    def keep_heads(self, heads: Mapping[str, str]) -> None:
        """Keep the last head of each site's log. An owner or auditor can then detect removed lines."""
        path = self.path / "heads.json"
        kept: dict[str, list[str]] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
        for site, head in heads.items():
            kept[site] = [*kept.get(site, []), head]
        with new_file(path) as draft:
            draft.write_text(json.dumps(kept, indent=1, sort_keys=True), encoding="utf-8")

    def last_said(self, agreement: str) -> tuple[dict[str, str], float] | None:
        """Return the sites' latest responses to this agreement, and their time; None if they were not asked."""
        said = [event for _, event in self.events() if event["event"] == "sites" and event["agreement"] == agreement]
        return (dict(said[-1]["said"]), float(said[-1]["time"])) if said else None

    def tell(self, event: str, **about: Any) -> None:
        """Add an event to the file of events."""
        append_line(self.path / "events.jsonl", json.dumps({"event": event, "time": time.time(), **about}))

    def events(self, start: int = 0) -> Iterator[tuple[int, Mapping[str, Any]]]:
        """Yield the events after a position in the file, each with the position that follows it."""
        path = self.path / "events.jsonl"
        if not path.exists():
            return
        with path.open("rb") as file:
            file.seek(start)
            for line in file:
                if not line.endswith(b"\n"):
                    return  # the line is still being written
                start += len(line)
                event = _parsed(line)
                if event is not None:
                    yield start, event


def _parsed(line: bytes) -> Mapping[str, Any] | None:
    """Return an event, or None for an incomplete line, as a power failure leaves it."""
    try:
        event = json.loads(line)
    except ValueError:
        return None
    return event if isinstance(event, dict) and "event" in event else None
