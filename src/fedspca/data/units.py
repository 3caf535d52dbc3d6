"""Features that differ so much between sites that a unit may be wrong: means and spreads of a site and the others.

A wrong unit multiplies the mean and the standard deviation by the same factor. Sites with different patients
have other means or other spreads, but seldom both, by a large factor in the same direction.
``python -m benchmarks units`` counts how often the factors below give a false alarm, and how often they find a unit.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedspca.data.columns import shown
from fedspca.data.profile import Profile

Array = NDArray[np.float64]

FACTOR = 3.0  # by which mean and spread must both differ
LONE_FACTOR = 6.0  # by which the spread must differ where a mean near zero says nothing of the unit
LOCATED = 0.5  # a mean of at least this many standard deviations suggests a ratio scale


def unit_factors(profile: Profile, others: Profile) -> Array:
    """How many times larger each feature is at a site than elsewhere, where a unit may be wrong; 1 where not.

    Parameters
    ----------
    profile : Profile
        The site's own rows.
    others : Profile
        All other rows.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        spreads = profile.spread / others.spread
        means = profile.mean / others.mean
        located = np.minimum(np.abs(profile.mean) / profile.spread, np.abs(others.mean) / others.spread) >= LOCATED
    both = np.minimum(_apart(spreads), _apart(means)) >= FACTOR
    alike = (spreads > 1) == (means > 1)
    odd = np.where(located, both & alike & (means > 0), _apart(spreads) >= LONE_FACTOR)
    usable = ~(profile.constant | others.constant) & np.isfinite(spreads)
    return np.where(odd & usable, spreads, 1.0)


def _apart(ratio: Array) -> Array:
    """Return the ratio or its inverse, whichever is above one."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.nan_to_num(np.maximum(np.abs(ratio), 1 / np.abs(ratio)), nan=1.0, posinf=1.0)


def unlike_sites(names: Sequence[str], profiles: Mapping[str, Profile]) -> list[str]:
    """Say, feature by feature, which site is unlike the others: constant there, or of another size.

    Parameters
    ----------
    names : sequence of str
        The features.
    profiles : mapping of str to Profile
        Those of each site.
    """
    if len(profiles) < 2:
        return []
    told = []
    factors = {
        site: unit_factors(profile, Profile.joint([p for other, p in profiles.items() if other != site]))
        for site, profile in profiles.items()
    }
    odd = np.array([_apart(factor) for factor in factors.values()])
    for j, name in enumerate(names):
        constant = [site for site, profile in profiles.items() if profile.constant[j]]
        if 0 < len(constant) < len(profiles):
            told += [
                f"{shown(str(name))} has one value, or none, at site {shown(s)} and varies elsewhere" for s in constant
            ]
        elif odd[:, j].max() > 1:
            site = _odd_one(profiles, j)
            told.append(_in_words(name, float(factors[site][j]), f"at site {shown(site)} than elsewhere"))
    return told


def _odd_one(profiles: Mapping[str, Profile], j: int) -> str:
    """Return the site whose spread is farthest from the median; of two sites, the second."""
    sizes = np.array([np.log(max(float(profile.spread[j]), 1e-300)) for profile in profiles.values()])
    sites = list(profiles)
    return sites[1] if len(sites) == 2 else sites[int(np.argmax(np.abs(sizes - np.median(sizes))))]


def unlike_the_others(names: Sequence[str], profile: Profile, model: Any) -> list[str]:
    """Say to the owner of a site which features may be in another unit there than in a joint model.

    Parameters
    ----------
    names : sequence of str
        The model's features.
    profile : Profile
        The site's own rows.
    model : SparsePCAModel
        The joint model; its mean and standard deviation are of this site's rows and all others.
    """
    rest = model.n_samples - profile.n_rows
    scaled = model.facts.get("estimator", {}).get("params", {}).get("scale")  # else the spread is not known
    noised = (model.facts.get("institutions") or {}).get("privacy")
    if rest < 2 or not scaled or noised:
        return []
    joint = Profile(model.n_samples, model.mean, model.scale, model.missing_share)
    factors = unit_factors(profile, joint.without(profile))
    return [
        _in_words(names[int(j)], float(factors[j]), "here than at the other sites")
        for j in np.flatnonzero(factors != 1)
    ]


def _in_words(name: str, factor: float, where: str) -> str:
    size = f"{max(factor, 1 / factor):.3g} times {'larger' if factor > 1 else 'smaller'}"
    return f"{shown(str(name))} is {size} {where}, in its mean and its spread: is it in another unit?"
