"""Yang (1995), Projection approximation subspace tracking, IEEE Transactions on Signal Processing 43.

PAST minimises Σ‖x − W Wᵀx‖². It computes y = Wᵀx with the previous W, so each step is a least-squares problem:
W ← SW(WᵀSW)⁻¹. FASPCA uses the same approximation. ``fit`` takes the step for all rows of all sites at once, with one
product per round. ``partial_fit`` follows a stream of rows at one site, by the recursion of the source.
"""

from collections.abc import Callable, Sequence
from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils._param_validation import Interval

from fedspca.literature.base import Covariance, Literature
from fedspca.site.preparation import Preparation
from fedspca.solvers.rounds import Round
from fedspca.solvers.warm_start import leading_subspace

Array = NDArray[np.float64]


class PAST(Literature):
    """The leading subspace (dense) by projection approximation, over sites by sums or along a stream of rows.

    Parameters
    ----------
    n_components : int, default=2
        The dimension of the subspace.
    forget : float, default=1.0
        For streams: the weight β of a row relative to the next row.
    scale, tol, max_rounds, random_state, callbacks, verbose
        As in :class:`~fedspca.literature.TruncatedPower`.
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **Literature._parameter_constraints,
        "forget": [Interval(Real, 0, 1, closed="right")],
    }

    def __init__(
        self,
        n_components: int = 2,
        *,
        forget: float = 1.0,
        scale: bool = False,
        tol: float = 1e-10,
        max_rounds: int = 1000,
        random_state: Any = 0,
        callbacks: Sequence[Callable[[Round], object]] | None = None,
        verbose: int = 0,
    ) -> None:
        self.n_components = n_components
        self.forget = forget
        self.scale = scale
        self.tol = tol
        self.max_rounds = max_rounds
        self.random_state = random_state
        self.callbacks = callbacks
        self.verbose = verbose

    def _loadings(self, s: Covariance, r: int, rng: np.random.Generator) -> Array:
        def step(w: Array) -> Array:
            image = s.product(w)
            return np.asarray(np.linalg.solve(w.T @ image, image.T).T)

        w = self._settled(s, step, leading_subspace(s.rounds, s.moments.frame, r, rng).vectors)
        return principal_axes(w, s.product(w))

    def partial_fit(self, X: Any, y: Any = None) -> Self:
        """Update the subspace with further rows, one after the other. The rows are assumed to be centred.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The rows, in their order.
        y : ignored
            Present by convention.
        """
        self._validate_params()
        rows = np.asarray(self._validated(X, reset=not hasattr(self, "_stream")), dtype=np.float64)
        d, r = rows.shape[1], self.n_components
        w, p = getattr(self, "_stream", (np.eye(d, r), np.eye(r)))
        for x in rows:
            w, p = tracked(w, p, x, self.forget)
        self._stream = w, p
        self.components_ = np.linalg.qr(w)[0].T
        self.mean_, self.scale_ = np.zeros(d), np.ones(d)
        self.preparation_, self.adjustment_, self.reference_ = Preparation(), None, None
        self.feature_map_, self.gap_model_ = None, None
        self.n_components_ = r
        return self


def tracked(w: Array, p: Array, x: Array, forget: float) -> tuple[Array, Array]:
    """One step of the source's recursion: W, and P = (Σ yyᵀ)⁻¹, after the row x."""
    y = w.T @ x
    h = p @ y
    gain = h / (forget + float(y @ h))
    p = (p - np.outer(gain, h)) / forget
    return w + np.outer(x - w @ y, gain), (p + p.T) / 2


def principal_axes(w: Array, image: Array) -> Array:
    """The principal axes of the span of W, as an orthonormal basis, given SW."""
    q, upper = np.linalg.qr(w)
    inner = q.T @ np.linalg.solve(upper.T, image.T).T
    return np.asarray(q @ np.linalg.eigh((inner + inner.T) / 2)[1][:, ::-1])
