"""What releases cost: the budget, the cost of one release, and the ε that several cost together.

If the noise has standard deviation z times the sensitivity to one row, a release is a Gaussian mechanism of multiplier
z. Several releases together are exactly one Gaussian mechanism with 1/z² = Σ1/z_k², so the ε spent is that of this one.
"""

import math
from dataclasses import dataclass

import numpy as np


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
    """What a release is for, and what the owner approved.

    Attributes
    ----------
    study, run, round : str, str, int
        Where it belongs.
    budget : Budget
        What the study may spend in all.
    among : int
        The number of sites whose noise will certainly be in the sum and unknown to everyone else: each adds 1/among of
        the noise variance.
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
        The largest total variation distance between the noise on integers and a rounded Gaussian.
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
        with np.errstate(all="ignore"):  # dp-accounting takes the logarithm of zero if there is very much noise
            epsilon = float(get_epsilon_gaussian(multiplier, left))
        if epsilon <= before * (1 + 1e-12):
            return epsilon
    return math.inf
