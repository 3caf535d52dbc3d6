"""The agreement of a study: what it will ask, of whom, and how. Owners sign the hash of its text before a site answers.

The agreement holds the settings of the fit, the features, each site's public key, how terms travel and what happens
when a site is lost. A coordinator that wants anything else needs another agreement, and so another approval.

What may never change:

- The text contains everything to which an owner consents. Nothing that a site is asked may come from elsewhere.
- The same agreement has the same text and the same hash on every machine. Any change gives another hash.
- A text with a field that is missing or unknown is refused, never completed or ignored: the owner did not read it.
- A field keeps its meaning. A new field, or another meaning, is a new ``version``, and asks for a new approval.
- An agreement never widens a policy: a site answers only what both allow.
"""

import base64
import hashlib
import json
import math
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from functools import cached_property
from typing import Any

from fedspca.masking.party import threshold_of
from fedspca.site.policy import GRAM, Policy
from fedspca.site.preparation import unusual
from fedspca.site.queries import QUERIES

ON_DROPOUT = ("wait", "continue", "abort")
MAX_SITES = 10_000
MAX_TEXT = 1 << 28
BETWEEN_AT_LEAST = 4  # sites under masks; with three, each site could solve for the means of the other two
UPDATE = frozenset({"of", "adds", "components", "basis"})
HASH = re.compile(r"[0-9a-f]{64}")
COLLUDING = 1  # every site knows the noise that it added itself


class InvalidAgreement(ValueError):
    """The text is not an agreement, or the agreement cannot be carried out."""


@dataclass(frozen=True)
class Agreement:
    """What the coordinator and the owners of a study agree on.

    Parameters
    ----------
    study : str
        The study's name.
    coordinator : str
        The coordinator's public key.
    sites : mapping of str to str
        Each site's public key, by the site's name.
    features : tuple of str
        The features, in order.
    fit : mapping
        The settings of the fit: solver, components, sparsity, scaling and so on.
    questions : tuple of str
        Which questions will be asked.
    max_rounds : int
        How many questions at most.
    max_components : int
        The largest number of directions in one question.
    masked : bool
        Whether terms leave the sites under masks only, so that the coordinator learns their sum and nothing else.
    consensus_under_masks : bool
        Whether FASPCA or FSSPCA may be run under masks, although their sums reveal something about single sites.
    privacy : mapping or None
        The differential privacy of what is released; None without it.
    min_sites : int
        The least number of sites in a sum.
    on_dropout : {"wait", "continue", "abort"}
        What happens when a site is lost.
    deadline : float
        Seconds that a site has to answer a question.
    patience : float
        How many seconds to wait for a lost site.
    update : mapping or None
        The model that is updated: ``of``, the hash of the agreement that it came from; ``adds``, the sites that add
        rows or join; ``components`` and ``basis``, the directions that are asked first. None for a new fit.
    """

    study: str
    coordinator: str
    sites: Mapping[str, str]
    features: tuple[str, ...]
    fit: Mapping[str, Any]
    questions: tuple[str, ...] = tuple(sorted(QUERIES))
    max_rounds: int = 500
    max_components: int = 50
    masked: bool = True
    consensus_under_masks: bool = False
    privacy: Mapping[str, Any] | None = None
    min_sites: int = 3
    on_dropout: str = "wait"
    deadline: float = 120.0
    patience: float = 3600.0
    update: Mapping[str, Any] | None = None
    version: int = field(default=1)

    def __post_init__(self) -> None:
        problem = (
            self._problem()
            or _privacy_problem(self.privacy)
            or self._sample_problem()
            or self._update_problem()
            or self._hidden()
        )
        if problem is not None:
            raise InvalidAgreement(problem)

    def _problem(self) -> str | None:
        texts: list[Any] = [self.study, self.coordinator, self.on_dropout]  # the text may have come from anyone
        if not all(isinstance(text, str) and len(text) <= 2000 for text in texts):
            return "The study's name, the coordinator's key and on_dropout must be texts."
        if not _is_table(self.sites, str) or not 0 < len(self.sites) <= MAX_SITES:
            return "The sites must be a table of public keys by name."
        if not _is_list(self.features) or not self.features or not _is_list(self.questions):
            return "The features and the questions must be lists of texts."
        if unknown := sorted(set(self.questions) - set(QUERIES)):
            return f"There is no question {unknown[0]!r}."
        tables: list[Any] = [self.fit, self.privacy or {}]
        if not all(isinstance(table, Mapping) for table in tables):
            return "The settings of the fit and of privacy must be tables."
        for name in ("max_rounds", "max_components", "min_sites"):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                return f"{name} must be a whole number of at least 1. Got {value!r} instead."
        for name in ("deadline", "patience"):
            value = getattr(self, name)
            if not isinstance(value, int | float) or isinstance(value, bool) or not 0 < value < 1e8:
                return f"{name} must be a number of seconds. Got {value!r} instead."
        if self.on_dropout not in ON_DROPOUT:
            return f"on_dropout must be one of {', '.join(ON_DROPOUT)}. Got {self.on_dropout!r} instead."
        if not all(isinstance(flag, bool) for flag in (self.masked, self.consensus_under_masks)) or self.version != 1:
            return "masked and consensus_under_masks must be true or false, and the version 1."
        if len(self.sites) < self.min_sites:
            return f"The study has {len(self.sites)} sites and needs at least {self.min_sites}."
        return None

    def _sample_problem(self) -> str | None:
        if self.sample and (self.privacy is not None or self.folds):
            return "A study with noise or with sums by fold has no sample of the rows."
        return None

    def _update_problem(self) -> str | None:
        if self.update is None:
            return None
        update: Any = self.update
        if not isinstance(update, Mapping) or set(update) != UPDATE:
            return f"An update must be a table of {', '.join(sorted(UPDATE))}."
        adds, of = update["adds"], update["of"]
        if not isinstance(of, str) or not HASH.fullmatch(of):
            return "An update must name the agreement of the model that it updates, by its hash."
        if not isinstance(adds, list) or len({str(name) for name in adds}) != len(adds) or not adds:
            return "An update must be a list of the sites that add rows or join, each once."
        if unknown := [name for name in adds if name not in self.sites]:
            return f"An update names the site {unknown[0]!r}, which does not take part."
        if not all(_is_matrix(update[name], len(self.features)) for name in ("components", "basis")):
            return "The directions of an update must be lists of as many numbers as there are features."
        if self.masked and self.privacy is None and len(adds) < self.min_sites:
            return (
                f"Under masks at least {self.min_sites} sites (min_sites) must add rows or join: the difference of the "
                f"two models would be of {', '.join(adds)} alone. Wait until more sites have new rows, or add noise."
            )
        return None

    def _hidden(self) -> str | None:
        shown = [self.study, *self.sites, *map(str, self.fit.values()), *map(str, (self.privacy or {}).values())]
        if all(text.isprintable() for text in shown):
            return None
        return "The names and settings of a study must be plain text: an owner reads them in a terminal."

    @property
    def prepares(self) -> dict[str, Any]:
        """How rows are prepared: covariates, weights, removal of site means; empty without preparation."""
        transform = {"transform": self.fit["transform"]} if self.fit.get("transform") else {}
        return unusual(self.fit) | transform

    def text(self) -> str:
        """Return the agreement as a text: always the same text for the same agreement."""
        return json.dumps(asdict(self), sort_keys=True, indent=1, ensure_ascii=False)

    @property
    def folds(self) -> int:
        """The number of folds for which separate sums are released; 0 for one sum over all rows."""
        folds = self.fit.get("folds")
        return folds if isinstance(folds, int) else 0

    @property
    def sample(self) -> int:
        """One row in how many is asked about first; 0 if all rows are."""
        sample = self.fit.get("sample")
        return sample if isinstance(sample, int) else 0

    @cached_property
    def hash(self) -> str:
        """The hash that owners sign."""
        return hashlib.sha256(self.text().encode()).hexdigest()


