"""A covariance in place of rows, for published matrices whose rows are no longer available."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedspca._callers import warn_caller
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
LARGER = 0.01  # a correlation may exceed 1 by so much: two digits; the eigenvalues say whether that matters
BEYOND_RANK = 0.01  # share of the variance: rounded digits put less beyond the rank that the rows allow
LARGEST = 1e140  # sums of squares of larger values may be no numbers
UNKNOWN_MEANS = (
    "This model is of a covariance, without rows: the features' means are unknown, and new rows cannot be centred. Fit "
    "to the rows; or centre and scale new rows as those behind the covariance, and multiply them by the loadings."
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
        The features' means, where the covariance was estimated from rows; by default they are unknown, and zero.
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
        named = _names_of(covariance)
        names = named if feature_names is None else feature_names
        listed = None if names is None else tuple(str(name) for name in names)
        matrix = checked_covariance(covariance, listed)
        self.covariance = matrix
        self.rows_seen, self.rows_counted = mean is not None, n_samples is not None
        self.mean = np.zeros(len(matrix)) if mean is None else mean
        self.n_sites = n_sites
        self.preparation = preparation
        self.n_samples = 2 if n_samples is None else _counted(n_samples)
        if self.rows_counted and not self.rows_seen:
            _tell_rank(matrix, self.n_samples)
        self.feature_names = default_names(len(matrix)) if listed is None else listed
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


def _counted(n_samples: Any) -> int:
    """Return a number of rows, or raise :class:`InvalidData`."""
    whole = isinstance(n_samples, Integral) or (isinstance(n_samples, float) and n_samples.is_integer())
    if not whole or isinstance(n_samples, bool):
        raise InvalidData(f"The number of rows behind a covariance is a whole number. Got n_samples={n_samples!r}.")
    if n_samples < 2:
        raise InvalidData(f"A covariance is of two rows or more. Got n_samples={n_samples} instead.")
    return int(n_samples)


def _tell_rank(matrix: Array, n_samples: int) -> None:
    """Warn of a covariance that so few rows cannot have."""
    d = len(matrix)
    if n_samples > d:
        return
    beyond = float(np.linalg.eigvalsh(matrix)[: d - n_samples + 1].sum()) / float(np.trace(matrix))
    if beyond > BEYOND_RANK:
        warn_caller(
            f"{n_samples} rows vary in {n_samples - 1} directions at most, and {beyond:.0%} of the variance of this "
            "covariance lies in others. Check the number of rows, unless the covariance was estimated in another way, "
            "such as by shrinkage.",
            UserWarning,
        )


def _names_of(covariance: Any) -> Iterable[object] | None:
    """Return the names of a DataFrame's columns; refuse one whose rows are named otherwise."""
    columns, index = getattr(covariance, "columns", None), getattr(covariance, "index", None)
    if columns is None or index is None or callable(index):
        return columns if columns is None else list(columns)
    names, rows = list(columns), list(index)
    if rows not in (names, list(range(len(rows)))):  # numbers from 0 on are what pandas writes where nobody named rows
        raise InvalidData(
            "The names of the covariance's rows (its index) are not those of its columns, in the same order: "
            f"{', '.join(map(str, rows[:3]))}, … and {', '.join(map(str, names[:3]))}, … Put both in one order."
        )
    return names


