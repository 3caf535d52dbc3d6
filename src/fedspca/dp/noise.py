"""Terms that a site may release under differential privacy: clipped rows, a known sensitivity, noise on integers.

A row x is seen as a = (x − c)/s with a centre c and a scale s that were *stated*, not computed from the data, and
shortened to length C where it is longer. Beside it stands a constant b, so that one matrix, the sum of (a, b)(a, b)ᵀ,
holds the covariance, the mean and the number of rows. Adding or removing a row changes it by at most C² + b² in the
Frobenius norm. This norm counts off-diagonal entries twice, so they are released times √2 and have half the noise
variance.

By fold there is one such matrix for each fold. A row's fold follows from its own numbers and a seed, so adding or
removing a row changes one matrix, by at most C² + b², and moves no other row. Each matrix has the noise of a whole
release, and together they cost as much as one (parallel composition).

Rows become integers before they are multiplied. So the bound on what one row can change is exact, whatever a question
contains. Sums are rounded to multiples of 2⁻ᵍ and get discrete Gaussian noise, drawn exactly from the operating
system's randomness (:mod:`fedspca.dp.gaussian`): the last digits of floating-point noise could reveal a value.
"""

import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from fedspca.dp.accounting import Cost
from fedspca.dp.gaussian import discrete_gaussian
from fedspca.linalg.row_blocks import Rows, dense_parts, row_blocks, summed_anywhere

Array = NDArray[np.float64]

MARGIN = 1e-3  # for the rounding of long sums, whose last digits depend on every row
FINE = 1 << 20  # the fewest units of the grid in one standard deviation
EXACT = float(1 << 53)  # above it a double does not hold every integer
LARGEST = 1e150  # its square is still a number
LARGEST_GRID = 200
STEPS = float(1 << 20)  # units in the length to which rows are shortened
EXACT_ROWS = 1 << 12  # the sum of this many products of such lengths is below 2⁵³
CARRY = 40
MOST_NOISE = 1e6  # in units of the sensitivity; a larger value means that the sensitivity was stated wrongly


def seen_rows(rows: Rows, centre: Array, scale: Array) -> Iterator[Array]:
    """Yield the rows in blocks, centred and scaled as stated; the centre replaces missing values.

    Extreme values, which a hostile scale could cause, are limited, so that no row has infinite length.
    """
    for block in row_blocks(rows, centre):
        for dense in dense_parts(block):
            with np.errstate(over="ignore"):
                yield np.clip((dense - centre) / scale, -LARGEST, LARGEST)


def row_lengths(rows: Array) -> Array:
    """Return the length of each row. Rows are first divided by their largest value, so that no square overflows."""
    largest = np.maximum(np.abs(rows).max(axis=1, initial=0.0), np.finfo(float).tiny)
    relative = rows / largest[:, None]
    return np.asarray(largest * np.sqrt(np.einsum("ij,ij->i", relative, relative)))


def whole_rows(rows: Rows, centre: Array, scale: Array, clip: float) -> Iterator[Array]:
    """Yield the rows as integers, in units of clip/2²⁰, each shortened where it is longer than ``clip``.

    Sums of products of integers are exact in blocks of this size, so the bound on what one row can change is not
    affected by rounding, however many rows there are. Rounding may lengthen a row by √d/2 units: room is left for it.
    """
    room = STEPS - math.sqrt(len(centre)) / 2
    if not room > STEPS / 2:
        raise ValueError("there are too many features for noised sums")
    for seen in seen_rows(rows, centre, scale):
        for start in range(0, len(seen), EXACT_ROWS):
            part = seen[start : start + EXACT_ROWS]
            units = np.minimum(STEPS / clip, room / np.maximum(row_lengths(part), np.finfo(float).tiny))
            yield np.rint(part * units[:, None])


