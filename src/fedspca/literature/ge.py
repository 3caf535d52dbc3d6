"""Ge, Wang, Wang and Liu (2018), Minimax-optimal privacy-preserving sparse PCA in distributed systems, AISTATS.

Truncated power iterations on noisy products. Each site clips its rows to a maximal length and adds its part of the
noise to AᵀAv. The coordinator sees only the noisy sum. Every product is a new release that costs privacy budget, so
the number of iterations is fixed before the fit.
"""

from collections.abc import Callable, Mapping, Sequence
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils._param_validation import Interval

from fedspca.dp.accounting import Budget
from fedspca.dp.ledger import Ledger
from fedspca.dp.plan import OFFSET
from fedspca.federation import Aggregate, Federation, FederationError, LocalFederation
from fedspca.federation.private import PrivateFederation
from fedspca.federation.release_plan import Privacy
from fedspca.literature.base import Covariance
from fedspca.literature.mackey import Deflation
from fedspca.literature.truncated_power import TruncatedPower
from fedspca.site.question import Query
from fedspca.solvers.rounds import Round

Array = NDArray[np.float64]


class PrivateTruncatedPower(TruncatedPower):
    """Sparse loadings with (ε, δ)-differential privacy for each row, by truncated power iterations on noisy products.

    Parameters
    ----------
    n_components : int, default=1
        How many loadings. Each takes ``iterations`` products.
    n_nonzero : int, default=10
        Non-zeros of each loading.
    epsilon, delta : float, default=1.0, 1e-6
        The privacy budget of the fit, for adding or removing one row. Each site's ledger records the expense.
    clip : float, default=5.0
        Rows are centred by ``centre``, divided by ``unit``, and then shortened to at most this length.
    centre, unit : float or sequence of float, default=0, 1
        A typical value and a typical deviation of each feature. They must not be computed from these rows.
    iterations : int, default=8
        Products for each loading.
    among : int, default=1
        With secure aggregation: the number of sites whose noise is in every sum and is known to nobody else.
    deflation, scale, random_state, callbacks, verbose
        As in :class:`~fedspca.literature.TruncatedPower`.

    Attributes
    ----------
    spent_ : dict
        The ε and δ that were spent, and the noise of each release.
    """

    reveals = "the covariance applied to each direction tried, shortened rows, with noise that hides any one row"
    _parameter_constraints: ClassVar[dict[str, Any]] = {
        name: rules
        for name, rules in TruncatedPower._parameter_constraints.items()
        if name not in ("tol", "max_rounds")
    } | {
        "epsilon": [Interval(Real, 0, None, closed="neither")],
        "delta": [Interval(Real, 0, 1, closed="neither")],
        "clip": [Interval(Real, 0, None, closed="neither")],
        "centre": [Real, "array-like"],
        "unit": [Real, "array-like"],
        "iterations": [Interval(Integral, 1, None, closed="left")],
        "among": [Interval(Integral, 1, None, closed="left")],
    }

    def __init__(
        self,
        n_components: int = 1,
        *,
        n_nonzero: int = 10,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        clip: float = 5.0,
        centre: float | Sequence[float] = 0.0,
        unit: float | Sequence[float] = 1.0,
        iterations: int = 8,
        among: int = 1,
        deflation: Deflation = "orthogonalised",
        scale: bool = False,
        random_state: Any = 0,
        callbacks: Sequence[Callable[[Round], object]] | None = None,
        verbose: int = 0,
    ) -> None:
        self.n_components = n_components
        self.n_nonzero = n_nonzero
        self.epsilon = epsilon
        self.delta = delta
        self.clip = clip
        self.centre = centre
        self.unit = unit
        self.iterations = iterations
        self.among = among
        self.deflation = deflation
        self.scale = scale
        self.random_state = random_state
        self.callbacks = callbacks
        self.verbose = verbose

    @property
    def max_rounds(self) -> int:  # type: ignore[override] # the number of products is fixed beforehand
        """The iterations of each loading."""
        return self.iterations

    def _local_federation(self, X: Any, sites: Any, *, reset: bool) -> LocalFederation:
        federation = super()._local_federation(X, sites, reset=reset)
        for site in federation.sites:
            site.ledger = Ledger(Budget(self.epsilon, self.delta))
        return federation

    def fit_federation(self, federation: Federation) -> Self:
        """Fit over sites that keep a ledger; see :class:`~fedspca.Ledger`."""
        self._validate_params()
        products = self.n_components * (self.iterations + 1)  # and one per loading: to deflate, or for the variances
        privacy = Privacy(
            self.epsilon,
            self.delta,
            centre=self.centre,
            scale=self.unit,
            clip=self.clip,
            mechanism="product",
            rounds=products,
            columns=self.n_components,
        )
        noised = NoisedProducts(federation, privacy, among=self.among)
        super().fit_federation(noised)
        self.spent_ = noised.spent()
        return self

    def _settled(self, s: Covariance, step: Callable[[Array], Array], x: Array) -> Array:
        for _ in range(self.iterations):
            x = step(x)
        return x


