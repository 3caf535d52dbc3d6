"""The fits of a path: a grid of one setting, solved from point to point."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fedspca._callers import warn_caller
from fedspca.estimators.exact_solving import more_than_there_are
from fedspca.estimators.sparsity_path import PathModel, SparsityPath
from fedspca.federation import Federation
from fedspca.linalg import nystrom
from fedspca.solvers.doing import counted
from fedspca.solvers.exact import loop
from fedspca.solvers.exact.driver import penalised_objective
from fedspca.solvers.exact.grid import PathPoint, follow
from fedspca.solvers.rounds import Rounds
from fedspca.solvers.standardise import Moments

if TYPE_CHECKING:
    from fedspca.estimators.exact import ExactSPCA

Array = NDArray[np.float64]


def fit_path(
    estimator: "ExactSPCA", federation: Federation, name: str, grid: Sequence[Any], *, rounds_per_point: int
) -> SparsityPath:
    """Solve for every setting of a grid. The estimator is fitted to the first one."""
    estimators = [estimator._with(**{"lam": None, "n_nonzero": None, name: setting}) for setting in grid]
    problems = [each._problem() for each in estimators]
    first = estimators[0]
    matrix = first._fit(federation)  # if S is known, all points are solved on it
    for each in estimators:
        each._working = first._working
    estimator._take_fit(first)
    moments, state = first.state_.moments, first.state_.loop
    if name == "n_nonzero" and (told := more_than_there_are(max(map(np.max, grid)), len(moments.mean))):
        warn_caller(told, UserWarning)
    rounds = Rounds(federation, estimator.callbacks or (), first.history_)
    certificate = np.nan if first.certificate_ is None else first.certificate_
    further = counted("Fitting the path of sparsities", estimators[1:])
    points = [
        PathPoint(*loop.solution(state), certificate, first.n_rounds_, first.stop_reason_),
        *(
            follow(rounds, moments.frame, state, problems[1:], max_rounds=rounds_per_point, precision=first._working)
            if matrix is None
            else [_known_point(each, matrix, moments) for each in further]
        ),
    ]
    models = [
        _path_model(each, setting, moments.total, point)
        for each, setting, point in zip(estimators, grid, points, strict=True)
    ]
    dense = nystrom.captured(state.model, estimator.n_components)
    return SparsityPath(
        tuple(models), dense / moments.total, round(moments.n_rows), len(moments.mean), len(rounds.history)
    )


def _known_point(estimator: "ExactSPCA", s: Array, moments: Moments) -> PathPoint:
    """Return a point of a path, solved on S without a round."""
    _, state = estimator._solve_known(s, moments, estimator._generator())
    certificate = np.nan if estimator.certificate_ is None else estimator.certificate_
    return PathPoint(*loop.solution(state), certificate, 0, estimator.stop_reason_)


def _path_model(estimator: "ExactSPCA", setting: Any, total: float, point: PathPoint) -> PathModel:
    """Return a point of a path as a model: its loadings in order, and what they explain."""
    found = estimator._ordered(point.w, point.product)
    ratio = -penalised_objective(found.w, found.captured, None) / total
    return PathModel(setting, found.w.T, int(np.count_nonzero(found.w)), ratio, float(point.certificate), point.rounds)
