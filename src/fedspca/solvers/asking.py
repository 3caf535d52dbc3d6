"""Questions to the sites that several solvers share."""

import numpy as np
from numpy.typing import NDArray

from fedspca.federation.base import Federation
from fedspca.linalg.beside import Adjustment, Reference
from fedspca.linalg.operators import Frame
from fedspca.site.question import Query

Array = NDArray[np.float64]


def frame_arrays(frame: Frame) -> dict[str, Array]:
    """Return the arrays that describe a frame (mean, scale, removed directions) to a site."""
    arrays = {"mean": frame.mean, "scale": frame.scale, "removed": frame.removed}
    return arrays | adjustment_arrays(frame.adjustment) | reference_arrays(frame.reference)


def adjustment_arrays(adjustment: Adjustment | None) -> dict[str, Array]:
    """Return the arrays that describe an adjustment for covariates to a site; empty without covariates."""
    if adjustment is None:
        return {}
    return {"covariate_mean": adjustment.mean, "coefficients": adjustment.coefficients}


def reference_arrays(reference: Reference | None) -> dict[str, Array]:
    """Return the arrays against which a site measures its own shift and spread; empty without ComBat."""
    return {} if reference is None else {"reference_mean": reference.mean, "reference_spread": reference.spread}


def about_the_mean(frame: Frame) -> Query:
    """Return the question for each feature's sum of squares about the frame's mean, adjusted as the frame says."""
    about = {"mean": frame.mean, **adjustment_arrays(frame.adjustment), **reference_arrays(frame.reference)}
    if frame.reference is not None:
        return Query("harmonised", about)
    return Query("deviations" if frame.adjustment is None else "residuals", about)


def gram_product(federation: Federation, frame: Frame, directions: Array, precision: str = "float64") -> Array:
    """S times the directions, by one sum."""
    arrays = {**frame_arrays(frame), "directions": directions}
    return federation.sum(Query("gram_product", arrays, {"precision": precision}))["product"]
