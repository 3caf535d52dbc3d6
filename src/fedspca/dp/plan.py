"""What a private study fixes before any release. Coordinator and sites compute it in the same way."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

GRAM_MAX_FEATURES = 4096  # the upper triangle of the Gram matrix is then 67 MB
OFFSET = 0.2  # the constant b relative to the clip C: releasing the number of rows adds 4 % to the noise
LENGTHS = 49
BINS = 49  # in which the values of a feature are counted
REACH = 3.0  # the bins reach sinh(3) = 10 stated scales to each side, and are narrow about the centre


def mechanism_of(mechanism: str, d: int) -> str:
    """Return which of the two ways a study spends its budget: ``gram`` or ``product``."""
    if mechanism != "auto":
        return mechanism
    return "gram" if d <= GRAM_MAX_FEATURES else "product"  # the Gram matrix has less noise; its size decides


def length_edges(d: int) -> Array:
    """Return the edges of the length counts from which the clip is estimated. The clip will be one of them."""
    return np.asarray(math.sqrt(d) * 2.0 ** np.linspace(-6, 6, LENGTHS))


def value_edges() -> Array:
    """Return the edges of the bins in which values are counted: stated centre 0, stated scale 1. The last is unused."""
    grid = np.sinh(np.linspace(-REACH, REACH, BINS - 1))
    return np.append(grid, 2 * grid[-1])


def per_feature(name: str, value: Any, d: int) -> Array:
    """Return what is stated of each of d features, from one number, or one number per feature."""
    array = np.asarray(value, np.float64)
    if array.shape not in ((), (d,)) or not np.isfinite(array).all():
        raise ValueError(f"The stated {name} must be one number or one a feature, {d} in all.")
    return np.array(np.broadcast_to(array, (d,)))


def planned_releases(privacy: Mapping[str, Any], d: int, *, counts: bool = False) -> frozenset[str]:
    """Return the questions that a private study asks; ``counts`` if rows are transformed by quantiles."""
    mechanism = mechanism_of(str(privacy.get("mechanism", "auto")), d)
    asked = {"private_gram"} if mechanism == "gram" else {"private_moments", "private_product"}
    asked |= {"private_counts"} if counts else set()
    return frozenset(asked if privacy.get("clip") is not None else {*asked, "private_lengths"})


def seen_about(joint: tuple[str, float] | None, centre: Array, scale: Array) -> tuple[Array, Array]:
    """Return centre and scale of the rows that are released: normal scores have 0 and 1, others what is stated."""
    if joint is not None and joint[0] == "normal":
        return np.zeros_like(centre), np.ones_like(scale)
    return centre, scale
