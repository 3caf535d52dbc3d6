"""What a site has spent of its privacy budget.

What may never change:

- A release is written down before it leaves. If the site stops in between, the budget is spent and nothing has left.
- A release that the owner's budget or the study's does not allow is refused, and nothing of it leaves.
- Lines are only ever added. If a ledger was changed or cut off, the site releases nothing more.
- The same question of the same study, run and round is charged once, since at most one answer to it leaves.
- Every line of an old ledger still counts: ``multiplier`` and ``slack`` keep their names and their meaning.
"""

import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from fedspca.dp.accounting import Budget, Cost, Purpose, epsilon_of
from fedspca.letters.audit import Audit, BrokenLog

DELTA = 1e-6  # if no δ was given


class BudgetSpent(ValueError):
    """A release that the owner's budget, or the study's, does not allow any more."""


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

        If a release was written down but did not leave, because the site was stopped in between, it is not charged
        twice: ``question`` is a hash of all that was asked.
        """
        with self._log.exclusive():  # another process must not spend between the check and the line
            self._charge(cost, what, question, purpose)

    def _charge(self, cost: Cost, what: str, question: str, purpose: Purpose | None) -> None:
        if not 0 < cost.multiplier < math.inf:
            raise BudgetSpent("what this release costs is not known, and no release is free")
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
        """The δ at which ε is reported."""
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
