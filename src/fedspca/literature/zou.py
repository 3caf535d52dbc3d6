"""Zou, Hastie and Tibshirani (2006), Sparse principal component analysis, JCGS 15.

Min over α in St(d, r) and β of Σ‖xᵢ − αβᵀxᵢ‖² + λ Σ‖β_j‖² + Σ λ1‖β_j‖₁, alternating: an elastic net gives β,
and the polar factor of Sβ gives α. For λ → ∞ (their Section 4, for more features than rows), the elastic net becomes a
soft threshold of Sα, so the method needs only products with S.
"""

from collections.abc import Callable, Sequence
from numbers import Integral, Real
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.utils._param_validation import Interval, StrOptions

from fedspca.linalg.shrinkage import soft_threshold
from fedspca.literature.base import PRODUCTS, WHOLE, Covariance, Literature, threshold_for
from fedspca.solvers.rounds import Round
from fedspca.solvers.warm_start import leading_subspace

Array = NDArray[np.float64]

INNER = 5000  # maximal number of steps for one elastic net


class ElasticNetSPCA(Literature):
    """Sparse PCA as a regression with an elastic net.

    Parameters
    ----------
    n_components : int, default=2
        How many loadings.
    lam : float or "infinite", default="infinite"
        The ridge penalty λ. With a number, sites send the whole covariance, once; with "infinite", products.
    lam1 : float, optional
        The lasso's weight λ1.
    n_nonzero : int, optional
        Instead of λ1, with ``lam="infinite"``: the non-zeros of each loading.
    scale, tol, max_rounds, random_state, callbacks, verbose
        As in :class:`~fedspca.literature.TruncatedPower`.
    """

    reveals = f"{PRODUCTS}; or, with a finite λ, {WHOLE}"
    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **Literature._parameter_constraints,
        "lam": [Interval(Real, 0, None, closed="neither"), StrOptions({"infinite"})],
        "lam1": [Interval(Real, 0, None, closed="left"), None],
        "n_nonzero": [Interval(Integral, 1, None, closed="left"), None],
    }

    def __init__(
        self,
        n_components: int = 2,
        *,
        lam: float | Literal["infinite"] = "infinite",
        lam1: float | None = None,
        n_nonzero: int | None = None,
        scale: bool = False,
        tol: float = 1e-10,
        max_rounds: int = 500,
        random_state: Any = 0,
        callbacks: Sequence[Callable[[Round], object]] | None = None,
        verbose: int = 0,
    ) -> None:
        self.n_components = n_components
        self.lam = lam
        self.lam1 = lam1
        self.n_nonzero = n_nonzero
        self.scale = scale
        self.tol = tol
        self.max_rounds = max_rounds
        self.random_state = random_state
        self.callbacks = callbacks
        self.verbose = verbose

    def _loadings(self, s: Covariance, r: int, rng: np.random.Generator) -> Array:
        if (self.lam1 is None) == (self.n_nonzero is None) or (self.lam != "infinite" and self.lam1 is None):
            raise ValueError(
                "ElasticNetSPCA needs one of the 'lam1' and 'n_nonzero' parameters, and only one; 'n_nonzero' is for "
                "lam='infinite'."
            )
        start = leading_subspace(s.rounds, s.moments.frame, r, rng).vectors
        if self.lam == "infinite":
            return self._settled(s, lambda beta: self._thresholded(s.product(_polar(s.product(beta)))), start)
        matrix = s.whole()
        curvature = 2 * (float(np.linalg.eigvalsh(matrix)[-1]) + float(self.lam))
        return self._settled(s, lambda beta: self._elastic_net(matrix, _polar(matrix @ beta), beta, curvature), start)

    def _thresholded(self, image: Array) -> Array:
        level = threshold_for(image, self.n_nonzero) if self.n_nonzero is not None else float(self.lam1 or 0.0) / 2
        beta = soft_threshold(image, level)
        sizes = np.linalg.norm(beta, axis=0)
        return np.asarray(beta / np.where(sizes > 0, sizes, 1.0))  # α does not depend on the lengths

    def _elastic_net(self, s: Array, alpha: Array, beta: Array, curvature: float) -> Array:
        """Argmin over β of (α − β)ᵀS(α − β) + λ‖β‖² + λ1‖β‖₁, by accelerated proximal gradient steps."""
        ridge, lasso = float(self.lam), float(self.lam1 or 0.0)
        wanted = s @ alpha
        momentum, ahead = 1.0, beta
        for _ in range(INNER):
            gradient = 2 * (s @ ahead + ridge * ahead - wanted)
            before, beta = beta, soft_threshold(ahead - gradient / curvature, lasso / curvature)
            faster = (1 + np.sqrt(1 + 4 * momentum**2)) / 2
            ahead, momentum = beta + (momentum - 1) / faster * (beta - before), faster
            if np.linalg.norm(beta - before) <= 0.01 * self.tol * max(float(np.linalg.norm(beta)), 1e-300):
                break
        return beta


def _polar(x: Array) -> Array:
    left, _, right = np.linalg.svd(x, full_matrices=False)
    return np.asarray(left @ right)
