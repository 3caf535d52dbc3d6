"""A site's rows after ComBat: its own shift and spread are taken out, shrunk over the features. Both stay at the site.

With the joint mean μ, the protected covariates' part (C − 1γᵀ)B and the joint spread σ within sites, a site finds its
shift and spread from its own rows. X becomes (X − μ − (C − 1γᵀ)B − shift)/spread + μ + (C − 1γᵀ)B.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedspca.linalg.beside import Adjustment, Beside, Reference
from fedspca.linalg.combat import shrunk
from fedspca.linalg.feature_sums import deviations_from
from fedspca.linalg.operators import Frame
from fedspca.linalg.row_blocks import AnyRows
from fedspca.site.errors import InvalidData, count

Array = NDArray[np.float64]

FEWEST_FEATURES, FEWEST_ROWS = 2, 2  # a prior over features and a variance over rows need two


@dataclass(frozen=True, eq=False)
class Harmony:
    """A site's own shift and spread by feature, relative to all sites."""

    shift: Array
    spread: Array
    reference: Reference
    adjustment: Adjustment | None

    def seen(self, frame: Frame) -> Frame:
        """Return the frame that does to the raw rows what the given frame does to the harmonised rows."""
        own, joint = self.spread, self.reference.mean
        protected = self.adjustment
        if protected is not None:
            protected = Adjustment(protected.mean, protected.coefficients * (1 - own))
        mean = joint * (1 - own) + self.shift + own * frame.mean
        return Frame(mean, own * frame.scale, frame.removed, protected)


def harmony_of(rows: AnyRows, beside: Beside, reference: Reference, adjustment: Adjustment | None) -> Harmony:
    """Estimate a site's own shift and spread from its rows. A feature whose joint spread is 0 is left as it is."""
    n, used = rows.shape[0], reference.spread > 0
    if n < FEWEST_ROWS or int(used.sum()) < FEWEST_FEATURES:
        raise InvalidData(
            "ComBat needs two rows or more of a site, and two features or more that vary at every site. Got "
            f"{count(n, 'row')} and {count(int(used.sum()), 'such feature')}. Use centre='site' instead."
        )
    offsets, _ = deviations_from(rows, reference.mean, beside=beside, adjustment=adjustment)
    # squares about the site's own mean, in a second pass: a large shift would cost digits
    left, squares = deviations_from(rows, reference.mean + offsets / n, beside=beside, adjustment=adjustment)
    spread = reference.spread[used]
    found = shrunk(n, ((offsets + left) / n)[used] / spread, (squares - left**2 / n)[used] / spread**2)
    shift, own = np.zeros(len(used)), np.ones(len(used))
    shift[used], own[used] = found.shift * spread, np.sqrt(found.variance)
    return Harmony(shift, own, reference, adjustment)
