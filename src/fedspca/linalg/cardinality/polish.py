"""Refit of all columns together, on fixed supports."""

from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lapack

from fedspca.linalg.cardinality.beside import best_beside
from fedspca.linalg.compiled import fewest
from fedspca.linalg.compiled.library import library
from fedspca.linalg.newton import Surrogate, polish
from fedspca.linalg.quadratic import DenseQuadratic
from fedspca.linalg.small import eigenpairs, largest_eigenpairs, solve_positive
from fedspca.linalg.sparse_stiefel import retract

Array = NDArray[np.float64]
Index = NDArray[np.intp]

_NEWTON_TOL, _NEWTON_STEPS = 1e-11, 40
_ROUGH_TOL, _ROUGH_STEPS = 1e-4, 3
_ORTHONORMAL = 1e-15  # rounding error of w' w - I if supports are disjoint
_STILL, _ROUNDS = 1e-14, 150  # a round that gains less than this share of the variance is the last
_ROUGH_STILL, _ROUGH_ROUNDS = 1e-5, 1  # the same, if points are only to be ranked
_DEPENDENT = 1e-12  # share of the largest eigenvalue of w' w
_FAR_APART = 0.1  # if the sine between every column and the earlier ones is above this, squaring costs two digits
_RIDGE, _FLAT = 1e-9, 1e-3  # shares of the largest curvature, as in `together.py`
_LENGTHS = (1.0, 0.3, 0.09)  # of a Newton step
# sine between a column and the earlier ones: linked columns capture the more, the more parallel they are, without end
_PARALLEL, _ALMOST_STILL = 5e-4, 1e-8  # a round that gains less than this share is then the last
_NEAR, _LAST = 1e-5, 3  # a Newton step shorter than this doubles the digits; three have them all
_LAST_RIDGE = 1e-7  # for the last steps: where weights can change and the span stays, rounding errors must not grow
_SMALL_GAIN = 1e-8  # share of the variance: a full Newton step that gains less ends at the maximum up to rounding
_FEW = 200  # non-zeros: with more, entries of a Hessian that are indexed one by one take longer than more calls


class Fit(NamedTuple):
    """Loadings w (d x r) and the variance that their span captures."""

    w: Array
    variance: float

    @property
    def supports(self) -> tuple[Index, ...]:
        """The features of each column."""
        return tuple(np.flatnonzero(column) for column in self.w.T)


def orthonormal_basis(w: Array) -> Array:
    """An orthonormal basis of span(w). It has as many columns as w has rank."""
    w = w[:, w.any(axis=0)]
    if w.shape[1] == 0:
        return w
    if w.shape[1] == 1:
        return np.asarray(w / np.linalg.norm(w))
    gram = w.T @ w
    if float(np.abs(gram - np.eye(len(gram))).max()) < _ORTHONORMAL:
        return w
    values, vectors = eigenpairs(gram)
    keep = values > _DEPENDENT * values[-1]
    return np.asarray(np.linalg.qr(w @ (vectors[:, keep] / np.sqrt(values[keep])))[0])


def captured(s: Array, w: Array) -> float:
    """``tr((w' w)^+ w' S w)``, the variance that span(w) captures."""
    factor, info = lapack.dpotrf(w.T @ w)
    if not info and float(factor.diagonal().min()) > _FAR_APART:  # columns have length one
        return float(np.trace(lapack.dpotrs(factor, w.T @ (s @ w))[0]))
    basis = orthonormal_basis(w)
    return float(np.vdot(basis, s @ basis))


def refit_apart(s: Array, w: Array) -> Fit | None:
    """Argmax of the variance of span(w) on disjoint supports, one eigenproblem each. None if supports overlap."""
    named = w != 0.0
    if not named.any(axis=0).all() or int(named.sum(axis=1).max()) > 1:
        return None
    z, variance = np.zeros_like(w), 0.0
    for j, column in enumerate(named.T):
        support = np.flatnonzero(column)
        values, vectors = largest_eigenpairs(s[np.ix_(support, support)], 1)
        z[support, j] = vectors[:, 0]
        variance += float(values[0])
    return Fit(z, variance)


