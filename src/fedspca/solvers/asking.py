"""Questions to the sites that several solvers share."""

import numpy as np
from numpy.typing import NDArray

from fedspca.federation.base import Federation
from fedspca.linalg.beside import Adjustment
from fedspca.linalg.operators import Frame
from fedspca.site.question import Query

Array = NDArray[np.float64]


def frame_arrays(frame: Frame) -> dict[str, Array]:
    """Return the arrays that describe a frame (mean, scale, removed directions) to a site."""
    arrays = {"mean": frame.mean, "scale": frame.scale, "removed": frame.removed}
    return arrays | adjustment_arrays(frame.adjustment)


def adjustment_arrays(adjustment: Adjustment | None) -> dict[str, Array]:
    """Return the arrays that describe an adjustment for covariates to a site; empty without covariates."""
    if adjustment is None:
        return {}
    return {"covariate_mean": adjustment.mean, "coefficients": adjustment.coefficients}


def gram_product(federation: Federation, frame: Frame, directions: Array, precision: str = "float64") -> Array:
    """S times the directions, by one sum."""
    arrays = {**frame_arrays(frame), "directions": directions}
    return federation.sum(Query("gram_product", arrays, {"precision": precision}))["product"]
