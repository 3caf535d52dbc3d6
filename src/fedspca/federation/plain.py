"""The sum between machines without masks: one round of letters gives one sum, and the coordinator sees each term.

When a site is lost and the study goes on without it, a consensus method averages over those that are left. Any other
fit starts again on them, because its results so far came from other rows.
"""

from collections.abc import Mapping

import numpy as np

from fedspca.door.session import put_question
from fedspca.federation.base import Aggregate, Array, add_terms
from fedspca.federation.roster import Roster, RosterChanged
from fedspca.letters.wire import Message
from fedspca.site.answers.products import asked_directions
from fedspca.site.queries import QUERIES
from fedspca.site.question import Query, Terms

SLACK = 1.01  # allows for rounding of the terms and of the joint mean


class PlainFederation(Roster):
    """Sites on other machines, each asked by a letter and answering with its own terms."""

    _squares: Mapping[str, Array] | None = None  # the squared deviations that each site reported

    def snapshot(self) -> Message:
        """Return the state of the rounds, for :meth:`restore`."""
        return Message("rounds", {"round": self._round, "sites": list(self.sites), "lost": self.lost})

    def restore(self, kept: Message) -> None:
        """Continue from a snapshot."""
        self._round, self.sites, self.lost = kept.number("round"), tuple(kept.fields["sites"]), kept.fields["lost"]

    def sum(self, query: Query) -> Aggregate:
        """Ask every site and return the sum of their terms."""
        self._round += 1
        answers: dict[str, Terms] = {}
        waiting, until = self.sites, self._patience_ends()
        content = put_question(query)
        while waiting:
            replies = self._conversation.ask("ask", self._round, dict.fromkeys(waiting, content), "terms")
            lost = dict(replies.lost)
            for site, message in replies.answered.items():
                problem = self._problem(site, query, message)
                if problem is None:
                    answers[site] = dict(message.arrays)
                else:
                    lost[site] = problem
            if not lost:
                break
            if not self._asked_again(lost, query, until):
                question = QUERIES[query.name]
                if not (question.averaged or question.private):  # a private release is valid by itself
                    raise RosterChanged(self.lost)
                break
            waiting = tuple(lost)
        self._remember(query, answers)
        return add_terms(answers, query)

    def _problem(self, site: str, query: Query, message: Message) -> str | None:
        """Return why a site's terms cannot be right, or None."""
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
            # ‖AᵀAQ‖ ≤ tr(AᵀA)‖Q‖, and the site itself reported the trace, with its deviations
            trace = float((self._squares[site] / query.arrays["scale"] ** 2).sum())
            largest = SLACK * trace * float(np.linalg.norm(asked_directions(query)))
            if float(np.linalg.norm(terms["product"])) > largest:
                return f"it answered {query.name!r} with numbers larger than its own rows allow."
        if query.name == "gram" and self._squares is not None and site in self._squares:
            trace = float((self._squares[site] / query.arrays["scale"] ** 2).sum())
            if float(np.linalg.norm(terms["gram"])) > SLACK * trace:  # ‖AᵀA‖ ≤ tr(AᵀA)
                return f"it answered {query.name!r} with numbers larger than its own rows allow."
        return None

    def _remember(self, query: Query, answers: Mapping[str, Terms]) -> None:
        if query.name == "deviations":
            self._squares = {site: np.atleast_2d(terms["squares"]).sum(axis=0) for site, terms in answers.items()}
