"""Distribute the rows of a table over sites whose distributions differ.

Each function returns the owner of every row, as ``fit(rows, sites=owners)`` takes it. The rows do not change, so the
pooled problem and its solution are the same for every partition. The exception is :func:`shift_features`, which changes
the rows.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedspca.experiments.data import sites_in_order

Array = NDArray[np.float64]
Owners = NDArray[np.str_]

ATTEMPTS = 100  # most draws of a random partition before an error is raised


def by_label(labels: ArrayLike, n_sites: int, *, seed: int = 0) -> Owners:
    """Distribute rows by label, so that each site has as few labels as possible.

    Rows are shuffled, then ordered by label and cut into equal parts. So a site has one label, or a few labels that
    follow each other.
    """
    _, codes = np.unique(np.asarray(labels), return_inverse=True)
    shuffled = np.random.default_rng(seed).permutation(len(codes))
    return _cut(shuffled[np.argsort(codes[shuffled], kind="stable")], n_sites)


def dirichlet(labels: ArrayLike, n_sites: int, *, alpha: float = 0.5, seed: int = 0) -> Owners:
    """Distribute the rows of each label by shares drawn from Dirichlet(α) (Hsu, Qi and Brown 2019).

    Small α gives each label to few sites; large α gives all sites the same mixture. Every site gets two rows or more.
    """
    _check_positive("alpha", alpha)
    _, codes = np.unique(np.asarray(labels), return_inverse=True)
    rng = np.random.default_rng(seed)
    names = _names(len(codes), n_sites)
    for _ in range(ATTEMPTS):
        owner = np.empty(len(codes), dtype=np.intp)
        for code in np.unique(codes):
            mine = rng.permutation(np.flatnonzero(codes == code))
            owner[mine] = _by_shares(len(mine), rng.dirichlet(np.full(n_sites, alpha)))
        if np.bincount(owner, minlength=n_sites).min() >= 2:
            return np.asarray(names[owner])
    raise ValueError(f"No Dirichlet({alpha:g}) partition gave each of {n_sites} sites two rows; try a larger alpha.")


def by_quantity(n_rows: int, n_sites: int, *, alpha: float = 0.5, seed: int = 0) -> Owners:
    """Distribute shuffled rows by shares from Dirichlet(α): sites differ only in size, and get two rows or more."""
    _check_positive("alpha", alpha)
    names = _names(n_rows, n_sites)
    if n_rows < 2 * n_sites:
        raise ValueError(f"{n_rows} rows are too few to give each of {n_sites} sites two.")
    rng = np.random.default_rng(seed)
    shares = rng.dirichlet(np.full(n_sites, alpha))
    owner = np.concatenate([np.repeat(np.arange(n_sites), 2), _by_shares(n_rows - 2 * n_sites, shares)])
    return np.asarray(names[rng.permutation(owner)])


def by_feature(values: ArrayLike, n_sites: int, *, strength: float = 1.0, seed: int = 0) -> Owners:
    """Distribute rows in the order of one feature, so that its distribution shifts from site to site.

    With ``strength`` 1, the sites have consecutive ranges of the feature. With 0, the feature has no influence. In
    between, rows are ordered by a weighted mean of the feature's rank and a random rank.
    """
    if not 0 <= strength <= 1:
        raise ValueError(f"'strength' must lie between 0 and 1. Got {strength!r} instead.")
    ranks = np.argsort(np.argsort(np.asarray(values, dtype=np.float64), kind="stable"), kind="stable")
    chance = np.random.default_rng(seed).permutation(len(ranks))
    return _cut(np.argsort(strength * ranks + (1 - strength) * chance, kind="stable"), n_sites)


def by_principal_score(rows: ArrayLike, n_sites: int, *, strength: float = 1.0, seed: int = 0) -> Owners:
    """Distribute rows in the order of their score on the first principal component of the standardised table.

    This is the hardest partition for local means: each site sees only a short range of the first component.
    """
    table = np.asarray(rows, dtype=np.float64)
    spread = table.std(axis=0)
    table = (table - table.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    _, _, vectors = np.linalg.svd(table, full_matrices=False)
    leading = vectors[0] * np.sign(vectors[0, np.argmax(np.abs(vectors[0]))])  # the sign is arbitrary, so fix it
    return by_feature(table @ leading, n_sites, strength=strength, seed=seed)


def shift_features(rows: ArrayLike, owners: Sequence[Any] | Owners, *, size: float = 1.0, seed: int = 0) -> Array:
    """Add to each feature a random offset per site, N(0, size²) in standard deviations, as if instruments differed."""
    table, sites = np.asarray(rows, dtype=np.float64), np.asarray(owners)
    rng, spread = np.random.default_rng(seed), np.asarray(rows, dtype=np.float64).std(axis=0)
    shifted = table.copy()
    for site in np.unique(sites):
        shifted[sites == site] += size * spread * rng.standard_normal(table.shape[1])
    return shifted


def _cut(order: NDArray[np.intp], n_sites: int) -> Owners:
    """The owner of each row if the rows, in this order, are cut into equal parts."""
    owners = np.empty(len(order), dtype=object)
    owners[order] = sites_in_order(len(order), n_sites)
    return owners.astype(str)


def _names(n_rows: int, n_sites: int) -> Owners:
    return np.unique(sites_in_order(n_rows, n_sites))


def _by_shares(n: int, shares: Array) -> NDArray[np.intp]:
    """The site of each of n rows: consecutive rows go to site 0, then to site 1, and so on, by the shares."""
    cuts = np.round(np.cumsum(shares)[:-1] * n)
    return np.searchsorted(cuts, np.arange(n), side="right")


def _check_positive(name: str, value: float) -> None:
    if not 0 < value < np.inf:
        raise ValueError(f"{name!r} must be a positive number. Got {value!r} instead.")
