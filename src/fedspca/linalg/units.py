"""By how much a feature differs between a site and the others, where a unit may be wrong.

A wrong unit multiplies the mean and the standard deviation by the same factor. Sites with different patients
have other means or other spreads, but seldom both, by a large factor in the same direction.
``python -m benchmarks units`` counts how often the factors below give a false alarm, and how often they find a unit.
"""

import numpy as np
from numpy.typing import NDArray

from fedspca.linalg.profile import Profile

Array = NDArray[np.float64]

FACTOR = 3.0  # by which mean and spread must both differ
LONE_FACTOR = 6.0  # by which the spread must differ where a mean near zero says nothing of the unit
LOCATED = 0.5  # a mean of at least this many standard deviations suggests a ratio scale


def unit_factors(profile: Profile, others: Profile) -> Array:
    """How many times larger each feature is at a site than elsewhere, where a unit may be wrong; 1 where not.

    Parameters
    ----------
    profile : Profile
        The site's own rows.
    others : Profile
        All other rows.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        spreads = profile.spread / others.spread
        means = profile.mean / others.mean
        located = np.minimum(np.abs(profile.mean) / profile.spread, np.abs(others.mean) / others.spread) >= LOCATED
    both = np.minimum(apart(spreads), apart(means)) >= FACTOR
    alike = (spreads > 1) == (means > 1)
    odd = np.where(located, both & alike & (means > 0), apart(spreads) >= LONE_FACTOR)
    usable = ~(profile.constant | others.constant) & np.isfinite(spreads)
    return np.where(odd & usable, spreads, 1.0)


def apart(ratio: Array) -> Array:
    """Return the ratio or its inverse, whichever is above one."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.nan_to_num(np.maximum(np.abs(ratio), 1 / np.abs(ratio)), nan=1.0, posinf=1.0)
