"""What a question says about how rows are to be seen: the mean, the scale, covariates, a reference."""

import numpy as np
from numpy.typing import NDArray

from fedspca.linalg.beside import Adjustment, Reference
from fedspca.linalg.operators import Frame
from fedspca.site.errors import InvalidQuery, count
from fedspca.site.question import Query, SiteData

Array = NDArray[np.float64]


def frame_of(query: Query) -> Frame:
    """Return the frame in which a question asks for the rows."""
    arrays = query.arrays
    return Frame(arrays["mean"], arrays["scale"], arrays["removed"], adjustment_of(query), reference_of(query))


def reference_of(query: Query) -> Reference | None:
    """Return what sites measure their own shift and spread against; None without ComBat."""
    if "reference_mean" not in query.arrays:
        return None
    return Reference(query.arrays["reference_mean"], query.arrays["reference_spread"])


def adjustment_of(query: Query) -> Adjustment | None:
    """Return what covariates explain; None if the question names none."""
    if "coefficients" not in query.arrays:
        return None
    return Adjustment(query.arrays["covariate_mean"], query.arrays["coefficients"])


def raw_frame(data: SiteData, query: Query) -> tuple[Frame, Array]:
    """Return the frame of the raw rows for a question that names only means, and the site's own spread."""
    mean = query.arrays["mean"]
    frame = Frame(mean, np.ones(len(mean)), np.zeros((len(mean), 0)), adjustment_of(query), reference_of(query))
    return data.raw(frame), np.ones(len(mean)) if data.own is None else data.own.scale


def covariates_of(data: SiteData, query: Query) -> Array:
    """Return the site's covariates, if it has as many as the question is about."""
    asked, found = query.arrays.get("covariate_mean", query.arrays.get("covariates")), data.beside.covariates
    if found is None or asked is None or found.shape[1] != len(asked):
        here = 0 if found is None else found.shape[1]
        raise InvalidQuery(
            data.site, query.name, f"the site has {count(here, 'column')} of covariates, and not as many as that."
        )
    return found
