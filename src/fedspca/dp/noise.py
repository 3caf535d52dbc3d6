"""Terms that a site may release under differential privacy: clipped rows, a known sensitivity, noise on integers.

A row x is seen as a = (x − c)/s with a centre c and a scale s that were *stated*, not computed from the data, and
shortened to length C where it is longer. Beside it stands a constant b, so that one matrix, the sum of (a, b)(a, b)ᵀ,
holds the covariance, the mean and the number of rows. To add or remove a row changes it by no more than C² + b² in the
Frobenius norm, in which off-diagonal entries count twice: they are released times √2, and carry half the variance.

Sums are rounded to multiples of 2⁻ᵍ and get discrete Gaussian noise, drawn by OpenDP from the operating system's
randomness: floating-point noise would betray a value by its last digits.
"""

import math
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from os import cpu_count
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedspca.dp.accounting import Cost
from fedspca.linalg.operators import BLOCK_BYTES, Rows, row_blocks, summed_anywhere

Array = NDArray[np.float64]

MARGIN = 1e-3  # for the rounding of long sums, whose last digits depend on every row
FINE = 1 << 20  # the fewest units of the grid in one standard deviation
EXACT = float(1 << 53)  # above it a double does not hold every integer
LARGEST = 1e150  # its square is still a number
LARGEST_GRID = 200
CHUNK = 20_000


def clipped_rows(rows: Rows, centre: Array, scale: Array, clip: float) -> Iterator[Array]:
    """Yield the rows in blocks, centred and scaled as stated, each shortened to length ``clip`` if it is longer.

    A missing value stands at the centre. A value beyond all bounds, as a hostile scale could make it, is held, so that
    no row is infinitely long.
    """
    for dense in _dense_blocks(rows, centre):
        with np.errstate(over="ignore"):
            seen = np.clip((dense - centre) / scale, -LARGEST, LARGEST)
        lengths = np.sqrt(np.einsum("ij,ij->i", seen, seen))
        yield seen * np.minimum(1.0, clip / np.maximum(lengths, np.finfo(float).tiny))[:, None]


