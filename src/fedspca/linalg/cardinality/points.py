"""Several solutions at once: columns updated in turn, for all of them by the same few calls."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedspca.linalg.cardinality.beside import Beside
from fedspca.linalg.cardinality.column import Columns, best_of_each, climbed
from fedspca.linalg.cardinality.polish import Fit, nearest_orthogonal, refit_orthogonal
from fedspca.linalg.cardinality.selection import TIE, heaviest, signatures
from fedspca.linalg.cardinality.together import linked, nearest, refitted
from fedspca.linalg.cardinality.tuning import Tuning
from fedspca.linalg.small import stacked_eigenpairs

Array = NDArray[np.float64]
Index = NDArray[np.intp]
Counts = tuple[int, ...]

_TOGETHER = 48  # non-zeros in all: with more, Newton steps with a dense Hessian take longer than sparse ones
_STEPS, _SWEEPS = 2, 3  # of a rough refit of all columns: Newton steps together, or sweeps over them
GAIN = 1e-8  # relative: a move that gains less is not worth another sweep
_STACK = 4_000_000  # entries: that many of a stack of matrices P S P are kept at a time
_ORTHONORMAL = 1e-12  # largest entry of w' w - I: below this, w is a basis as it is
_FAR_APART = 0.1  # if the sine between every column and the earlier ones is above this, squaring costs two digits
_DEPENDENT = 1e-12  # share of the largest eigenvalue of w' w


class Points(NamedTuple):
    """Loadings w (m, d, r) and the variance that the span of each captures (m,)."""

    w: Array
    variances: Array

    @classmethod
    def of(cls, fits: list[Fit]) -> "Points":
        """Solutions as a stack."""
        return cls(np.array([fit.w for fit in fits]), np.array([fit.variance for fit in fits]))

    def fits(self) -> list[Fit]:
        """One by one."""
        return [Fit(w, variance) for w, variance in zip(self.w, self.variances.tolist(), strict=True)]

    def at(self, chosen: Index | NDArray[np.bool_] | slice) -> "Points":
        """Some of them."""
        return Points(self.w[chosen], self.variances[chosen])

    def joined(self, *others: "Points") -> "Points":
        """These and others."""
        stacks = [self, *others]
        return Points(np.concatenate([p.w for p in stacks]), np.concatenate([p.variances for p in stacks]))

    def best(self, n: int, behind: float = np.inf) -> "Points":
        """The n best points with different sets of supports. Ties are ordered by feature index, lowest first.

        Points that capture less than the best one by more than the share ``behind`` are left out.
        """
        order = np.argsort(-self.variances, kind="stable")
        value = self.variances[order]
        order = order[np.isfinite(value) & (value >= value[:1] * (1.0 - behind))]
        order = order[np.sort(np.unique(_sets(self.w[order]), return_index=True)[1])]
        value = self.variances[order]
        apart = value[1:] < value[:-1] * (1.0 - TIE)
        if not apart.all():
            group = np.concatenate([[0], np.cumsum(apart)]).tolist()
            named = [_features(self.w[at]) for at in order]
            order = order[sorted(range(len(order)), key=lambda at: (group[at], named[at]))]
        return self.at(order[:n])


def _sets(w: Array) -> NDArray[np.uint64]:
    """A number for each set of supports, whatever the order of the columns."""
    d = w.shape[1]
    bits = signatures(np.arange(d)[:, None])
    keys = np.where(w != 0.0, bits[:, None], np.uint64(0)).sum(axis=1, dtype=np.uint64)
    keys ^= keys >> np.uint64(29)  # so that features moved between columns change the sum
    keys *= np.uint64(0xBF58476D1CE4E5B9)
    keys ^= keys >> np.uint64(32)
    return np.asarray(keys.sum(axis=1, dtype=np.uint64))


def _features(w: Array) -> list[list[int]]:
    return sorted(np.flatnonzero(column).tolist() for column in w.T)


def bases(w: Array) -> Array:
    """Orthonormal bases of the spans of a stack of loadings (m, d, q); zero columns where these are dependent."""
    if not w.shape[2]:
        return w
    gram = w.transpose(0, 2, 1) @ w
    if float(np.abs(gram - np.eye(w.shape[2])).max()) < _ORTHONORMAL:
        return w
    factor = _cholesky(gram)
    if factor is not None:  # it has a zero for each two columns that share no feature, even through others
        return np.asarray(w @ np.linalg.inv(factor).transpose(0, 2, 1))
    values, vectors = stacked_eigenpairs(gram)
    keep = values > _DEPENDENT * values[:, -1:]
    scale = np.divide(1.0, np.sqrt(np.where(keep, values, 1.0)), out=np.zeros_like(values), where=keep)
    b = w @ (vectors * scale[:, None, :])
    # once more, since dividing by small values has lost digits: b (3 I - b' b) / 2 is orthonormal to second order
    return np.asarray(1.5 * b - 0.5 * (b @ (b.transpose(0, 2, 1) @ b)))


def _cholesky(gram: Array) -> Array | None:
    """The lower triangular L with ``L L'`` equal to each of a stack of matrices; None if digits would be lost."""
    try:
        factor: Array = np.asarray(np.linalg.cholesky(gram), dtype=np.float64)
    except np.linalg.LinAlgError:
        return None
    pivots = factor.diagonal(axis1=1, axis2=2)
    return factor if float(pivots.min()) > _FAR_APART * float(pivots.max()) else None


