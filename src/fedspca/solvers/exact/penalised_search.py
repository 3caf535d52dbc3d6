"""Where to look for the best point of the l1 problem, on any matrix that stands for S: a model of it, or S itself.

Local solves end in the nearest stationary point, and there are many. Starts come from the leading subspace, turned in
several ways, and from single features, which find the clusters that the leading subspace does not show. The best point
is then taken apart: each of its columns is looked for again, from every feature, beside the others.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from fedspca.linalg.proximal import L1Solution, minimise
from fedspca.linalg.quadratic import Quadratic
from fedspca.linalg.rotations import rotated, turned_pairs
from fedspca.linalg.soft_power import soft_power
from fedspca.linalg.sparse_stiefel import retract
from fedspca.linalg.splitting import objectives, orthonormal, split

Array = NDArray[np.float64]
Index = NDArray[np.intp]

_ALIKE = 0.99  # cosine beyond which two columns are taken for one


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
        Best starts that are solved to ``rough``: what finds basins, and most of the time.
    rough, fine : float
        Residuals to which starts are solved before, and after, the best of them is known.
    steps : int
        The most proximal steps of such a solve.
    exchanges : int
        Times that columns of the best point are exchanged, while that gains.
    columns : int
        Columns, the best beside the others, that are tried in the place of each; pairs of columns that are turned.
    basins : int
        Columns, the best alone, that are tried in the place of each.
    trials : int
        The most points with exchanged columns that go through alternating directions, those without the worst first.
    turns : int
        The most rotations to start from; in the plane, where none are handed over, so many are spread evenly.
    easy : int
        r³ up to which all this is done. Beyond, counts shrink in proportion, so that time grows mildly with r.
    some : int
        Components up to which no fewer starts are solved, nor less exactly.
    wide : int
        Features in sight up to which all this is done. Beyond, columns start from fewer of them in proportion, and
        other counts shrink as the root: the model is then only a guess of S, and is searched again as it gets better.
    kept : int
        Points that are asked about together, where the model is not all of S.
    many : int
        Components beyond which there are fewer rounds of search, and half as many points in each.
    """

    features: int = 150
    power_steps: int = 8
    paths: int = 3
    split_steps: int = 25
    solved: int = 16
    rough: float = 1e-2
    fine: float = 3e-3
    steps: int = 40
    exchanges: int = 3
    columns: int = 2
    basins: int = 8
    trials: int = 60
    turns: int = 12
    easy: int = 500
    some: int = 10
    wide: int = 200
    kept: int = 8
    many: int = 6

    def at(self, d: int, r: int) -> "Tuning":
        """The same for d features in sight and r components, as much as these are worth."""
        share = min(1.0, self.easy / r**3)
        wide = min(1.0, self.wide / d)

        def part(count: int, least: int, share: float = share * wide**0.5) -> int:
            return max(least, round(share * count))

        return replace(
            self,
            features=part(self.features, min(self.features, 40), share * wide),
            paths=part(self.paths, 1),
            solved=part(self.solved, 3, min(1.0, (self.some / r) ** 2) * wide**0.5),
            steps=part(self.steps, 10, min(1.0, 1.5 * self.some / r)),
            exchanges=part(self.exchanges, 1),
            columns=part(self.columns, 1),
            basins=part(self.basins, 1),
            trials=part(self.trials, 6),
            turns=part(self.turns, 4, share),
        )


def first_look(q: Quadratic, lam: Array, basis: Array, tuning: Tuning) -> L1Solution:
    """One rough point, to show the model sparse columns."""
    starts = np.array([rotated(basis, basis[:0])[-1], _single_features(q, basis.shape[1])])
    return _from_split(q, lam, starts, replace(tuning, solved=1))[0]


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
    r, tuning = basis.shape[1], tuning.at(*basis.shape)
    turns = _plane_turns(tuning.turns) if r == 2 and not len(rotations) else rotations[: tuning.turns]
    starts = [*rotated(basis, turns), _single_features(q, r)]
    starts += list(_by_columns(q, lam, r, tuning))
    found = _from_split(q, lam, np.array(starts), tuning)
    if warm is not None:
        found.append(minimise(q, lam, warm, tol=tuning.rough))
    found.sort(key=lambda s: s.objective)
    alone = _alone(q, lam, tuning)
    for _ in range(tuning.exchanges):
        better = _exchanged(q, lam, found[0], alone, tuning)
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


