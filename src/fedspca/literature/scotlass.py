"""Jolliffe, Trendafilov and Uddin (2003), A modified principal component technique based on the LASSO, JCGS 12."""

from collections.abc import Callable, Sequence
from numbers import Real
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from sklearn.utils._param_validation import Interval

from fedspca.linalg.shrinkage import soft_threshold
from fedspca.literature.base import Covariance, Literature, sphere
from fedspca.literature.mackey import Deflated, one_by_one
from fedspca.literature.truncated_power import heaviest
from fedspca.solvers.rounds import Round

Array = NDArray[np.float64]


class SCoTLASS(Literature):
    """Max vᵀSv with ‖v‖₂ ≤ 1 and ‖v‖₁ ≤ t, one loading after the other.

    The source follows a gradient flow. Here each iteration maximises the linear minorant 2⟨Sv, ·⟩. Its maximiser is a
    soft threshold of Sv (Witten, Tibshirani and Hastie 2009), so vᵀSv never decreases. The source requires later
    loadings to be orthogonal to earlier ones. Here orthogonalised deflation removes earlier loadings from S instead.

    Parameters
    ----------
    n_components : int, default=2
        How many loadings.
    t : float, default=2.0
        The bound on ‖v‖₁, from 1 (one feature) to √d (dense).
    scale, tol, max_rounds, random_state, callbacks, verbose
        As in :class:`~fedspca.literature.TruncatedPower`.
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **Literature._parameter_constraints,
        "t": [Interval(Real, 1, None, closed="left")],
    }

    def __init__(
        self,
        n_components: int = 2,
        *,
        t: float = 2.0,
        scale: bool = False,
        tol: float = 1e-10,
        max_rounds: int = 500,
        random_state: Any = 0,
        callbacks: Sequence[Callable[[Round], object]] | None = None,
        verbose: int = 0,
    ) -> None:
        self.n_components = n_components
        self.t = t
        self.scale = scale
        self.tol = tol
        self.max_rounds = max_rounds
        self.random_state = random_state
        self.callbacks = callbacks
        self.verbose = verbose

    def _loadings(self, s: Covariance, r: int, rng: np.random.Generator) -> Array:
        def solve(left: Deflated) -> Array:
            first = sphere(left.product(heaviest(left)))
            return self._settled(s, lambda v: most_aligned(left.product(v), self.t), most_aligned(first, self.t))

        return one_by_one(s, r, "orthogonalised", solve)


def most_aligned(x: Array, t: float) -> Array:
    """Argmax over ‖v‖₂ ≤ 1, ‖v‖₁ ≤ t of ⟨x, v⟩: a soft threshold of x, scaled to length one.

    The threshold is zero if x/‖x‖ meets the ℓ1 bound; otherwise it is such that ‖v‖₁ = t.
    """
    dense = sphere(x)
    if np.abs(dense).sum() <= t:
        return dense
    sizes = -np.sort(-np.abs(x))
    top = int(np.count_nonzero(sizes == sizes[0]))
    if np.sqrt(top) > t:  # ties for the largest already exceed the bound: take the first
        v = np.zeros_like(x)
        v[np.argmax(np.abs(x))] = np.sign(x[np.argmax(np.abs(x))])
        return v
    above = sizes[0] - (sizes[0] - (sizes[top] if top < len(sizes) else 0.0)) * 1e-12

    def excess(level: float) -> float:
        return float(np.abs(sphere(soft_threshold(x, level))).sum() - t)

    if excess(above) >= 0:
        return sphere(soft_threshold(x, above))
    return sphere(soft_threshold(x, float(brentq(excess, 0.0, above, xtol=1e-15 * sizes[0], rtol=1e-15))))
