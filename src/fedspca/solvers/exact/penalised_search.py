"""Search for the best point of the l1 problem, on S itself or on a model of S.

Local solves end in the nearest stationary point, and there are many. Starts are several rotations of the leading
subspace, and single features. Single features find clusters that the leading subspace does not show. Then each column
of the best point is searched again, from every feature, given the other columns.
"""

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from fedspca.linalg.proximal import L1Solution, minimise
from fedspca.linalg.quadratic import Quadratic
from fedspca.linalg.rotations import rotated, turned_pairs
from fedspca.linalg.soft_power import soft_power
from fedspca.linalg.sparse_stiefel import retract
from fedspca.linalg.splitting import objectives, orthonormal, split
from fedspca.solvers.exact.tuning import PenalisedTuning

Array = NDArray[np.float64]
Index = NDArray[np.intp]


def first_look(q: Quadratic, lam: Array, basis: Array, tuning: PenalisedTuning) -> L1Solution:
    """One rough point, which provides sparse columns for the model."""
    starts = np.array([rotated(basis, basis[:0])[-1], _single_features(q, basis.shape[1])])
    return _from_split(q, lam, starts, replace(tuning, solved=1))[0]


def search(
    q: Quadratic, lam: Array, basis: Array, rotations: Array, warm: Array | None, tuning: PenalisedTuning, *, tol: float
) -> list[L1Solution]:
    """Stationary points of ``-tr(w' Q w) + lam ||w||_1``, best first; the best to ``tol``, the others roughly.

    Parameters
    ----------
    q : Quadratic
        S, or a model of S.
    basis : ndarray of shape (d, r)
        Its leading eigenvectors.
    rotations : ndarray of shape (n, r, r)
        Rotations of the basis to start from.
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
        if tuning.late:
            break
        better = _exchanged(q, lam, found[0], alone, tuning)
        found = sorted(better + found, key=lambda s: s.objective)
        if not better or better[0] is not found[0]:
            break
    found = distinct(found)
    return [found[0] if tuning.late else _solved(q, lam, found[0], tol), *found[1:]]


def distinct(solutions: list[L1Solution], *, within: float = 1e-4) -> list[L1Solution]:
    """Drop repetitions: points whose objectives agree up to ``within``, relatively, count as the same."""
    kept: list[L1Solution] = []
    for s in solutions:
        if all(abs(s.objective - k.objective) > within * abs(k.objective) for k in kept):
            kept.append(s)
    return kept


def _solved(q: Quadratic, lam: Array, s: L1Solution, tol: float) -> L1Solution:
    return s if s.residual <= tol else minimise(q, lam, s.w, tol=tol, multiplier=s.multiplier)


def _from_split(q: Quadratic, lam: Array, starts: Array, tuning: PenalisedTuning) -> list[L1Solution]:
    """The best of many starts after ADMM, solved locally; a start that was better than its solution is kept."""
    rough, before = split(q, lam, starts, steps=tuning.split_steps), objectives(q, lam, starts)
    order = np.argsort(np.minimum(rough.values, before), kind="stable")[: tuning.solved]
    if 0 not in order:  # the first start is always solved: with many columns, ADMM converges late
        order[-1] = 0
    points = (starts[i] if before[i] < rough.values[i] else _sparse(rough.w[i], rough.z[i]) for i in order)
    solved = []
    for w in points:
        solved.append(minimise(q, lam, w, tol=tuning.rough, max_iter=tuning.steps))
        if tuning.late:
            break
    return solved


def _sparse(w: Array, z: Array) -> Array:
    """The orthonormal matrix on the support of z; where there is none, w."""
    near = retract(z)
    return w if near is None else near


def _heavy(q: Quadratic, n: int) -> Index:
    """The n features of largest variance; the earlier of equals."""
    return np.sort(np.argsort(-q.diagonal(), kind="stable")[:n])


def _plane_turns(n: int) -> Array:
    """Rotations of the plane, evenly spaced over 90 degrees: a turn by 90 degrees only exchanges the columns."""
    angles = 0.5 * np.pi * np.arange(1, n + 1) / (n + 1)
    c, s = np.cos(angles), np.sin(angles)
    return np.stack([np.stack([c, -s], axis=1), np.stack([s, c], axis=1)], axis=1)


def _single_features(q: Quadratic, r: int) -> Array:
    """The r features of largest variance, one per column: the best point if lam is large, or r is nearly d."""
    w = np.zeros((q.n_rows, r))
    w[np.argsort(-q.diagonal(), kind="stable")[:r], np.arange(r)] = 1.0
    return w


def _by_columns(q: Quadratic, lam: Array, r: int, tuning: PenalisedTuning) -> Iterator[Array]:
    """Starts built column by column: each begins with a different one of the best single columns."""
    features, nothing = _heavy(q, tuning.features), np.zeros((q.n_rows, 0))
    first = soft_power(q, float(lam[0]), features, nothing, steps=tuning.power_steps)
    for x in first.x.T[: tuning.paths]:
        w = x[:, None]
        for j in range(1, r):
            following = soft_power(q, float(lam[j]), features, w, steps=tuning.power_steps)
            w = _beside(w, following.x[:, 0])
        yield w


def _alone(q: Quadratic, lam: Array, tuning: PenalisedTuning) -> Array:
    """The best columns for one component, each a different local optimum."""
    found = soft_power(
        q, float(lam.min()), _heavy(q, tuning.features), np.zeros((q.n_rows, 0)), steps=tuning.power_steps
    )
    return found.x[:, : tuning.basins]


def _beside(w: Array, x: Array) -> Array:
    """Orthonormal w with one more column: the part of x orthogonal to w, normalised."""
    for _ in range(2):
        x = x - w @ (w.T @ x)
        size = float(np.sqrt(x @ x))
        if size < 1e-8:  # nothing is left of x: the coordinate that w covers least
            x = np.zeros(len(x))
            x[np.argmin(np.einsum("ij,ij->i", w, w))] = 1.0
            return _beside(w, x)
        x = x / size
    return np.column_stack([w, x])


def _exchanged(q: Quadratic, lam: Array, best: L1Solution, alone: Array, tuning: PenalisedTuning) -> list[L1Solution]:
    """Points that differ from the best one in one or two columns; the most promising ones are solved."""
    others = islice(_with_other_columns(q, lam, best.w, alone, tuning), tuning.trials)
    trials = [*others, *turned_pairs(best.w, tuning.columns)]
    if not trials:
        return []
    found = _from_split(q, lam, np.array(trials), tuning)
    return sorted((s for s in found if s.objective < best.objective), key=lambda s: s.objective)


def _with_other_columns(q: Quadratic, lam: Array, w: Array, alone: Array, tuning: PenalisedTuning) -> Iterator[Array]:
    """The point with one column replaced: by those that are best beside the others, and by those that are best alone.

    The latter may overlap with the other columns, which are then changed to stay orthonormal.
    """
    features = _heavy(q, tuning.features)
    worst_first = np.argsort(np.einsum("ij,ij->j", w, q @ w) - lam * np.abs(w).sum(axis=0), kind="stable")
    for j in worst_first:
        others = np.delete(w, j, axis=1)
        beside = soft_power(q, float(lam[j]), features, others, steps=tuning.power_steps).x[:, : tuning.columns]
        fresh = np.hstack([beside, alone])
        for x in fresh[:, np.abs(fresh.T @ w).max(axis=1) < tuning.alike].T:
            trial = w.copy()
            trial[:, j] = x
            yield orthonormal(trial)
