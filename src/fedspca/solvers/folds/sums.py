"""The sums by fold that a fit left, and the covariance of any union of folds.

Everything was asked in the joint frame, about the joint mean μ and in units of the joint scale s. For the rows H of
some folds, with n_H rows and o_H = Σ(x − μ)/s, the covariance (times n_H) about their own mean is

    S_H = Σ_{f in H} S_f − o_H o_H'/n_H,

exactly. Where features are scaled, rows and columns are then divided by the subsample's own standard deviations, as in
a fit to these rows alone.

Where S was asked as a whole, S_f is known. Where only products S_f Q are, S_H is replaced by its Nyström model M_H,
with the diagonal of S_H itself, which is known: M_H + diag(S_H − M_H). It is positive semidefinite, and no entry of its
diagonal is wrong.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedspca.federation.folded import Asked
from fedspca.linalg.small import eigenpairs
from fedspca.linalg.symmetric import unpack
from fedspca.site.answers.products import asked_directions
from fedspca.site.errors import InvalidData
from fedspca.solvers.standardise import Moments

Array = NDArray[np.float64]
Index = NDArray[np.intp]
Chosen = NDArray[np.bool_]

IN_SIGHT = 500  # number of features analysed in subsamples; the others have the smallest covariances
_DEPENDENT = 1e-8  # share of the largest eigenvalue below which an asked direction depends on the others


@dataclass(frozen=True)
class Centred:
    """Second moments of some rows: how many rows, Σ(x − m)(x − m)' with its trace over all features, and the scale."""

    n: float
    matrix: Array
    trace: float
    scale: Array


@dataclass(frozen=True)
class FoldSums:
    """Sums by fold in the joint frame, over the features that are analysed.

    Attributes
    ----------
    rows : ndarray of shape (F,)
        Rows of each fold.
    offsets, squares : ndarray of shape (F, d)
        Σ(x − μ)/s and Σ((x − μ)/s)² of each fold, for all features.
    features : ndarray of int
        The features in sight.
    grams : ndarray of shape (F, p) or None
        S_f, packed, where they were asked.
    basis, products : ndarray of shape (d, q) and (F, d, q), or None
        Orthonormal directions Q and S_f Q, where the covariance was not asked as a whole.
    scaled : bool
        Whether features are divided by their standard deviation.
    """

    rows: Array
    offsets: Array
    squares: Array
    features: Index
    grams: Array | None
    basis: Array | None
    products: Array | None
    scaled: bool

    @property
    def n_folds(self) -> int:
        """How many folds there are."""
        return len(self.rows)

    @property
    def n_features(self) -> int:
        """The number of all features, analysed or not."""
        return int(self.offsets.shape[1])

    def subsample(self, chosen: Chosen) -> Centred:
        """Return the second moments of the chosen folds about their own mean, in units of their own scale."""
        n = float(self.rows[chosen].sum())
        offset = self.offsets[chosen].sum(axis=0)
        diagonal = np.maximum(self.squares[chosen].sum(axis=0) - offset**2 / n, 0.0)
        scale = np.sqrt(diagonal / (n - 1.0)) if self.scaled else np.ones(self.n_features)
        matrix = self._about(chosen, offset / n, diagonal)
        return self._in_units(n, matrix, diagonal, scale)

    def held_out(self, fold: int, train: Chosen, scale: Array) -> Centred:
        """Return the second moments of one fold about the mean of others, in units of their scale."""
        mean = self.offsets[train].sum(axis=0) / self.rows[train].sum()
        chosen = np.arange(self.n_folds) == fold
        diagonal = self.squares[fold] - 2.0 * mean * self.offsets[fold] + self.rows[fold] * mean**2
        matrix = self._about(chosen, mean, np.maximum(diagonal, 0.0))
        return self._in_units(float(self.rows[fold]), matrix, diagonal, scale)

    def _in_units(self, n: float, matrix: Array, diagonal: Array, scale: Array) -> Centred:
        units = np.divide(1.0, scale, out=np.zeros(len(scale)), where=scale > 0)
        own = units[self.features]
        return Centred(n, matrix * own * own[:, None], float(diagonal @ units**2), scale)

    def _about(self, chosen: Chosen, mean: Array, diagonal: Array) -> Array:
        """Σ(x − m)(x − m)' of the chosen folds over the features in sight; its diagonal is known."""
        n, offset, at = self.rows[chosen].sum(), self.offsets[chosen].sum(axis=0), self.features
        if self.grams is not None:
            matrix = unpack(self.grams[chosen].sum(axis=0))
            if len(at) < len(matrix):
                matrix = matrix[np.ix_(at, at)]
            rest = np.outer(offset[at] - 0.5 * n * mean[at], mean[at])
            matrix -= rest + rest.T
            return matrix
        assert self.basis is not None
        assert self.products is not None
        turned = mean @ self.basis
        product = self.products[chosen].sum(axis=0)
        product += np.outer(n * mean - offset, turned) - np.outer(mean, offset @ self.basis)
        core = self.basis.T @ product
        values, vectors = eigenpairs(0.5 * (core + core.T))
        keep = values > _DEPENDENT * max(float(values[-1]), 0.0)
        factor = product[at] @ (vectors[:, keep] / np.sqrt(values[keep]))
        matrix = factor @ factor.T
        matrix.flat[:: len(at) + 1] = np.maximum(matrix.diagonal(), diagonal[at])
        return np.asarray(matrix)


