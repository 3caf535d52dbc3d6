"""Check a finished study offline, from its bundle alone: what was agreed, asked, summed, spent, stated and found.

The check needs no secret key and asks no site. It runs the study again from the agreement and the sums, as every site
did: this must give the same questions and the same model as in the bundle. Each site's signed statement must be about
the same questions and sums. The tags cannot be checked outside the sites, because their keys never left the sites. But
a site states a sum only after it has verified the tag.
"""

import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np

from fedspca.door.agreement import Agreement, roster_phrase
from fedspca.door.replay import Replay, Summed, difference
from fedspca.door.store import words_of_approval
from fedspca.dp.accounting import epsilon_of
from fedspca.letters.audit import Audit
from fedspca.letters.wire import Message
from fedspca.masking.aggregator import Scale
from fedspca.masking.fixed_point import decode_terms, layout
from fedspca.masking.messages import FINISH, MASKED
from fedspca.masking.party import threshold_of
from fedspca.masking.returned import transcript
from fedspca.model import SparsePCAModel
from fedspca.site.queries import PRIVATE, QUERIES
from fedspca.site.question import query_hash
from fedspca.study.agreed import agreed_work
from fedspca.study.bundle import (
    InvalidBundle,
    RoundKept,
    digests,
    read_manifest,
    read_round,
    read_rounds,
    read_terms,
    signed,
    statement,
)

SAME_MODEL = 1e-6  # tolerance for rounding differences between machines
SAME_COST = 1e-6


class Finding(NamedTuple):
    """What was checked, whether it holds, and in words what was found."""

    name: str
    holds: bool
    told: str


@dataclass
class Bundle:
    """A bundle as it is checked.

    Parameters
    ----------
    path : Path
        The folder.
    logs : mapping of str to Path
        Logs that owners gave to the person who checks, by site.
    """

    path: Path
    logs: Mapping[str, Path] = field(default_factory=dict)

    @cached_property
    def agreement(self) -> Agreement:
        """The terms."""
        return read_terms(self.path)

    @cached_property
    def rounds(self) -> list[RoundKept]:
        """The questions and sums, in order."""
        return [read_round(path) for path in read_rounds(self.path)]

    @cached_property
    def statements(self) -> dict[str, Message]:
        """What each site of the last sum stated, by name."""
        keys, sites = self.agreement.sites, self.rounds[-1].sites
        return {site: statement(self.path / "statements" / site, keys[site], site) for site in sites if site in keys}

    @cached_property
    def result(self) -> SparsePCAModel:
        """The model that follows from the agreement and the sums; an error where another question was asked."""
        replay = Replay(agreed_work(self.agreement))
        scale = Scale()
        try:
            for kept in self.rounds:
                _fed(replay, scale, kept, self.agreement)
            if (left := replay.question()) is not None:
                raise InvalidBundle(f"the agreed study is not over: it asks {left.name!r} next")
            model: SparsePCAModel = replay.result()
        finally:
            replay.close()
        return model


def verify(path: Path, logs: Mapping[str, Path] | None = None) -> list[Finding]:
    """Check all of a bundle; return one finding for each part, including those that failed.

    Parameters
    ----------
    path : Path
        The bundle.
    logs : mapping of str to Path, optional
        Logs that owners gave to the person who checks, by site.
    """
    bundle = Bundle(path, logs or {})
    if not path.is_dir():
        raise InvalidBundle(f"{path}: there is no such folder.")
    digests(path)  # raises if a link or a device is among the files
    return [_found(name, check, bundle) for name, check in CHECKS.items()]


def _found(name: str, check: Callable[[Bundle], str], bundle: Bundle) -> Finding:
    try:
        return Finding(name, True, check(bundle))
    except (
        ValueError,
        ArithmeticError,
        RuntimeError,
    ) as error:  # false numbers in a bundle can cause any of these errors
        return Finding(name, False, str(error) or type(error).__name__)


# -- the checks --------------------------------------------------------------------------------------------------------


def _agreement(bundle: Bundle) -> str:
    if not bundle.agreement.masked:
        raise InvalidBundle("the study had no masks, so no site could check its sums")
    return f"study {bundle.agreement.study!r}, {len(bundle.agreement.sites)} sites; {roster_phrase(bundle.agreement)}"


def _files(bundle: Bundle) -> str:
    stated, found = read_manifest(bundle.path, bundle.agreement), digests(bundle.path)
    for name in sorted(stated.keys() | found.keys()):
        if stated.get(name) != found.get(name):
            what = "is missing" if name not in found else "was added" if name not in stated else "was altered"
            raise InvalidBundle(f"{name} {what} since the coordinator signed")
    return f"{len(found)} files, as the coordinator signed them"


def _approvals(bundle: Bundle) -> str:
    sites, wanted = bundle.agreement.sites, words_of_approval(bundle.agreement.hash)
    for site, public in sites.items():
        if signed(bundle.path / "approvals" / site, public, f"the owner of {site!r}") != wanted:
            raise InvalidBundle(f"the owner of {site!r} approved another study")
    return f"{len(sites)} owners signed this agreement"


def _questions(bundle: Bundle) -> str:
    _ = bundle.result
    return f"{len(bundle.rounds)} questions, each the one that the agreed study asks next"


