"""An owner's folder: the site's keys, where its data are, what its owner allows, and what left the site.

::

    site.toml               the data: a file, and what its columns are for
    policy.toml             what the owner allows
    identity.key            the key that signs what the site says
    invitation              the invitation that the site took
    studies/                agreements that were proposed, approvals, which rounds were answered, sums, models
    ledger.jsonl            what was spent on differential privacy
    log.jsonl               what was asked and what left; each line has the hash of the line before
    flower/                 Flower's own files: the node's key, logs, process ids
"""

import json
import shutil
import tomllib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

from fedspca.data.prepare import SiteRows
from fedspca.data.units import unlike_the_others
from fedspca.data.urls import is_url
from fedspca.door.agreement import Agreement
from fedspca.door.endpoint import Endpoint
from fedspca.door.replay import Replays, Stated
from fedspca.door.store import FolderStore
from fedspca.dp.ledger import Ledger
from fedspca.files import Locked, new_file, new_folder, only_one
from fedspca.fit.inputs import Inputs, open_inputs, site_of
from fedspca.fit.settings import FitSettings
from fedspca.fit.settings_file import read_fit_settings
from fedspca.fit.template import template
from fedspca.letters.audit import Audit
from fedspca.letters.identity import Identity
from fedspca.linalg.profile import Profile
from fedspca.model import SparsePCAModel
from fedspca.site import Policy, Site
from fedspca.site.errors import InvalidData
from fedspca.site.policy import GRAM
from fedspca.site.preparation import Preparation
from fedspca.site.queries import QUERIES
from fedspca.study.papers import Invitation, Reply, read_paper, write_paper
from fedspca.study.settings import ALWAYS, ODD_UNITS, QUESTIONS

SITE_OPENING = """\
# Where this site's data are, and what the columns are for. Nothing in this file leaves the machine.
"""
ORDINARY = [*ALWAYS, *QUESTIONS["exact"], GRAM, ODD_UNITS]
POLICY = f"""\
# What this site allows. A study that asks for more is refused, before data are touched.

# Answer only if there are at least this many rows: a sum over few rows says much about each.
min_rows = 10

# A sum must be over at least this many sites: with two, each could subtract its own part.
min_sites = 3

# Terms may leave only under masks, so that nobody sees more than the sum over all sites.
masking = true

# Under masks, run the agreed study here too, and answer only what this run asks. The last digits of what is computed
# depend on the processor, so with unlike machines turn it off: then only the form of a question is checked.
replay = true

# How many questions a study may ask in all its runs, and about how many directions at once.
max_rounds = 1200
max_components = 100

# Of how many features the whole covariance may be asked at once, in one sum: as much as that many rounds of products
# would release. 0 never allows it.
max_gram_features = 4096

# Into how many folds rows may be dealt, so that sums are told by fold and the study can say how sure it is (0: never),
# and how many rows a fold must hold. A site with fewer refuses the study. So it does where fewer differ in a covariate.
max_folds = 10
min_fold_rows = 5

# The questions that may be asked; without this line, all of them:
# {", ".join(sorted(QUERIES))}
# An ordinary study asks these:
# allowed_queries = {json.dumps(ORDINARY)}

# The budget of differential privacy over all studies of this folder: with these lines, a study without it is refused.
# epsilon = 1.0
# delta = 1e-6
"""
Listener: TypeAlias = Callable[[Mapping[str, Any]], object]
KINDS: Mapping[str, tuple[type, ...]] = {
    "min_rows": (int,),
    "min_sites": (int,),
    "masking": (bool,),
    "replay": (bool,),
    "max_rounds": (int,),
    "max_components": (int,),
    "max_gram_features": (int,),
    "max_folds": (int,),
    "min_fold_rows": (int,),
    "allowed_queries": (list,),
    "epsilon": (int, float),
    "delta": (int, float),
}


