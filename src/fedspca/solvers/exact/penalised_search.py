"""Search for the best point of the l1 problem, on S itself or on a model of S.

Local solves end in the nearest stationary point, and there are many. Starts are several rotations of the leading
subspace, and single features. Single features find clusters that the leading subspace does not show. All starts take
steps of ADMM together, as one stack; the worse ones are dropped on the way, and the best are solved. Then each column
of the best point is searched again, from every feature, given the other columns.
"""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from fedspca.linalg.certificate import certify
from fedspca.linalg.proximal import L1Solution, minimise
from fedspca.linalg.quadratic import Quadratic
from fedspca.linalg.rotations import pairs, rotated, turned_pairs
from fedspca.linalg.soft_power import Columns, soft_power
from fedspca.linalg.sparse_stiefel import retract_with_signs
from fedspca.linalg.splitting import nearest, objectives, settle, split
from fedspca.solvers.exact.tuning import PenalisedTuning

Array = NDArray[np.float64]
Index = NDArray[np.intp]

# ADMM converges slowly: it ends a little before the residual asked for, which is a tenth of that of the certificate
SETTLED, ACCEPTED = 8.0, 9.0
_ORIGIN = 1e-300
_NOTHING_LEFT = 1e-6  # share of a column: where a feature leaves no more, the feature is the column
_POWER_STEPS = 8  # of the columns of a random partition: enough, since ADMM follows
_ALIKE = 1e-5  # relative: rough points whose objectives differ by less count as one


def first_look(q: Quadratic, lam: Array, basis: Array, tuning: PenalisedTuning) -> L1Solution:
    """One rough point, which provides sparse columns for the model."""
    starts = np.array([rotated(basis, basis[:0])[-1], _single_features(q, basis.shape[1])])
    return min(_from_split(q, lam, starts, replace(tuning, solved=1)), key=lambda s: s.objective)