def _sums(bundle: Bundle) -> str:
    """Every site states the same questions and sums as the bundle, and thereby that their tags were valid."""
    chain = b""
    for kept in bundle.rounds:
        chain = transcript(chain, kept.number, query_hash(kept.query), kept.sites, kept.vector)
    for site, stated in bundle.statements.items():
        fields = stated.fields
        if stated.kind != FINISH or (fields.get("study"), fields.get("sender")) != (bundle.agreement.hash, site):
            raise InvalidBundle(f"the statement of site {site!r} is about something else")
        if fields.get("run") != next(iter(bundle.statements.values())).fields.get("run"):
            raise InvalidBundle(f"the statement of site {site!r} is about another run")
        if fields.get("transcript") != chain.hex():
            raise InvalidBundle(f"site {site!r} states other questions or sums than stand here")
    return f"{len(bundle.statements)} sites state these sums, whose tags fitted"


def _ledger(bundle: Bundle) -> str:
    privacy, d = bundle.agreement.privacy, len(bundle.agreement.features)
    releases = [kept.query for kept in bundle.rounds if kept.query.name in PRIVATE]
    if privacy is None:
        return "no noise was agreed on, and nothing was to be spent"
    if len(releases) != len(bundle.rounds):
        raise InvalidBundle("a sum without noise is among those of a private study")
    costs = [cost(d, query) for query in releases if (cost := QUERIES[query.name].cost) is not None]
    spent, limit = epsilon_of(costs, float(privacy["delta"])), float(privacy["epsilon"])
    if not spent <= limit * (1 + SAME_COST):
        raise InvalidBundle(f"the releases cost ε = {spent:.4g} and {limit:.4g} was agreed on")
    for site, stated in bundle.statements.items():
        told = stated.fields.get("spent")
        if not isinstance(told, float) or not spent * (1 - SAME_COST) <= told <= limit * (1 + SAME_COST):
            raise InvalidBundle(f"site {site!r} states that it spent ε = {told}, and the releases cost {spent:.4g}")
    return f"ε = {spent:.4g} of {limit:.4g}, as every site's ledger says"


def _model(bundle: Bundle) -> str:
    found = SparsePCAModel.load(bundle.path / "model")
    told = {
        site: stated.arrays for site, stated in bundle.statements.items() if stated.fields.get("beside") is not False
    }
    beside = {f"site {site!r}": arrays.get("components", np.zeros((0, 0))) for site, arrays in told.items()}
    for whose, components in {"the model": found.components, **beside}.items():
        own = bundle.result.components
        if components.shape != own.shape or not np.abs(components - own).max(initial=0.0) <= SAME_MODEL:
            raise InvalidBundle(f"{whose} has other loadings than follow from the sums")
    if found.feature_names != bundle.agreement.features:
        raise InvalidBundle("the model names other features than were agreed on")
    return f"its loadings follow from the sums, and {len(beside)} sites computed the same ones"


def _logs(bundle: Bundle) -> str:
    """Every given log is unbroken, and contains the line that was the last one when its site signed its statement."""
    for site, path in bundle.logs.items():
        if site not in bundle.statements:
            raise InvalidBundle(f"there is no site {site!r} in the study")
        with _copied(path) as copy:
            audit = Audit(copy)
            audit.verify([bundle.statements[site].text("log", 64)], own_head=False)
            answered = sum(_is_answer(line, bundle) for line in audit.lines())
        if answered < len(bundle.rounds):
            raise InvalidBundle(
                f"the log of {site!r} has {answered} answers, and {len(bundle.rounds)} rounds stand here"
            )
    without = len(bundle.agreement.sites) - len(bundle.logs)
    return f"{len(bundle.logs)} logs are whole" + (f"; {without} were not given" if without else "")


CHECKS: Mapping[str, Callable[[Bundle], str]] = {
    "agreement": _agreement,
    "files": _files,
    "approvals": _approvals,
    "questions": _questions,
    "sums": _sums,
    "ledger": _ledger,
    "model": _model,
    "logs": _logs,
}


def _fed(replay: Replay, scale: Scale, kept: RoundKept, agreement: Agreement) -> None:
    """Compare a recorded question with the next question of the replay, and give the replay the recorded sum."""
    own, query, d = replay.question(), kept.query, len(agreement.features)
    told = "the agreed study is over" if own is None else difference(own, query)
    if told is not None:
        raise InvalidBundle(f"round {kept.number}: {told}")
    if not set(kept.sites) <= set(agreement.sites) or len(kept.sites) < threshold_of(
        len(agreement.sites), agreement.min_sites
    ):
        raise InvalidBundle(f"round {kept.number}: the sum is over other sites, or fewer, than were agreed on")
    segments = layout(QUERIES[query.name].shapes(d, query), scale.codings(query, len(agreement.sites)))
    if kept.vector.shape != (segments[-1].stop,):
        raise InvalidBundle(f"round {kept.number}: the sum has another form than the question gives it")
    arrays = decode_terms(kept.vector, segments)
    scale.learn(query, arrays)
    replay.feed(Summed(arrays, kept.sites))


@contextmanager
def _copied(path: Path) -> Iterator[Path]:
    """Copy a log before reading: opening a log moves an unfinished line, but evidence must stay unchanged."""
    with tempfile.TemporaryDirectory() as home:
        copy = Path(home) / "log.jsonl"
        try:
            shutil.copyfile(path, copy)
        except OSError:
            raise InvalidBundle(f"{path}: there is no such log.") from None
        yield copy


def _is_answer(line: Mapping[str, object], bundle: Bundle) -> bool:
    run = next(iter(bundle.statements.values())).fields.get("run")
    return (line.get("kind"), line.get("verdict"), line.get("run")) == (MASKED, "answered", run)