def read_policy(path: Path) -> Policy:
    """Read ``policy.toml``. Missing settings are as in a new policy file; an unknown setting is refused."""
    try:
        content = tomllib.loads(POLICY) | tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ValueError(f"{path}: there is no policy. Write one with: fedspca site init") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(f"{path}: it is not valid TOML. ({error})") from None
    for name, value in content.items():
        if name not in KINDS:
            raise ValueError(f"{path}: there is no setting {name!r}; there are {', '.join(KINDS)}.")
        if not isinstance(value, KINDS[name]) or (isinstance(value, bool) and bool not in KINDS[name]):
            raise ValueError(f"{path}: {name} has a value of the wrong kind. Got {value!r}.")
    if "allowed_queries" in content:
        unknown = [name for name in content["allowed_queries"] if name not in QUERIES]
        if unknown:
            raise ValueError(f"{path}: there is no question {unknown[0]!r}; there are {', '.join(sorted(QUERIES))}.")
        content["allowed_queries"] = frozenset(content["allowed_queries"])
    try:
        return Policy(**content)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


@dataclass(frozen=True)
class SiteFolder:
    """An owner's folder of one site."""

    path: Path

    def __post_init__(self) -> None:
        object.__setattr__(self, "path", self.path.absolute())
        if not (self.path / "site.toml").exists():
            raise ValueError(
                f"{self.path}: there is no site here. Make one with: fedspca site init DATA -o {self.path}"
            )

    @classmethod
    def create(cls, path: Path, data: FitSettings) -> "SiteFolder":
        """Make the folder of a new site: keys, a policy with safe defaults, and where the data are."""
        from fedspca.flower.certificates import make_node_key

        if path.exists():
            raise FileExistsError(f"{path}: it is there already. Choose another name.")
        _one_site(open_inputs(data))
        absolute = replace(data, files=tuple(f if is_url(f) else str(Path(f).absolute()) for f in data.files))
        with new_folder(path) as draft:
            Identity.new().save(draft / "identity.key")
            make_node_key(draft / "flower")
            (draft / "site.toml").write_text(template(absolute, SITE_OPENING, ("data", "columns")), encoding="utf-8")
            (draft / "policy.toml").write_text(POLICY, encoding="utf-8")
            draft.chmod(0o700)
        return cls(path)

    @property
    def identity(self) -> Identity:
        """The site's keys."""
        return Identity.load(self.path / "identity.key")

    @property
    def policy(self) -> Policy:
        """What the owner allows."""
        return read_policy(self.path / "policy.toml")

    @property
    def data(self) -> FitSettings:
        """Where the data are, and what the columns are for."""
        return read_fit_settings(self.path / "site.toml")

    @property
    def invitation(self) -> Invitation:
        """The invitation that the site took."""
        path = self.path / "invitation"
        if not path.exists():
            raise ValueError(
                f"{self.path}: the site has no invitation yet. Take one with: fedspca site join INVITATION"
            )
        return read_paper(path, Invitation, "coordinator")

    @property
    def store(self) -> FolderStore:
        """What the site keeps of studies."""
        return FolderStore(self.path / "studies", self.identity)

    def audit(self, listener: Listener | None = None) -> Audit:
        """Return the log of what left the site."""
        return Audit(self.path / "log.jsonl", listener)

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Let only one guard at a time answer for this folder: two guards would count the answers separately."""
        try:
            with only_one(self.path / "guard.lock", wait=False):
                yield
        except Locked:
            raise ValueError(f"{self.path}: a guard of this site runs already. Stop it first.") from None

    def join(self, path: Path) -> Reply:
        """Take an invitation, and write the reply that goes back to the coordinator, to ``SITE.reply``."""
        invitation = read_paper(path, Invitation, "coordinator")
        known = self.path / "invitation"
        if known.exists() and self.invitation.coordinator != invitation.coordinator:
            raise ValueError(
                f"{self.path}: the site took part in another study, with another coordinator. "
                "Make a site of its own for each: fedspca site init DATA -o OTHER"
            )
        with new_file(known, private=True) as draft:
            draft.write_bytes(path.read_bytes())
        schema = open_inputs(self.data).schema
        node = (self.path / "flower" / "node.pub").read_text(encoding="ascii")
        identity = self.identity
        reply = Reply(invitation.study, invitation.site, invitation.token, identity.public, node, schema.to_json())
        write_paper(reply, self.reply_file(reply.site), identity)
        return reply

    def leave(self) -> None:
        """Leave the study. Without its invitation and approvals, the site answers no more questions of it.

        The record of what was answered stays, because two studies together may reveal more than each alone. The log of
        what left the site, the privacy ledger, the owner's policy and the site's key stay too.
        """
        from fedspca.flower.certificates import make_node_key

        with self.alone():
            for study in self.store.studies():
                self.store.withdraw(study)
            for paper in (self.path / "invitation", *self.path.glob("*.reply")):
                paper.unlink(missing_ok=True)
            shutil.rmtree(self.path / "flower", ignore_errors=True)
            make_node_key(self.path / "flower")

    def reply_file(self, site: str) -> Path:
        """Where the reply to the invitation is."""
        return self.path / f"{site}.reply"

    def open_site(self, agreement: Agreement | None = None) -> Site:
        """Return the rows as a study uses them; by default with all features of the file, without preparation."""
        asked = self.data if agreement is None else _asked(self.data, agreement)
        inputs = open_inputs(asked)
        policy = self.policy
        preparation = Preparation.of({} if agreement is None else agreement.fit)
        about: dict[str, Any] = {"policy": policy, "feature_names": inputs.feature_names, "allow_missing": True}
        site = site_of(_one_site(inputs), self.invitation.site, asked, preparation, **about)
        site.ledger = self.ledger(policy)
        return site

    def cautions(self) -> list[str]:
        """Return warnings about the current study's model: features whose unit here may not be that of other sites.

        They are computed here, from this site's rows and the joint mean and spread, and shown only to the owner.
        """
        studies = self.proposed() if (self.path / "invitation").exists() else []
        made = self.store.model_folder(studies[-1].hash) if studies else None
        if made is None or not made.exists():
            return []
        model = SparsePCAModel.load(made)
        if model.transforms:  # the joint mean is that of transformed values
            return []
        inputs = open_inputs(replace(self.data, features=model.feature_names, exclude=()))
        return unlike_the_others(model.feature_names, Profile.of(_one_site(inputs).rows), model)

    def ledger(self, policy: Policy | None = None) -> Ledger:
        """Return what was spent on privacy."""
        return Ledger((policy or self.policy).budget, self.path / "ledger.jsonl")

    def replays(self) -> Replays:
        """Return the object that runs each agreed study in parallel to the coordinator, and keeps the model."""
        from fedspca.study.agreed import agreed_work  # imports scikit-learn, which takes longer than most commands

        def keep(agreement: Agreement, model: SparsePCAModel) -> Stated:
            model.save(self.store.model_folder(agreement.hash), overwrite=True)
            return {"components": model.components}

        return Replays(agreed_work, keep)

    def endpoint(
        self, listener: Listener | None = None, site: Site | None = None, replays: Replays | None = None
    ) -> Endpoint:
        """Return the door at which the site answers letters; the listener is called for each."""
        site = site or self.open_site()
        beside = replays or self.replays()
        return Endpoint(
            site,
            self.identity,
            self.invitation.coordinator,
            self.store,
            self.audit(listener),
            arrange=self.open_site,
            replays=beside if site.policy.replay else None,
        )

    def proposed(self) -> list[Agreement]:
        """Return the agreements that the coordinator who invited this site has proposed, the newest last."""
        coordinator = self.invitation.coordinator
        return [study for study in self.store.studies() if study.coordinator == coordinator]

    def approvals(self) -> list[Agreement]:
        """Return all agreements that the site answers: approved and not withdrawn, whatever was proposed since."""
        return [study for study in self.store.studies() if self.store.approved(study.hash) is not None]

    def latest(self) -> Agreement:
        """Return the agreement that was proposed last."""
        studies = self.proposed()
        if not studies:
            raise ValueError(
                "No study was proposed to this site yet. It must be connected (fedspca site join), and the coordinator "
                "must ask once: fedspca study status"
            )
        return studies[-1]


def _asked(data: FitSettings, agreement: Agreement) -> FitSettings:
    """Return where the data are, with the columns that a study takes as features, covariates and weight."""
    beside = {
        name: agreement.fit[name]
        for name in ("adjust", "protect", "levels", "weight", "transform")
        if name in agreement.fit
    }
    return replace(data, features=agreement.features, exclude=(), **beside)


def _one_site(inputs: Inputs) -> SiteRows:
    if len(inputs.sites) != 1:
        raise InvalidData("A site holds one file of rows, its own; the data here make several sites.")
    return inputs.sites[0]
