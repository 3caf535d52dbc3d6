"""FSSPCA with all choices of the paper: how rounding errors grow from round to round."""

import warnings
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from fedspca.estimators import FSSPCA
from fedspca.experiments.data import sites_in_order, standardised, wdbc_star
from fedspca.experiments.runner import Record, Task
from fedspca.experiments.watch import SimulatedFederation
from fedspca.site import Query

Array = NDArray[np.float64]

NAME = "stability"
ROUNDS = 60
MOVED = 1e-15  # the change of a start: about one rounding error


@cache
def _rows() -> Array:
    return standardised(wdbc_star(1).rows)


class Remembering(SimulatedFederation):
    """Sites in this process, with a record of the consensus in each round."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.consensus: list[Array] = []

    def sum(self, query: Query) -> Any:
        """Ask every site, and record the consensus that was sent to them."""
        if query.name == "fsspca_step":
            self.consensus.append(query.arrays["z"])
        return super().sum(query)


def _course(n_sites: int, rounds: int, **given: Any) -> list[Array]:
    """Fit, and return the consensus of each round."""
    federation = Remembering(_rows(), sites_in_order(len(_rows()), n_sites))
    few = {} if rounds == ROUNDS else {"local_steps": 5}  # a quick run only shows that the code works
    model = FSSPCA.paper(2, max_rounds=rounds, **few, **given)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit_federation(federation)
    return federation.consensus


def chaos_run(n_sites: int, direction: str, rounds: int = ROUNDS) -> list[Record]:
    """Distance by round between two runs whose starts differ by a rounding error."""
    start = np.linalg.qr(np.random.default_rng(0).standard_normal((_rows().shape[1], 2)))[0]
    moved = start.copy()
    moved[0] += MOVED
    courses = [_course(n_sites, rounds, direction=direction, lam1=10, lam2=190, init=w.T) for w in (start, moved)]
    apart = [float(np.linalg.norm(a - b)) for a, b in zip(*courses, strict=False)]
    common = {"what": "chaos", "method": "FSSPCA", "n_sites": n_sites, "direction": direction, "moved": MOVED}
    return [{**common, "most": max(apart), "last": apart[-1]}]


def tasks(*, quick: bool) -> list[Task]:
    """All runs of the experiment; a quick run has few rounds."""
    rounds = 3 if quick else ROUNDS
    return [
        Task(NAME, chaos_run, {"n_sites": k, "direction": direction, "rounds": rounds}, 20.0 * k, "FSSPCA")
        for direction in ("newton", "steepest")
        for k in (3, 10)
    ]