def roster_phrase(agreement: Agreement) -> str:
    """Return a phrase that owners compare aloud: eight short groups, computed from every site's key and all terms.

    If a coordinator shows two owners different lists of sites, for example with false sites of its own, the owners see
    different phrases. A phrase has 160 bits.
    """
    about = json.dumps(["fedspca roster", agreement.hash, agreement.coordinator, sorted(agreement.sites.items())])
    text = base64.b32encode(hashlib.sha256(about.encode()).digest()[:20]).decode().lower()
    return " ".join(text[start : start + 4] for start in range(0, 32, 4))


def read_agreement(text: str | bytes) -> Agreement:
    """Return the agreement that a text holds; :class:`InvalidAgreement` if it holds none."""
    if len(text) > MAX_TEXT:
        raise InvalidAgreement("The text is too long for an agreement.")
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        raise InvalidAgreement("The text is not an agreement: it is not JSON.") from None
    names = {about.name for about in fields(Agreement)}
    if not isinstance(content, dict) or set(content) != names:
        raise InvalidAgreement("The text is not an agreement of this version of fedspca.")
    for name in ("features", "questions"):
        content[name] = tuple(content[name]) if isinstance(content[name], list) else ()
    return Agreement(**content)


def objections(agreement: Agreement, policy: Policy, *, rows: int, features: tuple[str, ...]) -> list[str]:
    """Return why a site with this policy and these rows does not take part; an empty list if it does."""
    found = []
    if features != agreement.features:
        found.append(_schema_difference(features, agreement.features))
    if rows < policy.min_rows:
        found.append(f"it holds fewer rows than the {policy.min_rows} that its policy requires")
    if policy.allowed_queries is not None and (more := set(agreement.questions) - policy.allowed_queries):
        found.append(f"the study asks {', '.join(sorted(more))}, which its policy does not allow")
    if policy.max_rounds is not None and agreement.max_rounds > policy.max_rounds:
        found.append(f"the study may ask {agreement.max_rounds} questions and its policy allows {policy.max_rounds}")
    if policy.max_components is not None and agreement.max_components > policy.max_components:
        limit = policy.max_components
        found.append(f"the study asks about up to {agreement.max_components} directions and its policy allows {limit}")
    named = policy.allowed_queries is None or GRAM in policy.allowed_queries  # otherwise an objection was added above
    if GRAM in agreement.questions and named and not policy.allows_gram(len(features)):
        found.append(
            f"the study asks for the whole covariance of {len(features)} features and its policy allows it for at most "
            f"{policy.max_gram_features}"
        )
    if (folds := agreement.folds) > policy.max_folds:
        found.append(f"the study asks for sums by {folds} folds and its policy allows at most {policy.max_folds}")
    elif rows < folds * policy.min_fold_rows:
        found.append(
            f"it holds too few rows for {folds} folds of at least {policy.min_fold_rows}, as its policy requires"
        )
    if agreement.sample and (told := policy.sample_objection(rows // agreement.sample, agreement.sample)) is not None:
        found.append(told.rstrip("."))
    if agreement.masked and agreement.privacy is None and agreement.on_dropout == "continue":
        found.append("under masks a study without noise waits for a lost site or ends, and this one would go on")
    return found + standing_objections(agreement, policy)


def standing_objections(agreement: Agreement, policy: Policy) -> list[str]:
    """Return the objections that the check of a single question would not find."""
    found = []
    if agreement.min_sites < policy.min_sites:
        found.append(f"the study may go on with {agreement.min_sites} sites and its policy requires {policy.min_sites}")
    if policy.masking and not agreement.masked:
        found.append("its policy requires masks, so that only the sum is seen, and the study has none")
    return found + _budget_objections(agreement, policy)


def owners_objections(agreement: Agreement, rows: int) -> list[str]:
    """Return objections that only the owner may read, since they reveal the number of rows."""
    components = agreement.fit.get("components", 1)
    if isinstance(components, int) and rows <= components:
        return [f"this site holds {rows} rows, which are not more than the {components} components"]
    return []


def noise_among(agreement: Agreement) -> int:
    """Return how many sites certainly add secret noise to a sum: lost and colluding sites are not counted."""
    if not agreement.masked:
        return 1
    colluding = int((agreement.privacy or {}).get("colluding", COLLUDING))
    return max(1, threshold_of(len(agreement.sites), agreement.min_sites) - colluding)


def _budget_objections(agreement: Agreement, policy: Policy) -> list[str]:
    if policy.epsilon is None:
        return []
    if agreement.privacy is None:
        return [f"its policy requires differential privacy with ε at most {policy.epsilon:g}, and the study has none"]
    asked = agreement.privacy.get("epsilon")
    if not isinstance(asked, int | float) or not asked <= policy.epsilon:
        return [f"the study spends ε = {asked} and its policy allows {policy.epsilon:g}"]
    return []


def _privacy_problem(privacy: Any) -> str | None:
    """Return what is wrong with the settings that a site relies on; the coordinator checks the others."""
    if privacy is None:
        return None
    if not isinstance(privacy, Mapping):
        return "The settings of privacy must be a table."
    epsilon, delta, colluding = (privacy.get(name, 0) for name in ("epsilon", "delta", "colluding"))
    if not all(isinstance(value, int | float) and not isinstance(value, bool) for value in (epsilon, delta)):
        return "Privacy needs epsilon and delta."
    if not (epsilon > 0 and 0 < delta < 1):
        return f"Privacy needs a positive epsilon, and delta between 0 and 1. Got {epsilon!r} and {delta!r}."
    if not isinstance(colluding, int) or isinstance(colluding, bool) or colluding < 0:
        return f"colluding must be a number of sites. Got {colluding!r} instead."
    return None


def _schema_difference(mine: tuple[str, ...], theirs: tuple[str, ...]) -> str:
    if len(mine) != len(theirs):
        missing = [name for name in theirs if name not in set(mine)][:3]
        hint = f"; it lacks {', '.join(map(repr, missing))}" if missing else ""
        return f"it has {len(mine)} features and the study {len(theirs)}{hint}"
    column = next(j for j, pair in enumerate(zip(mine, theirs, strict=True)) if pair[0] != pair[1])
    return f"its column {column} is {mine[column]!r} and the study's {theirs[column]!r}"


def _is_matrix(value: Any, columns: int) -> bool:
    """Whether a value is a list of lists of so many finite numbers."""
    return isinstance(value, list) and all(
        isinstance(row, list)
        and len(row) == columns
        and all(isinstance(number, int | float) and math.isfinite(number) for number in row)
        for row in value
    )


def _is_list(value: Any) -> bool:
    return isinstance(value, tuple) and all(isinstance(item, str) for item in value)


def _is_table(value: Any, kind: type) -> bool:
    return isinstance(value, Mapping) and all(isinstance(k, str) and isinstance(v, kind) for k, v in value.items())
