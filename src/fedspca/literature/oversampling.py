"""Lee, Yeh and Wang (2013), Anomaly detection via online oversampling PCA, IEEE TKDE 25.

One row is copied many times. The leading direction u then rotates, and it rotates more if the row is an anomaly. One
least-squares step of PAST gives the new direction ũ: βSu + (aᵀu)a for the row a, with β = 1/(n·ratio). Su is a sum over
the sites. The rest depends on the row only, so each site can score its own rows.
"""

from collections.abc import Callable, Sequence
from numbers import Real
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import check_is_fitted

from fedspca.literature.base import Covariance
from fedspca.literature.past import PAST
from fedspca.solvers.rounds import Round

Array = NDArray[np.float64]


class OversamplingPCA(PAST):
    """Anomaly scores by online oversampling PCA: how far many copies of a row would rotate the leading direction.

    Parameters
    ----------
    ratio : float, default=0.1
        Copies of the row, as a share of all rows.
    scale, tol, max_rounds, random_state, callbacks, verbose
        As in :class:`~fedspca.literature.TruncatedPower`.
    """

    n_components = 1
    forget = 1.0
    _parameter_constraints: ClassVar[dict[str, Any]] = {
        name: rules for name, rules in PAST._parameter_constraints.items() if name not in ("n_components", "forget")
    } | {"ratio": [Interval(Real, 0, None, closed="neither")]}

    def __init__(
        self,
        *,
        ratio: float = 0.1,
        scale: bool = False,
        tol: float = 1e-10,
        max_rounds: int = 1000,
        random_state: Any = 0,
        callbacks: Sequence[Callable[[Round], object]] | None = None,
        verbose: int = 0,
    ) -> None:
        self.ratio = ratio
        self.scale = scale
        self.tol = tol
        self.max_rounds = max_rounds
        self.random_state = random_state
        self.callbacks = callbacks
        self.verbose = verbose

    def _loadings(self, s: Covariance, r: int, rng: np.random.Generator) -> Array:
        u = super()._loadings(s, r, rng)
        self.image_ = s.product(u)[:, 0]
        return u

    def score_samples(self, X: Any) -> Array:
        """−(1 − |cos(ũ, u)|) of each row: lower is more anomalous, as in scikit-learn.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The rows.

        Returns
        -------
        scores : ndarray of shape (n_samples,)
            The scores, from −1 to 0.
        """
        check_is_fitted(self)
        rows = (np.asarray(self._new_rows(X), dtype=np.float64) - self.mean_) / self.scale_
        return oversampling_cosines(rows, self.components_[0], self.image_, self.n_samples_ * self.ratio) - 1.0


def oversampling_cosines(rows: Array, u: Array, image: Array, copies: float) -> Array:
    """|cos(ũ, u)| for each row, where ũ is u after adding ``copies`` copies of the row; ``image`` is Su or −Su."""
    image = image if float(u @ image) >= 0 else -image
    inner = rows @ u
    turned_length = np.sqrt(
        np.maximum(
            float(image @ image)
            + 2 * copies * inner * (rows @ image)
            + (copies * inner) ** 2 * np.einsum("ij,ij->i", rows, rows),
            1e-300,
        )
    )
    return np.asarray(np.minimum(np.abs(float(image @ u) + copies * inner**2) / turned_length, 1.0))