def refit_orthogonal(s: Array, w: Array, *, rough: bool = False) -> Fit:
    """Argmax of ``tr(w' S w)`` over orthonormal w on the supports of w: Newton steps on the sparse Stiefel manifold."""
    kernels = library()
    if kernels is not None and fewest.fits([w]):
        found = fewest.refit(kernels, s, w, rough=rough)
        if found is not None:
            return Fit(*found)
    return refit_apart(s, w) or _grouped(s, w, partial(_refit_orthogonal, rough=rough))


def groups(w: Array) -> list[Index]:
    """The columns of w, in groups that share features: the columns of different groups do not constrain each other."""
    named = (w != 0.0).astype(float)
    if int(named.sum(axis=1).max(initial=0.0)) <= 1:
        return list(np.arange(w.shape[1])[:, None])
    reach = named.T @ named > 0.0
    np.fill_diagonal(reach, val=True)  # a column without an entry is a group of its own
    while True:
        further = reach.astype(float) @ reach > 0.0
        if (further == reach).all():
            break
        reach = further
    first = np.argmax(reach, axis=1)
    return [np.flatnonzero(first == j) for j in np.unique(first)]


def refit_free(s: Array, w: Array, *, rough: bool = False) -> Fit:
    """Argmax of the variance of span(w) over w on the supports of w: columns updated in turn, and Newton steps."""
    return refit_apart(s, w) or _grouped(s, w, partial(_refit_free, rough=rough))


def _grouped(s: Array, w: Array, refit: Callable[[Array, Array], Fit]) -> Fit:
    """Refit columns together that share features, directly or through others: groups do not depend on each other."""
    named = w != 0.0
    z, variance = np.zeros_like(w), 0.0
    for columns in groups(w):
        rows = np.flatnonzero(named[:, columns].any(axis=1))
        if not len(rows):  # S has too low a rank for so many columns
            continue
        part, inside = s[np.ix_(rows, rows)], w[np.ix_(rows, columns)]
        fit = refit_apart(part, inside) or refit(part, inside)
        z[np.ix_(rows, columns)] = _apart(fit.w, part)
        variance += fit.variance
    return Fit(z, variance)


def _refit_orthogonal(s: Array, w: Array, rough: bool) -> Fit:
    tol, steps = (_ROUGH_TOL, _ROUGH_STEPS) if rough else (_NEWTON_TOL, _NEWTON_STEPS)
    problem = Surrogate(DenseQuadratic(s), np.zeros_like(w), np.zeros(w.shape[1]))
    half = s @ w
    z, _, value, *_ = polish(problem, w, half, -float(np.vdot(w, half)), tol, max_newton=steps, keep_signs=False)
    return Fit(z, -value)


def _refit_free(s: Array, w: Array, rough: bool) -> Fit:
    """Sweeps over all columns, which always gain, and Newton steps, which converge fast near the end."""
    still, rounds = (_ROUGH_STILL, _ROUGH_ROUNDS) if rough else (_STILL, _ROUNDS)
    supports = [np.flatnonzero(column) for column in w.T]
    few = (
        not rough and np.count_nonzero(w) <= _FEW
    )  # with more, a Newton step takes long, and the last one has most digits
    if few and _nested(w):  # multiples of the smaller column may be added to the larger one: a rule decides
        w = _in_turn(s, w, supports)
    best = Fit(w, captured(s, w))
    if few and (exact := _all_digits(s, best)) is not None:
        return exact
    for _ in range(rounds):
        before, z = best, _in_turn(s, best.w, supports)
        steps, concave = _newton(s, z)
        turned, *stepped = (Fit(x, captured(s, x)) for x in (z, *(x for x in steps if not nearly_dependent(x))))
        best = max([turned, *stepped], key=lambda fit: fit.variance)
        if concave and stepped and best is stepped[0] and best.variance <= turned.variance * (1.0 + _SMALL_GAIN):
            break  # the next step would gain about the square of this gain
        if best.variance <= before.variance * (1.0 + (_ALMOST_STILL if nearly_dependent(best.w) else still)):
            break
    return (_all_digits(s, best) or best) if few else best