def parts(m: int, d: int) -> Iterator[slice]:
    """Slices of m points, so small that a matrix for each of them fits in memory."""
    size = max(1, _STACK // (d * d))
    return (slice(start, start + size) for start in range(0, m, size))


def put(w: Array, at: Index, j: int, columns: Columns) -> None:
    """Replace column j of some points."""
    w[at, :, j] = 0.0
    w[at[:, None], columns.supports, j] = columns.weights


def supports_of(w: Array, k: Counts) -> list[Index]:
    """The k_j heaviest features of each column, for each of a stack of loadings: a list of (m, k_j)."""
    sizes = np.abs(w)
    return [heaviest(sizes[:, :, j], kj) for j, kj in enumerate(k)]


def in_order(s: Array, supports: list[Index], orthogonal: bool) -> Points:
    """Loadings on given supports, one (m, k_j) for each column: each the best beside those before it.

    If supports admit no such columns, the variance is minus infinity.
    """
    m, d = len(supports[0]), len(s)
    w, variances = np.zeros((m, d, len(supports))), np.zeros(m)
    for j, support in enumerate(supports):
        beside = Beside(s, bases(w[:, :, :j]), orthogonal)
        gains, weights = beside.refit(support, beside.owners)
        variances += gains
        put(w, np.arange(m), j, Columns(support, weights, gains, beside.owners))
    return Points(w, variances)


def fitted(s: Array, near: Array, k: Counts, orthogonal: bool) -> Points:
    """The best loadings on the supports of others (m, d, r), cut off at ``k``.

    If supports admit no orthogonal columns, the variance is minus infinity.
    """
    if not len(near):
        return Points(near, np.zeros(0))
    supports = supports_of(near, k)
    if orthogonal and sum(k) > _TOGETHER:
        return _one_by_one(s, near, supports)
    points = in_order(s, supports, orthogonal)
    shared = np.flatnonzero(_overlap(points.w) & np.isfinite(points.variances))
    if not len(shared):
        return points
    part, of_it = points.at(shared), [support[shared] for support in supports]
    points.w[shared], points.variances[shared] = (
        _joint(s, part, of_it, near[shared]) if orthogonal else _in_turn(s, part, of_it)
    )
    return points


def _overlap(w: Array) -> NDArray[np.bool_]:
    """Whether the columns of loadings (m, d, r) share features."""
    return np.asarray((w != 0.0).sum(axis=2).max(axis=1, initial=0) > 1)


def _joint(s: Array, points: Points, supports: list[Index], near: Array) -> Points:
    """Orthogonal columns refitted together from those nearest to some others.

    Where the way to these is long, sparse Newton steps go it. Where there are none, the refit begins from the points.
    """
    shares = linked(supports, len(s))
    w, feasible = nearest(np.where(shares[:, None, :], near, points.w), supports)
    w, variances = np.where(feasible[:, None, None], w, points.w), np.full(len(w), -np.inf)
    far = np.flatnonzero(~feasible)
    if len(far):
        found = _approached(s, near[far], [support[far] for support in supports])
        variances[far] = found.variances
        there = np.isfinite(found.variances)
        w[far[there]] = found.w[there]
    left = np.flatnonzero(~np.isfinite(variances))
    w[left], variances[left] = refitted(s, w[left], [support[left] for support in supports], _STEPS)
    better = variances > points.variances
    return Points(np.where(better[:, None, None], w, points.w), np.maximum(variances, points.variances))


def _in_turn(s: Array, points: Points, supports: list[Index]) -> Points:
    """Columns that may overlap, refitted in turn."""
    for _ in range(_SWEEPS):
        for j, support in enumerate(supports):
            points = replaced(s, points, j, orthogonal=False, support=support)
    return points


def _one_by_one(s: Array, near: Array, supports: list[Index]) -> Points:
    """Orthogonal columns with many non-zeros in all: there, sparse Newton steps of each point are faster.

    Where there are no such columns near others, each is fitted beside those before it.
    """
    points = _approached(s, near, supports)
    none = np.flatnonzero(~np.isfinite(points.variances))
    if len(none):
        beside = in_order(s, [support[none] for support in supports], orthogonal=True)
        there = np.isfinite(beside.variances)
        k = tuple(support.shape[1] for support in supports)
        points.w[none[there]], points.variances[none[there]] = together(s, beside.at(there), k)
    return points


def _approached(s: Array, near: Array, supports: list[Index]) -> Points:
    """Orthogonal columns near others, refitted roughly by sparse Newton steps; minus infinity if there are none."""
    cut = np.zeros_like(near)
    at = np.arange(len(near))[:, None]
    for j, support in enumerate(supports):
        cut[at, support, j] = near[at, support, j]
    found = [nearest_orthogonal(s, w, rough=True) for w in cut]
    nothing = Fit(np.zeros(near.shape[1:]), -np.inf)
    return Points.of([nothing if fit is None else fit for fit in found])


def replaced(s: Array, points: Points, j: int, orthogonal: bool, support: Index) -> Points:
    """Column j of each point refitted on its support, where that gains."""
    beside = Beside(s, bases(np.delete(points.w, j, axis=2)), orthogonal)
    gains, weights = beside.refit(support, beside.owners)
    return _accepted(points, j, Columns(support, weights, gains, beside.owners), beside)


def _accepted(points: Points, j: int, columns: Columns, beside: Beside) -> Points:
    """Points with another column j, where that gains; at most one column for each."""
    after = beside.captured[columns.of] + columns.gains
    better = after > points.variances[columns.of] * (1.0 + GAIN)
    if not better.any():
        return points
    w, variances = points.w.copy(), points.variances.copy()
    put(w, columns.of[better], j, columns.at(better))
    variances[columns.of[better]] = after[better]
    return Points(w, variances)


def swept(
    s: Array, points: Points, k: Counts, orthogonal: bool, tuning: Tuning, *, sweeps: int, everywhere: bool = False
) -> Points:
    """Update columns in turn until nothing gains: from their values or, with ``everywhere``, from every feature too.

    A column is updated again only if a column of its point has changed since.
    """
    points = Points(points.w.copy(), points.variances.copy())
    stale = np.ones((len(points.variances), len(k)), dtype=bool)
    for sweep in range(sweeps):
        if tuning.late or not stale.any():
            break
        moved = np.full(len(stale), sweep == 0)
        for j, kj in enumerate(k):
            at = np.flatnonzero(stale[:, j])
            if len(at):
                gained = _replace(points, at, _updated(s, points.at(at), j, kj, orthogonal, tuning, everywhere))
                stale[at, j] = False
                stale[gained], moved[gained] = True, True
        at = np.flatnonzero(moved)
        if orthogonal and len(at):
            here = together(s, points.at(at), k)
            # with many components such steps gain nothing and take long; two columns are ranked as well without them
            if tuning.points > 1 and (everywhere or len(k) > 2):
                here = stepped(s, here, k)
            stale[_replace(points, at, here)] = True
    return points


def _replace(points: Points, at: Index, after: Points) -> Index:
    """Put other points in the place of some, in place; return those of them that gained."""
    gained = at[after.variances > points.variances[at] * (1.0 + GAIN)]
    points.w[at], points.variances[at] = after
    return gained


def together(s: Array, points: Points, k: Counts) -> Points:
    """Orthogonal columns whose supports overlap, refitted together."""
    shared = np.flatnonzero(_overlap(points.w))
    if not len(shared):
        return points
    part = points.at(shared)
    if sum(k) > _TOGETHER:
        after = Points.of([refit_orthogonal(s, w, rough=True) for w in part.w])
    else:
        after = Points(*refitted(s, part.w, supports_of(part.w, k), _STEPS))
    w, variances = points.w.copy(), points.variances.copy()
    better = after.variances > part.variances
    w[shared[better]], variances[shared[better]] = after.w[better], after.variances[better]
    return Points(w, variances)


def _updated(s: Array, points: Points, j: int, kj: int, orthogonal: bool, tuning: Tuning, everywhere: bool) -> Points:
    done = []
    for part in parts(len(points.variances), len(s)):
        here = points.at(part)
        beside = Beside(s, bases(np.delete(here.w, j, axis=2)), orthogonal)
        support = heaviest(np.abs(here.w[:, :, j]), min(kj, len(s)))
        gains, weights = beside.refit(support, beside.owners)
        known = np.isfinite(gains)
        found = climbed(beside, Columns(support, weights, gains, beside.owners).at(known), tuning)
        if everywhere:
            found = found.joined(best_of_each(beside, kj, tuning.quick())).ranked().top(1)
        done.append(_accepted(here, j, found, beside))
    return done[0] if len(done) == 1 else Points(*(np.concatenate(both) for both in zip(*done, strict=True)))


def stepped(s: Array, points: Points, k: Counts) -> Points:
    """A gradient step of all columns at once, truncated and refitted, accepted if it gains.

    Orthogonal columns with overlapping supports constrain each other: often none of them can move alone.
    """
    w = points.w
    image = s @ w
    inner = w.transpose(0, 2, 1) @ image
    own = inner.diagonal(axis1=1, axis2=2)
    weight = np.maximum(own, 1e-3 * np.abs(inner).max(axis=(1, 2))[:, None] + 1e-300)
    step = w + (image - w @ inner) / weight[:, None, :]
    named = np.zeros(w.shape, dtype=bool)
    for j, support in enumerate(supports_of(step, k)):
        named[np.arange(len(w))[:, None], support, j] = True
    moved = np.flatnonzero((named != (w != 0.0)).any(axis=(1, 2)))
    if not len(moved):
        return points
    trials = fitted(s, step[moved], k, orthogonal=True)
    w, variances = w.copy(), points.variances.copy()
    better = trials.variances > variances[moved] * (1.0 + GAIN)
    w[moved[better]], variances[moved[better]] = trials.w[better], trials.variances[better]
    return Points(w, variances)