class WholeSum:
    """An exact sum of any number of integer arrays, held in doubles: the upper bits are carried separately."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self._low, self._high = np.zeros(shape, np.int64), np.zeros(shape, np.int64)

    def add(self, whole: Array) -> None:
        """Add integers below 2⁵³."""
        self._low += whole.astype(np.int64)
        self._high += self._low >> CARRY
        self._low &= (1 << CARRY) - 1

    def times(self, unit: float) -> Array:
        """Return the sum in other units, rounded once."""
        return np.asarray((np.ldexp(self._high.astype(np.float64), CARRY) + self._low) * unit)


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
def augmented_grams(
    rows: Rows, centre: Array, scale: Array, clip: float, offset: float, folds: int = 1, seed: int = 0
) -> Array:
    """Σ (a, b)(a, b)ᵀ over the clipped rows of each fold."""
    d, unit, counts = len(centre), clip / STEPS, np.zeros(folds)
    squares, sums = [WholeSum((d, d)) for _ in range(folds)], [WholeSum((d,)) for _ in range(folds)]
    for block in whole_rows(rows, centre, scale, clip):
        labels = row_folds(block, folds, seed)
        for fold in np.unique(labels):
            part = block[labels == fold]
            squares[fold].add(part.T @ part)
            sums[fold].add(part.sum(axis=0))
            counts[fold] += len(part)
    grams = np.empty((folds, d + 1, d + 1))
    for fold, gram in enumerate(grams):
        gram[:d, :d] = squares[fold].times(unit**2)
        gram[d, :d] = gram[:d, d] = sums[fold].times(unit * offset)
        gram[d, d] = offset**2 * counts[fold]
    return grams


def row_folds(rows: Array, folds: int, seed: int) -> NDArray[np.intp]:
    """Return the fold of each row of integers, which follows from the row itself and the seed, not from other rows.

    A sum with random odd factors, modulo 2⁶⁴, whose bits are then mixed (the last step of splitmix64).
    """
    factors = np.random.default_rng(seed).integers(1 << 64, size=rows.shape[1], dtype=np.uint64) | np.uint64(1)
    keys = (rows.astype(np.int64).view(np.uint64) * factors).sum(axis=1, dtype=np.uint64)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        keys = (keys ^ (keys >> np.uint64(shift))) * np.uint64(factor)
    return np.asarray((keys ^ (keys >> np.uint64(31))) % np.uint64(folds), np.intp)


@summed_anywhere
def first_moments(rows: Rows, centre: Array, scale: Array, clip: float, offset: float) -> Array:
    """Diagonal and last column of the augmented Gram matrix, in its norm: Σa∘a, √2bΣa, b²n."""
    d, unit, count = len(centre), clip / STEPS, 0
    squares, sums = WholeSum((d,)), WholeSum((d,))
    for block in whole_rows(rows, centre, scale, clip):
        squares.add(np.einsum("ij,ij->j", block, block))
        sums.add(block.sum(axis=0))
        count += len(block)
    return np.concatenate([squares.times(unit**2), sums.times(math.sqrt(2.0) * unit * offset), [offset**2 * count]])


@summed_anywhere
def clipped_product(rows: Rows, centre: Array, scale: Array, clip: float, directions: Array) -> Array:
    """AᵀAQ over the clipped rows; one row changes it by no more than C² where Q is orthonormal.

    Directions have thirty bits, so scores are exact before they are rounded row by row: the result for a row does not
    depend on its position among the others. Rounding adds √m/2 units of 2⁻²⁰ C to the scores; the margin covers this.
    """
    product, whole = WholeSum(directions.shape), np.rint(np.ldexp(directions, 30))
    for block in whole_rows(rows, centre, scale, clip):
        product.add(block.T @ np.rint(np.ldexp(block @ whole, -30)))
    return product.times((clip / STEPS) ** 2)


@summed_anywhere
def length_counts(rows: Rows, centre: Array, scale: Array, edges: Array) -> Array:
    """Count the rows by length: below the first edge, between each two, and in the last place those above all."""
    counts = np.zeros(len(edges))
    for seen in seen_rows(rows, centre, scale):
        places = np.minimum(np.searchsorted(edges, row_lengths(seen), side="right"), len(edges) - 1)
        counts += np.bincount(places, minlength=len(edges))
    return counts


@summed_anywhere
def value_counts(rows: Rows, centre: Array, scale: Array, edges: Array) -> Array:
    """Count the values of each feature that are up to each edge and above the one before; the last bin has no end.

    A missing value is in no bin. A row adds at most one to a bin of each feature.
    """
    counts = np.zeros((len(edges), len(centre)))
    for block in row_blocks(rows):
        for dense in dense_parts(block):
            with np.errstate(over="ignore"):
                seen = np.clip((dense - centre) / scale, -LARGEST, LARGEST)
            for j, column in enumerate(seen.T):
                places = np.searchsorted(edges[:-1], column[~np.isnan(column)], side="left")
                counts[:, j] += np.bincount(places, minlength=len(edges))
    return counts


def cost(entries: int, sensitivity: float, sigma: float, grid: int, among: int) -> Cost:
    """Return what a release of so many entries costs, if one row can change it by ``sensitivity`` before rounding.

    The sum of several sites' discrete Gaussians is a discrete Gaussian up to exp(−π²σ²), which is negligible for σ of
    2²⁰ units. A rounded Gaussian is as private as the Gaussian itself. The distance from it is counted as slack.
    """
    if entries < 1 or grid > LARGEST_GRID:
        raise ValueError("there is nothing to release, or on no grid")
    unit = 2.0**-grid
    change = sensitivity * (1 + MARGIN) + unit * math.sqrt(entries)  # each entry may be rounded the other way
    steps = sigma / math.sqrt(max(among, 1)) / unit
    if steps < FINE:
        raise ValueError(f"the grid is too coarse for the noise: {steps:.3g} units in a standard deviation")
    multiplier = sigma / change
    if not 0 < multiplier <= MOST_NOISE:  # with more noise a release would cost nothing, which is not allowed
        raise ValueError(f"noise of {multiplier:.3g} times what a row can change cannot be accounted for")
    # a Gaussian that is rounded and one on the integers differ by less than 1/(20 steps²) an entry
    return Cost(multiplier, entries / (20.0 * steps**2))


def noised(values: Array, sigma: float, grid: int) -> Array:
    """Round to multiples of 2^-grid and add discrete Gaussian noise of standard deviation ``sigma``."""
    steps = math.ldexp(sigma, grid)
    if 20 * steps >= EXACT / 2:
        raise ValueError("the grid is too fine for this noise")
    # values are cut off, not refused: a refusal would disclose something about values without noise, and cutting off
    # does not increase the distance between neighbouring data
    whole = np.rint(np.clip(np.ldexp(values, grid), -EXACT / 4, EXACT / 4))
    whole += discrete_gaussian(steps, values.size).reshape(values.shape)
    return np.asarray(np.ldexp(whole, -grid))
