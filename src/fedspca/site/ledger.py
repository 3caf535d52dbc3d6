"""What a site has spent of its privacy: every noised release is written down before it leaves, and then no more.

A release with noise of standard deviation z times what one row can change is a Gaussian mechanism of multiplier z.
Several of them are together one with 1/z² = Σ1/z_k², exactly, so the ε that has been spent is that of one Gaussian.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fedspca.site.audit import Audit, BrokenLog
from fedspca.site.policy import Policy

DELTA = 1e-6  # where nobody said


class BudgetSpent(ValueError):
    """A release that the owner's budget, or the study's, does not allow any more."""


@dataclass(frozen=True)
class Budget:
    """(ε, δ) for adding or removing one row."""

    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        if not (self.epsilon > 0 and 0 < self.delta < 1):
            raise ValueError(f"A budget needs ε > 0 and 0 < δ < 1. Got ε = {self.epsilon!r}, δ = {self.delta!r}.")


@dataclass(frozen=True)
class Purpose:
    """What a release is for, and on which terms the owner approved it.

    Attributes
    ----------
    study, run, round : str, str, int
        Where it belongs.
    budget : Budget
        What the study may spend in all.
    among : int
        How many sites' noise will certainly be in the sum and unknown to everyone: each adds 1/among of its variance.
    """

    study: str
    run: str
    round: int
    budget: Budget
    among: int


@dataclass(frozen=True)
class Cost:
    """What one release costs.

    Attributes
    ----------
    multiplier : float
        Standard deviation of the noise, in units of the most that one row can change.
    slack : float
        How far, in total variation, the noise on integers may be from a Gaussian that was rounded.
    """

    multiplier: float
    slack: float


def epsilon_of(costs: list[Cost], delta: float) -> float:
    """Return the ε that releases cost together at this δ: adding or removing one row, by dp-accounting."""
    from dp_accounting import get_epsilon_gaussian

    if not costs:
        return 0.0
    if any(not cost.multiplier > 0 for cost in costs):
        return math.inf
    multiplier = sum(cost.multiplier**-2 for cost in costs) ** -0.5
    slack, epsilon = sum(cost.slack for cost in costs), 0.0
    for _ in range(100):  # noise that is within `slack` of a Gaussian costs (1 + e^ε) times as much of δ
        left = delta - (1 + math.exp(min(epsilon, 700.0))) * slack
        if left <= 0:
            return math.inf
        before = epsilon
        with np.errstate(all="ignore"):  # it takes the logarithm of zero where there is very much noise
            epsilon = float(get_epsilon_gaussian(multiplier, left))
        if epsilon <= before * (1 + 1e-12):
            return epsilon
    return math.inf


def owners_budget(policy: Policy) -> Budget | None:
    """Return the budget that a policy sets, if it sets one."""
    return None if policy.epsilon is None else Budget(policy.epsilon, policy.delta or DELTA)


class Ledger:
    """The budget of one site's owner, and what was spent of it.

    Parameters
    ----------
    budget : Budget or None
        What may be spent over all studies. None leaves it to each study's own limit; what is spent is written down.
    path : Path, optional
        The file, in which every line seals the lines before it. Without one, the ledger is kept in memory.
    """

    def __init__(self, budget: Budget | None, path: Path | None = None) -> None:
        self.budget = budget
        self._log = Audit(path)
        self._log.verify()

    def charge(self, cost: Cost, what: str, question: str, purpose: Purpose | None = None) -> None:
        """Write a release down before it leaves, or raise :class:`BudgetSpent`.

        A release that was written down and did not leave, because the site was stopped in between, is not charged
        twice: ``question`` is a hash of all that was asked.
        """
        try:
            self._log.verify()
        except BrokenLog as error:
            raise BudgetSpent(f"the ledger was tampered with, so nothing more is released: {error}") from None
        where = {"study": "", "run": "", "round": 0}
        if purpose is not None:
            where = {"study": purpose.study, "run": purpose.run, "round": purpose.round}
            entry = {**where, "question": question}
            if any(entry.items() <= line.items() for line in self.entries()):
                return
            self._check(cost, purpose.budget, "the study may spend", purpose.study)
        if self.budget is not None:
            self._check(cost, self.budget, "the owner allows")
        delta = self.budget.delta if self.budget is not None else purpose.budget.delta if purpose is not None else DELTA
        about = {"what": what, "question": question, "multiplier": cost.multiplier, "slack": cost.slack}
        spent = epsilon_of([*self._costs(None), cost], delta)
        self._log.add(**where, **about, epsilon_spent=spent, delta=delta)

    def entries(self) -> Iterator[Mapping[str, Any]]:
        """Yield what was spent, oldest first."""
        yield from self._log.lines()

    def spent(self, study: str | None = None) -> float:
        """Return the ε spent so far, by one study or in all, at the δ of the budget or else of the last release."""
        return epsilon_of(self._costs(study), self.delta)

    @property
    def delta(self) -> float:
        """The δ at which ε is told."""
        if self.budget is not None:
            return self.budget.delta
        return float(next((line["delta"] for line in reversed(list(self.entries()))), DELTA))

    def content(self) -> dict[str, Any]:
        """Return the ledger for a report: the budget, what is spent, and by which release."""
        about = ("time", "study", "what", "multiplier", "epsilon_spent")
        releases = [{name: line[name] for name in about} for line in self.entries()]
        limit = None if self.budget is None else self.budget.epsilon
        return {"epsilon": self.spent(), "delta": self.delta, "limit": limit, "releases": releases}

    def _costs(self, study: str | None) -> list[Cost]:
        lines = [line for line in self.entries() if study is None or line["study"] == study]
        return [Cost(line["multiplier"], line["slack"]) for line in lines]

    def _check(self, cost: Cost, budget: Budget, whose: str, study: str | None = None) -> None:
        spent = epsilon_of([*self._costs(study), cost], budget.delta)
        if not spent <= budget.epsilon * (1 + 1e-9):
            reason = f"with this release ε would be {spent:.4g} at δ = {budget.delta:g}"
            raise BudgetSpent(f"{reason}, and {whose} {budget.epsilon:.4g}")
