"""What the methods of the literature share: S = AᵀA computed by sums over sites, and scikit-learn's interface."""

from abc import abstractmethod
from collections.abc import Callable
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils._param_validation import Interval

from fedspca._callers import warn_caller
from fedspca.estimators.base import FederatedSparsePCA, Found
from fedspca.federation.base import FederationError, answers_gram
from fedspca.site.question import Query
from fedspca.solvers.asking import gram_product
from fedspca.solvers.deflation import captured_variance
from fedspca.solvers.exact import whole
from fedspca.solvers.finish import with_fixed_signs
from fedspca.solvers.rounds import Rounds
from fedspca.solvers.standardise import Moments
from fedspca.solvers.stopping import StopReason

Array = NDArray[np.float64]

DEPENDENT = 1e-12  # columns are linearly dependent below this share of the largest singular value
PRODUCTS = "the covariance applied to the directions that the method tries, d numbers each"
WHOLE = "the whole covariance, d(d + 1)/2 numbers, in one sum"


class Covariance:
    """S = AᵀA of the rows of all sites, by sums. Sites accept only orthonormal directions, so these are sent."""

    def __init__(self, rounds: Rounds, moments: Moments) -> None:
        self.rounds, self.moments, self.d = rounds, moments, len(moments.mean)

    def product(self, x: Array) -> Array:
        """Sx, by one sum."""
        columns = x.reshape(self.d, -1)
        left, sizes, right = np.linalg.svd(columns, full_matrices=False)
        kept = sizes > DEPENDENT * sizes[0]
        if not kept.any():
            return np.zeros_like(x)
        image = gram_product(self.rounds, self.moments.frame, left[:, kept])
        return np.asarray((image @ (sizes[kept, None] * right[kept])).reshape(x.shape))

    def whole(self) -> Array:
        """S itself, by one sum."""
        if not answers_gram(self.rounds):
            raise FederationError(
                f"The method needs the whole covariance of {self.d} features in one sum, and a site does not answer "
                "that (max_gram_features of its policy). Take a method that asks for products."
            )
        return whole.ask(self.rounds, self.moments.frame, "float64")

    def variances(self) -> Array:
        """The diagonal of S, by one sum."""
        squares = self.rounds.sum(Query("deviations", {"mean": self.moments.mean}))["squares"]
        return np.where(self.moments.constant, 0.0, squares / self.moments.scale**2)


class Literature(FederatedSparsePCA):
    """A method of the literature as an estimator. ``reveals`` says what a site releases beyond its moments."""

    reveals: ClassVar[str] = PRODUCTS
    tol: float
    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "n_components": [Interval(Integral, 1, None, closed="left")],
        "scale": ["boolean"],
        "tol": [Interval(Real, 0, None, closed="neither")],
        "max_rounds": [Interval(Integral, 1, None, closed="left")],
        "random_state": ["random_state", np.random.Generator],
        "callbacks": [list, tuple, None],
        "verbose": ["verbose"],
    }

    @abstractmethod
    def _loadings(self, s: Covariance, r: int, rng: np.random.Generator) -> Array:
        """Find r loadings (d × r)."""

    def _solve(self, rounds: Rounds, moments: Moments, n_components: int, rng: np.random.Generator) -> Found:
        self.stop_reason_ = StopReason.CONVERGED
        found = self._loadings(Covariance(rounds, moments), n_components, rng)
        w = with_fixed_signs(_of_length_one(found))
        captured = captured_variance(rounds, moments.frame, w)
        rounds.report(objective=self._objective(w, captured, rounds.n_sites), nonzeros=int(np.count_nonzero(w)))
        if self.stop_reason_ is StopReason.MAX_ROUNDS:
            warn_caller(
                f"{type(self).__name__} stopped after {self.max_rounds} iterations before it settled to tol="
                f"{self.tol:g}. Try more (max_rounds), or a larger tol.",
                ConvergenceWarning,
            )
        return Found(w, captured)

    def _objective(self, w: Array, captured: Array, n_sites: int) -> float:
        """−tr(WᵀSW): an objective without penalty, so that methods with different penalties can be compared."""
        return -float(np.trace(captured))

    def _settled(self, s: Covariance, step: Callable[[Array], Array], x: Array) -> Array:
        """Repeat x ← step(x) until the relative change of x is at most ``tol``."""
        for _ in range(self.max_rounds):
            before, x = x, step(x)
            if np.linalg.norm(x - before) <= self.tol * max(float(np.linalg.norm(x)), 1e-300):
                return x
            if s.rounds.stop_requested:
                self.stop_reason_ = StopReason.CALLBACK
                return x
        self.stop_reason_ = StopReason.MAX_ROUNDS
        return x


def _of_length_one(w: Array) -> Array:
    """Scale each loading to length one; raise a ValueError that names the first loading without weights."""
    sizes = np.linalg.norm(w, axis=0)
    if not sizes.all():
        empty = int(np.flatnonzero(sizes == 0)[0]) + 1
        raise ValueError(f"The penalty leaves loading {empty} without any weight. Take a smaller one.")
    return np.asarray(w / sizes)


def keep_largest(x: Array, k: int) -> Array:
    """Keep the k entries of largest magnitude in each column; among equal entries, the first ones."""
    columns = x.reshape(len(x), -1)
    order = np.argsort(-np.abs(columns), axis=0, kind="stable")[:k]
    kept = np.zeros_like(columns)
    np.put_along_axis(kept, order, np.take_along_axis(columns, order, axis=0), axis=0)
    return kept.reshape(x.shape)


def threshold_for(x: Array, k: int) -> Array:
    """The (k + 1)-th largest magnitude of each column: as a threshold, it keeps the k largest."""
    columns = np.abs(x.reshape(len(x), -1))
    if k >= len(columns):
        return np.zeros(columns.shape[1])
    return np.asarray(-np.sort(-columns, axis=0)[k])


def sphere(x: Array) -> Array:
    """Scale x to length one; a zero x stays zero."""
    size = float(np.linalg.norm(x))
    return x / size if size else x
