"""What the owner of a site's data allows."""

from dataclasses import dataclass

from fedspca.dp.accounting import Budget
from fedspca.dp.ledger import DELTA
from fedspca.site.errors import SiteRefusal

GRAM = "gram"
COVARIANCES = (GRAM, "permuted_gram", "gap_moments", "filled_once")  # answered with a whole covariance
MAX_FOLDS = 20
MAX_GRAM_FEATURES = 4096  # the upper triangle of such a covariance takes 67 MB


@dataclass(frozen=True)
class Policy:
    """What a site answers; a question that asks for more is refused before data are touched.

    Parameters
    ----------
    min_rows : int, default=1
        Answer only if the site holds at least this many rows, and a sample of its rows too. A sum over few rows
        discloses much about each row.
    allowed_queries : frozenset of str or None, default=None
        The questions that may be asked, by name; None allows every question of the closed list.
    max_rounds : int or None, default=None
        How many questions are answered in all; None sets no limit.
    max_components : int or None, default=None
        How many directions one question may ask about at once; None sets no limit. To find the leading components
        faster, solvers ask about more directions than components: up to three times as many, plus twenty.
    max_gram_features : int or None, default=4096
        The most features for which the whole covariance may be asked in one sum (the question ``gram``). This sum
        releases as much as d products, one for each of the d features. 0 never allows it; None sets no limit.
    max_folds : int, default=20
        The most folds by which sums may be answered; 0 never allows sums by fold, nor over a sample of the rows.
    min_fold_rows : int, default=1
        How many rows of this site a fold must hold at least. A site with too few rows keeps all of them in one fold;
        between institutions it refuses. Under masks, it is also the fewest rows in which a covariate must differ from
        its most common value, and the fewest that must lack a feature for its missing values to be filled in once.
    alone : frozenset of str, default=frozenset()
        Questions whose answer may be shown as this site's own, outside any sum; none by default.
    min_sites : int, default=1
        Between institutions: the fewest sites that a sum may be over.
    masking : bool, default=False
        Between institutions: whether terms may leave only under masks, so that nobody sees more than the sum.
    replay : bool, default=True
        Between institutions, under masks: whether the site answers only the questions that the agreed study asks.
        For this check, the site runs the study itself and computes the next question.
    epsilon, delta : float or None, default=None
        Between institutions: the budget of differential privacy; None means no differential privacy.
    """

    min_rows: int = 1
    allowed_queries: frozenset[str] | None = None
    max_rounds: int | None = None
    max_components: int | None = None
    max_gram_features: int | None = MAX_GRAM_FEATURES
    max_folds: int = MAX_FOLDS
    min_fold_rows: int = 1
    alone: frozenset[str] = frozenset()
    min_sites: int = 1
    masking: bool = False
    replay: bool = True
    epsilon: float | None = None
    delta: float | None = None

    def __post_init__(self) -> None:
        for name in ("min_rows", "max_rounds", "max_components", "min_fold_rows", "min_sites"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"The {name!r} parameter of Policy must be at least 1. Got {value!r} instead.")
        if self.max_gram_features is not None and self.max_gram_features < 0:
            raise ValueError(
                "The 'max_gram_features' parameter of Policy must not be negative. "
                f"Got {self.max_gram_features!r} instead."
            )
        if self.max_folds < 0:
            raise ValueError(
                f"The 'max_folds' parameter of Policy must not be negative. Got {self.max_folds!r} instead."
            )
        for name in ("epsilon", "delta"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise ValueError(f"The {name!r} parameter of Policy must be positive. Got {value!r} instead.")
        if self.allowed_queries is not None:
            if isinstance(self.allowed_queries, str):  # type: ignore[unreachable] # a caller without types may do so
                raise ValueError("The 'allowed_queries' parameter of Policy must be a set of names, not one string.")
            object.__setattr__(self, "allowed_queries", frozenset(self.allowed_queries))
        object.__setattr__(self, "alone", frozenset(self.alone))

    @property
    def budget(self) -> Budget | None:
        """The budget of differential privacy that the owner sets, if there is one."""
        return None if self.epsilon is None else Budget(self.epsilon, self.delta or DELTA)

    def allows_gram(self, features: int) -> bool:
        """Whether the whole covariance of so many features may be asked."""
        named = self.allowed_queries is None or GRAM in self.allowed_queries
        return named and self._allows_covariance(features)

    def _allows_covariance(self, features: int) -> bool:
        return self.max_gram_features is None or features <= self.max_gram_features

    def check(
        self,
        site: str,
        query: str,
        *,
        rows: int,
        answered: int,
        components: int,
        features: int,
        folds: int = 0,
        sample: int = 0,
    ) -> None:
        """Raise :class:`SiteRefusal` unless the owner allows this question now. Of a sample, ``rows`` are its rows."""
        reason = self.sample_objection(rows, sample) or self._objection(query, rows, answered, components)
        if reason is None and folds > self.max_folds:
            reason = f"it asks for sums by {folds} folds and the policy allows at most {self.max_folds}."
        if reason is None and query in COVARIANCES and not self._allows_covariance(features):
            reason = (
                f"it asks for the whole covariance of {features} features and the policy allows it for at most "
                f"{self.max_gram_features}."
            )
        if reason is not None:
            raise SiteRefusal(site, query, reason)

    def sample_objection(self, rows: int, sample: int) -> str | None:
        """Return why no sums are given over a sample of so many rows, one row in ``sample``; None if they are."""
        if not sample:
            return None
        if not self.max_folds:
            return "it asks about a sample of the rows and the policy allows no sums over parts of them (max_folds)."
        least = max(self.min_rows, self.min_fold_rows)
        if rows >= least:
            return None
        return (
            f"a sample of one row in {sample} holds fewer rows than the {least} that its policy requires (min_rows, "
            "min_fold_rows)."
        )

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
