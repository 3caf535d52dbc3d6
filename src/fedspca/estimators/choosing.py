"""A fit whose numbers of components and non-zeros are "auto": chosen from the data, then used."""

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fedspca.estimators.base import checked_federation
from fedspca.estimators.certainty import check_whole
from fedspca.estimators.exact_solving import Course
from fedspca.estimators.selection import Selection, select
from fedspca.federation import Federation
from fedspca.federation.base import answers_gram, is_local
from fedspca.federation.folded import FoldedFederation
from fedspca.site.errors import InvalidData
from fedspca.solvers.exact import whole
from fedspca.solvers.folds.sums import fold_sums
from fedspca.solvers.rounds import Rounds
from fedspca.solvers.standardise import Moments

if TYPE_CHECKING:
    from fedspca.estimators.exact import ExactSPCA

Array = NDArray[np.float64]

SELECTION_SIGHT = 300  # the most features for which many numbers of non-zeros are compared
FOLDS = 10  # where "auto" needs folds and none were given


def fit_chosen(estimator: "ExactSPCA", federation: Federation, course: Course) -> Array:
    """Choose the "auto" settings from the data, then fit. The sums are asked for only once."""
    check_whole(course.state)
    estimator._validate_params()
    folded = FoldedFederation(checked_federation(federation), estimator.folds or FOLDS, estimator._deal())
    with estimator._asking(folded) as rounds:
        moments = estimator._moments(rounds)
        selection, s = selected(estimator, rounds, folded, moments, sparsity=estimator._auto("n_nonzero"))
        chosen = _decided(estimator, selection)
        chosen._working = estimator._working
        chosen._check_n_components(chosen.n_components, moments)
        chosen._tell_unused(len(moments.mean))
        found = chosen._solve_given(s, rounds, moments, course)
        chosen._set_fitted(rounds, moments, found)
    chosen._set_certainty(folded, moments)
    estimator._take_fit(chosen)
    estimator.selection_ = selection
    return s


def selected(
    estimator: "ExactSPCA", rounds: Rounds, folded: FoldedFederation, moments: Moments, *, sparsity: bool
) -> tuple[Selection, Array]:
    """Ask for S, and apply every selection method to it."""
    _check_auto(estimator, rounds)
    given = None if estimator._auto("n_components") else estimator.n_components
    if given is not None:
        estimator._check_n_components(given, moments)
    estimator._working = estimator._precision_for(rounds, moments)
    s = whole.ask(rounds, moments.frame, estimator._working)
    nothing = np.zeros((len(s), 1))
    selection = select(
        rounds,
        s,
        fold_sums(folded.asked, moments, nothing, scaled=estimator.scale, most=SELECTION_SIGHT),
        moments,
        n_components=given,
        sparsity=sparsity,
        orthogonal=estimator.orthogonal,
        seed=estimator._deal(),
    )
    return selection, s


def _decided(estimator: "ExactSPCA", selection: Selection) -> "ExactSPCA":
    """Return the estimator with the numbers that were chosen."""
    if selection.n_components == 0:
        told = " ".join(selection.in_words())
        raise InvalidData(f"{told} Give n_components to fit some all the same.")
    settings: dict[str, Any] = {"n_components": selection.n_components, "folds": estimator.folds or FOLDS}
    if estimator._auto("n_nonzero"):
        settings["n_nonzero"] = selection.n_nonzero
    return estimator._with(**settings)


def _check_auto(estimator: "ExactSPCA", rounds: Rounds) -> None:
    """Refuse to choose where the whole covariance is not to be had."""
    d, most = len(rounds.feature_names), whole.LOCAL_FEATURES if is_local(rounds) else whole.REMOTE_FEATURES
    if estimator.search == "products" or d > most or not answers_gram(rounds):
        raise ValueError(
            "'auto' needs the whole covariance in one sum: the sites must allow it, search must not be 'products', "
            f"and there may be at most {most} features (there are {d}). Give numbers instead."
        )
