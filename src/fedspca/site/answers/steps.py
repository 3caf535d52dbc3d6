"""Questions of the paper's consensus: one round of FASPCA or FSSPCA. Only these keep a state at the site."""

from typing import cast
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from fedspca.linalg.line_search import LineSearch
from fedspca.linalg.operators import COLUMNS_OF_CONSENSUS, Frame
from fedspca.linalg.shrinkage import smooth_norms
from fedspca.linalg.stiefel import Retraction, polar_factor, project_out
from fedspca.site.answers.frames import frame_of
from fedspca.site.consensus import (
    ConsensusState,
    begin,
    consensus_terms,
    dual_step,
    faspca_update,
    fsspca_update,
    restarted,
)
from fedspca.site.descent import Descent, Direction, ReconstructionProblem
from fedspca.site.errors import InvalidQuery
from fedspca.site.question import Query, SiteData, State, Terms

Array = NDArray[np.float64]


def faspca_step(data: SiteData, state: State, query: Query) -> tuple[State, Terms]:
    """One consensus round of FASPCA (Algorithms 6 and 7, and their block form)."""
    z, rho = query.arrays["z"], float(query.scalars["rho"])
    before = dual_step(_consensus_state(data, state, query), z)
    rows = data.seen_in(before.frame, COLUMNS_OF_CONSENSUS)
    after = faspca_update(rows, before, z, rho, query.scalars["deflation"] == "orthogonal")
    after = after._replace(iteration=before.iteration + 1, rho=rho)
    return after, consensus_terms(after, z, rho, lambda w: np.zeros(w.shape[1]))


def fsspca_step(data: SiteData, state: State, query: Query) -> tuple[State, Terms]:
    """One consensus round of FSSPCA (Algorithms 1 and 3, on the generalised manifold after the first stage)."""
    z, rho, mu = query.arrays["z"], float(query.scalars["rho"]), float(query.scalars["mu"])
    before = dual_step(_consensus_state(data, state, query), z)
    rows = data.seen_in(before.frame, COLUMNS_OF_CONSENSUS)
    if query.scalars["begin"] == "random" and before.iteration:
        before = restarted(rows, before, random_point(data.site, before.frame, query, before.iteration))
    how = Descent(
        steps=int(query.scalars["steps"]),
        tol=float(query.scalars["tol"]),
        search=cast("LineSearch", query.scalars["search"]),  # these words were checked with the question's form
        retraction=cast("Retraction", query.scalars["retraction"]),
        stay_in_complement=query.scalars["deflation"] == "orthogonal",
        direction=cast("Direction", query.scalars["direction"]),
    )
    orthonormal = not before.frame.removed.shape[1]
    problem = ReconstructionProblem(before.u, z, rho, query.arrays["lam1"], mu, orthonormal)
    after = fsspca_update(rows, before, problem, how)._replace(iteration=before.iteration + 1, rho=rho)
    return after, consensus_terms(after, z, rho, lambda w: smooth_norms(w, mu))


def _consensus_state(data: SiteData, state: State, query: Query) -> ConsensusState:
    """The site's state at the start of this round: new in round 0, else that of the last round."""
    iteration = int(query.scalars["iteration"])
    if iteration == 0:
        missing = {"mean", "scale", "removed"} - set(query.arrays)
        if missing:
            raise InvalidQuery(data.site, query.name, f"round 0 must bring {', '.join(sorted(missing))}.")
        frame = frame_of(query)
        return begin(data.seen_in(frame, COLUMNS_OF_CONSENSUS), frame, starting_point(data.site, frame, query))
    if state is None or state.iteration != iteration or state.w.shape != query.arrays["z"].shape:
        here = "nothing" if state is None else f"round {state.iteration} with {state.w.shape[1]} loading(s)"
        reason = f"round {iteration} was asked and the site expects {here}; begin again from round 0."
        raise InvalidQuery(data.site, query.name, reason)
    return state


def starting_point(site: str, frame: Frame, query: Query) -> Array:
    """Start at the common point if one is given, else at a random point of the site's own, as in the paper."""
    if "start" in query.arrays:
        return query.arrays["start"]
    return random_point(site, frame, query)


def random_point(site: str, frame: Frame, query: Query, *rounds: int) -> Array:
    """Draw a random point of the manifold for this site, and for this round if a round is given."""
    # seeded by the site's name as well: independent between sites, and the same whatever their order
    rng = np.random.default_rng([int(query.scalars["seed"]), crc32(site.encode()), *rounds])
    return polar_factor(project_out(frame.removed, rng.standard_normal(query.arrays["z"].shape)), frame.removed)
