"""Everything that prevents a fit, in one list: ``fedspca check`` lists what ``fedspca fit`` would refuse."""

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from fedspca.estimators.exact_solving import more_than_there_are
from fedspca.federation import FederationError, LocalFederation
from fedspca.fit.facts import shares_between
from fedspca.fit.inputs import Inputs, make_sites
from fedspca.fit.settings import FitSettings, SolverSettings
from fedspca.fit.solvers import make_estimator
from fedspca.site import Site, SiteError
from fedspca.solvers.mapping import mapped
from fedspca.solvers.standardise import standardise

MUCH_BETWEEN = 0.1  # share of the variance; above it, the first component often only separates the sites


def between_sites(settings: FitSettings, inputs: Inputs) -> list[str]:
    """Return a sentence if much of the variance lies between the sites' means and no setting removes it."""
    if len(inputs.sites) < 2 or settings.centre != "joint":
        return []
    local = LocalFederation(make_sites(replace(settings, min_rows=1), inputs))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # they are told of as oddities
        federation = mapped(local, local)
        moments = standardise(federation, scale=settings.scale, max_missing=settings.max_missing)
    share = shares_between(federation, moments, scaled=settings.scale)["after"]
    if share <= MUCH_BETWEEN:
        return []
    told = f"{share:.0%} of the variance lies between the sites' means, so that a component may be the site itself."
    return [
        f"{told} Take it out with --centre site or --centre combat, or take out what the sites differ in with --adjust."
    ]


def unused(settings: FitSettings, names: Sequence[str]) -> list[str]:
    """Return a sentence if more non-zeros are asked for than there are features."""
    told = None if settings.nonzero is None else more_than_there_are(settings.nonzero, len(names))
    return [] if told is None else [told]


def too_small(settings: FitSettings, rows: dict[str, int]) -> list[str]:
    """Return a sentence for each site that holds fewer rows than a fit asks for."""
    return [
        f"Site {name!r} holds fewer rows than the {settings.min_rows} of --min-rows ({count}): a sum over few rows "
        "says much about each. Leave the site out with --leave-out-small, or lower --min-rows."
        for name, count in rows.items()
        if count < settings.min_rows
    ]


def obstacles(settings: FitSettings, inputs: Inputs) -> list[str]:
    """Return a sentence for everything that a fit with these settings would refuse; an empty list if nothing.

    Parameters
    ----------
    settings : FitSettings
        The settings of the fit.
    inputs : Inputs
        The files, read.
    """
    found = too_small(settings, {site.site: site.rows.shape[0] for site in inputs.sites})
    with _noted(found):
        make_estimator(settings, [])
    sites: list[Site] = []
    for each in inputs.sites:
        with _noted(found):  # values that no site can use
            sites += make_sites(replace(settings, min_rows=1), replace(inputs, sites=(each,)))
    if len(sites) == len(inputs.sites):
        with _noted(found):
            _check_joint_moments(settings, sites)
    return found


def _check_joint_moments(settings: FitSettings, sites: list[Site]) -> None:
    """Raise what a fit raises once it knows the joint mean and spread: missing values, no variance, too few rows."""
    estimator = make_estimator(SolverSettings(components=settings.components), [])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # constant features are told of as oddities
        local = LocalFederation(sites)
        moments = standardise(mapped(local, local), scale=settings.scale, max_missing=settings.max_missing)
    if isinstance(settings.components, int):
        estimator._check_n_components(settings.components, moments)


@contextmanager
def _noted(found: list[str]) -> Iterator[None]:
    """Write down what is refused, and go on."""
    try:
        yield
    except (ValueError, FederationError, SiteError) as error:
        found.append(str(error))
