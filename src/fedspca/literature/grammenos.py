"""Grammenos, Mendoza Smith, Crowcroft and Mascolo (2020), Federated principal component analysis, NeurIPS 33.

Each site estimates the leading subspace of its own rows, block by block. The subspaces are then merged in pairs, along
a tree. A merge is not a sum. The party that merges sees ΣVᵀ of each single site, which gives a low-rank approximation
of that site's covariance. Masks cannot hide it. So ``federation.sum`` cannot do the merge, and studies between
institutions cannot run this method.
"""

from collections.abc import Callable, Sequence
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils._param_validation import Interval

from fedspca.dp.accounting import Budget
from fedspca.dp.ledger import Ledger
from fedspca.federation import Federation, FederationError, LocalFederation
from fedspca.federation.private import PrivateFederation
from fedspca.federation.release_plan import Privacy
from fedspca.linalg.row_blocks import RemoteRows, dense_parts, row_blocks
from fedspca.literature.base import Covariance, Literature
from fedspca.site import InvalidData, Site
from fedspca.solvers.rounds import Round

Array = NDArray[np.float64]


class MergedPCA(Literature):
    """Dense PCA by merging the subspaces of the sites, for streams of rows and, on request, with privacy.

    Parameters
    ----------
    n_components : int, default=2
        How many loadings.
    rank : int, default=10
        How many directions each site keeps and sends.
    block_rows : int, default=50
        How many rows a site processes at a time.
    forget : float, default=1.0
        The factor on the singular values of earlier blocks at each new block. Below one, old rows lose weight.
    epsilon : float, optional
        Differential privacy for each row: a site adds noise to its covariance before it computes the subspace. With
        ε, rows are shortened to at most ``clip``, in the units of the features, which are assumed to be centred. The ε
        covers only the subspaces. The joint means, and the variances reported at the end, are exact sums.
    delta, clip : float, default=1e-6, 5.0
        The δ of differential privacy, and the maximal length of a row.
    scale, tol, max_rounds, random_state, callbacks, verbose
        As in :class:`~fedspca.literature.TruncatedPower`.

    Attributes
    ----------
    sketch_bytes_ : int
        What a site sends outside any sum, its singular vectors and values: the most over the sites, in bytes.
    """

    reveals = "its own leading singular vectors and values, outside any sum: its covariance up to the rank"
    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **Literature._parameter_constraints,
        "rank": [Interval(Integral, 1, None, closed="left")],
        "block_rows": [Interval(Integral, 1, None, closed="left")],
        "forget": [Interval(Real, 0, 1, closed="right")],
        "epsilon": [Interval(Real, 0, None, closed="neither"), None],
        "delta": [Interval(Real, 0, 1, closed="neither")],
        "clip": [Interval(Real, 0, None, closed="neither")],
    }

    def __init__(
        self,
        n_components: int = 2,
        *,
        rank: int = 10,
        block_rows: int = 50,
        forget: float = 1.0,
        epsilon: float | None = None,
        delta: float = 1e-6,
        clip: float = 5.0,
        scale: bool = False,
        tol: float = 1e-10,
        max_rounds: int = 1,
        random_state: Any = 0,
        callbacks: Sequence[Callable[[Round], object]] | None = None,
        verbose: int = 0,
    ) -> None:
        self.n_components = n_components
        self.rank = rank
        self.block_rows = block_rows
        self.forget = forget
        self.epsilon = epsilon
        self.delta = delta
        self.clip = clip
        self.scale = scale
        self.tol = tol
        self.max_rounds = max_rounds
        self.random_state = random_state
        self.callbacks = callbacks
        self.verbose = verbose

    def fit_federation(self, federation: Federation) -> Self:
        """Fit to sites in this process. Other federations give only sums, and a merge is not a sum."""
        if not isinstance(federation, LocalFederation):
            raise FederationError(
                "Merging needs each site's own subspace, and a federation gives sums only: a merge is not a sum. Use "
                "fit(X, sites=...) in one process, or a method on sums, such as ExactSPCA."
            )
        self._sites: Sequence[Site] = federation.sites
        return super().fit_federation(federation)

    def _loadings(self, s: Covariance, r: int, rng: np.random.Generator) -> Array:
        sketch = self._private_sketch if self.epsilon is not None else self._sketch
        sketches = [sketch(site, s) for site in self._sites]
        self.sketch_bytes_ = max(each.nbytes for each in sketches)
        del self._sites
        while len(sketches) > 1:  # one level of the tree: merge in pairs
            pairs = [sketches[k : k + 2] for k in range(0, len(sketches), 2)]
            sketches = [merged(pair, max(self.rank, r)) for pair in pairs]
        return np.asarray(np.linalg.svd(sketches[0], full_matrices=False)[2][:r].T)

    def _sketch(self, site: Site, s: Covariance) -> Array:
        """ΣVᵀ of a site's rows, computed block by block."""
        frame, sketch, rows_here = s.moments.frame, np.zeros((0, s.d)), site._data.rows
        if isinstance(rows_here, RemoteRows):
            raise InvalidData(f"Site {site.name!r} keeps its rows on a cluster, and MergedPCA takes them in turn.")
        for block in row_blocks(rows_here):
            for part in dense_parts(block):
                rows = (part - frame.mean) / frame.scale
                for k in range(0, len(rows), self.block_rows):
                    sketch = merged([self.forget * sketch, rows[k : k + self.block_rows]], self.rank)
        return sketch

    def _private_sketch(self, site: Site, s: Covariance) -> Array:
        """ΣVᵀ from the site's noisy covariance, which is differentially private for each row."""
        budget = Budget(float(self.epsilon or 0.0), self.delta)
        noised = Site(site.name, site._data.rows)
        noised.ledger = Ledger(budget)
        privacy = Privacy(budget.epsilon, budget.delta, clip=self.clip, mechanism="gram")
        release = PrivateFederation(LocalFederation([noised]), privacy).released()
        keep = np.argsort(-release.values)[: self.rank]
        return np.asarray(np.sqrt(release.values[keep])[:, None] * release.vectors[:, keep].T / s.moments.scale)


def merged(sketches: Sequence[Array], rank: int) -> Array:
    """ΣVᵀ, truncated to ``rank``, of the stacked rows or sketches."""
    _, values, vectors = np.linalg.svd(np.vstack(sketches), full_matrices=False)
    return np.asarray(values[:rank, None] * vectors[:rank])
