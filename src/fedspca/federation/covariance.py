"""A covariance in place of rows, for published matrices whose rows are no longer available."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedspca.federation.base import Aggregate, FederationError
from fedspca.linalg.operators import COLUMNS_OF_A_FIT, DeflatedRows, Frame
from fedspca.linalg.stiefel import project_out
from fedspca.site.errors import InvalidData
from fedspca.site.preparation import PLAIN, Preparation
from fedspca.site.queries import QUERIES
from fedspca.site.question import Query, SiteData
from fedspca.site.site import default_names

Array = NDArray[np.float64]

ASYMMETRY = 1e-6  # tolerance relative to the largest entry: the error of rounding to seven digits
INDEFINITE = (
    1e-6  # tolerance relative to the largest eigenvalue; tables printed with two digits exceed it and are refused
)
ANSWERED = frozenset({"gram", "gram_product", "gram_sketch", "captured_variance"})


class CovarianceFederation:
    """A federation that holds a covariance and no rows. It answers the questions that second moments can answer.

    Parameters
    ----------
    covariance : array-like of shape (d, d)
        A covariance or a correlation matrix: symmetric, positive semidefinite.
    n_samples : int or None
        The number of rows behind it. None counts as two: sums of squares then equal the covariance.
    feature_names : sequence of str, optional
        The features' names; by default those of a DataFrame, or ``x0``, ``x1``, …
    mean : ndarray of shape (d,), optional
        The features' means, if they are known; by default zero.
    n_sites : int, default=1
        How many sites the covariance is of.
    preparation : Preparation, optional
        How the rows behind it were prepared.
    """

    def __init__(
        self,
        covariance: Any,
        n_samples: int | None = None,
        feature_names: Iterable[object] | None = None,
        *,
        mean: Array | None = None,
        n_sites: int = 1,
        preparation: Preparation = PLAIN,
    ) -> None:
        names = feature_names if feature_names is not None else getattr(covariance, "columns", None)
        matrix = checked_covariance(covariance)
        self.covariance = matrix
        self.mean = np.zeros(len(matrix)) if mean is None else mean
        self.n_sites = n_sites
        self.preparation = preparation
        self.n_samples = 2 if n_samples is None else int(n_samples)
        if self.n_samples < 2:
            raise InvalidData(f"A covariance is of two rows or more. Got n_samples={n_samples} instead.")
        self.feature_names = default_names(len(matrix)) if names is None else tuple(str(name) for name in names)
        if len(self.feature_names) != len(matrix):
            raise InvalidData(f"{len(self.feature_names)} names were given for a matrix of {len(matrix)} features.")
        if len(set(self.feature_names)) != len(matrix):
            raise InvalidData("The names of the features must be different.")

    @property
    def local(self) -> bool:
        """No message leaves this machine."""
        return True

    def answers_gram(self) -> bool:
        """Whether the whole covariance may be asked for: it is all that there is."""
        return True

    def sum(self, query: Query) -> Aggregate:
        """Answer from the covariance."""
        if query.folds:
            raise FederationError("Folds need rows, and there is only a covariance: leave folds out.")
        if query.sample:
            raise FederationError("A sample needs rows, and there is only a covariance: leave the sample out.")
        d, n = len(self.covariance), float(self.n_samples)
        if "mean" in query.arrays:  # below, the rows' own mean is zero
            query = Query(query.name, {**query.arrays, "mean": query.arrays["mean"] - self.mean}, query.scalars)
        if query.name == "moments":
            terms = {"rows": np.array(n), "counts": np.full(d, n), "sums": n * self.mean}
        elif query.name == "deviations":
            mean = query.arrays["mean"]
            squares = (n - 1.0) * self.covariance.diagonal() + n * mean**2
            terms = {"offsets": -n * mean, "squares": squares}
        elif query.name == "row_errors":
            terms = self._row_errors(query)
        elif query.name in ANSWERED:
            QUERIES[query.name].validate("covariance", d, query)
            _, terms = QUERIES[query.name].answer(_Data(self.covariance, n), None, query)
        else:
            raise FederationError(f"{query.name!r} needs rows, and there is only a covariance: use ExactSPCA.")
        return Aggregate({name: np.asarray(term, np.float64) for name, term in terms.items()}, self.n_sites, 0, 0)

    def _row_errors(self, query: Query) -> dict[str, Array]:
        """Σe and Σe² of squared reconstruction errors, as expected for Gaussian rows with this covariance."""
        frame = Frame(query.arrays["mean"], query.arrays["scale"], query.arrays["removed"])
        gram = _Gram(self.covariance, float(self.n_samples), frame).gram_matrix()
        left = project_out(query.arrays["directions"], project_out(query.arrays["directions"], gram).T)
        total = float(np.trace(left))
        spread = 2.0 * float(np.vdot(left, left)) / self.n_samples
        return {"errors": np.array(total), "squares": np.array(spread + total**2 / self.n_samples)}


class _Data(SiteData):
    """A covariance in place of a site's data, so that the questions' own functions can use it."""

    def __init__(self, covariance: Array, n: float) -> None:
        super().__init__("covariance", np.zeros((0, len(covariance))))
        self._covariance, self._n = covariance, n

    def seen_in(self, frame: Frame, expected: int | None = None) -> DeflatedRows:
        """Return the second moments in this frame, as an operator in place of rows."""
        return DeflatedRows(_Gram(self._covariance, self._n, frame), frame.removed)


@dataclass(frozen=True)
class _Gram:
    """(n − 1)C + nμμᵀ in the units of a frame with mean μ: the rows' own mean is zero."""

    covariance: Array
    n: float
    frame: Frame

    @property
    def n_features(self) -> int:
        return len(self.covariance)

    def gram_matrix(self) -> Array:
        shift = self.frame.mean / self.frame.scale
        scaled = self.covariance / self.frame.scale / self.frame.scale[:, None]
        return np.asarray((self.n - 1.0) * scaled + self.n * np.outer(shift, shift))

    def gram_product(self, x: Array, expected: int = COLUMNS_OF_A_FIT) -> Array:
        return np.asarray(self.gram_matrix() @ x)


def checked_covariance(covariance: Any) -> Array:
    """Return a covariance as an array, or raise :class:`InvalidData`, with figures that say why it is not one."""
    try:
        matrix = np.array(covariance, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidData("The covariance must be a square table of numbers.") from None
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or not matrix.size:
        raise InvalidData(f"The covariance must be a square table of numbers. Got shape {matrix.shape} instead.")
    if not np.isfinite(matrix).all():
        raise InvalidData("The covariance contains NaN or infinity.")
    size = float(np.abs(matrix).max()) or 1.0
    apart = np.abs(matrix - matrix.T)
    if float(apart.max()) > ASYMMETRY * size:
        i, j = (int(at) for at in np.unravel_index(np.argmax(apart), apart.shape))
        raise InvalidData(
            f"The covariance is not symmetric: row {i + 1}, column {j + 1} has {matrix[i, j]:g} and row {j + 1}, "
            f"column {i + 1} has {matrix[j, i]:g}."
        )
    matrix = 0.5 * (matrix + matrix.T)
    values = np.linalg.eigvalsh(matrix)
    if float(values[0]) < -INDEFINITE * max(float(values[-1]), 0.0) or float(values[-1]) <= 0.0:
        raise InvalidData(
            "The covariance is not positive semidefinite: its eigenvalues go from "
            f"{values[0]:.4g} to {values[-1]:.4g}. No rows have such a covariance. "
            "More digits, or pairs of features taken from the same rows, mend it."
        )
    return np.asarray(matrix)
