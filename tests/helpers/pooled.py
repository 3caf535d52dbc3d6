"""What options of a fit make of a table, on the pooled rows by numpy alone: a reference for sums over sites."""

import numpy as np
from scipy.stats import norm, rankdata

from helpers.combat import combat


def analysed(x, sites, known, often, *, adjust=(), protect=(), centre="joint", scale_by="joint", **options):
    """Return AᵀA of the rows as they are analysed, each feature divided by its standard deviation.

    ``known`` has the covariates age and sex, ``often`` the weights of the rows. A missing value is at the mean.
    """
    w = often.astype(float) if options.get("weight") else np.ones(len(x))
    if options.get("site_weight") == "equal":
        labels = np.unique(sites)
        of_site = np.array([w[sites == label].sum() for label in labels])
        w = w * (w.sum() / len(labels) / of_site)[np.searchsorted(labels, sites)]
    for name in options.get("transform", ()):
        x = TRANSFORMS[name](x)
    design = np.column_stack([np.zeros((len(x), 0)), *(LINES[name](known) for name in (*adjust, *protect))])
    if centre == "combat":
        x, design = combat(x, sites, design), design[:, :0]
    there = ~np.isnan(x)
    if centre == "site":
        x, design = x.copy(), design.copy()
        for label in np.unique(sites):
            mine = sites == label
            x[mine] -= _mean(x[mine], w[mine])
            design[mine] -= _mean(design[mine], w[mine])
            if scale_by == "site":
                x[mine] /= _spread(
                    x[mine], w[mine] * mine.sum() / w[mine].sum() if "site_weight" in options else w[mine]
                )
    x = x - _mean(x, w)
    x = np.where(there, x, 0.0)
    if design.shape[1]:
        lines = np.sqrt(w)[:, None] * np.column_stack([np.ones(len(x)), design])
        x -= np.column_stack([np.ones(len(x)), design]) @ np.linalg.lstsq(lines, np.sqrt(w)[:, None] * x, rcond=None)[0]
    spread = np.sqrt((w @ x**2) / (w @ there - 1))
    if "variable" in options:
        x = np.where(spread >= np.sort(spread)[-options["variable"]], x, 0.0)
    if scale_by == "joint":
        x = x / spread
    return (x * w[:, None]).T @ x


def _mean(x, w):
    return np.nansum(w[:, None] * x, axis=0) / (w @ ~np.isnan(x))


def _spread(x, w):
    """Of centred values."""
    return np.sqrt(np.nansum(w[:, None] * x**2, axis=0) / (w @ ~np.isnan(x) - 1))


def _pearson(x):
    expected = np.outer(x.sum(axis=1), x.sum(axis=0)) / x.sum()
    return np.clip((x - expected) / np.sqrt(expected + expected**2 / 100), -np.sqrt(len(x)), np.sqrt(len(x)))


def _male(known):
    return (known["sex"] == "M").to_numpy(float)


LINES = {
    "age": lambda known: known["age"].to_numpy(),
    "sex": _male,
    "age:sex": lambda known: known["age"].to_numpy() * _male(known),
}
TRANSFORMS = {
    "library": lambda x: 1e4 * x / np.nansum(x, axis=1, keepdims=True),
    "log1p": np.log1p,
    "clr": lambda x: np.log(x) - np.nanmean(np.log(x), axis=1, keepdims=True),
    "pearson": _pearson,
    "normal": lambda x: norm.ppf((rankdata(x, axis=0, nan_policy="omit") - 0.5) / (~np.isnan(x)).sum(axis=0)),
    "winsorise:0.05": lambda x: np.clip(x, *np.nanquantile(x, [0.05, 0.95], axis=0, method="inverted_cdf")),
}
