"""Ma (2013), Alternating direction method of multipliers for sparse PCA, JORSC 1: DSPCA by ADMM.

DSPCA (d'Aspremont, El Ghaoui, Jordan and Lanckriet 2007) is max ⟨S, X⟩ − λ‖X‖₁ over X ⪰ 0, tr X = 1. This
set is the Fantope for one loading, so the ADMM of FantopePS applies. Deflation gives the further loadings.
"""

import numpy as np
from numpy.typing import NDArray

from fedspca.literature.base import Covariance
from fedspca.literature.fantope import FantopePS, Relaxed, leading
from fedspca.literature.mackey import one_by_one_of

Array = NDArray[np.float64]


class DSPCA(FantopePS):
    """The semidefinite relaxation of sparse PCA, one loading after the other, with an upper bound from the dual.

    Parameters
    ----------
    n_components, lam, scale, tol, max_rounds, random_state, callbacks, verbose
        As in :class:`~fedspca.literature.FantopePS`. The same λ applies to each loading.

    Attributes
    ----------
    dual_value_ : float
        λ_max(S + U) for a U with |U_ij| ≤ λ. It is an upper bound on ⟨S, X⟩ − λ‖X‖₁ for the first loading.
    """

    def _loadings(self, s: Covariance, r: int, rng: np.random.Generator) -> Array:
        solved: list[Relaxed] = []

        def solve(matrix: Array) -> Array:
            solved.append(self._relaxed(s, matrix, 1))
            return leading(solved[-1].h, 1)[:, 0]

        found = one_by_one_of(s.whole(), r, solve)
        self.projection_, self.dual_value_ = solved[0].h, solved[0].dual_value
        return found

    def upper_bound(self, n_nonzero: int) -> float:
        """Bound vᵀSv from above for every v of length one with ``n_nonzero`` non-zeros.

        The bound uses that ‖v‖₁² is at most the number of non-zeros of v.

        Parameters
        ----------
        n_nonzero : int
            Non-zeros of v.

        Returns
        -------
        bound : float
            ``dual_value_ + λ n_nonzero``. Like S, it is a sum of squares, not a variance.
        """
        return self.dual_value_ + float(self.lam) * n_nonzero
