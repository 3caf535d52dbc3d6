"""Say in words which features differ so much between sites that a unit may be wrong."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fedspca.data.columns import shown
from fedspca.linalg.profile import Profile
from fedspca.linalg.units import apart, unit_factors


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
    odd = np.array([apart(factor) for factor in factors.values()])
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
    noised = (model.facts.get("institutions") or {}).get("privacy")
    if rest < 2 or model.spread is None or not model.preparation.plain or noised:
        return []
    joint = Profile(model.n_samples, model.mean, model.spread, model.missing_share)
    factors = unit_factors(profile, joint.without(profile))
    return [
        _in_words(names[int(j)], float(factors[j]), "here than at the other sites")
        for j in np.flatnonzero(factors != 1)
    ]


def _in_words(name: str, factor: float, where: str) -> str:
    size = f"{max(factor, 1 / factor):.3g} times {'larger' if factor > 1 else 'smaller'}"
    return f"{shown(str(name))} is {size} {where}, in its mean and its spread: is it in another unit?"
