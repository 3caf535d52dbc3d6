"""What ExactSPCA is measured against: each peer takes rows and a workload, and returns loadings (r × d).

Peers that cannot be told a number of non-zeros are told a penalty that gives about as many; all loadings are then cut
off at their k largest weights, so that quality is compared at equal non-zeros.
"""

from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.decomposition import PCA, IncrementalPCA, MiniBatchSparsePCA, SparsePCA, TruncatedSVD
from sklearn.utils.extmath import randomized_svd

from benchmarks.workloads import Workload
from fedspca import ExactSPCA

Array = NDArray[np.float64]
Peer = Callable[[Any, Workload], Any]

MOST_STEPS = 200


def exact(x: Any, work: Workload) -> Array:
    """ExactSPCA as it is by default: orthogonal loadings."""
    return ExactSPCA(work.r, n_nonzero=work.k).fit(x).components_


def exact_overlapping(x: Any, work: Workload) -> Array:
    """ExactSPCA with supports that overlap freely, as every sparse peer's do."""
    return ExactSPCA(work.r, n_nonzero=work.k, orthogonal=False).fit(x).components_


def dense_pca(x: Any, work: Workload) -> Array:
    """scikit-learn's PCA, the unit of all times; sparse rows leave it one solver that centres them."""
    return np.asarray(PCA(work.r, svd_solver="arpack" if sp.issparse(x) else "auto", random_state=0).fit(x).components_)


def keep_largest(v: Array, k: int) -> Array:
    """The k weights of largest magnitude, at unit length."""
    kept = np.zeros_like(v)
    top = np.argpartition(np.abs(v), len(v) - k)[len(v) - k :]
    kept[top] = v[top]
    return np.asarray(kept / max(float(np.linalg.norm(kept)), 1e-300))


class Deflated:
    """Sv for the centred rows off the loadings found so far, without forming them: projection deflation."""

    def __init__(self, x: Any) -> None:
        self.x: Any = x
        self.mean = np.asarray(x.mean(axis=0)).ravel()
        values: Any = self.x.power(2).sum(axis=0) if sp.issparse(x) else np.einsum("ij,ij->j", x, x)
        self.variances = np.asarray(values).ravel() - x.shape[0] * self.mean**2
        self.basis = np.zeros((x.shape[1], 0))

    def off(self, v: Array) -> Array:
        """V less its part in the span of the loadings found."""
        return np.asarray(v - self.basis @ (self.basis.T @ v))

    def scores(self, v: Array) -> Array:
        """Av."""
        inside = self.off(v)
        return np.asarray(self.x @ inside - self.mean @ inside)

    def back(self, scores: Array) -> Array:
        """Aᵀs."""
        return self.off(np.asarray(self.x.T @ scores - self.mean * scores.sum()))

    def remove(self, v: Array) -> None:
        """Take another loading into the span."""
        rest = self.off(v)
        self.basis = np.column_stack([self.basis, rest / np.linalg.norm(rest)])

    def heaviest(self) -> Array:
        """The coordinate of largest variance, those that the loadings hold apart."""
        v = np.zeros(self.x.shape[1])
        v[np.argmax(np.where(self.basis.any(axis=1), 0.0, self.variances))] = 1.0
        return v


def truncated_power(x: Any, work: Workload) -> Array:
    """Yuan and Zhang (2013): v ← the k largest of Sv, each loading from the heaviest feature left."""
    rows = Deflated(x)
    return np.array([_truncated_power(rows, rows.heaviest(), work.k) for _ in range(work.r)])


def truncated_power_from_pca(x: Any, work: Workload) -> Array:
    """The same, each loading from that of dense PCA: slower, and often better."""
    rows = Deflated(x)
    return np.array([_truncated_power(rows, keep_largest(rows.off(v), work.k), work.k) for v in dense_pca(x, work)])


def _truncated_power(rows: Deflated, v: Array, k: int) -> Array:
    for _ in range(MOST_STEPS):
        last, v = v, keep_largest(rows.back(rows.scores(v)), k)
        if np.abs(v - last).max() < 1e-6:
            break
    rows.remove(v)
    return v


def gpower(x: Any, work: Workload) -> Array:
    """Journée et al. (2010), single-unit l0: max over the sphere of Σ [(aⱼᵀz)² − γ]₊.

    γ at each step is the value that leaves k features, and the loading is refitted on their support.
    """
    rows, found = Deflated(x), []
    for _ in range(work.r):
        z = rows.scores(rows.heaviest())
        for _ in range(MOST_STEPS):
            z /= np.linalg.norm(z)
            correlations = rows.back(z)
            cut = np.partition(np.abs(correlations), -work.k - 1)[-work.k - 1] if work.k < len(correlations) else 0.0
            last, z = z, rows.scores(np.where(np.abs(correlations) > cut, correlations, 0.0))
            if np.abs(z / np.linalg.norm(z) - last).max() < 1e-8:
                break
        v = keep_largest(correlations, work.k)
        for _ in range(20):  # the refit: power steps on the support
            v = keep_largest(np.where(v != 0, rows.back(rows.scores(v)), 0.0), work.k)
        found.append(v)
        rows.remove(v)
    return np.array(found)


