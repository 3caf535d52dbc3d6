"""Sparse loadings one column at a time: truncated power steps, and exact updates given the other columns."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lapack

from fedspca.linalg.quadratic import Quadratic
from fedspca.linalg.small import cholesky_qr, eigenpairs, largest_eigenpairs
from fedspca.linalg.sparse_stiefel import retract

Array = NDArray[np.float64]
Index = NDArray[np.intp]

_POWER = 64  # features beyond which power steps replace an eigenproblem, and an exchange of two would change little
_STEPS = 10  # power steps that stand for an eigenproblem
SWAPS = 2  # entries that an update tries to exchange, once power steps change the support no more


class Fit(NamedTuple):
    """Loadings and the variance that they explain."""

    w: Array
    variance: float


@dataclass(frozen=True)
class Span:
    """An orthonormal basis of the columns already there, and S times it."""

    basis: Array
    image: Array

    @classmethod
    def of(cls, q: Quadratic, columns: Array, *, orthonormal: bool = False) -> "Span":
        """The span of some columns."""
        basis = columns
        if columns.shape[1] and not orthonormal:
            fast = cholesky_qr(columns)
            basis = np.linalg.qr(columns)[0] if fast is None else fast
        return cls(basis, q @ basis + q.shift * basis)

    @property
    def explained(self) -> float:
        """The variance that the span explains."""
        return float(np.vdot(self.basis, self.image))

    def off(self, x: Array) -> Array:
        """Remove the part of x in the span."""
        return x - self.basis @ (self.basis.T @ x) if self.basis.shape[1] else x


def truncate(w: Array, k: tuple[int, ...]) -> Array:
    """Argmin ``||z - w||`` over k_j-sparse columns, then unit norm."""
    z = np.zeros_like(w)
    for j, kj in enumerate(k):
        top = largest(w[:, j], kj)
        z[top, j] = w[top, j]
    return np.asarray(z / np.maximum(np.sqrt(np.einsum("ij,ij->j", z, z)), 1e-300))


def largest(x: Array, k: int) -> Index:
    """Indices of the k entries of largest magnitude, ascending."""
    if k >= len(x):
        return np.arange(len(x))
    top = np.abs(x).argpartition(len(x) - k)[len(x) - k :]
    top.sort()
    return np.asarray(top)


def truncated_power(
    q: Quadratic, start: Array | None, k: tuple[int, ...], *, hotelling: bool, max_iter: int = 30
) -> Array:
    """Truncated power iterations (Yuan, Zhang 2013), one column after another with deflation.

    Deflation is by projection on the complement of the earlier columns' span, or Hotelling's
    ``S - sum_i (x_i' S x_i) x_i x_i'``. Without a start each column begins at the heaviest feature left.
    """
    d, r = q.n_rows, len(k)
    w = np.zeros((d, r))
    span = Span.of(q, w[:, :0], orthonormal=True)
    values: list[float] = []

    def deflated(x: Array) -> Array:
        inside = x if hotelling else span.off(x)
        y = q @ inside
        if q.shift:
            y += q.shift * inside
        if not hotelling:
            return span.off(y)
        done = w[:, : len(values)]
        return y - done @ (np.array(values) * (done.T @ x)) if values else y

    for j in range(r):
        x = deflated(_heaviest(q, span) if start is None else start[:, j])
        top = largest(x, k[j])
        for _ in range(max_iter):
            z = np.zeros(d)
            z[top] = x[top]
            z /= max(float(np.sqrt(z @ z)), 1e-300)
            x, last = deflated(z), top
            top = largest(x, k[j])
            if (top == last).all():
                break
        w[:, j] = z if hotelling else leading_on_support(q, top, span, orthogonal=False, near=x)[0]
        if j + 1 < r:
            values.append(float(w[:, j] @ deflated(w[:, j])))
            span = Span.of(q, w[:, : j + 1])
    return w


def _heaviest(q: Quadratic, span: Span) -> Array:
    """The coordinate of largest variance off a span."""
    weight = q.diagonal() + q.shift
    if span.basis.shape[1]:
        inside = span.basis @ (span.basis.T @ span.image)
        weight = weight + np.einsum("ij,ij->i", span.basis, inside - 2.0 * span.image)
    x = np.zeros(len(weight))
    x[np.argmax(weight)] = 1.0
    return x


def leading_on_support(
    q: Quadratic, support: Index, span: Span, *, orthogonal: bool, near: Array | None = None
) -> tuple[Array, float]:
    """Argmax over x on a support of the variance that x adds to a span, and that variance.

    Without orthogonality the gain is ``x' P S P x / x' P x`` with P the projection off the span: a generalised
    eigenproblem of the support's size. With it, ``x' S x`` over unit x orthogonal to the span: an ordinary one
    on the null space of the span's rows. Zero, with gain -inf, where the support has no such x. On a large support,
    given a point ``near``, a few power steps stand for the eigenproblem: they only ever ascend.
    """
    x = np.zeros(q.n_rows)
    if len(support) == 0:
        return x, -np.inf
    u = span.basis[support]
    if near is not None and len(support) > _POWER:
        best, gain = _power(q, support, span, near[support], orthogonal=orthogonal)
        if best is not None:
            x[support] = best
            return x, gain
    core = q.block(support)
    core.flat[:: len(core) + 1] += q.shift
    if not u.any():  # common: supports are disjoint, and the span does not matter
        values, vectors = largest_eigenpairs(core, 1)
        x[support] = vectors[:, 0]
        return x, float(values[0])
    best, gain = _orthogonal_to(u, core) if orthogonal else _off(u, core, span.image[support], span)
    if best is not None:
        x[support] = best
    return x, gain


def _power(q: Quadratic, support: Index, span: Span, x: Array, *, orthogonal: bool) -> tuple[Array | None, float]:
    """Ascend the gain of :func:`leading_on_support` by power steps, without forming the block of S on the support."""
    core, u = q.rows(support, often=False), span.basis[support]
    return _power_within(u, core, x) if orthogonal else _power_off(u, core, x, span.image[support], span)


def _power_within(u: Array, core: Quadratic, x: Array) -> tuple[Array | None, float]:
    """Ascend ``x' S x`` over unit x with ``u' x = 0`` by power steps."""
    left = lapack.dgesdd(u, full_matrices=0)[0] if u.any() else u[:, :0]
    for _ in range(_STEPS):
        x = x - left @ (left.T @ x)
        size = float(np.sqrt(x @ x))
        if size < 1e-8:
            return None, -np.inf
        best = x / size
        x = core @ best + core.shift * best
    return best, float(best @ x)


def _power_off(u: Array, core: Quadratic, x: Array, image: Array, span: Span) -> tuple[Array | None, float]:
    """Ascend ``x' P S P x / x' P x`` by power steps; the metric ``I - u u'`` is inverted by Woodbury's identity."""
    rest = image - 0.5 * (u @ (span.basis.T @ span.image))
    inner = u.T @ u
    gain = u @ np.linalg.pinv(np.eye(len(inner)) - inner, rcond=1e-8, hermitian=True)
    for _ in range(_STEPS):
        size = float(np.sqrt(x @ x))
        if not size > 0.0:
            return None, -np.inf
        best = x / size
        x = core @ best + core.shift * best - u @ (rest.T @ best) - rest @ (u.T @ best)
        value = float(best @ x)
        x = x + gain @ (u.T @ x)
    seen = u.T @ best
    left = 1.0 - float(seen @ seen)
    return (best, value / left) if left > 1e-8 else (None, -np.inf)


def _orthogonal_to(u: Array, core: Array) -> tuple[Array | None, float]:
    """Argmax of ``x' core x`` over unit x with ``u' x = 0``, core positive semi-definite."""
    if u.shape[1] == 1:
        left = u / np.sqrt(float(u[:, 0] @ u[:, 0]))
    else:
        left, sizes, _, _ = lapack.dgesdd(u, full_matrices=0)
        left = left[:, : int(np.count_nonzero(sizes > 1e-10))]
    cross = left @ (left.T @ core)
    inside = core - cross - (cross - (cross @ left) @ left.T).T
    values, vectors = largest_eigenpairs(inside, 1)
    if float(values[0]) > 1e-9 * float(core.diagonal().max()):
        x = vectors[:, 0] - left @ (left.T @ vectors[:, 0])
        return x / np.sqrt(x @ x), float(values[0])
    # nothing but zeros left: the null space must be looked at itself
    null = lapack.dgesdd(u)[0][:, left.shape[1] :]
    if null.shape[1] == 0:
        return None, -np.inf
    values, vectors = largest_eigenpairs(null.T @ core @ null, 1)
    return null @ vectors[:, 0], float(values[0])


def _off(u: Array, core: Array, image: Array, span: Span) -> tuple[Array | None, float]:
    """Argmax of ``x' P S P x / x' P x`` over unit x on the support."""
    cross = u @ (image - 0.5 * (u @ (span.basis.T @ span.image))).T
    core = core - cross - cross.T
    metric = -(u @ u.T)
    metric.flat[:: len(core) + 1] += 1.0
    sizes, axes = eigenpairs(metric)
    keep = sizes > 1e-8  # directions of the support that the span already holds add nothing
    if not keep.any():
        return None, -np.inf
    whitened = axes[:, keep] / np.sqrt(sizes[keep])
    values, vectors = largest_eigenpairs(whitened.T @ core @ whitened, 1)
    best = whitened @ vectors[:, 0]
    return best / np.linalg.norm(best), float(values[0])


def refine(q: Quadratic, fit: Fit, k: tuple[int, ...], orthogonal: bool, *, swaps: int = SWAPS, sweeps: int = 6) -> Fit:
    """Ascend the explained variance by exact updates of one column at a time, support included.

    A column is updated again only once another has moved.
    """
    (w, value), r = fit, fit.w.shape[1]
    stale = set(range(r))
    for _ in range(sweeps):
        before = value
        for j in range(r):
            if j not in stale:
                continue
            stale.discard(j)
            x, value = _update_column(q, w, j, k[j], orthogonal, value, swaps)
            if float(np.abs(np.abs(x) - np.abs(w[:, j])).max()) > 1e-9:
                stale |= set(range(r)) - {j}
            w = w.copy()
            w[:, j] = x
        if not stale or value <= before * (1.0 + 1e-9):
            break
    return Fit(w, value)


def _update_column(
    q: Quadratic, w: Array, j: int, k: int, orthogonal: bool, value: float, most: int
) -> tuple[Array, float]:
    """Power steps on column j's support, each followed by the exact refit; then swaps of its weakest entries."""
    span = Span.of(q, w[:, np.arange(w.shape[1]) != j], orthonormal=orthogonal)
    most = most if k <= _POWER else 0
    x, support, swaps, base = w[:, j], w[:, j].nonzero()[0], 0, span.explained
    score = None
    for _ in range(12):
        trial, gain = leading_on_support(q, support, span, orthogonal=orthogonal, near=x if score is None else score)
        new = base + gain
        if new > value * (1.0 + 1e-12) or (swaps == 0 and new >= value * (1.0 - 1e-12)):
            x, value, swaps = trial, max(new, value), 0
            score = _power_step(q, x, span)
            proposed = largest(score, k)
            if not np.array_equal(proposed, support):
                support = proposed
                continue
        if swaps == most:
            break
        swaps += 1
        score = _power_step(q, x, span) if score is None else score
        support = _swapped(x, score, k, swaps)
    return x, value


def _power_step(q: Quadratic, x: Array, span: Span) -> Array:
    """A step along the gradient of the gain, long enough to be a power step where x is orthogonal to the span."""
    inside = span.off(x)
    y = q @ inside
    if q.shift:
        y += q.shift * inside
    y = span.off(y)
    gain = float(y @ x) / max(float(inside @ inside), 1e-300)
    return y + gain * (x - inside)


def _swapped(x: Array, score: Array, k: int, n: int) -> Index:
    """The support of x with its n weakest entries exchanged for the n best-scored outside it."""
    support = x.nonzero()[0]
    n = min(n, k, len(x) - len(support))
    weight = np.abs(x[support])
    kept = support[weight.argsort(kind="stable")[::-1][: k - n]]
    outside = np.abs(score)
    outside[support] = -1.0
    swapped = np.concatenate([kept, outside.argpartition(len(x) - n)[len(x) - n :] if n else kept[:0]])
    swapped.sort()
    return np.asarray(swapped)


def explained(q: Quadratic, w: Array) -> float:
    """``tr((w' w)^-1 w' S w)`` for the S the quadratic stands for."""
    return explained_by(w, q @ w + q.shift * w)


def explained_by(w: Array, product: Array) -> float:
    """``tr((w' w)^-1 w' S w)`` for a known product Sw."""
    if w.shape[1] == 0:
        return 0.0
    gram = w.T @ w
    if float(np.abs(gram - np.diag(gram.diagonal())).max()) <= 1e-14:
        return float((np.einsum("ij,ij->j", w, product) / np.maximum(gram.diagonal(), 1e-300)).sum())
    return float(np.trace(np.linalg.lstsq(gram, w.T @ product, rcond=1e-12)[0]))


def orthogonalise(q: Quadratic, w: Array) -> Array:
    """Columns made orthogonal in turn, each on its own support; on a free row where that support is exhausted.

    Where no row is free either, the heaviest coordinates serve: they are orthogonal, whatever came before. On large
    supports the nearest orthogonal columns are as good, and cheaper.
    """
    if min(np.count_nonzero(w, axis=0)) > _POWER:
        near = retract(w)
        if near is not None:
            return near
    z = np.zeros_like(w)
    for j in range(w.shape[1]):
        support = w[:, j].nonzero()[0]
        x, _ = leading_on_support(q, support, Span(z[:, :j], z[:, :j]), orthogonal=True, near=w[:, j])
        if not x.any():
            weight = q.diagonal()
            free = np.flatnonzero(~z[:, :j].any(axis=1))
            if not len(free):
                return np.asarray(np.eye(len(w))[:, largest(weight, w.shape[1])])
            x[free[np.argmax(weight[free])]] = 1.0
        z[:, j] = x
    return z
