"""What a person reads from a model: the variance captured, how components overlap, and what to be careful about."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedspca.metrics import captured_variances
from fedspca.site.errors import count
from fedspca.solvers.stopping import StopReason

Array = NDArray[np.float64]

PROVED = 1e-6  # a gap below which loadings are called optimal
FOUND = 1e-3  # share by which a bound on dense PCA may be above what it was found to capture, unsaid
DOMINANT = 0.5  # share of the variance above which a warning says that one feature's unit decides the result
NAMED = 8  # features that a caution names
OVERLAP = 0.8  # correlation from which two scores carry nearly the same information
PARALLEL = 0.9  # cosine from which the weights of two loadings do not show what both capture together


class Readable:
    """The figures of a model in the shape in which people read them; :class:`fedspca.SparsePCAModel` has them all."""

    components: Array
    covariance: Array
    scale: Array
    feature_names: tuple[str, ...]
    n_samples: int
    n_sites: int
    total_variance: float
    facts: Mapping[str, Any]

    @property
    def n_components(self) -> int:
        """How many loadings there are."""
        return len(self.components)

    @property
    def rows_seen(self) -> bool:
        """Whether the fit saw rows, and not only a covariance that was given."""
        return bool(self.facts.get("rows_seen", True))

    @property
    def rows_counted(self) -> bool:
        """Whether the number of rows is known; of a covariance that was given it may not be."""
        return bool(self.facts.get("rows_counted", True))

    @property
    def weighted(self) -> bool:
        """Whether rows had weights; ``n_samples`` is then their sum, and not the number of rows."""
        return bool((self.facts.get("preparation") or {}).get("weight"))

    @property
    def rows_in_words(self) -> str:
        """How many rows there were; where they had weights, what these add up to."""
        if self.weighted:
            return f"rows with weights that add up to {self.n_samples:,.6g}"
        return count(self.n_samples, "row")

    @property
    def source(self) -> str:
        """What was fitted to, in words: rows of sites, or a covariance of so many rows."""
        if self.rows_seen:
            return f"{self.rows_in_words}{',' if self.weighted else ''} of {count(self.n_sites, 'site')}"
        rows = count(self.n_samples, "row") if self.rows_counted else "an unknown number of rows"
        return f"a covariance of {rows}"

    @property
    def nonzeros(self) -> list[int]:
        """Non-zero weights of each component."""
        return [int(number) for number in np.count_nonzero(self.components, axis=1)]

    @property
    def captured_ratio(self) -> float:
        """Share of the variance that the span of the components captures: the figure to compare with dense PCA."""
        return float(self.captured_ratios[-1])

    @property
    def captured_ratios(self) -> Array:
        """Share of the variance that the span of the first 1, 2, … r components captures."""
        return captured_variances(self.components, self.covariance) / self.total_variance

    @property
    def captured_shares(self) -> Array:
        """What each component adds to the variance captured by those before it; the shares add up to all of it."""
        return np.diff(self.captured_ratios, prepend=0.0)

    @property
    def dense_ratios(self) -> Array:
        """Share of the variance that 1, 2, … components of dense PCA capture, as far as the fit asked for it."""
        return np.cumsum(self.facts.get("dense_variance_ratio") or [])

    @property
    def dense_settled(self) -> bool:
        """Whether these shares settled; if not, dense PCA captures at least as much."""
        return bool(self.facts.get("dense_variance_settled", True))

    def dense_in_words(self) -> str | None:
        """Say what dense PCA captures with as many components; None where it was not asked for."""
        if len(self.dense_ratios) < self.n_components or self.dense_ratios[self.n_components - 1] <= 0.0:
            return None
        return f"{'' if self.dense_settled else 'at least '}{self.dense_ratios[self.n_components - 1]:.1%}"

    @property
    def correlation(self) -> Array:
        """Correlation of the scores; a score without variance has correlation 0 with the others."""
        spread = np.sqrt(np.diag(self.covariance))
        safe = np.where(spread > 0, spread, 1.0)
        return np.where(np.eye(len(spread)) > 0, 1.0, self.covariance / np.outer(safe, safe))

    @property
    def spread(self) -> Array | None:
        """Joint standard deviation of each feature, before any scaling; None where it was not kept."""
        kept = self.facts.get("spread")
        return None if kept is None else np.asarray(kept, dtype=np.float64)

    @property
    def feature_correlations(self) -> Array | None:
        """Correlation of every feature with each score (r × d); None where it was not asked for."""
        kept = self.facts.get("feature_correlations")
        return np.asarray(kept, dtype=np.float64) if kept else None

    def overlaps(self, least: float = OVERLAP) -> list[tuple[int, int, float]]:
        """Pairs of components, numbered from one, whose scores correlate by more than this, the largest first."""
        return _pairs_above(self.correlation, least)

    def parallels(self, least: float = PARALLEL) -> list[tuple[int, int, float]]:
        """Pairs of components, numbered from one, whose loadings have a larger cosine than this, the largest first."""
        lengths = np.maximum(np.linalg.norm(self.components, axis=1), 1e-300)
        return _pairs_above(self.components @ self.components.T / np.outer(lengths, lengths), least)

    def cautions(self) -> list[str]:
        """Return what a reader must know before anything else, a sentence or two each; nothing if all is well."""
        return [
            *self._parallel_in_words(),
            *self._overlap_in_words(),
            *self._scale_in_words(),
            *self._ending_in_words(),
            *self._units_in_words(),
            *self._penalty_in_words(),
            *self.facts.get("oddities", []),
        ]

    def _parallel_in_words(self) -> list[str]:
        pairs = self.parallels()
        if not pairs:
            return []
        named = ", ".join(f"{first} and {second} ({value:+.3f})" for first, second, value in pairs[:5])
        told = (
            f"Some loadings are nearly parallel: {named}. In brackets is their cosine. Part of what such a pair "
            "captures lies in the small difference of the two, and their large weights do not show it. Ask for "
            "orthogonal loadings, which cannot do that."
        )
        return [told]

    def _overlap_in_words(self) -> list[str]:
        pairs = self.overlaps()
        if not pairs:
            return []
        named = ", ".join(f"{first} and {second} ({value:+.2f})" for first, second, value in pairs[:5])
        more = f" and {count(len(pairs) - 5, 'more pair')}" if len(pairs) > 5 else ""
        told = f"Some components say nearly the same: {named}{more}. In brackets is the correlation of their scores."
        return [
            f"{told} Ask for more features a component, so that one can take what both say, or for fewer components."
        ]

    def _scale_in_words(self) -> list[str]:
        spread = self.spread
        if spread is None or len(spread) < 2 or not np.all(self.scale == 1.0) or not spread.any():
            return []
        largest = int(np.argmax(spread))
        share = float(spread[largest] ** 2 / np.sum(spread**2))
        if share <= DOMINANT:
            return []
        told = (
            f"Features were not scaled, and {self.feature_names[largest]!r} alone has {share:.0%} of the variance: "
            "components follow its unit. Divide features by their standard deviation (in Python scale=True; at the "
            "command line it is the default), unless all have the same unit."
        )
        return [told]

    def _ending_in_words(self) -> list[str]:
        ended = self.facts.get("stop_reason")
        if ended is None or self.facts.get("converged", True):
            return []
        remedy = {reason.value: reason.remedy for reason in StopReason}.get(ended, "")
        return [f"The fit ended before its search was over, because {ended}. {remedy}".rstrip()]

    def _units_in_words(self) -> list[str]:
        odd = list(self.facts.get("odd_units") or {})
        if not odd:
            return []
        named = ", ".join(map(repr, odd[:NAMED])) + (f" and {len(odd) - NAMED} more" if len(odd) > NAMED else "")
        told = (
            f"At some site a unit may be wrong: {named}. There the mean and the spread are several times larger or "
            "smaller than at the other sites. The sum does not tell which site it is. Ask the owners to read what "
            "fedspca site status says of their own rows."
        )
        return [told]

    def _penalty_in_words(self) -> list[str]:
        lam = (self.facts.get("estimator") or {}).get("params", {}).get("lam")
        if self.rows_counted or lam is None:
            return []
        told = (
            "The number of rows is unknown, and the penalty lam is compared with sums of squares, which grow with it. "
            "Here they are those of n − 1 = 1: the covariance itself. Give the number of rows (in Python n_samples; at "
            "the command line --covariance-rows) to choose lam as for rows."
        )
        return [told]

    def optimality(self) -> str | None:
        """Say how much better other loadings can be at most; None if no bound is known."""
        gap = self.facts.get("optimality_gap")
        if gap is None:
            return None
        params = self.facts.get("estimator", {}).get("params", {})
        if params.get("lam") is not None:
            return _penalised_in_words(self.facts["upper_bound"], self.facts["objective"], self._penalty(params["lam"]))
        if self.facts.get("bound_is_dense"):
            return self._dense_in_words(gap)
        if "variance_kept" in params and params.get("n_nonzero") is None:
            more = "no more" if gap <= PROVED else f"at most {_percent(gap)} more"
            return (
                f"Loadings with as many non-zeros in all can capture {more} than these: that is proved. Loadings with "
                "fewer non-zeros may still keep the share."
            )
        if gap <= PROVED:
            return "It is proved that no loadings with as few non-zeros are better."
        return f"It is proved that no loadings with as few non-zeros are better by more than {_percent(gap)}."

    def _penalty(self, lam: float | Sequence[float]) -> float:
        """The weight of the l1 norm times the norms of the loadings."""
        return float(np.sum(np.asarray(lam) * np.abs(self.components).sum(axis=1)))

    def _dense_in_words(self, gap: float) -> str:
        """Say how far dense PCA is above; where S is not known as a whole, what is proved of it may be far too high."""
        told, proved = self.dense_in_words(), self.captured_ratio * (1.0 + gap)
        if told is None or proved <= self.dense_ratios[self.n_components - 1] * (1.0 + FOUND):
            return (
                f"No loadings can capture more than dense PCA, which captures at most {_percent(gap)} more than these."
            )
        return (
            f"These loadings capture {self.captured_ratio:.1%} of the variance. No loadings capture more than dense "
            f"PCA, which was found to capture {told}. What is proved is less: no loadings capture more than "
            f"{_percent(min(proved, 1.0))}. A closer proof needs the whole covariance (at the command line --search "
            "thorough, in Python search='thorough')."
        )


def _penalised_in_words(bound: float, objective: float, penalty: float) -> str:
    """Say how much better a penalised objective can be at most, as a share of the variance that the loadings capture.

    A share of the objective itself would say nothing where variance and penalty are nearly the same.
    """
    captured, more = penalty - objective, bound + objective
    share = more / captured if captured > 0.0 else 0.0
    if share <= PROVED:
        return "It is proved that no loadings have a better penalised objective (variance less penalty)."
    return (
        "It is proved that no loadings have a penalised objective (variance less penalty) that is better by more than "
        f"{_percent(share)} of the variance that these capture."
    )


def _pairs_above(values: Array, least: float) -> list[tuple[int, int, float]]:
    """Pairs of different rows, numbered from one, whose value is larger in size than this, the largest first."""
    pairs = [(i, j) for i in range(len(values)) for j in range(i) if abs(values[i, j]) > least]
    ordered = sorted(pairs, key=lambda pair: -abs(values[pair]))
    return [(j + 1, i + 1, float(values[i, j])) for i, j in ordered]


def _percent(share: float) -> str:
    """Return a share in per cent, rounded up so that the stated bound is valid."""
    digits = 3 if share < 1e-3 else 1
    return f"{math.ceil(share * 100 * 10**digits) / 10**digits:g} %"