def fold_sums(asked: Sequence[Asked], moments: Moments, w: Array, *, scaled: bool, most: int = IN_SIGHT) -> FoldSums:
    """Return the sums by fold that a fit left.

    Parameters
    ----------
    asked : sequence of Asked
        What was asked by fold, in order.
    moments : Moments
        The joint moments.
    w : ndarray of shape (d, r)
        The loadings found: their features are always analysed.
    scaled : bool
        Whether features are scaled.
    most : int
        The largest number of features that are analysed.
    """
    began = max(at for at, each in enumerate(asked) if each.query.name == "moments")
    first, second, *later = asked[began:]
    rows = np.asarray(first.arrays["rows"])
    check_folds(rows)
    frame = moments.frame
    left = moments.mean - second.query.arrays["mean"]  # what rounding left in the mean
    counts, offsets = first.arrays["counts"], second.arrays["offsets"]
    about = offsets - counts * left
    squares = second.arrays["squares"] - left * (2.0 * offsets - counts * left)
    grams = next((each.arrays["gram"] for each in later if each.query.name == "gram"), None)
    basis = products = None
    if grams is None:
        basis, products = _directions([each for each in later if "product" in each.arrays])
    features = _in_sight(grams, products, w, most)
    return FoldSums(
        rows, about / frame.scale, np.maximum(squares, 0.0) / frame.scale**2, features, grams, basis, products, scaled
    )


def check_folds(rows: Array) -> None:
    """Raise :class:`InvalidData` unless every fold has two rows or more."""
    if rows.min() < 2:
        n, folds = int(rows.sum()), len(rows)
        fewer = max(4, folds // 4 * 2)  # even, as half samples need
        advice = (
            f"Set folds (--folds) to a smaller number, such as {fewer}; sites with few rows keep them together in one "
            "fold."
            if fewer < folds and 2 * fewer <= n
            else "There are too few rows for folds."
        )
        raise InvalidData(
            f"{folds} folds are too many for these rows: a fold has {int(rows.min())} of all {n}, and needs two or "
            f"more. {advice}"
        )


def _in_sight(grams: Array | None, products: Array | None, w: Array, most: int) -> Index:
    """Return the features to analyse: those of the loadings, and those whose covariances with all are largest."""
    if len(w) <= most:
        return np.arange(len(w))
    related = products if grams is None else unpack(grams.sum(axis=0))[None]
    assert related is not None
    rank = np.where(w.any(axis=1), np.inf, np.square(related.sum(axis=0)).sum(axis=1))
    return np.sort(np.argsort(-rank, kind="stable")[:most])


def _directions(asked: Sequence[Asked]) -> tuple[Array, Array]:
    """Return an orthonormal basis of all directions that were asked, and its products by fold."""
    directions = np.hstack([asked_directions(each.query) for each in asked])
    products = np.concatenate([each.arrays["product"] for each in asked], axis=2)
    lengths = np.linalg.norm(directions, axis=0)
    directions = directions / lengths
    values, vectors = eigenpairs(directions.T @ directions)
    keep = values > _DEPENDENT * values[-1]
    turn = vectors[:, keep] / np.sqrt(values[keep])
    return directions @ turn, (products / lengths) @ turn
