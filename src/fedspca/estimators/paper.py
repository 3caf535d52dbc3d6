"""The paper's settings of its two methods. They are defined here only.

The paper (Ciou, Chen, Tseng and Lee) uses ρ = 1000, random starts, local problems solved to their minimum with steps
that satisfy the strong Wolfe conditions, μ = 10⁻³, deflation on the generalised Stiefel manifold, FASPCA's loadings one
at a time, and a Q factor at the end. It states no stopping rule, so the estimator's own rounds and tolerance apply.

The paper walks down the negative gradient and does not say how far. On its own data that takes more than 1000 steps in
every second round, so the preset walks by Newton's method, which ends at a minimum after some twelve.
"""

from collections.abc import Mapping
from typing import Any

BOTH: Mapping[str, Any] = {"rho": 1000.0, "init": "random", "deflation": "generalized", "finish": "qf"}
SOLVED: Mapping[str, Any] = {"local_steps": 1000, "local_tol": 1e-8}  # each round: the local minimum to seven digits
WORKER: Mapping[str, Any] = {
    "mu": 1e-3,
    "line_search": "wolfe",
    "direction": "newton",
    "retraction": "qr",
    "local_start": "last",
    **SOLVED,
}


def paper_settings(method: str, n_components: int) -> dict[str, Any]:
    """Return the paper's choices as parameters of ``"FASPCA"`` or ``"FSSPCA"``; penalties are not included."""
    if method == "FASPCA":
        return {**BOTH, "block_sizes": [1] * n_components}
    return {**BOTH, **WORKER, "block_sizes": None}
