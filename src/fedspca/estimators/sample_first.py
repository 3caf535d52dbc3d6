"""A fit that begins with a sample: most rounds are over few rows, and the last ones over all."""

import warnings
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from fedspca.estimators.exact_solving import Course
from fedspca.federation import Federation, LocalFederation
from fedspca.federation.sampled import SampledFederation
from fedspca.linalg.operators import COLUMNS_OF_A_FIT
from fedspca.site.errors import InvalidData
from fedspca.solvers.exact import loop
from fedspca.solvers.exact.problem import oversampled
from fedspca.solvers.rounds import Rounds

if TYPE_CHECKING:
    from fedspca.estimators.exact import ExactSPCA

Array = NDArray[np.float64]

COLUMNS_AFTER_SAMPLE = 20  # about as many as the one or two passes after a sample multiply


def fit_after_sample(estimator: "ExactSPCA", federation: Federation, course: Course, parts: int) -> Array | None:
    """Fit to one row in ``parts``, then to all rows from where that fit ended."""
    estimator._validate_params()
    if not isinstance(federation, LocalFederation):
        _fit_after_asking(estimator, federation, course, parts)
        return None
    small = federation.sampled(parts, estimator._deal())
    _check_rows(_rows_of(federation), _rows_of(small), parts, estimator.n_components)
    lam = None if estimator.lam is None else np.asarray(estimator.lam, dtype=np.float64) / parts  # S is a sum over rows
    settings = {"sample": None, "folds": None, "lam": lam, "proof_seconds": 0.0, "callbacks": None, "verbose": 0}
    first = estimator._with(**settings)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # the fit to all rows says the same, and how it ended
        first._fit(small)
    federation.expect(COLUMNS_AFTER_SAMPLE)
    try:
        return estimator._fit(federation, course._replace(earlier=first.earlier_))
    finally:
        federation.expect(COLUMNS_OF_A_FIT)


def _rows_of(federation: LocalFederation) -> int:
    return sum(site.n_rows for site in federation.sites)


def _check_rows(n_rows: int, left: int, parts: int, n_components: int) -> None:
    """Refuse a sample with fewer rows than variance, or so many components, need."""
    least = max(2, n_components)
    if left < least:
        raise InvalidData(
            f"The 'sample' parameter of ExactSPCA is too large: one row in {parts} leaves {left} of {n_rows} rows, and "
            f"{least} or more are needed. Take a smaller number, or no sample."
        )


def check_dealt_once(folds: int | None) -> None:
    """Refuse folds beside a sample, of sites that are only asked."""
    if folds is not None:
        raise ValueError(
            "A site deals its rows in one way: for a sample, or into folds. Leave out 'sample' or 'folds'."
        )


def _fit_after_asking(estimator: "ExactSPCA", federation: Federation, course: Course, parts: int) -> None:
    """Do the same over sites that are only asked: about a sample in the frame of all rows, then about all rows."""
    check_dealt_once(estimator.folds)
    with estimator._asking(federation) as rounds:
        moments = estimator._moments(rounds)
        estimator._working = estimator._precision_for(rounds, moments)
        estimator._check_n_components(estimator.n_components, moments)
        estimator._tell_unused(len(moments.mean))
        sample = Rounds(SampledFederation(rounds, parts, estimator._deal()))
        settings = {"sample": None, "proof_seconds": 0.0, "callbacks": None, "verbose": 0}
        first = estimator._with(**settings)
        first._working = estimator._working
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            w = first._solve_on(sample, moments, first._generator(), Course())[0].w
        width = oversampled(estimator.n_components) - estimator.n_components
        ended = loop.Earlier(w, loop.ended(first.state_.loop, width))
        found, _ = estimator._solve_on(rounds, moments, estimator._generator(), course._replace(earlier=ended))
        estimator._set_fitted(rounds, moments, found)
    estimator._set_certainty(None, moments)