def _from_split(q: Quadratic, lam: Array, starts: Array, tuning: Tuning) -> list[L1Solution]:
    """The best of many starts after alternating directions, solved locally; one that was better stays as it was."""
    rough, before = split(q, lam, starts, steps=tuning.split_steps), objectives(q, lam, starts)
    order = np.argsort(np.minimum(rough.values, before), kind="stable")[: tuning.solved]
    if 0 not in order:  # the first is solved whatever its rank: many columns settle late
        order[-1] = 0
    points = (starts[i] if before[i] < rough.values[i] else _sparse(rough.w[i], rough.z[i]) for i in order)
    return [minimise(q, lam, w, tol=tuning.rough, max_iter=tuning.steps) for w in points]


def _sparse(w: Array, z: Array) -> Array:
    """The orthonormal matrix on the support of z; where there is none, w."""
    near = retract(z)
    return w if near is None else near


def _heavy(q: Quadratic, n: int) -> Index:
    """The n features of largest variance; the earlier of equals."""
    return np.sort(np.argsort(-q.diagonal(), kind="stable")[:n])


def _plane_turns(n: int) -> Array:
    """Rotations of the plane, evenly spread over a quarter turn: a half-way round is an exchange of the columns."""
    angles = 0.5 * np.pi * np.arange(1, n + 1) / (n + 1)
    c, s = np.cos(angles), np.sin(angles)
    return np.stack([np.stack([c, -s], axis=1), np.stack([s, c], axis=1)], axis=1)


def _single_features(q: Quadratic, r: int) -> Array:
    """The r heaviest features, one a column: the best point where lam is large, or r nearly d."""
    w = np.zeros((q.n_rows, r))
    w[np.argsort(-q.diagonal(), kind="stable")[:r], np.arange(r)] = 1.0
    return w


def _by_columns(q: Quadratic, lam: Array, r: int, tuning: Tuning) -> Iterator[Array]:
    """Starts of single columns, one beside the other: each path begins with another of the best first columns."""
    features, nothing = _heavy(q, tuning.features), np.zeros((q.n_rows, 0))
    first = soft_power(q, float(lam[0]), features, nothing, steps=tuning.power_steps)
    for x in first.x.T[: tuning.paths]:
        w = x[:, None]
        for j in range(1, r):
            following = soft_power(q, float(lam[j]), features, w, steps=tuning.power_steps)
            w = _beside(w, following.x[:, 0])
        yield w


def _alone(q: Quadratic, lam: Array, tuning: Tuning) -> Array:
    """The best columns for one component, each of another basin."""
    found = soft_power(
        q, float(lam.min()), _heavy(q, tuning.features), np.zeros((q.n_rows, 0)), steps=tuning.power_steps
    )
    return found.x[:, : tuning.basins]


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


def _exchanged(q: Quadratic, lam: Array, best: L1Solution, alone: Array, tuning: Tuning) -> list[L1Solution]:
    """Points near the best that differ from it in a column or two, solved where they promise most."""
    others = islice(_with_other_columns(q, lam, best.w, alone, tuning), tuning.trials)
    trials = [*others, *turned_pairs(best.w, tuning.columns)]
    if not trials:
        return []
    found = _from_split(q, lam, np.array(trials), tuning)
    return sorted((s for s in found if s.objective < best.objective), key=lambda s: s.objective)


def _with_other_columns(q: Quadratic, lam: Array, w: Array, alone: Array, tuning: Tuning) -> Iterator[Array]:
    """The point with one column replaced: by those that are best beside the others, and by those that are best alone.

    The latter may overlap with the others, which then make room for them.
    """
    features = _heavy(q, tuning.features)
    worst_first = np.argsort(np.einsum("ij,ij->j", w, q @ w) - lam * np.abs(w).sum(axis=0), kind="stable")
    for j in worst_first:
        others = np.delete(w, j, axis=1)
        beside = soft_power(q, float(lam[j]), features, others, steps=tuning.power_steps).x[:, : tuning.columns]
        fresh = np.hstack([beside, alone])
        for x in fresh[:, np.abs(fresh.T @ w).max(axis=1) < _ALIKE].T:
            trial = w.copy()
            trial[:, j] = x
            yield orthonormal(trial)
