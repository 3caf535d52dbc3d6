"""Cross-validation from sums by fold: how well components predict rows that were not used in the fit.

Train on all folds but one, and let the components predict each value of the rows left out from the *other* values of
the same row. With orthonormal loadings W, leverages h_i = Σ_j W_ij² and the row's residual e = (I − WW')x, the error of
that prediction is e_i/(1 − h_i), so that its sum of squares over rows needs their second moments G only:

    PRESS = Σ_i [(I − WW')G(I − WW')]_ii/(1 − h_i)².

The variance captured in new rows grows with every component, even if the component is noise; PRESS has a minimum. The
score is Q² = 1 − PRESS/tr(G): 0 without components, below 0 for components that predict worse than the mean does.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedspca.linalg.cardinality.polish import orthonormal_basis
from fedspca.solvers.doing import counted
from fedspca.solvers.exact.whole import leading
from fedspca.solvers.folds.refits import dense_starts, matched, refit
from fedspca.solvers.folds.sums import Centred, FoldSums

Array = NDArray[np.float64]

_ALL, _MOST = 40, 64  # non-zeros: with so few features all of them are tried; with many, no more than so many
_POINTS = 7  # numbers of non-zeros that are compared
_ALONE = 1e-9  # if 1 − h is below this, a component consists of this feature alone and predicts nothing


@dataclass(frozen=True)
class Curve:
    """Scores over a grid, fold by fold.

    Attributes
    ----------
    grid : tuple of int
        The settings, the simplest first.
    scores : ndarray of shape (F, len(grid))
        Q² of each fold left out.
    """

    grid: tuple[int, ...]
    scores: Array

    @property
    def mean(self) -> Array:
        """Return the mean over the folds."""
        return np.asarray(self.scores.mean(axis=0))

    @property
    def standard_error(self) -> Array:
        """Return the standard error, over the folds, of the difference between each mean and the best mean."""
        best = int(np.argmax(self.mean))
        return np.asarray((self.scores[:, [best]] - self.scores).std(axis=0, ddof=1) / np.sqrt(len(self.scores)))

    @property
    def best(self) -> int:
        """Return the setting with the best mean."""
        return self.grid[int(np.argmax(self.mean))]

    @property
    def choice(self) -> int:
        """Return the simplest setting within one standard error of the best; the differences are paired by fold."""
        mean = self.mean
        return self.grid[int(np.argmax(mean >= mean.max() - self.standard_error))]


def press(test: Centred, w: Array) -> float:
    """Q² of loadings on held-out second moments; see the head of this file."""
    basis = orthonormal_basis(w)
    image = test.matrix @ basis
    inside = np.einsum("ij,ij->i", basis, image)
    left = test.matrix.diagonal() - 2.0 * inside + np.einsum("ij,ij->i", basis @ (basis.T @ image), basis)
    rest = 1.0 - np.einsum("ij,ij->i", basis, basis)
    errors = np.where(rest > _ALONE, left / np.maximum(rest, _ALONE) ** 2, test.matrix.diagonal())
    unseen = test.trace - float(np.trace(test.matrix))  # features that were not analysed have weight zero
    return 1.0 - (float(errors.sum()) + unseen) / test.trace if test.trace > 0 else 0.0


def splits(sums: FoldSums) -> list[tuple[Centred, Centred]]:
    """Return, for each fold, the training moments of all other folds and the test moments of this fold."""
    pairs = []
    for fold in range(sums.n_folds):
        train = np.arange(sums.n_folds) != fold
        sample = sums.subsample(train)
        pairs.append((sample, sums.held_out(fold, train, sample.scale)))
    return pairs


def components_curve(parts: Sequence[tuple[Centred, Centred]], most: int) -> Curve:
    """Scores of dense PCA with 0, 1, … components."""
    scores = []
    for train, test in parts:
        basis = leading(train.matrix, most)[1]
        scores.append([press(test, basis[:, :r]) if r else 0.0 for r in range(most + 1)])
    return Curve(tuple(range(most + 1)), np.array(scores))


def sparsity_curve(parts: Sequence[tuple[Centred, Centred]], grid: Sequence[int], r: int, *, orthogonal: bool) -> Curve:
    """Scores of r sparse components with k non-zeros each, for every k of the grid; each starts from the one before."""
    scores = []
    for train, test in counted("Trying numbers of non-zeros, by fold", parts):
        dense, of_fold = dense_starts(train.matrix, r), []
        before: list[Array] = []
        for k in grid:
            w = refit(train.matrix, (k,) * r, [*before, *dense], orthogonal=orthogonal)
            of_fold.append(press(test, w))
            before = [w]
        scores.append(of_fold)
    return Curve(tuple(grid), np.array(scores))


def nested_scores(
    parts: Sequence[tuple[Centred, Centred]], grid: Sequence[int], w: Array, *, orthogonal: bool
) -> Array:
    """Scores (F, r, len(grid)) of the first 1, …, r components with k non-zeros each, near the loadings w."""
    scores = np.zeros((len(parts), w.shape[1], len(grid)))
    for fold, (train, test) in enumerate(counted("Scoring rows that are left out, by fold", parts)):
        starts = [w, *dense_starts(train.matrix, w.shape[1])]
        for at, k in enumerate(grid):
            found = matched(refit(train.matrix, (k,) * w.shape[1], starts, orthogonal=orthogonal), w)
            for r in range(w.shape[1]):
                scores[fold, r, at] = press(test, found[:, : r + 1])
    return scores


def sparsity_grid(d: int) -> tuple[int, ...]:
    """Return numbers of non-zeros to compare, at growing distances.

    Up to 40 features the grid ends at all of them; above, at 40 or at a third of the features, and at most at 64.
    """
    largest = min(d, max(_ALL, min(_MOST, d // 3)))
    points = _POINTS if largest > _ALL else _POINTS + 2  # small refits take little time
    grid = np.unique(np.round(np.geomspace(min(2, largest), largest, points)).astype(int))
    return tuple(int(k) for k in grid)
