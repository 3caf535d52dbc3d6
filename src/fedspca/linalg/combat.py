"""Site effects with empirical-Bayes shrinkage: ComBat's model (Johnson, Li and Rabinovic 2007).

A feature of site i is x = α + cβ + σγᵢ + σδᵢε: a shift γᵢ and a spread δᵢ of the site. The estimates for one feature
are shrunk towards those for the site's other features: over the features, γ has a normal prior and δ² an inverse gamma
prior.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

SETTLED = 1e-14  # largest change of a shift or a variance, relative to the largest, at which the iteration ends
MOST_STEPS = 10_000


class SiteEffect(NamedTuple):
    """A site's shift γ* and variance δ*² by feature, in units of the joint spread."""

    shift: Array
    variance: Array


def shrunk(n: int, shift: Array, squares: Array) -> SiteEffect:
    """E[γ | rows] and E[δ² | rows] under priors over the features, by fixed-point iteration.

    Parameters
    ----------
    n : int
        The number of rows of the site.
    shift : ndarray of shape (d,)
        The mean of each feature at the site, in joint units.
    squares : ndarray of shape (d,)
        The sum of squares about that mean.

    References
    ----------
    W. E. Johnson, C. Li, A. Rabinovic: Adjusting batch effects in microarray expression data using empirical Bayes
    methods. Biostatistics 8 (2007), 118-127.
    """
    raw = squares / (n - 1)
    centre, tau2 = shift.mean(), shift.var(ddof=1)
    m, s2 = raw.mean(), raw.var(ddof=1)
    found = SiteEffect(shift, raw)
    for _ in range(MOST_STEPS):
        moved = (n * tau2 * shift + found.variance * centre) / (n * tau2 + found.variance)
        about = squares + n * (shift - moved) ** 2
        # (Σ(z − γ)²/2 + b)/(n/2 + a − 1) with a = (2s² + m²)/s² and b = (ms² + m³)/s², multiplied by s², which may be 0
        variance = (0.5 * s2 * about + m * s2 + m**3) / (s2 * (0.5 * n + 1) + m**2)
        change = max(_change(moved, found.shift), _change(variance, found.variance))
        found = SiteEffect(moved, variance)
        if change <= SETTLED:
            break
    return found


def _change(new: Array, old: Array) -> float:
    largest = float(np.abs(new).max())
    return float(np.abs(new - old).max()) / largest if largest > 0 else 0.0