def nearly_dependent(w: Array) -> bool:
    """Whether a column of length one is almost a combination of the earlier ones."""
    factor, info = lapack.dpotrf(w.T @ w)
    return bool(info) or float(factor.diagonal().min()) < _PARALLEL


def _nested(w: Array) -> bool:
    """Whether a column has all the features of another one."""
    named = (w != 0.0).astype(float)
    shared = named.T @ named
    return bool((shared >= shared.diagonal()).sum() > len(shared))


def _all_digits(s: Array, fit: Fit) -> Fit | None:
    """The maximum by Newton steps alone, if it is near: variances say nothing of the last eight digits of weights."""
    w = fit.w
    for _ in range(_LAST):
        step, concave = _newton_step(s, w, _LAST_RIDGE)
        if not concave or float(np.linalg.norm(step)) > _NEAR:
            return None
        w = (w + step) / np.linalg.norm(w + step, axis=0)
    variance = captured(s, w)
    return Fit(w, variance) if variance >= fit.variance * (1.0 - 1e-12) else None


def _newton(s: Array, w: Array) -> tuple[list[Array], bool]:
    """Loadings after Newton steps of some lengths, none if there is no step; and whether w is near a maximum."""
    step, concave = _newton_step(s, w, _RIDGE)
    if not step.any():
        return [], False
    return [(w + length * step) / np.linalg.norm(w + length * step, axis=0) for length in _LENGTHS], concave


def _newton_step(s: Array, w: Array, ridge: float) -> tuple[Array, bool]:
    """A Newton step on ``tr((w' w)^-1 w' S w)`` over the non-zeros of w, and whether w is near a maximum.

    The step is zero if w is dependent, or if its span contains all of S on its features: nothing is curved then.

    Where the Hessian is indefinite, the slope is divided by absolute curvatures, and the step leaves a saddle point.
    """
    gram = w.T @ w
    inverse = solve_positive(gram, np.eye(len(gram)))
    if inverse is None:
        return np.zeros_like(w), False
    image = s @ w
    dual, core = w @ inverse, w.T @ image
    slope = image @ inverse - dual @ (core @ inverse)
    i, a = np.nonzero(w.T)
    hessian = _hessian(s, w, dual, slope, image - 0.5 * dual @ core, inverse, inverse @ core @ inverse)
    size = float(np.abs(hessian.diagonal()).max())
    if not size > 0.0:  # as where the rest of S has no variance
        return np.zeros_like(w), False
    ends = np.searchsorted(i, np.arange(len(gram) + 1)).tolist()
    for start, end in pairwise(ends):  # the length of a column does not count
        x = w[a[start:end], i[start]]
        hessian[start:end, start:end] -= np.outer(size * x, x)
    hessian.flat[:: len(a) + 1] -= ridge * size  # nor does what leaves the span as it is
    along = solve_positive(-hessian.T, slope[a, i])
    concave = along is not None
    if along is None:
        values, vectors = eigenpairs(hessian)
        along = vectors @ ((vectors.T @ slope[a, i]) / np.maximum(np.abs(values), _FLAT * size))
    step = np.zeros_like(w)
    step[a, i] = along
    return step, concave


