"""Who takes part in a run between machines, and what happens when a site is lost. Only this module decides it.

The study's choice is ``on_dropout``. ``wait``: the others' answers are kept and the lost site is asked again until the
study's patience ends. ``abort``: the study stops and names the lost site. ``continue``: the study goes on without
the lost site, if enough sites are left and the question allows it.
"""

import time
from collections.abc import Callable, Mapping

from fedspca.door.agreement import Agreement
from fedspca.federation.base import FederationError
from fedspca.federation.conversation import Conversation, SiteLost
from fedspca.site.policy import GRAM
from fedspca.site.preparation import Preparation
from fedspca.site.question import Query

PAUSE = 1.0


class RosterChanged(FederationError):
    """A site was lost and the study continues without it: earlier results, which include that site, are not used."""

    def __init__(self, lost: Mapping[str, str]) -> None:
        told = "; ".join(f"site {site!r} was lost ({reason.rstrip('.')})" for site, reason in lost.items())
        super().__init__(f"The study goes on with fewer sites: {told}.")
        self.lost = dict(lost)


class Roster:
    """The sites of a run, asked by letters. ``lost`` says who is no longer asked, and why.

    Parameters
    ----------
    conversation : Conversation
        The run. Its agreement names the sites, the fewest that may be in a sum, and what happens when one is lost.
    sites : sequence of str, optional
        Who takes part; by default everyone whom the agreement names.
    notice : callable, optional
        Called with a sentence about what happens to sites.
    """

    def __init__(
        self,
        conversation: Conversation,
        *,
        sites: tuple[str, ...] | None = None,
        notice: Callable[[str], object] = lambda _: None,
    ) -> None:
        self.sites = tuple(sorted(conversation.agreement.sites if sites is None else sites))
        self.lost: dict[str, str] = {}
        self._conversation = conversation
        self._notice = notice
        self._round = 0

    @property
    def n_sites(self) -> int:
        """How many sites take part."""
        return len(self.sites)

    @property
    def agreement(self) -> Agreement:
        """The agreement of the study."""
        return self._conversation.agreement

    @property
    def feature_names(self) -> tuple[str, ...]:
        """The features that the sites agreed on."""
        return self.agreement.features

    @property
    def preparation(self) -> Preparation:
        """How the sites agreed to see their rows."""
        return Preparation.of(self.agreement.fit)

    def answers_gram(self) -> bool:
        """Whether the sites agreed to be asked for the whole covariance."""
        return GRAM in self.agreement.questions

    def most_directions(self) -> int | None:
        """About how many directions the sites agreed to be asked at once."""
        return self.agreement.max_components

    def finish(self) -> dict[str, str]:
        """Tell the sites that nothing more is asked, where they need to know; return who could not be told, and why."""
        return {}

    # -- what happens when sites are lost -----------------------------------------------------------------------------

    def _patience_ends(self) -> float:
        """Return the time until which the study waits for lost sites, if it waits."""
        return time.monotonic() + self.agreement.patience

    def _asked_again(self, lost: Mapping[str, str], query: Query, until: float) -> bool:
        """Settle what happens to sites that did not answer: True to ask them again, False to go on without them."""
        if self.agreement.on_dropout == "continue":
            self._leave_out(lost, query)
            return False
        self._wait_or_stop(lost, query, until)
        return True

    def _wait_or_stop(self, lost: Mapping[str, str], query: Query, until: float, purpose: str = "") -> None:
        """Wait a little for the lost sites, or raise :class:`SiteLost` if the study does not wait any longer."""
        site, reason = next(iter(lost.items()))
        if self.agreement.on_dropout != "wait" or time.monotonic() >= until:
            raise SiteLost(site, query.name, reason)
        self._notice(f"Round {self._round}: waiting for {', '.join(lost)}{purpose} ({reason})")
        time.sleep(PAUSE)

    def _leave_out(self, lost: Mapping[str, str], query: Query) -> None:
        """Continue without the lost sites, or raise :class:`SiteLost` if that is not allowed."""
        left = tuple(site for site in self.sites if site not in lost)
        site, reason = next(iter(lost.items()))
        if len(left) < self._fewest():
            reason = f"{reason} The {len(left)} sites left are fewer than the {self._fewest()} needed."
            raise SiteLost(site, query.name, reason)
        if (objection := self._objection_to_fewer(query)) is not None:
            raise SiteLost(site, query.name, f"{reason} {objection}")
        self.sites, self.lost = left, {**self.lost, **lost}
        self._notice(f"Round {self._round}: going on without {', '.join(lost)} ({reason})")

    def _fewest(self) -> int:
        """Return the fewest sites that a sum may be over."""
        return self.agreement.min_sites

    def _objection_to_fewer(self, query: Query) -> str | None:
        """Return why this question may not be summed over fewer sites than those before it, or None."""
        return None
