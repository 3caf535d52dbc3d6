"""Yuan and Zhang (2013), Truncated power method for sparse eigenvalue problems, JMLR 14."""

from collections.abc import Callable, Sequence
from numbers import Integral
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.utils._param_validation import Interval, StrOptions

from fedspca.literature.base import Covariance, Literature, keep_largest, sphere
from fedspca.literature.mackey import DEFLATIONS, Deflated, Deflation, one_by_one
from fedspca.solvers.rounds import Round

Array = NDArray[np.float64]


class TruncatedPower(Literature):
    """Max vᵀSv with ‖v‖ = 1 and at most k non-zeros: v ← the k largest entries of Sv, scaled to length one.

    Deflation removes each loading that is found. The next one starts from the feature with the largest remaining
    variance.

    Parameters
    ----------
    n_components : int, default=2
        How many loadings.
    n_nonzero : int, default=10
        Non-zeros of each loading.
    deflation : {"hotelling", "projection", "schur", "orthogonalised", "generalised"}, default="orthogonalised"
        Mackey's deflations; see :mod:`fedspca.literature.mackey`.
    scale : bool, default=False
        Divide features by their joint standard deviation.
    tol : float, default=1e-10
        Stop when the relative change of a loading is at most this.
    max_rounds : int, default=300
        The maximal number of iterations for each loading.
    random_state, callbacks, verbose
        As in :class:`~fedspca.ExactSPCA`.
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **Literature._parameter_constraints,
        "n_nonzero": [Interval(Integral, 1, None, closed="left")],
        "deflation": [StrOptions(set(DEFLATIONS))],
    }

    def __init__(
        self,
        n_components: int = 2,
        *,
        n_nonzero: int = 10,
        deflation: Deflation = "orthogonalised",
        scale: bool = False,
        tol: float = 1e-10,
        max_rounds: int = 300,
        random_state: Any = 0,
        callbacks: Sequence[Callable[[Round], object]] | None = None,
        verbose: int = 0,
    ) -> None:
        self.n_components = n_components
        self.n_nonzero = n_nonzero
        self.deflation = deflation
        self.scale = scale
        self.tol = tol
        self.max_rounds = max_rounds
        self.random_state = random_state
        self.callbacks = callbacks
        self.verbose = verbose

    def _loadings(self, s: Covariance, r: int, rng: np.random.Generator) -> Array:
        return one_by_one(s, r, self.deflation, lambda left: self._settled(s, self._step(left), heaviest(left)))

    def _step(self, left: Deflated) -> Callable[[Array], Array]:
        def step(v: Array) -> Array:
            image, measured = left.product(v), left.metric(v)
            if left.kind == "generalised":  # ascent step on the quotient vᵀSv/vᵀBv
                quotient = float(v @ image) / float(v @ measured)
                image = image / quotient + v - measured
            return sphere(keep_largest(image, self.n_nonzero))

        return step


def heaviest(left: Deflated) -> Array:
    """The unit vector of the feature with the largest remaining variance."""
    v = np.zeros(left.d)
    v[np.argmax(left.variances)] = 1.0
    return v
