"""The interface between the rounds and the three problems."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from fedspca.linalg.nystrom import NystromModel

Array = NDArray[np.float64]

_OVERSAMPLING = 20  # with ten, WDBC* takes one more round; a column costs bytes, a round costs minutes


@dataclass(frozen=True)
class Incumbent:
    """The best point so far, with its exact product Sw; ``cautious`` once a prediction has failed to descend."""

    w: Array
    product: Array
    objective: float
    certificate: float
    holds: bool
    cautious: bool = False


@dataclass(frozen=True)
class Assessment:
    """What exact products say about a point: its true objective, its certificate, and whether that holds."""

    objective: float
    certificate: float
    holds: bool

    def better_than(self, best: Incumbent) -> bool:
        """Whether this point has a lower objective or, at the same one up to rounding, a better certificate."""
        same = self.objective <= best.objective + 1e-12 * abs(best.objective)
        return self.objective < best.objective or (same and self.certificate < best.certificate)


class Problem(Protocol):
    """A sparse PCA problem: how to propose points from a model, and how to judge them by exact products."""

    @property
    def moving(self) -> bool:
        """Whether a point must be judged again as the model grows."""

    @property
    def worthwhile(self) -> float:
        """If a search from new starts gains less than this, relative to the objective, it is the last one."""

    def width(self, r: int) -> int:
        """How many columns to ask for in a power round."""

    def search_rounds(self, r: int) -> int:
        """How many rounds, after the power rounds, search again from new starts, on the improved model."""

    def probes(self, model: NystromModel, r: int, at: Incumbent | None) -> Array | None:
        """Further columns to ask together with the candidates, because they improve the model."""

    def start(self, model: NystromModel, r: int, rotations: Array, warm: Array | None) -> list[Array]:
        """Points from scratch, best first. At least one."""

    def improve(self, model: NystromModel, at: Incumbent) -> list[Array]:
        """Points that the model says are better than the incumbent; empty when it knows of none."""

    def assess(self, w: Array, product: Array, model: NystromModel) -> Assessment:
        """Judge w by its exact product: the true objective, to be minimised, and the certificate."""


def oversampled(r: int, extra: int = _OVERSAMPLING) -> int:
    """Number of columns to ask for r directions: some more than r, and a multiple of four for faster products."""
    return 4 * round((r + extra) / 4)


def scatter(part: Array, rows: NDArray[np.intp], d: int) -> Array:
    """Loadings over all d features from those over some rows, zero elsewhere."""
    w = np.zeros((d, part.shape[1]))
    w[rows] = part
    return w
