"""Questions with noise, and what each costs: sums over clipped rows that hide any one row."""

import numpy as np
from numpy.typing import NDArray

from fedspca.dp.accounting import Cost
from fedspca.dp.noise import (
    augmented_grams,
    clipped_product,
    cost,
    first_moments,
    length_counts,
    noised,
    packed,
    value_counts,
)
from fedspca.site.errors import InvalidQuery
from fedspca.site.question import DEAL, Query, SiteData, State, Terms

Array = NDArray[np.float64]


def private_gram(data: SiteData, state: State, query: Query) -> tuple[State, Terms]:
    """Σ(a, b)(a, b)ᵀ over clipped rows, packed, with noise; for each fold, if it is asked by fold."""
    dealt = (query.folds, int(query.scalars[DEAL])) if query.folds else (1, 0)
    grams = augmented_grams(data.rows, *_stated(query), _number(query, "offset"), *dealt)
    vectors = np.stack([packed(gram) for gram in grams])
    return state, {"gram": _noised(data, query, vectors if query.folds else vectors[0])}


def private_moments(data: SiteData, state: State, query: Query) -> tuple[State, Terms]:
    """Σa², √2bΣa and b²n over clipped rows, with noise."""
    sums = first_moments(data.rows, *_stated(query), _number(query, "offset"))
    return state, {"moments": _noised(data, query, sums)}


def private_product(data: SiteData, state: State, query: Query) -> tuple[State, Terms]:
    """AᵀAQ over clipped rows, with noise."""
    product = clipped_product(data.rows, *_stated(query), query.arrays["directions"])
    return state, {"product": _noised(data, query, product)}


def private_lengths(data: SiteData, state: State, query: Query) -> tuple[State, Terms]:
    """Rows counted by length, with noise."""
    arrays = query.arrays
    counts = length_counts(data.rows, arrays["centre"], arrays["scale"], arrays["edges"])
    return state, {"counts": _noised(data, query, counts)}


def private_counts(data: SiteData, state: State, query: Query) -> tuple[State, Terms]:
    """Values of each feature counted in stated bins, with noise."""
    arrays = query.arrays
    counts = value_counts(data.rows, arrays["centre"], arrays["scale"], arrays["edges"])
    return state, {"counts": _noised(data, query, counts)}


def _stated(query: Query) -> tuple[Array, Array, float]:
    return query.arrays["centre"], query.arrays["scale"], _number(query, "clip")


def _number(query: Query, name: str) -> float:
    return float(query.scalars[name])


def _noised(data: SiteData, query: Query, values: Array) -> Array:
    """Add this site's part of the noise. Each site adds its own part, and the variances add up."""
    try:
        return noised(values, _number(query, "sigma") / _number(query, "among") ** 0.5, int(query.scalars["grid"]))
    except (ValueError, ArithmeticError) as error:
        raise InvalidQuery(data.site, query.name, f"{error}.") from None


def noise_cost(query: Query, entries: int, sensitivity: float) -> Cost:
    """Return what a release of so many entries costs, with the noise that the question asks for."""
    return cost(entries, sensitivity, _number(query, "sigma"), int(query.scalars["grid"]), int(query.scalars["among"]))


def product_cost(query: Query, directions: Array) -> Cost:
    """One row a changes AᵀAQ by a(aᵀQ), whose norm is at most ‖a‖²‖Q‖."""
    return noise_cost(query, directions.size, _number(query, "clip") ** 2 * float(np.linalg.norm(directions, 2)))


def augmented_squares(query: Query) -> float:
    """C² + b²: how far one row moves the augmented Gram matrix."""
    return _number(query, "clip") ** 2 + _number(query, "offset") ** 2