def _hessian(s: Array, w: Array, dual: Array, slope: Array, rest: Array, inverse: Array, core: Array) -> Array:
    """Half of the second derivative of ``tr((w' w)^-1 w' S w)`` over the non-zeros of w, one column after the other.

    With the dual basis ``B = w (w' w)^-1``, P the projection on span(w) and ``Q = I - P`` the gradient is ``2 N`` for
    the ``slope`` ``N = Q S B``. The second derivative with regard to the entries (a, i) and (b, j) is twice
    ``(Q S Q)_ab (w' w)^-1_ij - Q_ab (B' S B)_ij - B_aj N_bi - N_aj B_bi``, where ``Q S Q = S - B R' - R B'`` for the
    ``rest`` R, and ``Q = I - B w'``: for two columns, S and a matrix of low rank.
    """
    i, a = np.nonzero(w.T)
    if len(a) <= _FEW:
        cross, mixed = rest @ dual.T, dual[a[:, None], i] * slope[a[:, None], i].T
        curved, off = s - (cross + cross.T), np.eye(len(w)) - dual @ w.T
        return np.asarray(curved[a][:, a] * inverse[i][:, i] - off[a][:, a] * core[i][:, i] - (mixed + mixed.T))
    one = (i[:, None] == np.arange(w.shape[1])).astype(float)
    left, hessian = np.hstack([dual, rest, slope])[a], s[np.ix_(a, a)]
    for j, (weights, own) in enumerate(zip(inverse[i].T[:, :, None], core[i].T[:, :, None], strict=True)):
        mine = slice(*np.searchsorted(i, [j, j + 1]))
        right = [weights * rest[a] - own * w[a] + one * slope[a, j, None], weights * dual[a], one * dual[a, j, None]]
        hessian[mine] *= weights[:, 0]
        hessian[mine] -= left[mine] @ np.hstack(right).T
    entry, other = np.nonzero(a[:, None] == a)
    hessian[entry, other] -= core[i[entry], i[other]]
    return hessian


def _in_turn(s: Array, w: Array, supports: list[Index]) -> Array:
    """Each column replaced by the best one on its support beside the others, with the sign that it had.

    The others enter by their rows on the support, and by their inner products, which change with each column.
    """
    z = w.copy()
    image = s @ z
    gram, form = z.T @ z, z.T @ image
    for j, support in enumerate(supports):  # `np.ix_` would take as long as the products
        others, down = np.array([i for i in range(len(supports)) if i != j], dtype=np.intp), support[:, None]
        turn = _orthonormalising(gram[others[:, None], others])
        inside, out = z[down, others] @ turn, image[down, others] @ turn
        inner = turn.T @ form[others[:, None], others] @ turn
        gain, x = best_beside(s[down, support], inside, out, inner)
        if np.isfinite(gain):
            z[support, j] = x if float(x @ z[support, j]) >= 0.0 else -x
            image[:, j] = s[:, support] @ z[support, j]
            gram[:, j] = gram[j] = z[support].T @ z[support, j]
            form[:, j] = form[j] = image[support].T @ z[support, j]
    return z


def _orthonormalising(gram: Array) -> Array:
    """The T with ``T' (w' w) T = I``, for the columns of w that are independent of each other."""
    factor, info = lapack.dpotrf(gram, clean=1)
    if not info and float(factor.diagonal().min()) > _FAR_APART * float(factor.diagonal().max()):
        return np.asarray(lapack.dtrtri(factor)[0])
    values, vectors = eigenpairs(gram)
    keep = values > _DEPENDENT * values[-1]
    return np.asarray(vectors[:, keep] / np.sqrt(values[keep]))


def nearest_orthogonal(s: Array, w: Array, *, rough: bool = False) -> Fit | None:
    """Orthonormal columns on the same supports, refitted; None if these supports admit none."""
    kernels = library()
    if kernels is not None and fewest.fits([w]):
        found = fewest.refit(kernels, s, w, rough=rough, retracted=True)
        return None if found is None else Fit(*found)
    apart = refit_apart(s, w)
    if apart is not None:
        return apart
    near = np.zeros_like(w)
    for columns in groups(w):
        z = retract(w[:, columns])
        if z is None:
            return None
        near[:, columns] = z
    return refit_orthogonal(s, near, rough=rough)


def _apart(w: Array, s: Array) -> Array:
    """The same span, with the columns that share a support rotated to be uncorrelated. The variance does not change."""
    groups: dict[bytes, list[int]] = {}
    for j, column in enumerate((w != 0.0).T):
        groups.setdefault(column.tobytes(), []).append(j)
    for group in groups.values():
        if len(group) > 1:
            basis = orthonormal_basis(w[:, group])
            if basis.shape[1] == len(group):
                vectors = eigenpairs(basis.T @ s @ basis)[1]
                w[:, group] = np.where(w[:, group] != 0.0, basis @ vectors[:, ::-1], 0.0)
    return w
