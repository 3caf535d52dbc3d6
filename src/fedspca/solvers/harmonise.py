"""ComBat by sums: what each site measures its own shift and spread against, and the rows that come of it.

The joint mean μ, the effects B of the protected covariates within sites, and the spread σ within sites are sums over
the sites. Each site's shift and spread, and their shrinkage over the features, are its own
(:mod:`fedspca.linalg.combat`). All of it is what ComBat gives on the pooled rows.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedspca._callers import warn_caller
from fedspca.federation.base import Federation
from fedspca.linalg.beside import Adjustment, Reference
from fedspca.site.errors import InvalidData, count
from fedspca.site.preparation import Preparation
from fedspca.site.question import Query
from fedspca.solvers.adjust import check_independent, least_squares, tell_single
from fedspca.solvers.asking import adjustment_arrays, reference_arrays

Array = NDArray[np.float64]


class SiteEffectWarning(UserWarning):
    """Some features have one value at some site, so that no site effect can be taken out of them."""


@dataclass(frozen=True, eq=False)
class Harmonised:
    """Rows without their site's own shift and spread.

    Attributes
    ----------
    reference : Reference
        The joint mean, and the spread within sites; 0 for features that are left as they are.
    adjustment : Adjustment or None
        The protected covariates: their joint mean and effects.
    mean, squares : ndarray of shape (d,)
        The joint mean of the harmonised rows, and the sum of squares about it.
    """

    reference: Reference
    adjustment: Adjustment | None
    mean: Array
    squares: Array


def harmonise(federation: Federation, preparation: Preparation, mean: Array, rows: float) -> Harmonised:
    """Take each site's own shift and spread out, by two sums; by two more if covariates are protected.

    Parameters
    ----------
    federation : Federation
        The sites.
    preparation : Preparation
        The protected covariates.
    mean : ndarray of shape (d,)
        The features' joint means.
    rows : float
        The number of rows of all sites.
    """
    if federation.n_sites < 2:
        raise InvalidData("ComBat compares sites, and there is one: one site has no effect. Leave ComBat out.")
    adjustment = _protected(federation, preparation, rows) if preparation.design.terms else None
    within = federation.sum(Query("within_squares", adjustment_arrays(adjustment)))
    uniform = within["constant"] > 0.5
    _tell_uniform(federation.feature_names, uniform)
    reference = Reference(mean, np.where(uniform, 0.0, np.sqrt(within["squares"] / rows)))
    about = {"mean": mean, **adjustment_arrays(adjustment), **reference_arrays(reference)}
    after = federation.sum(Query("harmonised", about))
    left = after["offsets"] / rows
    return Harmonised(reference, adjustment, mean + left, np.maximum(after["squares"] - after["offsets"] * left, 0.0))


def _protected(federation: Federation, preparation: Preparation, rows: float) -> Adjustment:
    """Regress the features on the covariates and the site, by two sums."""
    names = [line.name for line in preparation.design.lines]
    asked = {"covariates": np.zeros(len(names))}
    first = federation.sum(Query("covariate_sums", asked))
    tell_single(names, first["varying"], federation.n_sites)
    about = first["sums"] / rows
    second = federation.sum(Query("within_moments", asked))
    inner = 0.5 * (second["inner"] + second["inner"].T)
    check_independent(names, inner, about, rows, "at each site")
    return Adjustment(about, least_squares(inner) @ second["cross"])


def _tell_uniform(names: tuple[str, ...], uniform: NDArray[np.bool_]) -> None:
    if len(names) - int(uniform.sum()) < 2:
        raise InvalidData(
            "ComBat compares features with each other, and fewer than two vary at every site. Use centre='site'."
        )
    if uniform.any():
        named = [names[j] for j in np.flatnonzero(uniform)]
        have, them = ("has", "it") if len(named) == 1 else ("have", "them")
        warn_caller(
            f"{count(len(named), 'feature')} {have} one value at some site, so no site effect is taken out of {them}: "
            f"{', '.join(named[:5])}{f' and {len(named) - 5} more' if len(named) > 5 else ''}.",
            SiteEffectWarning,
        )
