"""What a private study promises, and the plan of its releases: known before any budget is spent."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal

from fedspca.door.agreement import COLLUDING
from fedspca.dp.accounting import Budget
from fedspca.dp.plan import BINS, LENGTHS, OFFSET, mechanism_of

FOR_LENGTHS = 0.05  # parts of the budget
FOR_MOMENTS = 0.10
FOR_COUNTS = 0.20
GRID_BITS = 28  # one standard deviation is 2^GRID_BITS units of the grid


@dataclass(frozen=True)
class Privacy:
    """The privacy promised to every row, and what is stated in advance, without looking at the rows.

    Parameters
    ----------
    epsilon, delta : float
        The budget of the study, for adding or removing one row.
    centre, scale : float or sequence of float, default=0 and 1
        For each feature a typical value and a typical deviation from it, *stated* from public knowledge (reference
        ranges, units, an earlier publication), never computed from these rows.
    clip : float or None, default=None
        The length C to which rows are shortened, once centred and scaled. None estimates the median length,
        for five per cent of the budget. Shortening a row keeps its direction, and the noise grows with C².
    mechanism : {"auto", "gram", "product"}
        One release of the Gram matrix, or noised products.
    rounds, columns : int
        For products: the number of rounds, and the number of directions in each.
    colluding : int, default=1
        How many sites may reveal their noise to the coordinator without weakening the privacy of the other sites' rows.
        At least one, since each site knows its own noise.
    expected_rows : int or None
        The approximate total number of rows, used only to predict the error.
    """

    epsilon: float
    delta: float
    centre: Any = 0.0
    scale: Any = 1.0
    clip: float | None = None
    mechanism: Literal["auto", "gram", "product"] = "auto"
    rounds: int = 4
    columns: int = 12
    colluding: int = COLLUDING
    expected_rows: int | None = None

    def __post_init__(self) -> None:
        Budget(self.epsilon, self.delta)
        if self.mechanism not in ("auto", "gram", "product"):
            raise ValueError(f"The mechanism must be auto, gram or product. Got {self.mechanism!r} instead.")
        if self.clip is not None and not 0 < self.clip < math.inf:
            raise ValueError(f"The clip must be positive. Got {self.clip!r} instead.")
        if self.rounds < 1 or self.columns < 1 or self.colluding < 0:
            raise ValueError("rounds and columns must be at least 1, and colluding not negative.")

    @classmethod
    def from_mapping(cls, settings: Mapping[str, Any]) -> "Privacy":
        """Return the privacy settings of an agreement."""
        known = {about.name for about in fields(cls)}
        if unknown := sorted(set(settings) - known):
            raise ValueError(f"There is no setting {unknown[0]!r} of privacy; there are {', '.join(sorted(known))}.")
        return cls(**settings)


@dataclass(frozen=True)
class ReleasePlan:
    """What will be released, and with how much noise: known before any budget is spent.

    Attributes
    ----------
    mechanism : {"gram", "product"}
        Which of the two mechanisms.
    multipliers : dict
        The noise of each kind of release, in units of its sensitivity to one row.
    releases : int
        How many sums sites are asked for.
    d : int
        The number of features.
    privacy : Privacy
        What was promised.
    excess : float
        The factor by which the noise exceeds that of one trusted curator: √(sites/among).
    folds : int
        The number of folds by which the Gram matrix is released; 0 for one matrix of all rows.
    """

    mechanism: str
    multipliers: dict[str, float]
    releases: int
    d: int
    privacy: Privacy
    excess: float = 1.0
    folds: int = 0

    @property
    def relative_noise(self) -> float:
        """Noise in a released direction w, orthogonal to w, in units of C²: ‖Ew‖/C²."""
        column = self.excess * math.sqrt(max(self.folds, 1) * self.d) * self.multipliers[self.mechanism]
        return column * (1 + OFFSET**2) / math.sqrt(2) if self.mechanism == "gram" else column

    def cos2(self, rows: float, variance: float, clip: float) -> float:
        """Predict cos² between a dense component and the truth, to first order, from noise alone.

        ``variance`` is the component's variance minus the bulk of the other eigenvalues. Sparse loadings do better,
        because noise outside their support is left out.
        """
        tangent = self.relative_noise * clip**2 / (rows * variance)
        return 1.0 / (1.0 + tangent**2)

    def __str__(self) -> str:
        by_fold = f" by {self.folds} folds, each with noise of its own" if self.folds else ""
        what = {"gram": f"one release of the Gram matrix{by_fold}", "product": f"{self.privacy.rounds} noised products"}
        clip = math.sqrt(self.d) if self.privacy.clip is None else self.privacy.clip
        about = f"clip about {clip:.3g}, to be found" if self.privacy.clip is None else f"clip {clip:.3g}"
        noise = self.relative_noise * clip**2
        counted = "counts of values, from which the transform is learnt, then " if "counts" in self.multipliers else ""
        rows = self.privacy.expected_rows
        needed = noise / math.sqrt(1 / 0.95 - 1)  # rows times the variance of a component that is found to cos² = .95
        enough = f"{needed:.3g} over the number of rows" if rows is None else f"{needed / rows:.3g} ({rows} rows)"
        return (
            f"ε = {self.privacy.epsilon:g}, δ = {self.privacy.delta:g} for each row, {about}: {counted}"
            f"{what[self.mechanism]} of {self.d} features, noise of {noise:.3g} in each direction. A dense component "
            f"is found to cos² = .95 if its variance is at least {enough}; sparse loadings need less."
        )


def multiplier_of(budget: Budget, entries: int = 0) -> float:
    """Return the noise multiplier at which one release of this many entries spends the whole budget (dp-accounting)."""
    from dp_accounting import get_sigma_gaussian

    # the part of δ that noise on integers costs; see fedspca.dp.noise.cost and fedspca.dp.accounting.epsilon_of
    slack = (1 + math.exp(min(budget.epsilon, 700.0))) * entries / (20 * 4.0**GRID_BITS)
    if slack > budget.delta / 2:
        raise ValueError(
            f"ε = {budget.epsilon:g} with {entries} numbers to release is more than can be accounted for at "
            f"δ = {budget.delta:g}: take a smaller ε, or a larger δ."
        )
    return float(get_sigma_gaussian(budget.epsilon, (budget.delta - slack) * (1 - 1e-6)))


def make_plan(privacy: Privacy, d: int, excess: float = 1.0, folds: int = 0, *, counts: bool = False) -> ReleasePlan:
    """Choose the mechanism, and divide the budget: 1/z² adds up over releases. Folds need no more of it.

    ``counts`` if values are counted first, to transform rows by quantiles.
    """
    mechanism = mechanism_of(privacy.mechanism, d)
    check_folds(mechanism, folds)
    products = 2 * d + 1 + privacy.rounds * d * min(privacy.columns, d)
    entries = LENGTHS + BINS * d * counts
    entries += max(folds, 1) * (d + 1) * (d + 2) // 2 if mechanism == "gram" else products
    whole = multiplier_of(Budget(privacy.epsilon, privacy.delta), entries)
    lengths = 0.0 if privacy.clip is not None else FOR_LENGTHS
    moments = 0.0 if mechanism == "gram" else FOR_MOMENTS
    first = FOR_COUNTS if counts else 0.0
    times = 1 if mechanism == "gram" else privacy.rounds
    rest = 1.0 - first - lengths - moments
    parts = {"counts": first, "lengths": lengths, "moments": moments, mechanism: rest / times}
    multipliers = {name: whole / math.sqrt(part) for name, part in parts.items() if part > 0}
    return ReleasePlan(mechanism, multipliers, len(multipliers) - 1 + times, d, privacy, excess, folds)


def check_folds(mechanism: str, folds: int) -> None:
    """Raise ValueError if a mechanism cannot release by fold."""
    if folds and mechanism != "gram":
        raise ValueError(
            "A private study releases noised products for so many features, or because mechanism is 'product', and "
            "these are not released by fold. Leave folds out, or have at most 4096 features and mechanism = 'gram'."
        )
