"""The primitive between machines: one round of letters is one sum.

What happens when a site is lost is the study's choice. ``wait``: the others' answers are kept and the lost one is asked
again until the study's patience ends. ``abort``: the study stops and names it. ``continue``: the study goes on without
it: a consensus method averages over those that are left, and any other fit begins again on them, since what it has
learned was of other rows.
"""

import time
from collections.abc import Mapping

import numpy as np

from fedspca.federation.base import Aggregate, Array, FederationError, add_terms
from fedspca.federation.conversation import SiteLost
from fedspca.federation.roster import Roster
from fedspca.site.endpoint import put_question
from fedspca.site.queries import PRIVATE, QUERIES, random_directions
from fedspca.site.question import Query, Terms
from fedspca.wire import Message

CONSENSUS = frozenset({"faspca_step", "fsspca_step"})
SLACK = 1.01  # rounding, and the joint mean's own
PAUSE = 1.0


class RosterChanged(FederationError):
    """A site was lost and the study goes on without it: what was learned with it no longer counts."""

    def __init__(self, lost: Mapping[str, str]) -> None:
        told = "; ".join(f"site {site!r} was lost ({reason.rstrip('.')})" for site, reason in lost.items())
        super().__init__(f"The study goes on with fewer sites: {told}.")
        self.lost = dict(lost)


class RemoteFederation(Roster):
    """Sites on other machines, each asked by a letter and answering with its own terms."""

    _squares: Mapping[str, Array] | None = None  # the squared deviations that each site told of

    def snapshot(self) -> Message:
        """Return where the rounds stand; :meth:`restore` takes it."""
        return Message("rounds", {"round": self._round, "sites": list(self.sites), "lost": self.lost})

    def restore(self, kept: Message) -> None:
        """Go on from where a snapshot was taken."""
        self._round, self.sites, self.lost = kept.number("round"), tuple(kept.fields["sites"]), kept.fields["lost"]

    def sum(self, query: Query) -> Aggregate:
        """Ask every site and return the sum of their terms."""
        self._round += 1
        agreement = self.agreement
        answers: dict[str, Terms] = {}
        waiting, until = self.sites, time.monotonic() + agreement.patience
        while waiting:
            content = put_question(query)
            replies = self._conversation.ask("ask", self._round, dict.fromkeys(waiting, content), "terms")
            lost = dict(replies.lost)
            for site, message in replies.answered.items():
                problem = self._problem(site, query, message)
                if problem is None:
                    answers[site] = dict(message.arrays)
                else:
                    lost[site] = problem
            waiting = tuple(lost)
            if not lost:
                break
            if agreement.on_dropout == "continue":
                self._go_on_without(lost, query)
                break
            self._complain(lost, query, waiting_still=agreement.on_dropout == "wait" and time.monotonic() < until)
        self._remember(query, answers)
        return add_terms(answers, query)

    def _complain(self, lost: Mapping[str, str], query: Query, *, waiting_still: bool) -> None:
        site, reason = next(iter(lost.items()))
        if not waiting_still:
            raise SiteLost(site, query.name, reason)
        self._notice(f"Round {self._round}: waiting for {', '.join(lost)} ({reason})")
        time.sleep(PAUSE)

    def _go_on_without(self, lost: Mapping[str, str], query: Query) -> None:
        left = tuple(site for site in self.sites if site not in lost)
        site, reason = next(iter(lost.items()))
        least = self.agreement.min_sites
        if len(left) < least:
            raise SiteLost(site, query.name, f"{reason} The {len(left)} sites left are fewer than the {least} needed.")
        self.sites, self.lost = left, {**self.lost, **lost}
        self._notice(f"Round {self._round}: going on without {', '.join(lost)} ({reason})")
        if query.name not in CONSENSUS | PRIVATE:  # a release stands by itself
            raise RosterChanged(self.lost)

    def _problem(self, site: str, query: Query, message: Message) -> str | None:
        """Return why a site's terms are not to be believed, or None."""
        terms = message.arrays
        if not terms or any(value.dtype not in (np.float64, np.float32) for value in terms.values()):
            return f"it answered {query.name!r} with something else than numbers."
        if not all(np.isfinite(value).all() for value in terms.values()):
            return f"it answered {query.name!r} with NaN or infinity; check the units of its columns."
        wanted = QUERIES[query.name].shapes(len(self.feature_names), query)
        found = {name: value.shape for name, value in terms.items()}
        if found != wanted:
            return f"it answered {query.name!r} with arrays of shapes {found}, not {wanted}."
        if "product" in terms and self._squares is not None and site in self._squares:
            # ‖AᵀAQ‖ ≤ tr(AᵀA)‖Q‖, and the trace is what the site itself told of its deviations
            trace = float((self._squares[site] / query.arrays["scale"] ** 2).sum())
            largest = SLACK * trace * _norm_of_directions(query, len(self.feature_names))
            if float(np.linalg.norm(terms["product"])) > largest:
                return f"it answered {query.name!r} with numbers larger than its own rows allow."
        return None

    def _remember(self, query: Query, answers: Mapping[str, Terms]) -> None:
        if query.name == "deviations":
            self._squares = {site: np.asarray(terms["squares"]) for site, terms in answers.items()}


def _norm_of_directions(query: Query, d: int) -> float:
    if "directions" in query.arrays:
        return float(np.linalg.norm(query.arrays["directions"]))
    return float(np.linalg.norm(random_directions(int(query.scalars["seed"]), (d, int(query.scalars["columns"])))))
