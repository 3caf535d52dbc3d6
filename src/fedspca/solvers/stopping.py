"""When consensus is reached: relative primal and dual residuals, and the reason why a solver stopped."""

from dataclasses import dataclass
from enum import Enum

EARLIER = {
    "converged": "CONVERGED",
    "optimal, proved": "PROVED",
    "nothing better is in sight": "STATIONARY",
    "a round brought neither descent nor anything new": "STALLED",
    "stopped by a callback": "CALLBACK",
}


class StopReason(Enum):
    """Why a solver stopped, as the end of a sentence that begins with "it ended because"."""

    CONVERGED = "it converged"
    CERTIFIED = "the certificate holds"
    PROVED = "it is proved that nothing is better"
    STATIONARY = "the search found nothing better"
    STALLED = "a round brought nothing better and nothing new"
    MAX_ROUNDS = "the allowed rounds are spent"
    MAX_SECONDS = "the allowed time is spent"
    CALLBACK = "a callback stopped it"

    @property
    def remedy(self) -> str:
        """What helps where a fit ended so; nothing where it needs no help."""
        return {
            StopReason.STALLED: "Try a larger tol, or precision='float64'.",
            StopReason.MAX_ROUNDS: "Allow more rounds (max_rounds).",
            StopReason.MAX_SECONDS: "Allow more time (max_seconds).",
        }.get(self, "")

    @classmethod
    def _missing_(cls, value: object) -> "StopReason | None":
        """Read the words of models that were saved earlier."""
        return cls[EARLIER[str(value)]] if str(value) in EARLIER else None

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
