"""ComBat on pooled rows, as Johnson, Li and Rabinovic (2007) write it: a reference for sums over sites."""

import numpy as np


def combat(x, sites, covariates=None):
    """Return the rows without their site's shift and spread, with the effects of the covariates kept."""
    labels, n = np.unique(sites), len(x)
    batch = (np.asarray(sites)[:, None] == labels).astype(float)
    design = batch if covariates is None else np.hstack([batch, covariates])
    b = np.linalg.lstsq(design, x, rcond=None)[0]
    standing = batch.sum(axis=0) / n @ b[: len(labels)] + design[:, len(labels) :] @ b[len(labels) :]
    sigma = np.sqrt(((x - design @ b) ** 2).mean(axis=0))
    z, found = (x - standing) / sigma, np.empty_like(x)
    for label in labels:
        mine = sites == label
        found[mine] = _without_effect(z[mine])
    return found * sigma + standing


def _without_effect(z):
    n, shift, spread = len(z), z.mean(axis=0), z.var(axis=0, ddof=1)
    centre, tau2 = shift.mean(), shift.var(ddof=1)
    m, s2 = spread.mean(), spread.var(ddof=1)
    a, b = (2 * s2 + m**2) / s2, (m * s2 + m**3) / s2
    gamma, delta = shift, spread
    for _ in range(2000):
        gamma = (n * tau2 * shift + delta * centre) / (n * tau2 + delta)
        delta = (0.5 * ((z - gamma) ** 2).sum(axis=0) + b) / (n / 2 + a - 1)
    return (z - gamma) / np.sqrt(delta)