def scikit_sparse(x: Any, work: Workload, method: str) -> Array:
    """scikit-learn's SparsePCA."""
    return np.asarray(SparsePCA(work.r, alpha=work.alpha, method=method, random_state=0).fit(x).components_)


def scikit_mini(x: Any, work: Workload, method: str) -> Array:
    """scikit-learn's MiniBatchSparsePCA, at its default penalty: SparsePCA's, on another scale, leaves it nothing."""
    return np.asarray(MiniBatchSparsePCA(work.r, method=method, random_state=0).fit(x).components_)


def abess(x: Any, work: Workload) -> Array:
    """abess: best-subset selection by splicing."""
    from abess.decomposition import SparsePCA as Abess

    return np.asarray(Abess(support_size=work.k).fit(x, number=work.r).coef_).reshape(x.shape[1], -1).T


def amanpg(x: Any, work: Workload) -> Array:
    """AManPG, of the package sparsepca, at the penalty of its own example."""
    from sparsepca import spca

    found = spca(x - x.mean(axis=0), 0.1 * np.ones((work.r, 1)), 1.0, k=work.r, normalize=False, maxiter=1000)
    return np.asarray(found["loadings"]).T


def one_pass(x: Any, work: Workload) -> None:
    """Aᵀ(AW), the floor."""
    w = np.ones((x.shape[1], work.r))
    _ = x.T @ (x @ w)


def gram_eigh(x: Any, work: Workload) -> Array:
    """The Gram matrix and its eigenvectors."""
    mean = x.mean(axis=0)
    gram = x.T @ x - x.shape[0] * np.outer(mean, mean)
    return np.asarray(np.linalg.eigh(gram)[1][:, -work.r :].T)


SPARSE: dict[str, Peer] = {
    "PCA truncated": dense_pca,
    "truncated power": truncated_power,
    "truncated power, PCA": truncated_power_from_pca,
    "GPower": gpower,
    "SparsePCA cd": lambda x, work: scikit_sparse(x, work, "cd"),
    "SparsePCA lars": lambda x, work: scikit_sparse(x, work, "lars"),
    "MiniBatchSparsePCA cd": lambda x, work: scikit_mini(x, work, "cd"),
    "MiniBatchSparsePCA lars": lambda x, work: scikit_mini(x, work, "lars"),
    **({"abess": abess} if find_spec("abess") else {}),
    **({"AManPG": amanpg} if find_spec("sparsepca") else {}),
}
DENSE: dict[str, Peer] = {
    "IncrementalPCA": lambda x, work: IncrementalPCA(work.r).fit(x).components_,
    "TruncatedSVD": lambda x, work: TruncatedSVD(work.r, random_state=0).fit(x).components_,
    "randomised SVD": lambda x, work: randomized_svd(x, work.r, random_state=0)[2],
    "Gram + eigh": gram_eigh,
    "one pass": one_pass,
}
PEERS: dict[str, Peer] = {"ExactSPCA": exact, "ExactSPCA overlapping": exact_overlapping, **SPARSE, **DENSE}
# Peers that would form or factor a d × d or dense n × d matrix of W5's 400 million cells, or refuse to.
NOT_FOR_CSR = ("IncrementalPCA", "Gram + eigh")


def run(name: str, work: Workload, x: Any) -> Any:
    """Run a peer, known by its name so that a job can be handed to another process."""
    return PEERS[name](x, work)


def quality(work: Workload, x: Any, loadings: Any) -> dict[str, float]:
    """Explained variance of the span at k non-zeros a loading, distance from the truth, and the non-zeros as found."""
    if loadings is None:
        return {}
    cut = np.array([keep_largest(v, work.k) for v in np.nan_to_num(np.asarray(loadings, dtype=np.float64))])
    left, sizes, _ = np.linalg.svd(cut.T, full_matrices=False)
    basis = left[:, sizes > 1e-10]
    rows = Deflated(x)
    scores = x @ basis - rows.mean @ basis
    figures = {
        "explained": float(np.vdot(scores, scores) / rows.variances.sum()),
        "nonzeros": int(np.count_nonzero(loadings)),
    }
    if work.true is not None:
        true = np.linalg.qr(work.true().T)[0]
        figures["recovery_error"] = float(basis.shape[1] + true.shape[1] - 2 * np.sum((true.T @ basis) ** 2))
    return figures
