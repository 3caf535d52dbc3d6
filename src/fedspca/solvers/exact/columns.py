"""Sparse loadings one column at a time: truncated power steps, and exact updates given the other columns."""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import blas, lapack

from fedspca.linalg.quadratic import Quadratic
from fedspca.linalg.small import cholesky_qr, largest_eigenpairs
from fedspca.linalg.sparse_stiefel import retract
from fedspca.solvers.exact.tuning import CardinalityTuning

Array = NDArray[np.float64]
Index = NDArray[np.intp]

_NOTHING = np.zeros(0)
_HELD = 1e-4  # a direction lies in the span of the others if the sine of its angle is below this


class Fit(NamedTuple):
    """Loadings and the variance that they explain."""

    w: Array
    variance: float


@dataclass(frozen=True)
class Span:
    """The span of the columns already found, given by an orthonormal basis."""

    q: Quadratic
    basis: Array

    @classmethod
    def of(cls, q: Quadratic, columns: Array, *, orthonormal: bool = False) -> "Span":
        """The span of some columns."""
        if orthonormal or not columns.shape[1]:
            return cls(q, columns)
        if columns.shape[1] == 1:
            return cls(q, columns / np.sqrt(np.vdot(columns, columns)))
        fast = cholesky_qr(columns)
        return cls(q, np.linalg.qr(columns)[0] if fast is None else fast)

    @cached_property
    def _form(self) -> tuple[Array, Array]:
        """``B' S B``, and the half-way product of ``S B``."""
        form, half_way = self.q.form(self.basis)
        form.flat[:: len(form) + 1] += self.q.shift
        return form, half_way

    def image(self) -> Array:
        """S times the basis."""
        return self.q.outer(self._form[1]) + self.q.shift * self.basis

    def rest(self, rows: Index) -> Array:
        """Rows of the R with ``P S P = S - B R' - R B'``, for P the projection off the span of B."""
        inside, (form, half_way) = self.basis[rows], self._form
        return self.q.outer(half_way, rows) + self.q.shift * inside - inside @ (0.5 * form)

    @cached_property
    def _alone(self) -> Array | None:
        """The basis as a vector, if it has one column: products with it are then cheaper."""
        return self.basis[:, 0].copy() if self.basis.shape[1] == 1 else None

    def off(self, x: Array) -> Array:
        """Remove the part of a vector x in the span."""
        if self._alone is not None:
            return np.asarray(x - (self._alone @ x) * self._alone)
        return x - self.basis @ (self.basis.T @ x) if self.basis.shape[1] else x


