"""How solvers put the questions that they share."""

import numpy as np
from numpy.typing import NDArray

from fedspca.federation.base import Federation
from fedspca.linalg.beside import Adjustment
from fedspca.linalg.operators import Frame
from fedspca.site.question import Query

Array = NDArray[np.float64]


def frame_arrays(frame: Frame) -> dict[str, Array]:
    """Return the arrays that tell a site in which frame to see its rows."""
    arrays = {"mean": frame.mean, "scale": frame.scale, "removed": frame.removed}
    return arrays | adjustment_arrays(frame.adjustment)


def adjustment_arrays(adjustment: Adjustment | None) -> dict[str, Array]:
    """Return the arrays that tell a site what covariates explain; none where there are none."""
    if adjustment is None:
        return {}
    return {"covariate_mean": adjustment.mean, "coefficients": adjustment.coefficients}


def gram_product(federation: Federation, frame: Frame, directions: Array, precision: str = "float64") -> Array:
    """S times the directions, by one sum."""
    arrays = {**frame_arrays(frame), "directions": directions}
    return federation.sum(Query("gram_product", arrays, {"precision": precision}))["product"]