def _dense_blocks(rows: Rows, centre: Array) -> Iterator[Array]:
    for block in row_blocks(rows, centre):
        if isinstance(block, np.ndarray):
            yield block.astype(np.float64, copy=False)
            continue
        step = max(1, BLOCK_BYTES // (8 * len(centre)))  # many sparse rows would be large once they are dense
        for start in range(0, block.shape[0], step):
            yield block[start : start + step].toarray()


def packed(matrix: Array) -> Array:
    """Return the upper triangle of a symmetric matrix as a vector of the same norm."""
    weights = np.sqrt(2.0) - (np.sqrt(2.0) - 1.0) * np.eye(len(matrix))
    return np.asarray((matrix * weights)[np.triu_indices(len(matrix))])


def unpacked(vector: Array) -> Array:
    """Return the symmetric matrix that :func:`packed` made a vector of."""
    size = round((math.sqrt(8 * len(vector) + 1) - 1) / 2)
    upper = np.zeros((size, size))
    upper[np.triu_indices(size)] = vector
    upper = upper + upper.T
    return np.asarray(upper / (np.sqrt(2.0) - (np.sqrt(2.0) - 2.0) * np.eye(size)))


@summed_anywhere
def augmented_gram(rows: Rows, centre: Array, scale: Array, clip: float, offset: float) -> Array:
    """Σ (a, b)(a, b)ᵀ over the clipped rows."""
    d = len(centre)
    gram = np.zeros((d + 1, d + 1))
    count = 0
    for block in clipped_rows(rows, centre, scale, clip):
        gram[:d, :d] += block.T @ block
        gram[:d, d] += block.sum(axis=0)
        count += len(block)
    gram[:d, d] *= offset
    gram[d, :d] = gram[:d, d]
    gram[d, d] = offset**2 * count
    return gram


@summed_anywhere
def first_moments(rows: Rows, centre: Array, scale: Array, clip: float, offset: float) -> Array:
    """Diagonal and last column of the augmented Gram matrix, in its norm: Σa∘a, √2bΣa, b²n."""
    squares, sums, count = np.zeros(len(centre)), np.zeros(len(centre)), 0
    for block in clipped_rows(rows, centre, scale, clip):
        squares += np.einsum("ij,ij->j", block, block)
        sums += block.sum(axis=0)
        count += len(block)
    return np.concatenate([squares, np.sqrt(2.0) * offset * sums, [offset**2 * count]])


@summed_anywhere
def clipped_product(rows: Rows, centre: Array, scale: Array, clip: float, directions: Array) -> Array:
    """AᵀAQ over the clipped rows; one row changes it by no more than C² where Q is orthonormal."""
    product = np.zeros(directions.shape)
    for block in clipped_rows(rows, centre, scale, clip):
        product += block.T @ (block @ directions)
    return product


@summed_anywhere
def length_counts(rows: Rows, centre: Array, scale: Array, edges: Array) -> Array:
    """Count the rows by length: below the first edge, between each two, and in the last place those above all."""
    counts = np.zeros(len(edges))
    for block in clipped_rows(rows, centre, scale, np.inf):
        lengths = np.sqrt(np.einsum("ij,ij->i", block, block))
        places = np.minimum(np.searchsorted(edges, lengths, side="right"), len(edges) - 1)
        counts += np.bincount(places, minlength=len(edges))
    return counts


def cost(entries: int, sensitivity: float, sigma: float, grid: int, among: int) -> Cost:
    """Return what a release of so many entries costs, if one row can change it by ``sensitivity`` before rounding.

    Discrete Gaussians of several sites add up to one, to within exp(−π²σ²), nothing for a σ of 2²⁰ units. Its distance
    from a Gaussian that is rounded, which hides as well as the Gaussian itself, is counted as slack.
    """
    if entries < 1 or grid > LARGEST_GRID:
        raise ValueError("there is nothing to release, or on no grid")
    unit = 2.0**-grid
    change = sensitivity * (1 + MARGIN) + unit * math.sqrt(entries)  # each entry may be rounded the other way
    steps = sigma / math.sqrt(max(among, 1)) / unit
    if steps < FINE:
        raise ValueError(f"the grid is too coarse for the noise: {steps:.3g} units in a standard deviation")
    # a Gaussian that is rounded and one on the integers differ by less than 1/(20 steps²) an entry
    return Cost(sigma / change, entries / (20.0 * steps**2))


def noised(values: Array, sigma: float, grid: int) -> Array:
    """Round to multiples of 2^-grid and add discrete Gaussian noise of standard deviation ``sigma``."""
    steps = math.ldexp(sigma, grid)
    if 20 * steps >= EXACT / 2:
        raise ValueError("the grid is too fine for this noise")
    # cut off rather than refused: a refusal would tell something of the values without noise, and cutting off moves
    # neighbouring data no further apart
    whole = np.rint(np.clip(np.ldexp(values, grid), -EXACT / 4, EXACT / 4))
    whole += discrete_gaussian(steps, values.size).reshape(values.shape)
    return np.asarray(np.ldexp(whole, -grid))


def discrete_gaussian(scale: float, size: int) -> Array:
    """Draw integers k with probabilities proportional to exp(−k²/2scale²), by OpenDP's exact sampler."""
    draw = _sampler(float(scale))
    sizes = [min(CHUNK, size - start) for start in range(0, size, CHUNK)]
    if len(sizes) == 1:
        return np.array(draw([0] * size), np.float64)
    with ThreadPoolExecutor(cpu_count() or 1) as pool:  # the sampler runs outside Python
        drawn = list(pool.map(lambda count: np.array(draw([0] * count), np.float64), sizes))
    return np.concatenate(drawn) if drawn else np.zeros(0)


@lru_cache(maxsize=8)
def _sampler(scale: float) -> Any:
    import opendp.prelude as dp

    dp.enable_features("contrib")
    return dp.m.make_gaussian(dp.vector_domain(dp.atom_domain(T="i64")), dp.l2_distance(T="f64"), scale=scale)
