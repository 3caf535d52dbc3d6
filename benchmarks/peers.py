"""What ExactSPCA is measured against: each peer takes rows, r and k, and returns loadings (r × d).

Peers that cannot be told a number of non-zeros are run at their defaults and cut off at the k largest weights.
"""

from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.decomposition import PCA, IncrementalPCA, MiniBatchSparsePCA, SparsePCA, TruncatedSVD
from sklearn.utils.extmath import randomized_svd

from fedspca import ExactSPCA

Array = NDArray[np.float64]
Peer = Callable[[Any, int, int], Any]


def dense_pca(x: Any, r: int, k: int) -> Array:
    """scikit-learn's PCA, the unit of all times."""
    return np.asarray(PCA(r, svd_solver="arpack" if sp.issparse(x) else "auto", random_state=0).fit(x).components_)


def centred_product(x: Any, mean: Array) -> Callable[[Array], Array]:
    """S v for the centred rows, without forming them."""

    def product(v: Array) -> Array:
        scores = x @ v - mean @ v
        return np.asarray(x.T @ scores - mean * scores.sum())

    return product


def keep_largest(v: Array, k: int) -> Array:
    """The k weights of largest magnitude, at unit length."""
    v = np.where(np.abs(v) >= np.partition(np.abs(v), len(v) - k)[len(v) - k], v, 0.0)
    return np.asarray(v / np.linalg.norm(v))


def truncated_power(x: Any, r: int, k: int) -> Array:
    """Yuan and Zhang (2013), with projection deflation, each loading from truncated PCA's."""
    mean = np.asarray(x.mean(axis=0)).ravel()
    product, found = centred_product(x, mean), np.zeros((0, x.shape[1]))
    for start in dense_pca(x, r, k):
        v = keep_largest(start, k)
        for _ in range(100):
            off = v - found.T @ (found @ v)
            new = product(off)
            new = keep_largest(new - found.T @ (found @ new), k)
            if np.array_equal(new != 0, v != 0) and np.abs(new - v).max() < 1e-6:
                break
            v = new
        found = np.linalg.qr(np.vstack([found, new]).T)[0].T
    return np.vstack([keep_largest(row, k) for row in found])


def gpower(x: Any, r: int, k: int) -> Array:
    """Journée et al. (2010), l0 block version in spirit: threshold the scores' correlations, k features a step."""
    rows = np.asarray(x - x.mean(axis=0))
    found = []
    for j in range(r):
        norms = np.einsum("ij,ij->j", rows, rows)
        z = rows[:, np.argmax(norms)] / np.sqrt(norms.max())
        for _ in range(100):
            v = keep_largest(rows.T @ z, k)
            new = rows @ v
            new /= np.linalg.norm(new)
            if np.abs(new - z).max() < 1e-8:
                break
            z = new
        found.append(v)
        if j + 1 < r:
            rows = rows - np.outer(rows @ v, v)
    return np.array(found)


def abess_pca(x: Any, r: int, k: int) -> Array:
    """abess: best-subset selection by splicing."""
    from abess.decomposition import SparsePCA as Abess

    return np.asarray(Abess(support_size=k).fit(x, number=r).coef_).reshape(x.shape[1], -1).T


def amanpg(x: Any, r: int, k: int) -> Array:
    """AManPG of the package sparsepca, at its own example's penalty."""
    from sparsepca import spca

    found = spca(x - x.mean(axis=0), 0.1 * np.ones((r, 1)), 1.0, k=r, normalize=False, maxiter=1000)["loadings"]
    return np.asarray(found).T


def one_pass(x: Any, r: int, k: int) -> None:
    """Aᵀ(AW), the floor."""
    w = np.ones((x.shape[1], r + 20))
    _ = x.T @ (x @ w)


PEERS: dict[str, Peer] = {
    "ExactSPCA": lambda x, r, k: ExactSPCA(r, n_nonzero=k).fit(x).components_,
    "ExactSPCA overlapping": lambda x, r, k: ExactSPCA(r, n_nonzero=k, orthogonal=False).fit(x).components_,
    "PCA truncated": dense_pca,
    "truncated power": truncated_power,
    "GPower": gpower,
    "SparsePCA cd": lambda x, r, k: SparsePCA(r, method="cd", random_state=0).fit(x).components_,
    "SparsePCA lars": lambda x, r, k: SparsePCA(r, method="lars", random_state=0).fit(x).components_,
    "MiniBatchSparsePCA": lambda x, r, k: MiniBatchSparsePCA(r, method="cd", random_state=0).fit(x).components_,
    "IncrementalPCA": lambda x, r, k: IncrementalPCA(r).fit(x).components_,
    "TruncatedSVD": lambda x, r, k: TruncatedSVD(r, random_state=0).fit(x).components_,
    "randomised SVD": lambda x, r, k: randomized_svd(x, r, random_state=0)[2],
    "one pass": one_pass,
    **({"abess": abess_pca} if find_spec("abess") else {}),
    **({"AManPG": amanpg} if find_spec("sparsepca") else {}),
}
SPARSE = ("truncated power", "GPower", "SparsePCA cd", "SparsePCA lars", "MiniBatchSparsePCA", "abess", "AManPG")
DENSE_ONLY = ("GPower", "SparsePCA cd", "SparsePCA lars", "MiniBatchSparsePCA", "IncrementalPCA", "abess", "AManPG")


def explained(x: Any, components: Array, k: int) -> float:
    """Share of the variance that the span of the loadings explains, each cut off at its k largest weights."""
    w = np.array([keep_largest(v, k) if np.any(v) else v for v in components])
    w = w[np.any(w, axis=1)]
    if not len(w):
        return 0.0
    q = np.linalg.qr(w.T)[0]
    mean = np.asarray(x.mean(axis=0)).ravel()
    scores = np.asarray(x @ q) - mean @ q
    values: Any = getattr(x, "data", x) if sp.issparse(x) else x
    squares = np.vdot(values, values)
    return float(np.vdot(scores, scores) / (squares - x.shape[0] * (mean @ mean)))
