"""Everything that prevents a fit, in one list: ``fedspca check`` lists what ``fedspca fit`` would refuse."""

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from fedspca.estimators.choosing import FOLDS
from fedspca.estimators.exact_solving import more_than_there_are
from fedspca.estimators.sample_first import check_dealt_once
from fedspca.federation import FederationError, LocalFederation
from fedspca.federation.folded import FoldedFederation
from fedspca.federation.sampled import SampledFederation
from fedspca.fit.facts import shares_between
from fedspca.fit.inputs import Inputs, beyond_policy, make_sites
from fedspca.fit.settings import FitSettings, SolverSettings
from fedspca.fit.solvers import make_estimator
from fedspca.site import Query, Site, SiteError
from fedspca.solvers.folds.sums import check_folds
from fedspca.solvers.gaps import as_they_are
from fedspca.solvers.mapping import mapped
from fedspca.solvers.standardise import standardise

MUCH_BETWEEN = 0.1  # share of the variance; above it, the first component often only separates the sites


def seen_together(settings: FitSettings, inputs: Inputs) -> list[str]:
    """Return what shows only over all sites: the warnings of a fit, and much variance between the sites' means.

    Parameters
    ----------
    settings : FitSettings
        The settings of the fit.
    inputs : Inputs
        The files, read, to which there are no obstacles.
    """
    local = LocalFederation(make_sites(_lenient(settings), inputs))
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        federation = mapped(local, local)
        moments = standardise(federation, scale=settings.scale, max_missing=settings.max_missing)
    told = [str(warning.message) for warning in warned if issubclass(warning.category, UserWarning)]
    if len(inputs.sites) < 2 or settings.centre != "joint":
        return told
    share = shares_between(federation, moments, scaled=settings.scale)["after"]
    return told if share <= MUCH_BETWEEN else [*told, _much_between(share)]


def _much_between(share: float) -> str:
    told = f"{share:.0%} of the variance lies between the sites' means, so that a component may be the site itself."
    return (
        f"{told} Take it out with --centre site or --centre combat, or take out what the sites differ in with --adjust."
    )


def _lenient(settings: FitSettings) -> FitSettings:
    """Return settings with which no site is refused: what its policy would refuse is told once, by itself."""
    return replace(settings, min_rows=1, folds=None)


def unused(settings: FitSettings, names: Sequence[str]) -> list[str]:
    """Return a sentence if more non-zeros are asked for than there are features."""
    told = None if settings.nonzero is None else more_than_there_are(settings.nonzero, len(names))
    return [] if told is None else [told]


def obstacles(settings: FitSettings, inputs: Inputs) -> list[str]:
    """Return a sentence for everything that a fit with these settings would refuse; an empty list if nothing.

    Parameters
    ----------
    settings : FitSettings
        The settings of the fit.
    inputs : Inputs
        The files, read.
    """
    found = beyond_policy(settings, inputs.sites)
    with _noted(found):
        make_estimator(settings, [])
    sites: list[Site] = []
    for each in inputs.sites:
        with _noted(found):  # values that no site can use
            sites += make_sites(_lenient(settings), replace(inputs, sites=(each,)))
    if len(sites) == len(inputs.sites):
        with _noted(found):
            _check_joint_moments(settings, sites)
    if not found:
        with _noted(found):
            _check_rows_as_they_are(settings, LocalFederation(sites))
        with _noted(found):
            _check_sample(settings, inputs)
    return found


def _check_joint_moments(settings: FitSettings, sites: list[Site]) -> None:
    """Raise what a fit raises once it knows the joint mean and spread: missing values, no variance, too few rows."""
    estimator = make_estimator(SolverSettings(components=settings.components), [])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # seen_together has them
        local = LocalFederation(sites)
        moments = standardise(mapped(local, local), scale=settings.scale, max_missing=settings.max_missing)
    if isinstance(settings.components, int):
        estimator._check_n_components(settings.components, moments)


def _check_rows_as_they_are(settings: FitSettings, local: LocalFederation) -> None:
    """Raise what a fit raises of folds, and of missing values by EM: both are for rows that nothing is taken out of."""
    if settings.missing not in (None, "mean"):
        as_they_are(local)
    folds = settings.folds or (FOLDS if settings.auto else None)
    if folds is not None:
        folded = FoldedFederation(local, folds, settings.seed)
        folded.sum(Query("moments"))
        check_folds(folded.asked[0].arrays["rows"])


def _check_sample(settings: FitSettings, inputs: Inputs) -> None:
    """Raise what the sites answer to a question about a sample: it is of rows as they are, and of enough of them."""
    if settings.sample is None:
        return
    check_dealt_once(settings.folds)
    local = LocalFederation(make_sites(settings, inputs))
    SampledFederation(local, settings.sample, settings.seed).sum(Query("moments"))


@contextmanager
def _noted(found: list[str]) -> Iterator[None]:
    """Write down what is refused, and go on."""
    try:
        yield
    except (ValueError, FederationError, SiteError) as error:
        found.append(str(error))
