"""What a site keeps between questions, as arrays: enough to continue later or elsewhere with the same bits."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedspca.linalg.beside import Adjustment
from fedspca.linalg.operators import Frame
from fedspca.site.consensus import ConsensusState
from fedspca.site.question import State

FRAME = ("mean", "scale", "removed")
ADJUSTMENT = ("mean", "coefficients")


def snapshot(state: State, answered: int) -> dict[str, NDArray[Any]]:
    """Return the state of a site."""
    arrays: dict[str, NDArray[Any]] = {"answered": np.array(answered)}
    if state is not None:
        arrays |= {f"frame.{name}": getattr(state.frame, name) for name in FRAME}
        if state.frame.adjustment is not None:
            arrays |= {f"adjustment.{name}": getattr(state.frame.adjustment, name) for name in ADJUSTMENT}
        arrays |= {f"state.{name}": np.asarray(getattr(state, name)) for name in state._fields if name != "frame"}
    return arrays


def restore(arrays: Mapping[str, NDArray[Any]]) -> tuple[State, int]:
    """Return the state that a snapshot holds, and the count of answers."""
    if "state.w" not in arrays:
        return None, int(arrays["answered"])
    mean, scale, removed = (arrays[f"frame.{name}"] for name in FRAME)
    adjusted = "adjustment.mean" in arrays
    adjustment = Adjustment(*(arrays[f"adjustment.{name}"] for name in ADJUSTMENT)) if adjusted else None
    frame = Frame(mean, scale, removed, adjustment)
    state = ConsensusState(
        iteration=int(arrays["state.iteration"]),
        frame=frame,
        w=arrays["state.w"],
        u=arrays["state.u"],
        gram_w=arrays["state.gram_w"],
        rho=float(arrays["state.rho"]),
        step=float(arrays["state.step"]),
    )
    return state, int(arrays["answered"])