@dataclass(frozen=True)
class Whitening:
    """``W = I + U diag(gain) U'`` with ``W (I - u u') W = I``, and its inverse, for the rows u of a basis on a support.

    If loadings have to be orthogonal, W is the projection off u instead. W is also zero on directions in the span.
    """

    axes: Array
    gain: Array
    inverse: Array

    @classmethod
    def of(cls, u: Array, *, orthogonal: bool) -> "Whitening":
        """Decompose u."""
        if not u.any():  # common: supports are disjoint, and the span does not matter
            return cls(u[:, :0], _NOTHING, _NOTHING)
        if u.shape[1] == 1:
            sizes = [math.sqrt(np.vdot(u, u))]
            axes = u / sizes[0]
        else:
            axes, values, _, _ = lapack.dgesdd(u, full_matrices=0)
            sizes = [size for size in values.tolist() if size > 1e-10]
            axes = axes[:, : len(sizes)]
        left = [0.0 if orthogonal else math.sqrt(max(1.0 - size * size, 0.0)) for size in sizes]
        gain = np.array([1.0 / size if size > _HELD else 0.0 for size in left])
        inverse = np.array([size if size > _HELD else 0.0 for size in left])
        return cls(axes, gain - 1.0, inverse - 1.0)

    def __matmul__(self, x: Array) -> Array:
        return x + (self.axes * self.gain) @ (self.axes.T @ x) if len(self.gain) else x

    def undo(self, x: Array) -> Array:
        """The inverse, zero on the directions that W takes to zero."""
        return x + (self.axes * self.inverse) @ (self.axes.T @ x) if len(self.gain) else x

    def around(self, core: Array, u: Array, rest: Array) -> Array:
        """``W (core - u rest' - rest u') W`` for a symmetric core, in the upper triangle, in place of the core."""
        if not len(self.gain):
            return core
        left, right = self.axes, core @ self.axes
        if rest.shape[1]:
            right -= u @ (rest.T @ left) + rest @ (u.T @ left)
        right *= self.gain
        right += 0.5 * (left * self.gain) @ (left.T @ right)
        core = blas.dsyr2k(1.0, left, right, 1.0, core.T, overwrite_c=1)
        return np.asarray(blas.dsyr2k(-1.0, u, rest, 1.0, core, overwrite_c=1) if rest.shape[1] else core)

    def free(self) -> Array:
        """An orthonormal basis of the complement of the null space of W."""
        gone = self.axes[:, self.gain == -1.0]
        return np.asarray(lapack.dgesdd(gone)[0][:, gone.shape[1] :]) if gone.shape[1] else np.eye(len(gone))


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
    q: Quadratic,
    start: Array | None,
    k: tuple[int, ...],
    tuning: CardinalityTuning,
    *,
    hotelling: bool,
    max_iter: int = 30,
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
            x = deflated(z)
            top = largest(x, k[j])
            if len(top) - np.count_nonzero(z[top]) <= tuning.few * len(top):
                break
        w[:, j] = z
        if j + 1 < r:
            values.append(float(w[:, j] @ deflated(w[:, j])))
            span = Span.of(q, w[:, : j + 1])
    return w


def _heaviest(q: Quadratic, span: Span) -> Array:
    """The coordinate of largest variance off a span."""
    weight = q.diagonal() + q.shift
    if span.basis.shape[1]:
        image = span.image()
        inside = span.basis @ (span.basis.T @ image)
        weight = weight + np.einsum("ij,ij->i", span.basis, inside - 2.0 * image)
    x = np.zeros(len(weight))
    x[np.argmax(weight)] = 1.0
    return x


def leading_on_support(
    q: Quadratic,
    support: Index,
    span: Span,
    tuning: CardinalityTuning,
    *,
    orthogonal: bool,
    near: Array | None = None,
) -> tuple[Array, float]:
    """Argmax over x on a support of the variance that x adds to a span, and that variance.

    Without orthogonality the gain is ``x' P S P x / x' P x`` with P the projection off the span; with it, ``x' S x``
    over unit x orthogonal to the span. After whitening, either is an eigenproblem of the size of the support. If the
    support has no such x, the result is zero with gain -inf. On a large support, given a point ``near``, a few power
    steps replace the eigenproblem; they never decrease the gain.
    """
    x = np.zeros(q.n_rows)
    if len(support) == 0:
        return x, -np.inf
    u = span.basis[support]
    white = Whitening.of(u, orthogonal=orthogonal)
    rest = span.rest(support) if len(white.gain) and not orthogonal else u[:, :0]
    best, gain = None, -np.inf
    if near is not None and len(support) > tuning.large:
        best, gain = _power(q.rows(support, often=False), white, u, rest, near[support], tuning)
    if best is None:
        best, gain = _leading(q, support, white, u, rest)
    if best is not None:
        x[support] = best / np.sqrt(best @ best)
    return x, gain


def _leading(q: Quadratic, support: Index, white: Whitening, u: Array, rest: Array) -> tuple[Array | None, float]:
    """Argmax of ``z' W C W z`` over unit z, as ``W z``, for C the support's block of P S P, or of S itself."""
    core = q.block(support)
    core.flat[:: len(core) + 1] += q.shift
    heaviest = float(core.diagonal().max())
    values, vectors = largest_eigenpairs(white.around(core, u, rest), 1)
    if not len(white.gain) or float(values[0]) > 1e-9 * heaviest:
        return white @ vectors[:, 0], float(values[0])
    # only zero eigenvalues are left: solve again on the range of W
    free = white @ white.free()
    if free.shape[1] == 0:
        return None, -np.inf
    image = q.block(support) @ free + q.shift * free
    if rest.shape[1]:
        image -= u @ (rest.T @ free) + rest @ (u.T @ free)
    values, vectors = largest_eigenpairs(free.T @ image, 1)
    return free @ vectors[:, 0], float(values[0])


