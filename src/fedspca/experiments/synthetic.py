"""Synthetic data: the paper's, with two sparse leading eigenvectors, and spikes that are hard to find."""

from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedspca.experiments.data import sites_in_order

Array = NDArray[np.float64]
Rest = Literal["orthonormal", "as drawn"]

N_FEATURES = 500
LEADING = (400.0, 300.0)
N_ROWS = 50  # not in the paper; among 50, 100, 200 and 1000, it gives the printed error of FASPCA


class Synthetic(NamedTuple):
    """Rows, the site that owns each, and the two true loadings (2 × d)."""

    rows: Array
    owners: NDArray[np.str_]
    truth: Array


def sparse_truth(d: int = N_FEATURES) -> Array:
    """V_sol: 1/√10 on features 0–9 for the first loading and on 10–19 for the second; 2 × d."""
    truth = np.zeros((2, d))
    truth[0, :10] = truth[1, 10:20] = 1.0 / np.sqrt(10.0)
    return truth


def eigenvectors(drawn: Array, rest: Rest) -> Array:
    """V (d × d): the two sparse columns, then the drawn ones.

    ``"orthonormal"`` makes V orthogonal, as the paper says, by a QR decomposition. The first two columns do not change.
    ``"as drawn"`` does not change the drawn columns, so that their scale affects VDVᵀ.
    """
    truth = sparse_truth(len(drawn)).T
    if rest == "as drawn":
        return np.hstack([truth, drawn])
    q, upper = np.linalg.qr(np.hstack([truth, drawn]))
    return np.asarray(q * np.sign(np.diag(upper)))


def covariance(vectors: Array) -> Array:
    """Σ = VDVᵀ with D = diag(400, 300, 1, …, 1)."""
    values = np.ones(vectors.shape[1])
    values[:2] = LEADING
    return np.asarray((vectors * values) @ vectors.T)


def _normal_rows(vectors: Array, n_rows: int, rng: np.random.Generator) -> Array:
    """Rows from N(0, VDVᵀ), computed as VD^½ times standard normal vectors."""
    roots = np.ones(vectors.shape[1])
    roots[:2] = np.sqrt(LEADING)
    return np.asarray(rng.standard_normal((n_rows, vectors.shape[1])) @ (vectors * roots).T)


def iid_synthetic(n_sites: int = 10, *, n_rows: int = N_ROWS, d: int = N_FEATURES, seed: int = 0) -> Synthetic:
    """Rows from N(0, VDVᵀ), distributed to the sites in order.

    The columns of V after the second are drawn uniformly on [0, 1) and then orthonormalised.

    The rows do not depend on the number of sites.
    """
    rng = np.random.default_rng(seed)
    vectors = eigenvectors(rng.random((d, d - 2)), "orthonormal")
    return Synthetic(_normal_rows(vectors, n_rows, rng), sites_in_order(n_rows, n_sites), sparse_truth(d))


def non_iid_synthetic(
    n_sites: int = 10, *, n_rows: int = N_ROWS, d: int = N_FEATURES, rest: Rest = "orthonormal", seed: int = 0
) -> Synthetic:
    """Rows from N(0, V_iDV_iᵀ) at site i.

    The columns of V_i after the second are normal with a standard deviation σ_i, which is drawn from U[0, 1). With
    ``rest="orthonormal"``, neither σ_i nor these columns have an effect: all further eigenvalues are 1, so V_iDV_iᵀ is
    the same matrix for every site. With ``"as drawn"``, the sites differ.
    """
    rng = np.random.default_rng(seed)
    owners = sites_in_order(n_rows, n_sites)
    parts = []
    for site in np.unique(owners):
        spread = rng.random()
        vectors = eigenvectors(spread * rng.standard_normal((d, d - 2)), rest)
        parts.append(_normal_rows(vectors, int(np.sum(owners == site)), rng))
    return Synthetic(np.vstack(parts), owners, sparse_truth(d))


HARD: dict[str, tuple[int, int, tuple[float, ...]]] = {  # rows, features, variances of the spikes
    "weak": (150, 400, (6.0, 5.0, 4.0)),
    "overlapping": (150, 400, (12.0, 9.0, 7.0)),
    "correlated": (150, 400, (12.0, 9.0, 7.0)),
    "wide": (60, 3000, (60.0, 45.0, 30.0)),
}


def equal_blocks(r: int, d: int, k: int, step: int | None = None) -> Array:
    """Return r loadings of k equal weights (r × d); each begins ``step`` (by default k) features after the last."""
    loadings = np.zeros((r, d))
    for j in range(r):
        start = j * (k if step is None else step)
        loadings[j, start : start + k] = 1.0 / np.sqrt(k)
    return loadings


def hard_spikes(kind: str, seed: int = 0, r: int = 3, k: int = 12) -> tuple[Array, Array]:
    """Rows with r spikes of k features near the limit of detection, and the true loadings (r × d).

    The spikes are weak, or overlap by half of their features, or are in correlated noise, or there are far more
    features than rows (``"wide"``).
    """
    n, d, sizes = HARD[kind]
    rng = np.random.default_rng([seed, len(kind)])
    loadings = equal_blocks(r, d, k, k // 2 if kind == "overlapping" else k)
    loadings[1::2, ::2] *= -1.0  # so that loadings that overlap are orthogonal
    noise = rng.standard_normal((n, d))
    if kind == "correlated":
        noise += 0.7 * np.roll(noise, 1, axis=1)
    return np.asarray((rng.standard_normal((n, r)) * np.sqrt(sizes)) @ loadings + noise), loadings