def checked_covariance(covariance: Any, names: Sequence[str] | None = None) -> Array:
    """Return a covariance as an array, or raise :class:`InvalidData`, with figures that say why it is not one.

    Parameters
    ----------
    covariance : array-like of shape (d, d)
        What is to be one.
    names : sequence of str, optional
        The features, to name in errors.
    """
    try:
        given = np.asarray(covariance)
        if np.iscomplexobj(given):
            raise InvalidData("The covariance has complex numbers. Give one of real numbers.")
        matrix = np.array(given, dtype=np.float64)
    except (TypeError, ValueError) as error:
        if isinstance(error, InvalidData):
            raise
        raise InvalidData("The covariance must be a square table of numbers.") from None
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or not matrix.size:
        raise InvalidData(f"The covariance must be a square table of numbers. Got shape {matrix.shape} instead.")
    if not np.isfinite(matrix).all():
        i, j = (int(at) for at in np.argwhere(~np.isfinite(matrix))[0])
        raise InvalidData(f"The covariance contains NaN or infinity, first {_place(i, j, names)}.")
    size = float(np.abs(matrix).max())
    if size > LARGEST:
        i, j = (int(at) for at in np.unravel_index(np.argmax(np.abs(matrix)), matrix.shape))
        raise InvalidData(
            f"The covariance has values too large to square: {matrix[i, j]:g} {_place(i, j, names)}. "
            "Divide the matrix by a number, or change the units of these features."
        )
    if size == 0.0:
        raise InvalidData("Every value of the covariance is zero: no feature varies, so there is nothing to explain.")
    apart = np.abs(matrix - matrix.T)
    if float(apart.max()) > ASYMMETRY * size:
        i, j = (int(at) for at in np.unravel_index(np.argmax(apart), apart.shape))
        raise InvalidData(
            f"The covariance is not symmetric: {matrix[i, j]:g} {_place(i, j, names)}, and {matrix[j, i]:g} "
            f"{_place(j, i, names)}. {_mend_asymmetry(matrix)}"
        )
    matrix = 0.5 * (matrix + matrix.T)
    _refuse_impossible(matrix, names)
    values = np.linalg.eigvalsh(matrix)
    if float(values[0]) < -INDEFINITE * max(float(values[-1]), 0.0) or float(values[-1]) <= 0.0:
        raise InvalidData(
            "The covariance is not positive semidefinite: its eigenvalues go from "
            f"{values[0]:.4g} to {values[-1]:.4g}. No rows have such a covariance. "
            "More digits, or pairs of features taken from the same rows, mend it."
        )
    return np.asarray(matrix)


def _mend_asymmetry(matrix: Array) -> str:
    """Say what to do about a matrix that is not symmetric; often one triangle of it was left at zero."""
    if any(not side.any() for side in (np.triu(matrix, 1), np.tril(matrix, -1))):
        return "One triangle holds only zeros: fill it in from the other one."
    return "Correct the wrong one of the two: a covariance has the same value in both places."


def _refuse_impossible(matrix: Array, names: Sequence[str] | None) -> None:
    """Refuse a negative variance, and a covariance that is larger than the two variances allow, by its place."""
    variances = matrix.diagonal()
    slack = INDEFINITE * float(np.abs(matrix).max())
    i = int(np.argmin(variances))
    if variances[i] < -slack:
        raise InvalidData(
            f"The covariance has a negative variance: {variances[i]:g} {_place(i, i, names)}. Correct it, or leave "
            "that feature out."
        )
    deviations = np.sqrt(np.maximum(variances, 0.0))
    beyond = np.abs(matrix) - np.outer(deviations, deviations)
    np.fill_diagonal(beyond, 0.0)
    i, j = (int(at) for at in np.unravel_index(np.argmax(beyond), beyond.shape))
    if beyond[i, j] > LARGER * deviations[i] * deviations[j] + slack:
        raise InvalidData(
            f"The covariance has a value that is too large for the variances of its two features: {matrix[i, j]:g} "
            f"{_place(i, j, names)}, where it can be at most {deviations[i] * deviations[j]:g} (a correlation of 1). "
            "Correct it, or leave one of the two features out."
        )


def _place(i: int, j: int, names: Sequence[str] | None) -> str:
    """Say where a value is: by number, and by the features' names where there are any."""
    if names is None or len(names) <= max(i, j):
        return f"in row {i + 1}, column {j + 1}"
    return f"in row {i + 1} ({names[i]!r}), column {j + 1} ({names[j]!r})"