def _power(
    core: Quadratic, white: Whitening, u: Array, rest: Array, x: Array, tuning: CardinalityTuning
) -> tuple[Array | None, float]:
    """The same by power steps from x, until they gain nothing, without forming the matrix."""
    z, value = white.undo(x), -np.inf
    for _ in range(tuning.steps):
        size = float(np.sqrt(z @ z))
        if not size > 1e-8:
            return None, -np.inf
        z = z / size
        x = white @ z
        y = core @ x + core.shift * x
        if rest.shape[1]:
            y -= u @ (rest.T @ x) + rest @ (u.T @ x)
        y = white @ y
        last, value = value, float(z @ y)
        if value <= last * (1.0 + tuning.settled):
            break
        z = y
    return x, value


def refine(q: Quadratic, fit: Fit, k: tuple[int, ...], orthogonal: bool, tuning: CardinalityTuning) -> Fit:
    """Ascend the explained variance by exact updates of one column at a time, support included.

    A column is updated again only after another column has improved.
    """
    w, value, r = fit.w.copy(), fit.variance, fit.w.shape[1]
    stale = set(range(r))
    swapped: list[Index | None] = [None] * r
    for _ in range(tuning.sweeps):
        for j in range(r):
            if j not in stale:
                continue
            stale.discard(j)
            before = value
            others = [i for i in range(r) if i != j]
            span = Span.of(q, w[:, others], orthonormal=orthogonal)
            w[:, j], value = _updated(span, w[:, j], k[j], value, orthogonal, tuning, swapped[j])
            swapped[j] = w[:, j].nonzero()[0]
            if value > before * (1.0 + tuning.worth):
                stale.update(others)
            if value > before * (1.0 + tuning.upset):
                swapped = [tried if i == j else None for i, tried in enumerate(swapped)]
        if not stale:
            break
    return Fit(w, value)


def _updated(
    span: Span, x: Array, k: int, value: float, orthogonal: bool, tuning: CardinalityTuning, swapped: Index | None
) -> tuple[Array, float]:
    """A better column x, given the span of the others, and the variance that all columns then explain.

    Power steps until the support is stable, then an exact refit on it, repeated. Then swaps of two entries, unless they
    were tried on this support before.
    """
    score, gain = _power_step(span, x, orthogonal)
    base = value - gain  # what the others explain
    support = _settled(span, score, k, x.nonzero()[0], orthogonal, tuning.walk)
    pending: list[Index] | None = None
    for _ in range(tuning.refits):
        trial, gain = leading_on_support(span.q, support, span, tuning, orthogonal=orthogonal, near=score)
        new = base + gain
        if new > value * (1.0 + 1e-12) or (pending is None and new >= value * (1.0 - 1e-12)):
            x, value, pending = trial, max(new, value), None
            score, _ = _power_step(span, x, orthogonal)
            moved = _settled(span, score, k, support, orthogonal, tuning.walk)
            if not _same(moved, support):
                support = moved
                continue
        if pending is None:
            here = x.nonzero()[0]
            if not tuning.swaps or k > tuning.large or (swapped is not None and _same(here, swapped)):
                break
            pending = _promising_swaps(span.q, here, x[here], score, value - base, tuning.weak)[: tuning.swaps]
        if not pending:
            break
        support = pending.pop(0)
    return x, value


def _settled(span: Span, score: Array, k: int, support: Index, orthogonal: bool, walk: int) -> Index:
    """The support that power steps, each truncated to k entries, reach; the first step has given ``score``."""
    proposed = largest(score, k)
    for _ in range(walk):
        if _same(proposed, support):
            break
        support, x = proposed, np.zeros(len(score))
        x[support] = score[support]
        score, _ = _power_step(span, x, orthogonal)
        proposed = largest(score, k)
    return proposed


def _same(a: Index, b: Index) -> bool:
    return len(a) == len(b) and bool((a == b).all())


