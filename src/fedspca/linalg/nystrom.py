"""The Nystrom model of S = A' A: everything the sites have answered so far, as one factor.

For asked columns Q with answers S Q the model ``M = S Q (Q' S Q)^+ Q' S`` satisfies ``M <= S`` in the
Loewner order and ``M Q = S Q``. It is kept as ``M = F F'`` with F of shape (d, m): neither S nor M is formed.
Arrays with d rows are kept as one block per round: with many features, stacking them costs as much as a product.
"""

from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from fedspca.linalg.quadratic import Quadratic
from fedspca.linalg.small import eigenpairs, largest_eigenpairs

Array = NDArray[np.float64]
Index = NDArray[np.intp]
Blocks = tuple[Array, ...]

_NEGLIGIBLE = 1e-3  # below this share of lambda_max(M), the unexplained part does not improve the prediction
_ALL = 1e-10  # rounding may leave this share of the trace of S unexplained
_NOTHING_NEW = 1e-12  # a column adds no direction if the squared sine of its angle with earlier ones is below this
RANK_TOL = 1e-11  # relative to lambda_max(M): below it (S - M) q is rounding error, and dividing by it poisons F


@dataclass(frozen=True)
class NystromModel:
    """``M = F F'`` with ``F = hstack(factors)``.

    Attributes
    ----------
    factors : tuple of ndarray of shape (d, m_i)
        F, one block for each round that added new directions.
    gram : ndarray of shape (m, m)
        ``F' F``, kept because its spectrum is that of M.
    asked : tuple of ndarray of shape (d, q_i)
        All asked columns; M and S agree on them. Empty once the predictor is M itself: it does not need them.
    whitening : ndarray of shape (q, b)
        ``hstack(asked) @ whitening`` is an orthonormal basis of all asked columns.
    trace : float
        The trace of S.
    """

    factors: Blocks
    gram: Array
    asked: Blocks
    whitening: Array
    trace: float
    _leading: dict[int, tuple[Array, Array]] = field(default_factory=dict, init=False, repr=False, compare=False)

    @property
    def n_features(self) -> int:
        """Number of features d."""
        return len(self.factors[0])

    @property
    def rank(self) -> int:
        """Number of independent columns known."""
        return len(self.gram)

    def __matmul__(self, w: Array) -> Array:
        """``M @ w`` at a cost of 2 d m r."""
        return _weighted(self.factors, _across(self.factors, w))


def majoriser(model: NystromModel, features: Index | None = None) -> Quadratic:
    """M itself, over some features or all: ``-tr(w' M w) >= -tr(w' S w)``, with equality on the asked columns."""
    return Quadratic(_stacked(model.factors, features)).compact()


def predictor(model: NystromModel, features: Index | None = None) -> Quadratic:
    """``M + tau (I - B B')``: the unexplained trace, spread evenly over all directions that were never asked.

    On sparse vectors noise looks isotropic. So this matrix predicts S much better than M does in the first rounds. It
    gives no majoriser: keep a point found with it only if the true objective decreases.
    """
    tau = _unexplained(model)
    if tau <= _NEGLIGIBLE * _top(model.gram) or not model.asked:
        return majoriser(model, features)
    basis = _stacked(model.asked, features) @ model.whitening
    return Quadratic.difference(_stacked(model.factors, features), basis, tau).compact()


def _unexplained(model: NystromModel) -> float:
    """The unexplained trace, divided by the number of directions that were never asked."""
    missing = max(model.trace - float(np.trace(model.gram)), 0.0)
    free = model.n_features - model.whitening.shape[1]
    return missing / free if free > 0 else 0.0


def known(model: NystromModel) -> bool:
    """Whether M equals S up to rounding: S - M then has trace zero."""
    return model.trace - float(np.trace(model.gram)) <= _ALL * model.trace


def empty(n_features: int, trace: float) -> NystromModel:
    """The model that knows nothing: M = 0."""
    nothing = np.zeros((n_features, 0))
    return NystromModel((nothing,), np.zeros((0, 0)), (), np.zeros((0, 0)), trace)


def expand(model: NystromModel, asked: Array, answer: Array, *, rtol: float = RANK_TOL) -> NystromModel:
    """The model of all earlier columns and of ``S @ asked = answer``, ``asked`` orthonormal.

    With ``R = (S - M) Q`` and ``K = Q' R``, the new model is ``M + R K^+ R'``: the block step of a Cholesky
    factorisation, at a cost of d m q. No basis of the asked columns needs keeping: the residual of the old
    model already vanishes on them. Directions whose eigenvalue in K is below ``rtol`` of lambda_max are
    dropped (the rank-revealing step).
    """
    residual = answer - model @ asked if model.rank else answer
    core = asked.T @ residual
    values, vectors = eigenpairs(0.5 * (core + core.T))
    largest = max(float(answer.max(initial=0.0)), -float(answer.min(initial=0.0)))
    scale = max(_top(model.gram), largest, float(values.max(initial=0.0)))
    keep = values > rtol * scale
    if not keep.any():
        return model
    new = residual @ (vectors[:, keep] / np.sqrt(values[keep]))
    del residual  # with many features, each of these arrays is as large as the data
    known = model.factors if model.rank else ()
    gram = _bordered(model.gram, _across(known, new), new.T @ new)
    larger = NystromModel((*known, new), gram, (), model.whitening, model.trace)
    if _unexplained(larger) <= _NEGLIGIBLE * _top(gram) or (model.rank and not model.asked):
        return larger
    whitening = _whitened(model.whitening, _across(model.asked, asked))
    return replace(larger, asked=(*model.asked, asked), whitening=whitening)


