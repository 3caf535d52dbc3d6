"""Journée, Nesterov, Richtárik and Sepulchre (2010), Generalized power method for sparse PCA, JMLR 11.

The source maximises a convex function over x on the unit sphere of Rⁿ, for n rows, or over X in St(n, r). Rows stay at
their sites, so this file does not store X but C = AᵀX (d × r). One product with S updates C: for X = AV(VᵀSV)^(−1/2),
AᵀX is SV(VᵀSV)^(−1/2).
"""

from collections.abc import Callable, Sequence
from numbers import Integral, Real
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.utils._param_validation import Interval, StrOptions

from fedspca.linalg.shrinkage import soft_threshold
from fedspca.literature.base import Covariance, Literature, threshold_for
from fedspca.literature.mackey import DEFLATIONS, Deflated, Deflation, one_by_one
from fedspca.literature.truncated_power import heaviest
from fedspca.solvers.rounds import Round
from fedspca.solvers.warm_start import leading_subspace

Array = NDArray[np.float64]


class GPower(Literature):
    """The generalised power method, for one loading after the other or for all at once, with ℓ1 or ℓ0.

    - ℓ1: max over X of Σ_j Σ_i [μ_j|aᵢᵀx_j| − γ]₊²
    - ℓ0: max over X of Σ_j Σ_i [(μ_j aᵢᵀx_j)² − γ]₊

    where aᵢ are the columns of A, the features. The loadings are AᵀX after thresholding.

    Parameters
    ----------
    n_components : int, default=2
        How many loadings.
    penalty : {"l1", "l0"}, default="l1"
        The first or the second of these objectives.
    block : bool, default=False
        Find all loadings at once. Otherwise find them one by one, with deflation.
    mu : {"equal", "distinct"}, default="equal"
        With ``block``: μ_j = 1 or μ_j = 1/j. Distinct μ_j fix the rotation of the loadings among themselves.
    gamma : float, optional
        The penalty γ. It is on the scale of the features' norms (ℓ1) or of their squares (ℓ0).
    n_nonzero : int, optional
        Instead of γ: the non-zeros of each loading. Every iteration then chooses its own γ.
    deflation : one of Mackey's, default="orthogonalised"
        Without ``block``; see :mod:`fedspca.literature.mackey`.
    scale, tol, max_rounds, random_state, callbacks, verbose
        As in :class:`~fedspca.literature.TruncatedPower`.
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **Literature._parameter_constraints,
        "penalty": [StrOptions({"l1", "l0"})],
        "block": ["boolean"],
        "mu": [StrOptions({"equal", "distinct"})],
        "gamma": [Interval(Real, 0, None, closed="left"), None],
        "n_nonzero": [Interval(Integral, 1, None, closed="left"), None],
        "deflation": [StrOptions(set(DEFLATIONS) - {"generalised"})],
    }

    def __init__(
        self,
        n_components: int = 2,
        *,
        penalty: Literal["l1", "l0"] = "l1",
        block: bool = False,
        mu: Literal["equal", "distinct"] = "equal",
        gamma: float | None = None,
        n_nonzero: int | None = None,
        deflation: Deflation = "orthogonalised",
        scale: bool = False,
        tol: float = 1e-10,
        max_rounds: int = 300,
        random_state: Any = 0,
        callbacks: Sequence[Callable[[Round], object]] | None = None,
        verbose: int = 0,
    ) -> None:
        self.n_components = n_components
        self.penalty = penalty
        self.block = block
        self.mu = mu
        self.gamma = gamma
        self.n_nonzero = n_nonzero
        self.deflation = deflation
        self.scale = scale
        self.tol = tol
        self.max_rounds = max_rounds
        self.random_state = random_state
        self.callbacks = callbacks
        self.verbose = verbose

    def _loadings(self, s: Covariance, r: int, rng: np.random.Generator) -> Array:
        if (self.gamma is None) == (self.n_nonzero is None):
            raise ValueError("GPower needs one of the 'gamma' and 'n_nonzero' parameters, and only one.")
        if self.block:
            start = leading_subspace(s.rounds, s.moments.frame, r, rng).vectors
            weights = 1.0 / np.arange(1, r + 1) if self.mu == "distinct" else np.ones(r)
            c = self._settled(s, lambda c: moved(s.product, self._pattern(c, weights)), moved(s.product, start))
            return self._pattern(c, weights)
        return one_by_one(s, r, self.deflation, lambda left: self._single(s, left))

    def _single(self, s: Covariance, left: Deflated) -> Array:
        one = np.ones(1)
        start = moved(left.product, heaviest(left)[:, None])
        c = self._settled(s, lambda c: moved(left.product, self._pattern(c, one)), start)
        return self._pattern(c, one)[:, 0]

    def _pattern(self, c: Array, weights: Array) -> Array:
        """V: the coefficient of each feature in the gradient, which is zero below the threshold."""
        seen = weights * c
        if self.penalty == "l1":
            level = threshold_for(seen, self.n_nonzero) if self.n_nonzero is not None else float(self.gamma or 0.0)
            return weights * soft_threshold(seen, level)
        level = threshold_for(seen, self.n_nonzero) if self.n_nonzero is not None else np.sqrt(self.gamma or 0.0)
        return np.where(np.abs(seen) > level, weights * seen, 0.0)


def moved(product: Callable[[Array], Array], v: Array) -> Array:
    """AᵀX for X the polar factor of AV: SV(VᵀSV)^(−1/2), with a pseudo-inverse if VᵀSV is singular."""
    image = product(v)
    captured = v.T @ image
    values, vectors = np.linalg.eigh((captured + captured.T) / 2)
    kept = values > 1e-14 * max(float(values[-1]), 1e-300)
    root = (vectors[:, kept] / np.sqrt(values[kept])) @ vectors[:, kept].T
    return np.asarray(image @ root)
