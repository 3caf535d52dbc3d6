"""The Nystrom model of S = A' A: everything the sites have answered so far, as one factor.

For asked columns Q with answers S Q the model ``M = S Q (Q' S Q)^+ Q' S`` satisfies ``M <= S`` in the
Loewner order and ``M Q = S Q``. It is kept as ``M = F F'`` with F of shape (d, m): neither S nor M is formed.
"""

from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from fedspca.linalg.quadratic import Quadratic
from fedspca.linalg.small import eigenpairs, largest_eigenpairs

Array = NDArray[np.float64]

_NEGLIGIBLE = 1e-3  # share of lambda_max(M) below which what M misses makes no better prediction
RANK_TOL = 1e-11  # relative to lambda_max(M): below it (S - M) q is rounding error, and dividing by it poisons F


@dataclass(frozen=True)
class NystromModel:
    """``M = factor @ factor.T``; ``gram = factor.T @ factor`` is kept because its spectrum is that of M.

    ``basis`` is an orthonormal basis of all asked columns, where M and S agree; empty once the predictor is M itself.
    """

    factor: Array
    gram: Array
    basis: Array
    trace: float
    _leading: dict[int, tuple[Array, Array]] = field(default_factory=dict, init=False, repr=False, compare=False)

    @property
    def n_features(self) -> int:
        """Number of features d."""
        return int(self.factor.shape[0])

    @property
    def rank(self) -> int:
        """Number of independent columns known."""
        return int(self.factor.shape[1])

    def __matmul__(self, w: Array) -> Array:
        """``M @ w`` at a cost of 2 d m r."""
        return self.factor @ (self.factor.T @ w)


def majoriser(model: NystromModel) -> Quadratic:
    """M itself: ``-tr(w' M w) >= -tr(w' S w)``, with equality on the asked columns."""
    return Quadratic(model.factor)


def predictor(model: NystromModel) -> Quadratic:
    """``M + tau (I - B B')``: the trace not yet explained, spread evenly over what was never asked.

    On sparse vectors noise looks isotropic, so this predicts S far better than M does while the model is young. It
    is no majoriser: keep its points only if the true objective falls.
    """
    tau = _unexplained(model)
    if tau <= _NEGLIGIBLE * _top(model.gram) or model.basis.shape[1] < model.rank:
        return majoriser(model)
    return Quadratic(model.factor, model.basis, tau)


def _unexplained(model: NystromModel) -> float:
    """The trace not yet explained, for each direction never asked."""
    missing = max(model.trace - float(np.trace(model.gram)), 0.0)
    free = model.n_features - model.basis.shape[1]
    return missing / free if free > 0 else 0.0


def empty(n_features: int, trace: float) -> NystromModel:
    """The model that knows nothing: M = 0."""
    nothing = np.zeros((n_features, 0))
    return NystromModel(nothing, np.zeros((0, 0)), nothing, trace)


def expand(model: NystromModel, asked: Array, answer: Array, *, rtol: float = RANK_TOL) -> NystromModel:
    """The model of all earlier columns and of ``S @ asked = answer``, ``asked`` orthonormal.

    With ``R = (S - M) Q`` and ``K = Q' R``, the new model is ``M + R K^+ R'``: the block step of a Cholesky
    factorisation, at a cost of d m q. No basis of the asked columns needs keeping: the residual of the old
    model already vanishes on them. Directions whose eigenvalue in K is below ``rtol`` of lambda_max are
    dropped (the rank-revealing step).
    """
    residual = answer - model @ asked
    core = asked.T @ residual
    values, vectors = eigenpairs(0.5 * (core + core.T))
    scale = max(_top(model.gram), float(np.abs(answer).max(initial=0.0)), float(values.max(initial=0.0)))
    keep = values > rtol * scale
    if not keep.any():
        return model
    new = residual @ (vectors[:, keep] / np.sqrt(values[keep]))
    gram = _bordered(model.gram, model.factor.T @ new, new.T @ new)
    del residual  # with many features each of these takes as much as the data
    larger = NystromModel(np.hstack([model.factor, new]), gram, model.basis, model.trace)
    if _unexplained(larger) <= _NEGLIGIBLE * _top(gram):
        return replace(larger, basis=model.basis[:, :0])  # it only serves the predictor, which will not be called for
    return replace(larger, basis=np.hstack([model.basis, _new_directions(model.basis, asked)]))


def leading(model: NystromModel, r: int) -> tuple[Array, Array]:
    """The r largest eigenvalues of M, descending, and their orthonormal eigenvectors (d x r).

    Where M has rank below r the basis is completed by coordinate directions, with eigenvalue zero.
    """
    if r not in model._leading:  # asked for several times a round
        model._leading[r] = _leading(model, r)
    return model._leading[r]


def _leading(model: NystromModel, r: int) -> tuple[Array, Array]:
    values, vectors = largest_eigenpairs(model.gram, r)
    keep = values > 1e-12 * max(float(values[0]) if len(values) else 0.0, 1e-300)
    basis = model.factor @ (vectors[:, keep] / np.sqrt(values[keep]))
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
    return np.linalg.qr(np.hstack([basis, extra]))[0] * 1.0


def _bordered(gram: Array, cross: Array, corner: Array) -> Array:
    """The symmetric matrix ``[[gram, cross], [cross', corner]]``."""
    m = len(gram)
    larger = np.empty((m + len(corner), m + len(corner)))
    larger[:m, :m], larger[:m, m:], larger[m:, :m], larger[m:, m:] = gram, cross, cross.T, corner
    return larger


def _new_directions(basis: Array, columns: Array, *, tol: float = 1e-7) -> Array:
    """An orthonormal basis of the columns' part outside span(basis), to rounding over ``tol`` at worst.

    That is enough: the basis only serves the predictor, whose points are kept only if exact products agree.
    """
    if basis.shape[1] == 0:
        return columns
    rest = columns - basis @ (basis.T @ columns)
    values, vectors = eigenpairs(rest.T @ rest)
    keep = values > tol**2
    return rest @ (vectors[:, keep] / np.sqrt(values[keep]))


def _top(gram: Array) -> float:
    """An upper-bound-free proxy for lambda_max(M): its largest diagonal entry, which is within a factor m."""
    return float(gram.diagonal().max(initial=0.0))