def captured(model: NystromModel, r: int) -> float:
    """The variance that the r leading eigenvectors of M capture: the present estimate for dense PCA."""
    return float(largest_eigenpairs(model.gram, r)[0].sum())


def diagonal(model: NystromModel) -> Array:
    """The diagonal of M: how much of each feature's variance M explains."""
    return np.asarray(sum(np.einsum("ij,ij->i", block, block) for block in model.factors))


def at_most(model: NystromModel, r: int, trace: float) -> float:
    """An upper bound on the variance of dense PCA: the r largest eigenvalues of M plus the unexplained trace."""
    missing = max(trace - float(np.trace(model.gram)), 0.0)
    return min(captured(model, r) + missing, trace) * (1.0 + 1e-12)


def leading(model: NystromModel, r: int) -> tuple[Array, Array]:
    """The r largest eigenvalues of M, descending, and their orthonormal eigenvectors (d x r).

    Where M has rank below r the basis is completed by coordinate directions, with eigenvalue zero.
    """
    if r not in model._leading:  # asked for several times a round
        model._leading[r] = _leading(model, r)
    return model._leading[r]


def _leading(model: NystromModel, r: int) -> tuple[Array, Array]:
    values, vectors = largest_eigenpairs(model.gram, r)
    keep = values > 1e-12 * values.max(initial=1e-300)
    basis = _weighted(model.factors, vectors[:, keep] / np.sqrt(values[keep]))
    return np.concatenate([values[keep], np.zeros(r - keep.sum())]), complete(basis, r)


def complete(basis: Array, r: int) -> Array:
    """An orthonormal d x r matrix that starts with ``basis``, completed by the least covered coordinates."""
    missing = r - basis.shape[1]
    if missing <= 0:
        return basis
    covered = np.einsum("ij,ij->i", basis, basis)
    rows = np.argsort(covered, kind="stable")[:missing]
    extra = np.zeros((basis.shape[0], missing))
    extra[rows, np.arange(missing)] = 1.0
    return np.linalg.qr(np.hstack([basis, extra]))[0]


def _bordered(gram: Array, cross: Array, corner: Array) -> Array:
    """The symmetric matrix ``[[gram, cross], [cross', corner]]``."""
    m = len(gram)
    larger = np.empty((m + len(corner), m + len(corner)))
    larger[:m, :m], larger[:m, m:], larger[m:, :m], larger[m:, m:] = gram, cross, cross.T, corner
    return larger


def _whitened(whitening: Array, cross: Array) -> Array:
    """The whitening after one more orthonormal block; ``cross`` holds its inner products with the earlier blocks.

    Only the predictor uses the whitening, and its points are checked by exact products. So amplified rounding errors,
    from a column near the span of the others, do no harm.
    """
    if not whitening.size:
        return np.eye(cross.shape[1])
    inside = whitening.T @ cross
    rest = -inside.T @ inside
    rest.flat[:: len(rest) + 1] += 1.0
    values, vectors = eigenpairs(rest)
    keep = values > _NOTHING_NEW
    own = vectors[:, keep] / np.sqrt(values[keep])
    (q, b), n = whitening.shape, own.shape[1]
    larger = np.zeros((q + len(own), b + n))
    larger[:q, :b], larger[:q, b:], larger[q:, b:] = whitening, -whitening @ (inside @ own), own
    return larger


def _stacked(blocks: Blocks, features: Index | None) -> Array:
    """The blocks side by side, over some features or all."""
    if features is not None and len(features) < len(blocks[0]):
        blocks = tuple(block[features] for block in blocks)
    return blocks[0] if len(blocks) == 1 else np.hstack(blocks)


def _across(blocks: Blocks, w: Array) -> Array:
    """``hstack(blocks).T @ w``."""
    return np.vstack([block.T @ w for block in blocks]) if blocks else np.zeros((0, w.shape[1]))


def _weighted(blocks: Blocks, weights: Array) -> Array:
    """``hstack(blocks) @ weights``."""
    end = blocks[0].shape[1]
    total = blocks[0] @ weights[:end]
    for block in blocks[1:]:
        begin, end = end, end + block.shape[1]
        total += block @ weights[begin:end]
    return np.asarray(total)


def _top(gram: Array) -> float:
    """The size of lambda_max(M), to within a factor m: the largest diagonal entry. It is not an upper bound."""
    return float(gram.diagonal().max(initial=0.0))
