"""How good loadings are: recovery, reconstruction, sparsity, explained variance, alignment.

Loadings are given as scikit-learn gives them, one component per row (r × d).
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import lapack

Array = NDArray[np.float64]

_DEPENDENT = 1e-3  # a pivot below this share of the largest one: squaring then costs six digits
_NOTHING = 1e-10  # of its variance, a score that adds less to those before it adds nothing but rounding errors


def _components(components: ArrayLike) -> Array:
    array = np.atleast_2d(np.asarray(components, dtype=np.float64))
    if array.ndim != 2:
        raise ValueError(f"Expected components of shape (n_components, n_features), got {array.shape}.")
    return array


def recovery_error(components: ArrayLike, truth: ArrayLike) -> float:
    """‖zzᵀ − VVᵀ‖²_F, squared as in the paper: how far the subspace found is from the true one.

    It is computed in the span of both, so that no d × d matrix is formed and small errors stay accurate.
    """
    z, v = _components(components), _components(truth)
    upper: Array = np.asarray(np.linalg.qr(np.vstack([z, v]).T, mode="r"))
    mine, true = upper[:, : len(z)], upper[:, len(z) :]
    return float(np.linalg.norm(mine @ mine.T - true @ true.T) ** 2)


def reconstruction_error(X: ArrayLike, components: ArrayLike) -> float:
    """‖A − Azzᵀ‖_F, not squared as in the paper, for rows A that are already centred (and scaled)."""
    z, rows = _components(components), np.asarray(X, dtype=np.float64)
    return float(np.linalg.norm(rows - (rows @ z.T) @ z))


def n_nonzeros(components: ArrayLike) -> int:
    """‖z‖₀: how many of the r·d weights are not exactly zero."""
    return int(np.count_nonzero(_components(components)))


def share_of_small_weights(components: ArrayLike, bounds: ArrayLike) -> Array:
    """Share of weights within [−b, b], for each bound b."""
    magnitudes = np.abs(_components(components)).ravel()
    return np.array([np.mean(magnitudes <= bound) for bound in np.atleast_1d(np.asarray(bounds, dtype=np.float64))])


def captured_variances(components: ArrayLike, covariance: ArrayLike) -> Array:
    """Variance that the span of the first 1, 2, … r loadings captures, from the covariance of their scores.

    tr((Z_jᵀZ_j)⁻¹ Z_jᵀSZ_j)/(n − 1) for each j. It is cumulative, and counts no variance twice, however strongly the
    scores correlate. For orthonormal loadings it is the sum of the scores' variances.
    """
    z, matrix = _components(components), np.asarray(covariance, dtype=np.float64)
    gram = z @ z.T
    factor = _factor(gram)
    if factor is not None:
        inverse = lapack.dtrtri(factor)[0]
        return np.cumsum(np.einsum("ij,ij->j", matrix @ inverse, inverse))
    spans = [(gram[:j, :j], matrix[:j, :j]) for j in range(1, len(z) + 1)]
    return np.array([np.sum(np.linalg.pinv(inner) * within) for inner, within in spans])


def _factor(gram: Array) -> Array | None:
    """The upper triangular R with gram = RᵀR; None if columns are so nearly dependent that digits would be lost."""
    factor, info = lapack.dpotrf(gram, clean=1)
    pivots = factor.diagonal()
    return None if info or pivots.min() < _DEPENDENT * pivots.max() else np.asarray(factor)


def adjusted_variances(captured: ArrayLike) -> Array:
    """Sum of squares that each score adds to those before it (Zou, Hastie and Tibshirani 2006), from zᵀSz.

    Scores of sparse loadings are correlated, so their variances count shared variance twice. With AZ = QR these are
    R_jj², and R is also the triangular factor of ZᵀSZ = RᵀR: sums suffice. A score that depends on those before it adds
    nothing, and takes nothing from those after it.
    """
    matrix = np.asarray(captured, dtype=np.float64)
    rest = (matrix + matrix.T) / 2
    factor = _factor(rest)
    if factor is not None:
        return np.asarray(factor.diagonal() ** 2)
    least, added = _NOTHING * np.diag(rest), np.zeros(len(rest))
    for j in range(len(rest)):
        if rest[j, j] > least[j]:
            added[j] = rest[j, j]
            rest -= np.outer(rest[j], rest[j] / rest[j, j])
    return added


def explained_variance_ratio(X: ArrayLike, components: ArrayLike) -> Array:
    """Share of the variance of X that each component adds, adjusted for correlation; X is centred here."""
    z, rows = _components(components), np.asarray(X, dtype=np.float64)
    centred = rows - rows.mean(axis=0)
    scores = centred @ z.T
    return adjusted_variances(scores.T @ scores) / float(np.sum(centred**2))


def mean_cosine(total: Array, norms: Array, n_sites: int) -> float:
    """Average pairwise cosine of K sites' loadings, from Σw_i and the squared norms Σ‖w_i‖² of each column.

    Σ_{i≠j}⟨w_i, w_j⟩ = ‖Σw_i‖² − Σ‖w_i‖², so no site has to show its own loadings. For one site the value is 1.
    """
    if n_sites == 1:
        return 1.0
    pairs = (np.einsum("ij,ij->j", total, total) - norms) / ((n_sites - 1) * norms)
    return float(np.mean(pairs))


def alignment(loadings: ArrayLike) -> float:
    """Average over pairs of workers and over components of the absolute cosine; loadings are (K, r, d).

    This is the paper's measure. It needs every worker's loadings, so only simulations use it. Fits record
    :func:`mean_cosine`, which needs only sums and has the same value once the workers' signs are the same.
    """
    stacked = np.asarray(loadings, dtype=np.float64)
    if stacked.ndim != 3:
        raise ValueError(f"Expected loadings of shape (n_workers, n_components, n_features), got {stacked.shape}.")
    if len(stacked) == 1:
        return 1.0
    unit = stacked / np.linalg.norm(stacked, axis=2, keepdims=True)
    cosines = np.abs(np.einsum("irk,jrk->ijr", unit, unit))
    first, second = np.triu_indices(len(unit), 1)
    return float(cosines[first, second].mean())
