"""Questions about S = AᵀA: products with directions, S itself, what directions capture and what they leave."""

from weakref import WeakValueDictionary
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from fedspca.linalg.operators import DeflatedRows
from fedspca.linalg.single import in_single
from fedspca.linalg.symmetric import pack
from fedspca.site.answers.frames import frame_of
from fedspca.site.errors import InvalidQuery
from fedspca.site.question import Query, SiteData, State, Terms

Array = NDArray[np.float64]

_DRAWN: WeakValueDictionary[tuple[int, tuple[int, int]], Array] = WeakValueDictionary()
CURVATURE_POWER = 16  # the power mean of the sites' curvatures is within K^(1/16) of their maximum


def gram_product(data: SiteData, state: State, query: Query) -> tuple[State, Terms]:
    """AᵀAQ for the directions Q that were asked, rounded to single precision where the question says so."""
    product = _seen(data, query).gram_product(asked_directions(query))
    return state, {"product": product.astype(str(query.scalars["precision"]), copy=False)}


def gram_sketch(data: SiteData, state: State, query: Query) -> tuple[State, Terms]:
    """AᵀAΩ for random directions Ω, of which only the seed is sent."""
    product = _seen(data, query).gram_product(asked_directions(query))
    return state, {"product": product.astype(str(query.scalars["precision"]), copy=False)}


def _seen(data: SiteData, query: Query) -> DeflatedRows:
    """Return the rows as an operator. Single precision is asked: then rows that are stored so are multiplied so."""
    rows = data.seen_in(frame_of(query))
    return in_single(rows) if query.scalars["precision"] == "float32" else rows


def asked_directions(query: Query) -> Array:
    """Return the directions that a question asks about: those it contains, or those drawn from its seed."""
    if "directions" in query.arrays:
        return query.arrays["directions"]
    return random_directions(int(query.scalars["seed"]), (len(query.arrays["mean"]), int(query.scalars["columns"])))


def random_directions(seed: int, shape: tuple[int, int]) -> Array:
    """Draw the directions of a seed, in the same way here and at the sites.

    They are not orthonormalised: the generator gives the same numbers on every machine, but a QR's last digits differ.
    Sites in one process share the directions while they are in use: drawing costs as much as a pass over the rows.
    """
    drawn = _DRAWN.get((seed, shape))
    if drawn is None:
        drawn = np.random.default_rng(seed).standard_normal(shape)
        drawn.flags.writeable = False
        _DRAWN[seed, shape] = drawn
    return drawn


def gram(data: SiteData, state: State, query: Query) -> tuple[State, Terms]:
    """AᵀA itself, its upper triangle packed."""
    matrix = _seen(data, query).gram_matrix()
    return state, {"gram": pack(matrix).astype(str(query.scalars["precision"]), copy=False)}


def permuted_gram(data: SiteData, state: State, query: Query) -> tuple[State, Terms]:
    """AᵀA after each column is permuted independently, several times: the covariance of unrelated features."""
    if not data.preparation.plain:
        raise InvalidQuery(
            data.site, query.name, "rows with covariates, weights or a mean of their own are not permuted."
        )
    first, count = int(query.scalars["first"]), int(query.scalars["permutations"])
    rows = data.standardised_in(frame_of(query))
    seed = [int(query.scalars["seed"]), crc32(data.site.encode())]
    grams = [pack(rows.permuted_gram_matrix([*seed, first + at])) for at in range(count)]
    return state, {"permuted": np.stack(grams).astype(str(query.scalars["precision"]), copy=False)}


def captured_variance(data: SiteData, state: State, query: Query) -> tuple[State, Terms]:
    """QᵀAᵀAQ, r × r: all that explained variance and reconstruction error need."""
    directions = query.arrays["directions"]
    return state, {"captured": directions.T @ data.seen_in(frame_of(query)).gram_product(directions)}


def row_errors(data: SiteData, state: State, query: Query) -> tuple[State, Terms]:
    """Σe and Σe² of the rows' squared reconstruction errors e = ‖a − aQQᵀ‖²: what a threshold for anomalies needs.

    Q is orthonormalised again here, to remove rounding errors, so that QQᵀ is a projection.
    """
    basis = np.linalg.qr(query.arrays["directions"])[0]
    errors, squares = data.standardised_in(frame_of(query)).error_sums(basis)
    return state, {"errors": np.array(errors), "squares": np.array(squares)}


def curvature(data: SiteData, state: State, query: Query) -> tuple[State, Terms]:
    """(σ_max(A)²/reference)¹⁶, whose sum gives a power mean: about the largest curvature, and no site's own."""
    relative = data.seen_in(frame_of(query)).largest_eigenvalue() / float(query.scalars["reference"])
    return state, {"curvature": np.array(relative**CURVATURE_POWER)}
