"""Explained variance under a cardinality constraint on each column, on the surrogate and by exact products."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedspca.linalg import nystrom
from fedspca.linalg.nystrom import Quadratic
from fedspca.linalg.rotations import rotated
from fedspca.solvers.exact.problem import Assessment, Incumbent, scatter

Array = NDArray[np.float64]
Index = NDArray[np.intp]

_ROWS = 1500
_SWAPS = 2


@dataclass(frozen=True)
class Cardinality:
    """max of the variance explained by span(w) subject to ``||w_j||_0 <= k_j``, ``||w_j|| = 1``.

    With ``orthogonal`` also ``w.T w = I``, and the objective is ``tr(w' S w)``; without it supports may overlap
    freely and the objective is ``tr((w' w)^-1 w' S w)``, the variance of the QR-orthonormalised loadings.
    """

    k: tuple[int, ...]
    orthogonal: bool = True
    tol: float = 2e-5  # a smaller predicted gain is not worth a round

    @property
    def moving(self) -> bool:
        """The objective is exact at once."""
        return False

    def search_rounds(self, r: int) -> int:
        """Cardinality has many local optima at any r."""
        return 2 if r <= 2 else 3

    def probes(self, model: nystrom.NystromModel, r: int, at: Incumbent | None) -> Array | None:
        """Nothing: every column asked is a candidate's."""
        return None

    def start(self, model: nystrom.NystromModel, r: int, rotations: Array, warm: Array | None) -> list[Array]:
        """The best two of several starts, each refined by column updates on the predicted S."""
        quadratic = nystrom.predictor(model)
        _, basis = nystrom.leading(model, r)
        if model.rank == 0:
            return [truncate(basis, self.k)]
        rows = heavy_rows(basis if warm is None else np.hstack([basis, warm]), max(_ROWS, 4 * sum(self.k)))
        part, inside = quadratic.rows(rows), basis[rows]
        trials = [truncate(w, self.k) for w in rotated(inside, rotations)]
        trials += [truncated_power(part, inside, self.k, hotelling=h) for h in (False, True)]
        trials.append(truncated_power(part, None, self.k, hotelling=False))
        if warm is not None:
            trials.append(truncate(warm[rows], self.k))
        if self.orthogonal:
            trials = [orthogonalise(part, w) for w in trials]
        trials = _distinct(trials)
        trials.sort(key=lambda w: -explained(part, w))
        worth = 2 if warm is None else 3 if r <= 2 else 5  # a first look only has to show the model sparse columns
        refined = [refine(part, w, self.k, self.orthogonal) for w in trials[:worth]]
        refined.sort(key=lambda w: -explained(part, w))
        enough = 0.97 * explained(part, refined[0])  # a point this far behind will not win, nor teach much
        kept = [w for w in _distinct(refined)[:3] if explained(part, w) >= enough]
        return [scatter(w, rows, model.n_features) for w in kept]

    def improve(self, model: nystrom.NystromModel, at: Incumbent) -> list[Array]:
        """Column updates from the incumbent; empty when neither predictor nor majoriser knows a better point."""
        scale = float(np.abs(at.product).max()) or 1.0
        rows = heavy_rows(np.hstack([at.product / scale, 1e3 * at.w]), max(_ROWS, 4 * sum(self.k)))
        models = (nystrom.majoriser,) if at.cautious else (nystrom.predictor, nystrom.majoriser)
        for build in models:
            quadratic = build(model).rows(rows)
            before = explained(quadratic, at.w[rows])
            w = refine(quadratic, at.w[rows], self.k, self.orthogonal)
            if explained(quadratic, w) > before + self.tol * abs(at.objective):
                return [scatter(w, rows, model.n_features)]
        return []

    def assess(self, w: Array, product: Array, model: nystrom.NystromModel) -> Assessment:
        """Minus the exact explained variance. Certified by ``improve`` finding nothing, so never by itself."""
        return Assessment(-_ratio(w, product), np.nan, False)


def truncate(w: Array, k: tuple[int, ...]) -> Array:
    """Argmin ``||z - w||`` over k_j-sparse columns, then unit norm."""
    z = np.zeros_like(w)
    for j, kj in enumerate(k):
        top = largest(w[:, j], kj)
        z[top, j] = w[top, j]
    return np.asarray(z / np.maximum(np.linalg.norm(z, axis=0), 1e-300))


def largest(x: Array, k: int) -> Index:
    """Indices of the k entries of largest magnitude, ascending."""
    if k >= len(x):
        return np.arange(len(x))
    return np.sort(np.argpartition(-np.abs(x), k - 1)[:k])


def truncated_power(
    q: Quadratic, start: Array | None, k: tuple[int, ...], *, hotelling: bool, max_iter: int = 30
) -> Array:
    """Truncated power iterations (Yuan, Zhang 2013), one column after another with deflation.

    Deflation is by projection on the complement of the earlier columns' span, or Hotelling's
    ``S - sum_i (x_i' S x_i) x_i x_i'``. Without a start each column begins at the heaviest feature left.
    """
    d, r = q.factor.shape[0], len(k)
    w = np.zeros((d, r))
    span = np.zeros((d, 0))
    values: list[float] = []

    def deflated(x: Array) -> Array:
        if hotelling:
            done = w[:, : len(values)]
            return q @ x + q.shift * x - done @ (np.array(values) * (done.T @ x))
        inside = x - span @ (span.T @ x)
        y = q @ inside + q.shift * inside
        return y - span @ (span.T @ y)

    for j in range(r):
        x = deflated(_heaviest(q, span) if start is None else start[:, j])
        top = largest(x, k[j])
        for _ in range(max_iter):
            z = np.zeros(d)
            z[top] = x[top]
            z /= max(float(np.linalg.norm(z)), 1e-300)
            x, last = deflated(z), top
            top = largest(x, k[j])
            if np.array_equal(top, last):
                break
        w[:, j] = leading_on_support(q, top, span, orthogonal=False)[0] if not hotelling else z
        values.append(float(w[:, j] @ deflated(w[:, j])))
        span = np.linalg.qr(w[:, : j + 1])[0]
    return w


def _heaviest(q: Quadratic, span: Array) -> Array:
    """The coordinate of largest variance off a span."""
    moved = q.factor - span @ (span.T @ q.factor)
    weight = np.einsum("ij,ij->i", moved, moved if q.signs is None else moved * q.signs)
    weight -= q.shift * np.einsum("ij,ij->i", span, span)
    x = np.zeros(len(weight))
    x[np.argmax(weight)] = 1.0
    return x


def leading_on_support(q: Quadratic, support: Index, span: Array, *, orthogonal: bool) -> tuple[Array, float]:
    """Argmax over x on a support of the variance that x adds to a span, and that variance.

    Without orthogonality the gain is ``x' P S P x / x' P x`` with P the projection off the span: a generalised
    eigenproblem of the support's size. With it, ``x' S x`` over unit x orthogonal to the span: an ordinary one
    on the null space of the span's rows. Zero, with gain -inf, where the support has no such x.
    """
    x = np.zeros(span.shape[0])
    u = span[support]
    f = q.factor[support]
    signed = f if q.signs is None else f * q.signs
    if len(support) == 0:
        return x, -np.inf
    if orthogonal:
        core = signed @ f.T
        left, s, _ = np.linalg.svd(u) if u.shape[1] else (np.eye(len(support)), np.zeros(0), None)
        null = left[:, int(np.count_nonzero(s > 1e-10)) :]
        if null.shape[1] == 0:
            return x, -np.inf
        values, vectors = np.linalg.eigh(null.T @ core @ null)
        x[support] = null @ vectors[:, -1]
        return x, float(values[-1]) + q.shift
    moved = f - u @ (span.T @ q.factor)  # P F, rows of the support
    core = (moved if q.signs is None else moved * q.signs) @ moved.T
    metric = np.eye(len(support)) - u @ u.T
    core += q.shift * metric
    sizes, axes = np.linalg.eigh(metric)
    keep = sizes > 1e-8  # directions of the support that the span already holds add nothing
    if not keep.any():
        return x, -np.inf
    whitened = axes[:, keep] / np.sqrt(sizes[keep])
    values, vectors = np.linalg.eigh(whitened.T @ core @ whitened)
    best = whitened @ vectors[:, -1]
    x[support] = best / np.linalg.norm(best)
    return x, float(values[-1])


def refine(
    q: Quadratic, w: Array, k: tuple[int, ...], orthogonal: bool, *, sweeps: int = 6, tol: float = 1e-9
) -> Array:
    """Ascend the explained variance by exact updates of one column at a time, support included."""
    value = explained(q, w)
    for _ in range(sweeps):
        before = value
        for j in range(w.shape[1]):
            w, value = _update_column(q, w, j, k[j], orthogonal, value)
        if value <= before * (1.0 + tol):
            break
    return w


def _update_column(q: Quadratic, w: Array, j: int, k: int, orthogonal: bool, value: float) -> tuple[Array, float]:
    """Power steps on column j's support, each followed by the exact refit; then swaps of its weakest entries."""
    others = np.delete(w, j, axis=1)
    span = others if orthogonal else np.linalg.qr(others)[0]
    x, support, swaps, base = w[:, j], np.flatnonzero(w[:, j]), 0, explained(q, others)
    for _ in range(12):
        trial, gain = leading_on_support(q, support, span, orthogonal=orthogonal)
        new = base + gain
        if new > value * (1.0 + 1e-12) or (swaps == 0 and new >= value * (1.0 - 1e-12)):
            x, value, swaps = trial, max(new, value), 0
            score = _power_step(q, x, span)
            proposed = largest(score, k)
            if not np.array_equal(proposed, support):
                support = proposed
                continue
        if swaps == _SWAPS:
            break
        swaps += 1
        support = _swapped(x, _power_step(q, x, span), k, swaps)
    w = w.copy()
    w[:, j] = x
    return w, value


def _power_step(q: Quadratic, x: Array, span: Array) -> Array:
    """A step along the gradient of the gain, long enough to be a power step where x is orthogonal to the span."""
    inside = x - span @ (span.T @ x)
    y = q @ inside + q.shift * inside
    y -= span @ (span.T @ y)
    gain = float(y @ x) / max(float(inside @ inside), 1e-300)
    return y + gain * (x - inside)


def _swapped(x: Array, score: Array, k: int, n: int) -> Index:
    """The support of x with its n weakest entries exchanged for the n best-scored outside it."""
    support = np.flatnonzero(x)
    n = min(n, k, len(x) - len(support))
    kept = support[np.argsort(-np.abs(x[support]), kind="stable")[: k - n]]
    free = np.flatnonzero(x == 0.0)
    return np.sort(np.concatenate([kept, free[largest(score[free], n)]]))


def explained(q: Quadratic, w: Array) -> float:
    """``tr((w' w)^-1 w' S w)`` for the S the quadratic stands for."""
    return _ratio(w, q @ w + q.shift * w)


def _ratio(w: Array, product: Array) -> float:
    if w.shape[1] == 0:
        return 0.0
    gram = w.T @ w
    return float(np.trace(np.linalg.lstsq(gram, w.T @ product, rcond=1e-12)[0]))


def orthogonalise(q: Quadratic, w: Array) -> Array:
    """Columns made orthogonal in turn, each on its own support; on a free row where that support is exhausted.

    Where no row is free either, the heaviest coordinates serve: they are orthogonal, whatever came before.
    """
    z = np.zeros_like(w)
    for j in range(w.shape[1]):
        support = np.flatnonzero(w[:, j])
        x, _ = leading_on_support(q, support, z[:, :j], orthogonal=True)
        if not x.any():
            weight = np.einsum("ij,ij->i", q.factor, q.factor)
            free = np.flatnonzero(~z[:, :j].any(axis=1))
            if not len(free):
                return np.asarray(np.eye(len(w))[:, largest(weight, w.shape[1])])
            x[free[np.argmax(weight[free])]] = 1.0
        z[:, j] = x
    return z


def heavy_rows(w: Array, n: int) -> Index:
    """The n rows of largest norm, ascending."""
    return largest(np.einsum("ij,ij->i", w, w), n)


def _distinct(points: list[Array]) -> list[Array]:
    """Drop points whose supports, as a set of columns, have been seen: refits make the same point of them."""
    kept: dict[frozenset[bytes], Array] = {}
    for w in points:
        kept.setdefault(frozenset(np.flatnonzero(column).tobytes() for column in w.T), w)
    return list(kept.values())