class NoisedProducts(PrivateFederation):
    """Sites that release each product with new noise, and the moments only once."""

    _moments: tuple[float, Array, Array] | None = None

    def sum(self, query: Query) -> Aggregate:
        """Answer a solver's query by a new release, or from the moments released before."""
        answers: Mapping[str, Callable[[Query], dict[str, Array]]] = {
            "moments": self._sums,
            "deviations": self._deviations,
            "gram_product": lambda q: {"product": self._product(q)},
            "captured_variance": self._captured,
        }
        if query.name not in answers:
            raise FederationError(f"{query.name!r} has no answer by noised products.")
        arrays = answers[query.name](query)
        (up, down), self._traffic = self._traffic, [0, 0]
        return Aggregate(arrays, self.n_sites, up, down)

    def answers_gram(self) -> bool:
        """Always false: sites release products, not the whole covariance."""
        return False

    def _released_moments(self) -> tuple[float, Array, Array]:
        """The number of rows, and the mean and Σa² of each feature, in the units of ``centre`` and ``unit``."""
        if self._moments is None:
            clip, d = float(self.privacy.clip or 1.0), len(self.feature_names)
            offset, multiplier = OFFSET * clip, self.plan.multipliers["moments"]
            found = self._ask("private_moments", multiplier, clip**2 + offset**2, {}, clip=clip, offset=offset)
            rows = max(float(found[-1]) / offset**2, 2.0)
            self._moments = rows, found[d : 2 * d] / (np.sqrt(2) * offset * rows), found[:d]
        return self._moments

    def _sums(self, _query: Query) -> dict[str, Array]:
        rows, mean, _ = self._released_moments()
        rows = float(round(rows))
        return {
            "rows": np.array(rows),
            "counts": np.full(len(mean), rows),
            "sums": rows * (self.centre + self.scale * mean),
        }

    def _deviations(self, query: Query) -> dict[str, Array]:
        rows, mean, squares = self._released_moments()
        rows = float(round(rows))
        about = self.scale**2 * np.maximum(squares - rows * mean**2, 1e-6 * rows)
        shift = self.centre + self.scale * mean - query.arrays["mean"]
        return {"offsets": rows * shift, "squares": about + rows * shift**2}

    def _product(self, query: Query) -> Array:
        """S times the directions, for the solver's means and scales, from a product in the units of ``unit``."""
        rows, mean, _ = self._released_moments()
        units = self.scale / query.arrays["scale"]
        q, upper = np.linalg.qr(units[:, None] * query.arrays["directions"])
        clip = float(self.privacy.clip or 1.0)
        raw = self._ask("private_product", self.plan.multipliers["product"], clip**2, {"directions": q}, clip=clip)
        return np.asarray(units[:, None] * ((raw - rows * np.outer(mean, mean @ q)) @ upper))

    def _captured(self, query: Query) -> dict[str, Array]:
        captured = query.arrays["directions"].T @ self._product(query)
        values, vectors = np.linalg.eigh((captured + captured.T) / 2)
        return {"captured": (vectors * np.maximum(values, 1e-12)) @ vectors.T}  # noise may make an eigenvalue negative
