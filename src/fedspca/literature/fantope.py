"""Vu, Cho, Lei and Rohe (2013), Fantope projection and selection, NIPS 26."""

from collections.abc import Callable, Sequence
from numbers import Real
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import qr
from scipy.optimize import brentq
from sklearn.utils._param_validation import Interval

from fedspca.linalg.shrinkage import soft_threshold
from fedspca.literature.base import WHOLE, Covariance, Literature
from fedspca.solvers.rounds import Round

Array = NDArray[np.float64]

NOTHING = 1e-6  # an eigenvector's weight below this share of its largest weight is a rounding error


class FantopePS(Literature):
    """Max ⟨S, H⟩ − λ‖H‖₁ over the Fantope {0 ⪯ H ⪯ I, tr H = r}: a convex relaxation for all r loadings at once.

    The coordinator solves it by ADMM, on the whole covariance. The loadings are the leading eigenvectors of H.

    Parameters
    ----------
    n_components : int, default=2
        How many loadings, r.
    lam : float, default=1.0
        The weight λ of ‖H‖₁. It is compared with the entries of S, which are covariances times n − 1.
    scale, tol, max_rounds, random_state, callbacks, verbose
        As in :class:`~fedspca.literature.TruncatedPower`; ``max_rounds`` counts ADMM steps, which send no query.

    Attributes
    ----------
    projection_ : ndarray of shape (n_features, n_features)
        The solution H.
    dual_value_ : float
        The sum of the r largest eigenvalues of S + U for a U with |U_ij| ≤ λ: an upper bound on the optimum.
    """

    reveals = WHOLE
    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **Literature._parameter_constraints,
        "lam": [Interval(Real, 0, None, closed="left")],
    }

    def __init__(
        self,
        n_components: int = 2,
        *,
        lam: float = 1.0,
        scale: bool = False,
        tol: float = 1e-8,
        max_rounds: int = 5000,
        random_state: Any = 0,
        callbacks: Sequence[Callable[[Round], object]] | None = None,
        verbose: int = 0,
    ) -> None:
        self.n_components = n_components
        self.lam = lam
        self.scale = scale
        self.tol = tol
        self.max_rounds = max_rounds
        self.random_state = random_state
        self.callbacks = callbacks
        self.verbose = verbose

    def _loadings(self, s: Covariance, r: int, rng: np.random.Generator) -> Array:
        solved = self._relaxed(s, s.whole(), r)
        self.projection_, self.dual_value_ = solved.h, solved.dual_value
        return leading(solved.h, r)

    def _relaxed(self, s: Covariance, matrix: Array, r: int) -> "Relaxed":
        """Run the ADMM: H = P(Z − U + S/ρ), Z = soft(H + U, λ/ρ), U ← U + H − Z, on S in units of its largest entry."""
        unit = float(np.abs(matrix).max())
        scaled, lam, rho = matrix / unit, self.lam / unit, 1.0

        def step(state: Array) -> Array:
            z, u = state
            h = fantope_projection(z - u + scaled / rho, r)
            z = soft_threshold(h + u, lam / rho)
            return np.stack([z, u + h - z])

        z, u = self._settled(s, step, np.zeros((2, *matrix.shape)))
        force = unit * np.clip(-rho * (u + u.T) / 2, -lam, lam)
        return Relaxed(z, float(np.linalg.eigvalsh(matrix + force)[-r:].sum()), force)


class Relaxed(NamedTuple):
    """A solution H, the dual value that bounds the optimum, and the U with |U_ij| ≤ λ that gives this value."""

    h: Array
    dual_value: float
    u: Array


def fantope_projection(x: Array, r: int) -> Array:
    """Argmin over 0 ⪯ H ⪯ I, tr H = r of ‖H − x‖.

    The eigenvalues of x are shifted by −θ and clipped to [0, 1]. θ is such that the results add up to r.
    """
    values, vectors = np.linalg.eigh((x + x.T) / 2)

    def excess(theta: float) -> float:
        return float(np.clip(values - theta, 0.0, 1.0).sum() - r)

    theta = brentq(excess, values[0] - 1.0, values[-1], xtol=1e-15, rtol=1e-14) if r < len(values) else values[0] - 1.0
    kept = np.clip(values - theta, 0.0, 1.0)
    seen = kept > 0
    return np.asarray((vectors[:, seen] * kept[seen]) @ vectors[:, seen].T)


def leading(h: Array, r: int) -> Array:
    """The r leading eigenvectors of H, rotated to a basis that is sparse if H has blocks.

    Features whose row of H is zero get no weight. If the relaxation is tight, H is a projection of rank r, and every
    basis of its range is equally good. A pivoted QR decomposition of the projection chooses a sparse one.
    """
    used = np.flatnonzero(np.diag(h) > 0)
    if len(used) < r:
        raise ValueError(f"The penalty leaves {len(used)} features for {r} loadings. Take a smaller one.")
    vectors = np.linalg.eigh(h[np.ix_(used, used)])[1][:, ::-1][:, :r]
    vectors = qr(vectors @ vectors.T, pivoting=True)[0][:, :r]
    w = np.zeros((len(h), r))
    w[used] = np.where(np.abs(vectors) > NOTHING * np.abs(vectors).max(axis=0), vectors, 0.0)
    return w
