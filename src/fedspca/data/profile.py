"""Figures of a site's columns that show no row, and features so unlike between sites that a unit may be wrong."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedspca.data.columns import shown
from fedspca.linalg.operators import Rows, column_sums, deviations_from, missing_counts

Array = NDArray[np.float64]

ORDERS = 1.5  # powers of ten by which the size of a feature at one site must differ to be reported


@dataclass(frozen=True)
class Profile:
    """Per feature of one site: the mean, the standard deviation, and the share of values that are missing."""

    n_rows: int
    mean: Array
    spread: Array
    missing: Array

    @classmethod
    def of(cls, rows: Rows) -> "Profile":
        """Profile rows, block by block."""
        n = rows.shape[0]
        counts = n - missing_counts(rows)
        mean = column_sums(rows, missing=True) / np.maximum(counts, 1)
        squares = deviations_from(rows, mean, missing=True)[1]
        return cls(n, mean, np.sqrt(squares / np.maximum(counts - 1, 1)), 1 - counts / n)

    @property
    def constant(self) -> NDArray[np.bool_]:
        """Features that have one value at this site, or none."""
        return np.asarray(self.spread <= 1e-12 * np.abs(self.mean))


def oddities(names: Sequence[str], profiles: Mapping[str, Profile]) -> list[str]:
    """Say, feature by feature, which site is unlike the others: constant there, or of another order of magnitude."""
    if len(profiles) < 2:
        return []
    constant = np.array([profile.constant for profile in profiles.values()])
    size = np.array([np.hypot(profile.mean, profile.spread) for profile in profiles.values()])
    told = []
    for j, name in enumerate(names):
        varying = [site for site, still in zip(profiles, constant[:, j], strict=True) if not still]
        for k, site in enumerate(profiles):
            if constant[k, j] and varying:
                told.append(f"{shown(name)} has one value, or none, at site {shown(site)} and varies elsewhere")
                continue
            others = np.delete(size[:, j], k)
            if constant[k, j] or not (others > 0).any() or size[k, j] <= 0:
                continue
            apart = np.log10(size[k, j] / np.median(others[others > 0]))
            if abs(apart) >= ORDERS and _is_odd_one(
                np.log10(size[:, j], where=size[:, j] > 0, out=np.zeros(len(size))), k
            ):
                ratio = f"{10 ** abs(apart):.0f} times {'larger' if apart > 0 else 'smaller'}"
                told.append(f"{shown(name)} is {ratio} at site {shown(site)} than elsewhere: is it in another unit?")
    return told


def _is_odd_one(sizes: Array, k: int) -> bool:
    """Whether site k is the one farthest from the middle; of two sites it is the second, seen from the first."""
    if len(sizes) == 2:
        return k == 1
    return int(np.argmax(np.abs(sizes - np.median(sizes)))) == k
