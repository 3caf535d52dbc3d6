"""A coordinator that may be stopped at any moment: each sum is kept, with the state of the conversation after it."""

import time
from collections.abc import Callable
from typing import Protocol

from fedspca.federation.base import Aggregate, Around, Federation
from fedspca.federation.journal import Journal
from fedspca.federation.roster import RosterChanged
from fedspca.letters.wire import Message
from fedspca.site.question import Query


class Conversing(Federation, Protocol):
    """A federation that can save the state of its rounds and continue from it."""

    lost: dict[str, str]

    def snapshot(self) -> Message:
        """Return the state of the rounds."""

    def restore(self, kept: Message) -> None:
        """Continue from a snapshot."""

    def finish(self) -> dict[str, str]:
        """Tell the sites that nothing more is asked; return the sites that could not be reached, and why."""


def _nobody(number: int, query: Query, answer: Aggregate, seconds: float) -> None:
    """Do nothing."""


class ResumableFederation(Around):
    """Sites on other machines, whose sums are kept. What was answered before is not asked again.

    Parameters
    ----------
    federation : Conversing
        Who answers.
    journal : Journal
        Where the sums are kept.
    asked : callable, optional
        Called for every sum that sites were asked for, with its number, the question, the sum, and the seconds.
    """

    _federation: Conversing

    def __init__(
        self,
        federation: Conversing,
        journal: Journal,
        asked: Callable[[int, Query, Aggregate, float], object] = _nobody,
    ) -> None:
        super().__init__(federation)
        self._journal, self._asked = journal, asked
        self._number = 0
        self.replayed = len(journal)

    @property
    def lost(self) -> dict[str, str]:
        """The sites that are no longer asked, and why."""
        return self._federation.lost

    def finish(self) -> dict[str, str]:
        """Tell the sites that nothing more is asked; return the sites that could not be reached, and why."""
        return self._federation.finish()

    def sum(self, query: Query) -> Aggregate:
        """Answer from what was kept, or ask every site and keep the sum."""
        self._number += 1
        if self._number <= self.replayed:
            return self._again(query)
        began = time.monotonic()
        try:
            answer = self._federation.sum(query)
        except RosterChanged:
            self._journal.keep(self._number, query, None, self._federation.snapshot())
            raise
        self._journal.keep(self._number, query, answer, self._federation.snapshot())
        self._asked(self._number, query, answer, time.monotonic() - began)
        return answer

    def _again(self, query: Query) -> Aggregate:
        answer, after = self._journal.kept(self._number, query)
        if after is not None:
            self._federation.restore(after)
        if answer is None:
            raise RosterChanged(self._federation.lost)
        return answer
