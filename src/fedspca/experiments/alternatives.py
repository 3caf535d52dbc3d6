"""Alternatives for rows that may not be pooled: federated dense PCA, and then truncation of its loadings.

Each method returns dense leading directions and their cost in communication. :func:`truncate` then keeps the largest
weights.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedspca.experiments.data import standardised
from fedspca.federation import Federation
from fedspca.literature.grammenos import merged
from fedspca.metrics import reconstruction_error
from fedspca.site import Query
from fedspca.solvers.asking import frame_arrays
from fedspca.solvers.standardise import standardise

Array = NDArray[np.float64]

DOUBLE = {"precision": "float64"}


class Dense(NamedTuple):
    """Leading directions (r × d), the rounds they took, and the bytes that each site sent and received."""

    components: Array
    rounds: int
    bytes_up: int
    bytes_down: int


def merged_svds(parts: list[Array], r: int, *, rank: int, means: str) -> Dense:
    """One-shot merging: each site sends its ``rank`` leading singular vectors times their values for a second SVD.

    With ``means="local"``, each site standardises its rows by its own mean and standard deviation. This takes one
    round, and the differences between sites are lost. With ``"global"``, two sums first give the joint means and
    standard deviations. Unlike with the other methods here, a site does not send a term of a sum.
    """
    d = parts[0].shape[1]
    if means == "local":
        local, rounds, extra = [_own_standard(part) for part in parts], 1, 0
    else:
        joint = standardised(np.vstack(parts))
        cuts = np.cumsum([len(part) for part in parts])[:-1]
        local, rounds, extra = np.split(joint, cuts), 3, 8 * (2 * d + 2)
    sketches = [merged([part], rank) for part in local]
    components = np.linalg.svd(np.vstack(sketches), full_matrices=False)[2][:r]
    return Dense(components, rounds, 8 * min(rank, *(len(part) for part in parts)) * d + extra, extra)


def _own_standard(part: Array) -> Array:
    spread = part.std(axis=0, ddof=1)
    return np.asarray((part - part.mean(axis=0)) / np.where(spread > 0, spread, 1.0))


def subspace_iteration(
    federation: Federation, r: int, *, scale: bool, rounds: int, oversampling: int = 8, seed: int = 0
) -> Dense:
    """Federated subspace iteration: Q ← qf(Σ A_iᵀA_iQ), one sum per round, after two for the joint moments."""
    frame = standardise(federation, scale=scale).frame
    d = len(frame.mean)
    q = np.linalg.qr(np.random.default_rng(seed).standard_normal((d, r + oversampling)))[0]
    up = down = 8 * (2 * d + 2)
    for _ in range(rounds):
        answer = federation.sum(Query("gram_product", {**frame_arrays(frame), "directions": q}, DOUBLE))
        up, down = up + answer.bytes_up, down + answer.bytes_down
        before, q = q, np.linalg.qr(answer["product"])[0]
    # Rayleigh–Ritz on the block before the last sum, because its product with S is known
    captured = before.T @ answer["product"]
    turn = np.linalg.eigh((captured + captured.T) / 2)[1][:, ::-1][:, :r]
    return Dense((before @ turn).T, 2 + rounds, up, down)


def covariance_sum(federation: Federation, r: int, *, scale: bool) -> Dense:
    """Sum the sites' covariances, d × d numbers each, and take the eigenvectors: exact, in one large round."""
    frame = standardise(federation, scale=scale).frame
    d = len(frame.mean)
    answer = federation.sum(Query("gram_product", {**frame_arrays(frame), "directions": np.eye(d)}, DOUBLE))
    vectors = np.linalg.eigh((answer["product"] + answer["product"].T) / 2)[1][:, ::-1][:, :r]
    # count the upper half of the symmetric matrix, and nothing for the identity: it need not be sent
    return Dense(vectors.T, 3, 8 * (d * (d + 1) // 2) + 8 * (2 * d + 2), 8 * (2 * d + 2))


def truncate(components: Array, n_nonzero: int) -> Array:
    """Keep the ``n_nonzero`` largest weights of each component, and give it unit length."""
    order = np.argsort(-np.abs(components), axis=1, kind="stable")[:, :n_nonzero]
    kept = np.zeros_like(components)
    np.put_along_axis(kept, order, np.take_along_axis(components, order, axis=1), axis=1)
    return np.asarray(kept / np.linalg.norm(kept, axis=1, keepdims=True))


def span_error(rows: Array, components: Array) -> float:
    """‖A − AP‖_F with P the projection onto the span of the components.

    For orthonormal components this is the reconstruction error. Truncated components are not orthonormal.
    Projecting onto their span gives the smallest error that they can reach.
    """
    return reconstruction_error(rows, np.linalg.qr(components.T)[0].T)
