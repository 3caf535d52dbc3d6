"""What the owner of a site's data allows."""

from dataclasses import dataclass

from fedspca.dp.accounting import Budget
from fedspca.dp.ledger import DELTA
from fedspca.site.errors import SiteRefusal


@dataclass(frozen=True)
class Policy:
    """The terms on which a site answers; a question that asks for more is refused before data are touched.

    Parameters
    ----------
    min_rows : int, default=1
        Answer only if the site holds at least this many rows. A sum over few rows says much about each of them.
    allowed_queries : frozenset of str or None, default=None
        The questions that may be asked, by name; None allows every question of the closed list.
    max_rounds : int or None, default=None
        How many questions are answered in all; None sets no limit.
    max_components : int or None, default=None
        How many directions one question may ask about at once; None sets no limit. Solvers ask about more directions
        than they look for components, to find the leading ones faster: up to three times as many and twenty.
    alone : frozenset of str, default=frozenset()
        Questions whose answer may be shown as this site's own, outside any sum; none by default.
    min_sites : int, default=1
        Between institutions: the fewest sites that a sum may be over.
    masking : bool, default=False
        Between institutions: whether terms may leave only under masks, so that nobody sees more than the sum.
    replay : bool, default=True
        Between institutions, under masks: whether only those questions are answered that the site, which runs the
        agreed study beside, would ask next itself.
    epsilon, delta : float or None, default=None
        Between institutions: the budget of differential privacy; None asks for none.
    """

    min_rows: int = 1
    allowed_queries: frozenset[str] | None = None
    max_rounds: int | None = None
    max_components: int | None = None
    alone: frozenset[str] = frozenset()
    min_sites: int = 1
    masking: bool = False
    replay: bool = True
    epsilon: float | None = None
    delta: float | None = None

    def __post_init__(self) -> None:
        for name in ("min_rows", "max_rounds", "max_components", "min_sites"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"The {name!r} parameter of Policy must be at least 1. Got {value!r} instead.")
        for name in ("epsilon", "delta"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise ValueError(f"The {name!r} parameter of Policy must be positive. Got {value!r} instead.")
        if self.allowed_queries is not None:
            if isinstance(self.allowed_queries, str):  # type: ignore[unreachable]
                raise ValueError("The 'allowed_queries' parameter of Policy must be a set of names, not one string.")
            object.__setattr__(self, "allowed_queries", frozenset(self.allowed_queries))
        object.__setattr__(self, "alone", frozenset(self.alone))

    @property
    def budget(self) -> Budget | None:
        """The budget of differential privacy that the owner sets, if there is one."""
        return None if self.epsilon is None else Budget(self.epsilon, self.delta or DELTA)

    def check(self, site: str, query: str, *, rows: int, answered: int, components: int) -> None:
        """Raise :class:`SiteRefusal` unless the owner allows this question now."""
        reason = self._objection(query, rows, answered, components)
        if reason is not None:
            raise SiteRefusal(site, query, reason)

    def _objection(self, query: str, rows: int, answered: int, components: int) -> str | None:
        if rows < self.min_rows:
            return f"it holds fewer rows than the {self.min_rows} that its policy requires."
        if self.allowed_queries is not None and query not in self.allowed_queries:
            return f"its policy allows only {', '.join(sorted(self.allowed_queries))}."
        if self.max_rounds is not None and answered >= self.max_rounds:
            return f"it has answered {answered} questions and its policy allows no more than {self.max_rounds}."
        if self.max_components is not None and components > self.max_components:
            return f"it asks about {components} directions and the policy allows at most {self.max_components}."
        return None
