"""When consensus is reached: relative primal and dual residuals, and the reason why a solver stopped."""

from dataclasses import dataclass
from enum import Enum


class StopReason(Enum):
    """Why a solver stopped."""

    CONVERGED = "converged"
    CERTIFIED = "the certificate holds"
    PROVED = "optimal, proved"
    STATIONARY = "nothing better is in sight"
    STALLED = "a round brought neither descent nor anything new"
    MAX_ROUNDS = "the allowed rounds are spent"
    MAX_SECONDS = "the allowed time is spent"
    CALLBACK = "stopped by a callback"

    @property
    def success(self) -> bool:
        """Whether the solver reached what it was looking for."""
        return self in (StopReason.CONVERGED, StopReason.CERTIFIED, StopReason.PROVED, StopReason.STATIONARY)


@dataclass(frozen=True)
class Residuals:
    """How far the sites are from consensus (primal), and how far the consensus still moves (dual), both relative.

    The primal residual is √(Σ‖w_i − z‖² / Σ‖w_i‖²). The dual one is √K ρ‖z − z_before‖ divided by the larger of
    √Σ‖u_i‖² and the size of the sites' gradients. Captured variance gives a lower bound on that size.
    """

    primal: float
    dual: float

    @property
    def worst(self) -> float:
        """The larger of the two."""
        return max(self.primal, self.dual)
