"""Where to look for the best point of the l1 problem, on any matrix that stands for S: a model of it, or S itself.

Local solves end in the nearest stationary point, and there are many. Starts come from the leading subspace, turned in
several ways, and from single features, which find the clusters that the leading subspace does not show. The best point
is then taken apart: each of its columns is looked for again, from every feature, beside the others.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedspca.linalg.proximal import L1Solution, minimise
from fedspca.linalg.quadratic import Quadratic
from fedspca.linalg.rotations import rotated, turned_pairs
from fedspca.linalg.soft_power import soft_power
from fedspca.linalg.sparse_stiefel import retract
from fedspca.linalg.splitting import split

Array = NDArray[np.float64]
Index = NDArray[np.intp]


@dataclass(frozen=True)
class Tuning:
    """How much the search does. More of anything finds better basins now and then, and takes longer.

    Attributes
    ----------
    features : int
        Heaviest features from which a column starts. A power step costs a product with as many columns.
    power_steps : int
        Thresholded power steps from each feature: enough to tell which clusters are best, not to solve.
    paths : int
        Starts that are built of single columns: each begins with another column, and goes on greedily.
    split_steps : int
        Steps of alternating directions for all starts at once, before they are ranked.
    solved : int
        Best starts that are solved to ``rough``.
    rough, fine : float
        Residuals to which starts are solved before, and after, the best of them is known.
    exchanges : int
        Times that columns of the best point are exchanged, while that gains.
    columns : int
        Columns from single features that are tried in the place of each, and pairs of columns that are turned.
    margin : float
        How far behind the best, relative to it, a point may be after alternating directions to be solved at all.
    many : int
        Components beyond which local solves are so dear that fewer starts are solved, and columns are not exchanged.
    """

    features: int = 150
    power_steps: int = 12
    paths: int = 3
    split_steps: int = 60
    solved: int = 6
    rough: float = 1e-2
    fine: float = 3e-3
    exchanges: int = 3
    columns: int = 2
    margin: float = 0.01
    many: int = 6


def first_look(q: Quadratic, lam: Array, basis: Array, tuning: Tuning) -> L1Solution:
    """One rough point, to show the model sparse columns."""
    start = rotated(basis, basis[:0])[-1]
    return _from_split(q, lam, start[None], tuning, n=1, tol=3.0 * tuning.rough)[0]


def search(
    q: Quadratic, lam: Array, basis: Array, rotations: Array, warm: Array | None, tuning: Tuning, *, tol: float
) -> list[L1Solution]:
    """Stationary points of ``-tr(w' Q w) + lam ||w||_1``, best first; the best to ``tol``, the others roughly.

    Parameters
    ----------
    q : Quadratic
        S, or what stands for it.
    basis : ndarray of shape (d, r)
        Its leading eigenvectors.
    rotations : ndarray of shape (n, r, r)
        Turns of the basis to start from.
    warm : ndarray of shape (d, r), optional
        A point to beat.
    """
    r = basis.shape[1]
    starts = rotated(basis, rotations)
    starts += list(_by_columns(q, lam, r, tuning.paths if r <= tuning.many else 1, tuning))
    solved = tuning.solved if r <= tuning.many else tuning.solved // 2
    found = _from_split(q, lam, np.array(starts), tuning, n=solved, tol=tuning.rough)
    if warm is not None:
        found.append(minimise(q, lam, warm, tol=tuning.rough))
    found.sort(key=lambda s: s.objective)
    for _ in range(tuning.exchanges if r <= tuning.many else 0):
        better = _exchanged(q, lam, found[0], tuning)
        found = sorted(better + found, key=lambda s: s.objective)
        if not better or better[0] is not found[0]:
            break
    found = distinct(found)
    return [_solved(q, lam, found[0], tol), *found[1:]]


def distinct(solutions: list[L1Solution], *, within: float = 1e-4) -> list[L1Solution]:
    """Drop repeats: the same objective, relatively, is taken for the same point."""
    kept: list[L1Solution] = []
    for s in solutions:
        if all(abs(s.objective - k.objective) > within * abs(k.objective) for k in kept):
            kept.append(s)
    return kept


def _solved(q: Quadratic, lam: Array, s: L1Solution, tol: float) -> L1Solution:
    return s if s.residual <= tol else minimise(q, lam, s.w, tol=tol, multiplier=s.multiplier)


def _from_split(q: Quadratic, lam: Array, starts: Array, tuning: Tuning, *, n: int, tol: float) -> list[L1Solution]:
    """The n best of many starts after alternating directions, solved locally."""
    rough = split(q, lam, starts, steps=tuning.split_steps)
    order = np.argsort(rough.values, kind="stable")[:n]
    return [minimise(q, lam, _sparse(rough.w[i], rough.z[i]), tol=tol, max_iter=40) for i in order]


def _sparse(w: Array, z: Array) -> Array:
    """The orthonormal matrix on the support of z; where there is none, w."""
    near = retract(z)
    return w if near is None else near


def _heavy(q: Quadratic, n: int) -> Index:
    """The n features of largest variance; the earlier of equals."""
    return np.sort(np.argsort(-q.diagonal(), kind="stable")[:n])


def _by_columns(q: Quadratic, lam: Array, r: int, paths: int, tuning: Tuning) -> Iterator[Array]:
    """Starts of single columns, one beside the other: each path begins with another of the best first columns."""
    features, nothing = _heavy(q, tuning.features), np.zeros((q.n_rows, 0))
    first = soft_power(q, float(lam[0]), features, nothing, steps=tuning.power_steps)
    for x in first.x.T[:paths]:
        w = x[:, None]
        for j in range(1, r):
            following = soft_power(q, float(lam[j]), features, w, steps=tuning.power_steps)
            w = _beside(w, following.x[:, 0])
        yield w


def _beside(w: Array, x: Array) -> Array:
    """Orthonormal w with one more column: what x has off them."""
    for _ in range(2):
        x = x - w @ (w.T @ x)
        size = float(np.sqrt(x @ x))
        if size < 1e-8:  # nothing is left of x: the coordinate that w covers least
            x = np.zeros(len(x))
            x[np.argmin(np.einsum("ij,ij->i", w, w))] = 1.0
            return _beside(w, x)
        x = x / size
    return np.column_stack([w, x])


def _exchanged(q: Quadratic, lam: Array, best: L1Solution, tuning: Tuning) -> list[L1Solution]:
    """Points near the best that differ from it in a column or two, solved where they promise as much."""
    trials = [best.w, *_with_other_columns(q, lam, best.w, tuning), *turned_pairs(best.w, tuning.columns)]
    rough = split(q, lam, np.array(trials), steps=tuning.split_steps // 2)
    worth = rough.values <= rough.values[0] + tuning.margin * abs(rough.values[0])
    order = [i for i in np.argsort(rough.values, kind="stable") if i and worth[i]]
    found = [minimise(q, lam, _sparse(rough.w[i], rough.z[i]), tol=tuning.rough, max_iter=40) for i in order[:tuning.solved]]
    return sorted((s for s in found if s.objective < best.objective), key=lambda s: s.objective)


def _with_other_columns(q: Quadratic, lam: Array, w: Array, tuning: Tuning) -> Iterator[Array]:
    """The point with one column replaced by the best that start from single features beside the others."""
    features = _heavy(q, tuning.features)
    for j in range(w.shape[1]):
        others = np.delete(w, j, axis=1)
        found = soft_power(q, float(lam[j]), features, others, steps=tuning.power_steps)
        fresh = [x for x in found.x.T[: tuning.columns + 1] if abs(float(x @ w[:, j])) < 0.999][: tuning.columns]
        for x in fresh:
            trial = _beside(others, x)
            yield np.insert(trial[:, :-1], j, trial[:, -1], axis=1)