def search(
    q: Quadratic,
    lam: Array,
    basis: Array,
    rotations: Array,
    before: list[Array],
    tuning: PenalisedTuning,
    *,
    tol: float,
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
    before : list of ndarray of shape (d, r)
        Points to beat.
    """
    r, tuning = basis.shape[1], tuning.at(*basis.shape)
    if r == 1:
        return _one_column(q, lam, np.hstack([basis, *before]), tuning, tol)
    plain = np.array(rotated(basis, rotations[:0]))
    if float(objectives(q, lam, plain).min()) > -tuning.plain * q.energy(basis):
        tuning = tuning.thorough()
    elif basis.size >= tuning.small and _possible_gain(q, lam, plain, tuning) < tuning.little:
        tuning = tuning.plainest()
    elif tuning.hurried or (r > 2 * tuning.some and basis.size * r > tuning.dear):
        tuning = tuning.in_a_hurry()
    if (lam != lam[0]).any():  # then it matters which column is which, and steps of ADMM mix them
        tuning = replace(tuning, starts_too=True)
    turns = _plane_turns(tuning.turns) if r == 2 and not len(rotations) else rotations[: tuning.turns]
    first = _first_columns(q, lam[0], tuning) if tuning.paths else None
    paths: Array | list[Array] = [] if first is None else _by_columns(q, lam, first, tuning)
    starts = [*plain, *(basis @ turn for turn in turns), _single_features(q, r), *paths]
    found = _from_split(q, lam, np.array(starts), tuning)
    found += [solved(q, lam, w, tuning.rough, tuning) for w in before]
    found.sort(key=lambda s: s.objective)
    if r > 2 or basis.size < tuning.small:
        least = float(lam.min())
        alone = first if first is not None and (r == 2 or lam[0] == least) else _first_columns(q, least, tuning)
        found = _exchanges(q, lam, found, alone, tuning)
        if tuning.partitions and r <= tuning.some and basis.size < tuning.small and not tuning.late:
            others = _from_split(q, lam, _partitions(q, r, tuning.partitions), tuning)
            others.sort(key=lambda s: s.objective)
            found = sorted(found + _exchanges(q, lam, others, alone, tuning), key=lambda s: s.objective)
    found = distinct(found)
    best = found[0]
    if not tuning.late and best.residual > tol:
        best = solved(q, lam, best.w, tol, tuning, best.multiplier)
    return [best, *found[1:]]


def _possible_gain(q: Quadratic, lam: Array, plain: Array, tuning: PenalisedTuning) -> float:
    """How much better the best point can be, at most, than what a few steps from the leading eigenvectors reach.

    ``plain`` (n, d, r) are rotations of them.

    No point captures more than they do, and no column has a smaller norm than 1. The gain is relative to that bound.
    """
    bound = q.energy(plain[0]) + q.shift * len(lam) - float(lam.sum())
    reached = -float(split(q, lam, plain, steps=tuning.glance).values.min())
    return 1.0 - reached / bound if bound > 0.0 else np.inf


def _one_column(q: Quadratic, lam: Array, starts: Array, tuning: PenalisedTuning, tol: float) -> list[L1Solution]:
    """The same for one component: power steps from every feature converge, and no column has to be exchanged."""
    nothing = np.zeros((1, q.n_rows, 0))
    columns = soft_power(q, lam, _heavy(q, tuning.features), nothing, steps=tuning.power_steps, starts=starts)
    x, values = columns.x[0].T, columns.values[0]
    best = minimise(q, lam, x[0][:, None], tol=tol)
    others = np.flatnonzero(np.isfinite(values[: tuning.basins]))[1:]
    return [best, *(L1Solution(x[i][:, None], best.multiplier, values[i], np.inf, 0, False) for i in others)]


def _exchanges(
    q: Quadratic, lam: Array, found: list[L1Solution], single: Columns, tuning: PenalisedTuning
) -> list[L1Solution]:
    """The same points and better ones, which differ from the best in some columns, while that gains.

    ``single`` are the best columns for one component, each a different local optimum.
    """
    apart = np.isfinite(single.values[0]) & _unlike_earlier(single.x, tuning.alike)[0]
    alone = np.asarray(single.x[0][:, apart][:, : tuning.basins])
    for _ in range(tuning.exchanges):
        if tuning.late:
            break
        best = found[0]
        found = sorted(_exchanged(q, lam, best, alone, tuning) + found, key=lambda s: s.objective)
        if found[0].objective >= best.objective - tuning.gaining * abs(best.objective):
            break
        # the same point, only nearer to its optimum: the same exchanges would follow
        if _alike(np.array([found[0].w, best.w]), lam, tuning.alike)[0, 1]:
            break
    return found


def _alike(w: Array, lam: Array, alike: float) -> NDArray[np.bool_]:
    """Which of the points (n, d, r) have the same columns, up to signs and the order of equal penalties, (n, n)."""
    n, d, r = w.shape
    flat = w.transpose(1, 0, 2).reshape(d, n * r)
    cosines = np.abs(flat.T @ flat).reshape(n, r, n, r)
    if (lam != lam[0]).any():
        cosines *= lam[:, None, None] == lam
    return np.asarray(cosines.max(axis=3).min(axis=1) > alike)


def distinct(solutions: list[L1Solution], *, within: float = 1e-4) -> list[L1Solution]:
    """Drop repetitions: points whose objectives agree up to ``within``, relatively, count as the same."""
    kept: list[L1Solution] = []
    for s in solutions:
        if all(abs(s.objective - k.objective) > within * abs(k.objective) for k in kept):
            kept.append(s)
    return kept


def solved(
    q: Quadratic, lam: Array, w: Array, tol: float, tuning: PenalisedTuning, multiplier: Array | None = None
) -> L1Solution:
    """The stationary point near w: by proximal and Newton steps for few columns, or few non-zeros; else by ADMM.

    If ADMM does not settle, a few proximal steps go on from there; in a hurry, only if it ended in a sparse point.
    """
    most = tuning.steps if tol >= tuning.rough else tuning.last_steps
    if _proximal_pays(w, tuning):
        return minimise(q, lam, w, tol=tol, max_iter=most, multiplier=multiplier)
    s = settle(q, lam, w, steps=tuning.settling, tol=SETTLED * tol, multiplier=multiplier, widen=tuning.hurried)
    if s.sparse:
        gradient = 2.0 * (q @ s.w + q.shift * s.w)
        residual = certify(s.w, gradient, lam, multiplier=s.multiplier).residual
        if residual <= ACCEPTED * tol:
            return L1Solution(s.w, s.multiplier, s.value, residual, 0, True)
    if tuning.hurried and not s.sparse:
        return _as_it_is(q, lam, s.w, s.multiplier)
    most = most if len(lam) <= 2 * tuning.some else tuning.dear_steps
    return minimise(q, lam, s.w, tol=tol, max_iter=most, multiplier=s.multiplier)


def _proximal_pays(w: Array, tuning: PenalisedTuning) -> bool:
    """Whether proximal steps are faster than ADMM: their systems are small if few columns overlap in any feature."""
    if w.shape[1] <= 2 * tuning.some:
        return bool(w.shape[1] <= tuning.proximal)
    return int(np.square(np.count_nonzero(w, axis=1)).sum()) <= tuning.thin


def _as_it_is(q: Quadratic, lam: Array, w: Array, multiplier: Array) -> L1Solution:
    """A point that is not solved yet."""
    return L1Solution(w, multiplier, float(objectives(q, lam, w[None])[0]), np.inf, 0, False)


def _from_split(
    q: Quadratic, lam: Array, starts: Array, tuning: PenalisedTuning, beat: L1Solution | None = None
) -> list[L1Solution]:
    """The best of many starts after ADMM, solved locally; a start that was better than its solution is kept.

    If the starts are near a solution to ``beat``, its multiplier helps, and they are given up if they stay above it.
    """
    multipliers, aim = None, np.inf
    if beat is not None:
        multipliers = np.broadcast_to(beat.multiplier, (len(starts), *beat.multiplier.shape))
        aim = beat.objective + tuning.promising * _uncertain(q, beat.w, beat.objective)
    rough = split(q, lam, starts, steps=tuning.split_steps, keep=dict(tuning.crowd), multipliers=multipliers, aim=aim)
    # steps of ADMM may leave a good start for a worse basin: so starts are ranked beside the points that they end in
    w, z, before = np.concatenate([rough.w, starts]), np.concatenate([rough.z, starts]), objectives(q, lam, starts)
    if not tuning.starts_too:
        before[before >= rough.values.min()] = np.inf
    values = np.concatenate([rough.values, before])
    ranked = _ranked(values)
    best = float(values[ranked[0]])
    near = min(aim, best + tuning.near * _uncertain(q, w[ranked[0]], best))
    good = np.array([i for i in ranked if values[i] <= near], dtype=np.intp)
    # several starts end in one point: more of different ones are solved
    good = good[~np.triu(_alike(w[good], lam, tuning.alike), 1).any(axis=0)][: tuning.solved]
    last = len(rough.values) - 1
    found = []
    for i in good:
        point = w[i] if tuning.hurried and not _proximal_pays(z[i], tuning) else _sparse(w[i], z[i])
        if _proximal_pays(point, tuning):
            found.append(solved(q, lam, point, tuning.rough, tuning))
            if found[-1].objective > values[i] + _ALIKE * abs(values[i]):
                found.append(solved(q, lam, _better(q, lam, w[i], z[i]), tuning.rough, tuning))
        else:  # ADMM goes on, from the best of them
            nearest_to = i if i <= last else int(np.argmin(rough.values))  # a start has no multiplier of its own
            found.append(_as_it_is(q, lam, point, rough.multipliers[nearest_to]))
        if tuning.late:
            break
    return found


def _better(q: Quadratic, lam: Array, w: Array, z: Array) -> Array:
    """The better one of w and the orthonormal matrix nearest to z: if z has an empty column, w need not be near it."""
    points = np.array([w, nearest(z[None])[0]])
    return np.asarray(points[int(np.argmin(objectives(q, lam, points)))])


def _uncertain(q: Quadratic, w: Array, value: float) -> float:
    """How far apart rough objectives may be: more than the variance, if the penalty takes most of it away."""
    energy = q.energy(w)
    return energy * energy / max(abs(value), _ORIGIN)


def _ranked(values: Array) -> list[int]:
    """Indices by increasing value, each value once."""
    kept: list[int] = []
    for i in np.argsort(values, kind="stable").tolist():
        if not kept or values[i] - values[kept[-1]] > _ALIKE * abs(values[i]):
            kept.append(i)
    return kept


def _sparse(w: Array, z: Array) -> Array:
    """The orthonormal matrix on the support of z; where there is none, w."""
    near = retract_with_signs(z)
    return w if near is None else near


def _heavy(q: Quadratic, n: int) -> Index:
    """The n features of largest variance; the earlier of equals."""
    return np.sort(np.argsort(-q.diagonal(), kind="stable")[:n])


def _plane_turns(n: int) -> Array:
    """Rotations of the plane, evenly spaced over 90 degrees: a turn by 90 degrees only exchanges the columns."""
    angles = 0.5 * np.pi * np.arange(1, n + 1) / (n + 1)
    c, s = np.cos(angles), np.sin(angles)
    return np.stack([np.stack([c, -s], axis=1), np.stack([s, c], axis=1)], axis=1)


def _partitions(q: Quadratic, r: int, n: int) -> Array:
    """Starts whose columns divide all features at random, the same ones each time.

    Each column is about the best one on its features. How many these are is random too: some have a single one.
    """
    d, rng = q.n_rows, np.random.default_rng(0)
    owner = (rng.random((n, d, 1)) > np.cumsum(rng.dirichlet(np.full(r, 0.5), n), axis=1)[:, None, :-1]).sum(axis=2)
    given = rng.permuted(np.broadcast_to(np.arange(d), (n, d)), axis=1)[:, :r]
    np.put_along_axis(owner, given, np.broadcast_to(np.arange(r), given.shape), 1)  # no column is empty
    mine = owner[:, :, None] == np.arange(r)
    w = np.where(mine, rng.standard_normal(mine.shape), 0.0)
    for _ in range(_POWER_STEPS):
        image = (q @ w.transpose(1, 0, 2).reshape(d, -1)).reshape(d, n, r).transpose(1, 0, 2)
        image = np.where(mine, image, 0.0)
        sizes = np.sqrt(np.einsum("nij,nij->nj", image, image))[:, None, :]
        w = np.where(sizes > 0.0, image / np.where(sizes > 0.0, sizes, 1.0), w)  # features may not vary
    return nearest(w)


def _single_features(q: Quadratic, r: int) -> Array:
    """The r features of largest variance, one per column: the best point if lam is large, or r is nearly d."""
    w = np.zeros((q.n_rows, r))
    w[np.argsort(-q.diagonal(), kind="stable")[:r], np.arange(r)] = 1.0
    return w


def _first_columns(q: Quadratic, lam: float, tuning: PenalisedTuning) -> Columns:
    """The best columns for one component."""
    nothing = np.zeros((1, q.n_rows, 0))
    return soft_power(q, np.array([lam]), _heavy(q, tuning.features), nothing, steps=tuning.power_steps)


def _by_columns(q: Quadratic, lam: Array, first: Columns, tuning: PenalisedTuning) -> Array:
    """Starts built column by column: each begins with a different one of the best single columns."""
    features = _heavy(q, tuning.features)
    n = min(tuning.paths, int(np.isfinite(first.values).sum()))
    w: Array = first.x[0].T[:n, :, None]
    for j in range(1, len(lam)):
        following = soft_power(q, np.full(n, lam[j]), features, w, steps=tuning.power_steps)
        w = np.array([_beside(path, x) for path, x in zip(w, following.x[:, :, 0], strict=True)])
    return w


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
    """Points that differ from the best one in one or two columns; the most promising ones are solved.

    With two components the starts have tried all turns, and paths other columns: single features are left.
    """
    trials = [*_singled_out(q, lam, best.w, tuning.singled), *_merged(q, lam, best.w, tuning.columns, tuning.merged)]
    if len(lam) > 2:
        trials.extend(_with_other_columns(q, lam, best.w, alone, tuning)[: tuning.trials])
        trials.extend(turned_pairs(best.w, tuning.columns))
    found = _from_split(q, lam, np.array(trials), tuning, best)
    found.extend(solved(q, lam, w, tuning.rough, tuning) for w in _reordered(q, lam, best.w, tuning.solved))
    return sorted((s for s in found if s.objective < best.objective), key=lambda s: s.objective)


def _with_other_columns(q: Quadratic, lam: Array, w: Array, alone: Array, tuning: PenalisedTuning) -> Array:
    """The point with one column replaced: by those that are best beside the others, and by those that are best alone.

    The latter may overlap with the other columns, which are then changed to stay orthonormal.
    """
    worst_first = np.argsort(np.einsum("ij,ij->j", w, q @ w) - lam * np.abs(w).sum(axis=0), kind="stable")
    if tuning.hurried:
        worst_first = worst_first[: tuning.trials]  # each gives a trial, with few exceptions
    columns = np.arange(len(lam))
    others = np.array([w[:, columns != j] for j in worst_first])
    found = soft_power(q, lam[worst_first], _heavy(q, tuning.features), others, steps=tuning.power_steps)
    beside = found.x[:, :, : tuning.columns]
    fresh = np.concatenate([beside, np.broadcast_to(alone, (len(worst_first), *alone.shape))], axis=2)
    new = np.abs(fresh.transpose(0, 2, 1) @ w).max(axis=2) < tuning.alike
    new[:, : beside.shape[2]] &= np.isfinite(found.values[:, : beside.shape[2]])
    new &= _unlike_earlier(fresh, tuning.alike)
    which, column = np.nonzero(new)
    trials = np.repeat(w[None], len(which), axis=0)
    trials[np.arange(len(which)), :, worst_first[which]] = fresh[which, :, column]
    return nearest(trials) if len(trials) else trials


def _unlike_earlier(x: Array, alike: float) -> NDArray[np.bool_]:
    """Which of the columns (m, d, n) are like none before them: most of the best ones are the same few again."""
    return np.asarray(np.triu(np.abs(x.transpose(0, 2, 1) @ x), 1).max(axis=1) < alike)


def _reordered(q: Quadratic, lam: Array, w: Array, n: int) -> Array:
    """The point with two of its columns exchanged: the n best of these. It only matters if their penalties differ."""
    first, second = pairs(len(lam))
    differ = lam[first] != lam[second]
    points = np.repeat(w[None], int(differ.sum()), axis=0)
    for point, a, b in zip(points, first[differ], second[differ], strict=True):
        point[:, [a, b]] = w[:, [b, a]]
    return points[np.argsort(objectives(q, lam, points), kind="stable")[:n]] if len(points) else points


def _singled_out(q: Quadratic, lam: Array, w: Array, n: int) -> Array:
    """The point with one feature as a column of its own, in the place of another column and taken from all others.

    The n best of these: a heavy feature that other columns include is seldom found again as a column alone.
    """
    features, columns = _lowest_places(_values_alone(q, lam, w, q @ w), 2 * n)
    return _lowest(q, lam, _alone(w, columns, features), n)


def _merged(q: Quadratic, lam: Array, w: Array, most: int, n: int) -> Array:
    """The point with two columns made one, and a single feature in the place of the second.

    The n best of these, over so many pairs whose sum captures most: no exchange of one column gives that, if each of
    the two is the best beside the other.
    """
    image = q @ w
    form = w.T @ image
    first, second = pairs(len(lam))
    order = np.argsort(-np.abs(form[first, second]), kind="stable")[:most]
    trials = []
    for a, b in zip(first[order], second[order], strict=True):
        one, its = w.copy(), image.copy()
        for of in (one, its):
            of[:, a] = np.sqrt(0.5) * (of[:, a] + np.copysign(1.0, form[a, b]) * of[:, b])
        features = np.argsort(_values_alone(q, lam, one, its)[:, b], kind="stable")[:n]
        trials.append(_alone(one, np.full(len(features), b), features))
    return _lowest(q, lam, np.concatenate(trials), n)


def _values_alone(q: Quadratic, lam: Array, w: Array, image: Array) -> Array:
    """The objective with each feature as a column of its own in the place of each column, (d, r); ``image`` is Q w.

    The feature leaves all other columns, which are normalised again, and no longer quite orthogonal where several of
    them had it. A feature that is a column of its own already stays there: its values are infinite.
    """
    size, diagonal = np.abs(w), q.diagonal()[:, None]
    left = 1.0 - w * w
    alone = (left < _NOTHING_LEFT).any(axis=1)
    left[alone] = 1.0
    captured = (np.einsum("ij,ij->j", w, image) - 2.0 * w * image + w * w * diagonal) / left
    without = lam * (size.sum(axis=0) - size) / np.sqrt(left) - captured
    values = without.sum(axis=1, keepdims=True) - without + lam - diagonal
    values[alone] = np.inf
    return np.asarray(values)


def _lowest_places(values: Array, n: int) -> tuple[Index, Index]:
    """The rows and the columns of the n lowest entries, the earlier of equals, infinite ones left out."""
    order = np.argsort(values, axis=None, kind="stable")[: min(n, int(np.isfinite(values).sum()))]
    rows, columns = np.unravel_index(order, values.shape)
    return rows, columns


def _alone(w: Array, columns: Index, features: Index) -> Array:
    """The point with each of the features as the column named with it, and in no other."""
    trials, at = np.repeat(w[None], len(features), axis=0), np.arange(len(features))
    trials[at, :, columns] = 0.0
    trials[at, features] = 0.0
    trials[at, features, columns] = 1.0
    return trials


def _lowest(q: Quadratic, lam: Array, trials: Array, n: int) -> Array:
    """The n best of the points, made orthonormal."""
    if not len(trials):
        return trials
    trials = nearest(trials)
    return np.asarray(trials[np.argsort(objectives(q, lam, trials), kind="stable")[:n]])