def _power_step(span: Span, x: Array, orthogonal: bool) -> tuple[Array, float]:
    """A step along the gradient of what x adds to the span, long enough to be a power step; and that gain, for unit x.

    Columns that have to be orthogonal are orthogonal to the span already.
    """
    q = span.q
    inside = x if orthogonal else span.off(x)
    y = q @ inside
    if q.shift:
        y += q.shift * inside
    y = span.off(y)
    gain = float(y @ x)
    if not orthogonal:
        gain /= max(float(inside @ inside), 1e-300)
        y += gain * (x - inside)
    return y, gain


def _promising_swaps(q: Quadratic, support: Index, x: Array, score: Array, gain: float, weak_ones: int) -> list[Index]:
    """Supports with one entry exchanged that gain even before a refit, best first.

    Remove entry i of x and let entry j enter. The best combination of the remaining x and the new coordinate solves an
    eigenproblem of order two, whose entries are already known. Only pairs of a weak entry and a high score are
    considered. The span of the other columns is ignored.
    """
    outside = np.abs(score)
    outside[support] = -1.0
    few = min(weak_ones, len(support) - 1, len(score) - len(support))
    if few <= 0:
        return []
    weak = np.abs(x).argpartition(few - 1)[:few]
    strong = outside.argpartition(len(outside) - few)[len(outside) - few :]
    block = q.block(np.concatenate([support[weak], strong]))
    diagonal = block.diagonal() + q.shift
    weight = x[weak] ** 2
    left = 1.0 - weight
    kept = (gain * (1.0 - 2.0 * weight) + weight * diagonal[:few]) / left
    cross = (score[strong] - x[weak, None] * block[:few, few:]) / np.sqrt(left)[:, None]
    half = 0.5 * (kept[:, None] - diagonal[few:])
    promised = diagonal[few:] + half + np.sqrt(half * half + cross * cross)
    found = []
    for pair in np.argsort(-promised, axis=None):
        i, j = divmod(int(pair), few)
        if promised[i, j] <= gain:
            break
        swapped = np.append(np.delete(support, weak[i]), strong[j])
        swapped.sort()
        found.append(swapped)
        promised[i, :] = promised[:, j] = -np.inf  # the next swap must differ in both entries
    return found


def explained(q: Quadratic, w: Array) -> float:
    """``tr((w' w)^-1 w' S w)`` for the S the quadratic stands for."""
    gram = w.T @ w
    return _within(gram, q.form(w)[0] + q.shift * gram)


def explained_by(w: Array, product: Array) -> float:
    """``tr((w' w)^-1 w' S w)`` for a known product Sw."""
    return _within(w.T @ w, w.T @ product)


def _within(gram: Array, captured: Array) -> float:
    """``tr(gram^-1 captured)``."""
    factor, info = lapack.dpotrf(gram)
    if not info and float(factor.diagonal().min()) > 1e-4 * float(factor.diagonal().max()):
        return float(np.trace(lapack.dpotrs(factor, captured)[0]))
    return float(np.trace(np.linalg.lstsq(gram, captured, rcond=1e-12)[0]))


def orthogonalise(q: Quadratic, w: Array, tuning: CardinalityTuning) -> Array:
    """The nearest orthogonal columns on the same supports.

    If there are none, columns are found in turn: each is the best on its own support, given the earlier ones. If that
    support admits none, an unused row is taken. If no row is unused either, the coordinates of largest variance are
    returned: they are always orthogonal.
    """
    near = retract(w)
    if near is not None:
        return near
    z = np.zeros_like(w)
    for j in range(w.shape[1]):
        support = w[:, j].nonzero()[0]
        x, _ = leading_on_support(q, support, Span(q, z[:, :j]), tuning, orthogonal=True, near=w[:, j])
        if not x.any():
            weight = q.diagonal()
            free = np.flatnonzero(~z[:, :j].any(axis=1))
            if not len(free):
                return np.asarray(np.eye(len(w))[:, largest(weight, w.shape[1])])
            x[free[np.argmax(weight[free])]] = 1.0
        z[:, j] = x
    return z
