"""How many components, and how sparse: what several methods say, a recommendation, and how sure it is."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from fedspca.federation.base import noise_in
from fedspca.linalg.small import largest_eigenpairs
from fedspca.solvers.doing import counted
from fedspca.solvers.folds.crossval import Curve, components_curve, sparsity_curve, sparsity_grid, splits
from fedspca.solvers.folds.rank import Null, above, hard_threshold, noise_edge, parallel_analysis, simulated_analysis
from fedspca.solvers.folds.refits import dense_starts, half_samples, matched, refit
from fedspca.solvers.folds.sums import FoldSums
from fedspca.solvers.rounds import Rounds
from fedspca.solvers.standardise import Moments

Array = NDArray[np.float64]

MOST = 10  # the most components that are considered
PAIRS = 5  # pairs of half samples, for each number of non-zeros
RECUR = 0.75  # mean share of half samples that should select a component's features again
MARCHENKO_PASTUR, GAVISH_DONOHO = "Marchenko–Pastur", "Gavish–Donoho"
PARALLEL, CROSS_VALIDATION, STABILITY = "parallel analysis", "cross-validation", "stability"
NOT_RELEASED = (
    "In a private study no columns are permuted: parallel analysis used simulated features, with the noise of the "
    "study. Marchenko–Pastur and Gavish–Donoho do not allow for this noise and are left out."
)
DECIDE = (
    MARCHENKO_PASTUR,
    PARALLEL,
    CROSS_VALIDATION,
)  # not Gavish–Donoho: it counts components worth estimating, not those that exist


@dataclass(frozen=True)
class Selection:
    """How many components and how many non-zeros, by several methods.

    Attributes
    ----------
    n_components : int
        The recommendation: the median of Marchenko–Pastur, parallel analysis and cross-validation; or what was given.
        In a private study it is the smaller number of parallel analysis and cross-validation.
    n_nonzero : int or None
        The recommendation: the fewest within one standard error of the best by cross-validation; None if it was not
        requested, or if there is no component.
    components : mapping of str to int
        The number of components by each method.
    nonzeros : mapping of str to int
        The number of non-zeros per component by each method.
    eigenvalues : ndarray of shape (m,)
        The leading eigenvalues of the covariance.
    null : Null
        The same eigenvalues after the columns were permuted within each site; in a private study those of
        simulated independent features with the noise of the study.
    edge : float
        The value that the largest eigenvalue of white noise exceeds with probability 1 %.
    by_components, by_nonzeros : Curve
        Cross-validated scores of dense PCA by the number of components, and of sparse ones by their non-zeros.
    recurrence : ndarray
        For each number of non-zeros, the mean selection frequency of the features selected.
    n_features : int or None
        How many features vary, of which each number of non-zeros is a part.
    """

    n_components: int
    n_nonzero: int | None
    components: Mapping[str, int]
    nonzeros: Mapping[str, int]
    eigenvalues: Array
    null: Null
    edge: float
    by_components: Curve
    by_nonzeros: Curve | None
    recurrence: Array
    n_features: int | None = None

    def in_words(self) -> list[str]:
        """Return the recommendation, and how sure it is, in sentences."""
        named = ", ".join(f"{name} {count}" for name, count in self.components.items())
        private = [NOT_RELEASED] if self.private else []
        if self.n_components == 0:
            return [f"No component stands out of chance ({named}). {self._agreement()}", *private]
        sentences = [f"Components: {self.n_components} ({named}). {self._agreement()}", *self._limits(), *private]
        if self.by_nonzeros is not None and self.n_nonzero is not None:
            sentences += self._sparsity_in_words(self.by_nonzeros, self.n_nonzero)
        return sentences

    def _limits(self) -> list[str]:
        """Say where the most that is considered was counted, and where a count seems to contradict what chance has."""
        told = []
        if MOST in self.components.values():
            told.append(
                f"No more than {MOST} components are considered: where a method says {MOST}, there may be more."
            )
        last = self.components[PARALLEL] - 1
        if last >= 0 and self.eigenvalues[last] < self.null.high[last]:
            told.append(
                "Parallel analysis compares each component with chance after the earlier ones are taken out, so it may "
                "count one whose variance is below what chance has in all features."
            )
        return told

    def _sparsity_in_words(self, curve: Curve, chosen: int) -> list[str]:
        """Say what decided on the number of non-zeros, of which numbers, and whether other rows select the same."""
        grid, best = curve.grid, curve.best
        score = f"the fewest that predict rows left out as well as the best ({best}) does, within one standard error"
        by = score if chosen == curve.choice else f"by stability. By cross-validation: {curve.choice}, {score}"
        stable = f" By stability: {self.nonzeros[STABILITY]}." if chosen == curve.choice else ""
        told = [f"Features a component: {chosen}, {by}.{stable}", self._tried_in_words(grid, best)]
        if chosen not in grid:
            return told
        again = float(self.recurrence[grid.index(chosen)])
        if _by_chance(chosen, self.n_features):
            return [*told, f"That is more than half of the {self.n_features} features: any rows select most of them."]
        verdict = "they are the same on other rows" if again >= RECUR else "other rows would give other features"
        return [*told, f"A half of the rows selects {again:.0%} of these features again, on average: {verdict}."]

    def _tried_in_words(self, grid: Sequence[int], best: int) -> str:
        """Say which numbers were compared, and whether the best is at their end and not that of the features."""
        told = f"Tried: {', '.join(map(str, grid))}."
        if best == self.n_features == self.n_nonzero:
            return (
                f"{told} The best is all features: sparser loadings predict rows left out less well. For loadings that "
                "name few features, take the number by stability."
            )
        if best == grid[-1] and best != self.n_features:
            return f"{told} The best is the largest of them: more features may predict better."
        return told

    @property
    def private(self) -> bool:
        """Whether this is about a private study, in which not every method can be used."""
        return MARCHENKO_PASTUR not in self.components

    def _agreement(self) -> str:
        """Say in words how many methods agree with the number of components."""
        said = _decisive(self.components)
        agree = [name for name, count in said.items() if count == self.n_components]
        if not agree:
            return "It is not what the methods say; it was given."
        if len(agree) == len(said) == 2:
            return "Both agree."
        if len(agree) > 1:
            how_many = "All three" if len(agree) == len(said) else "Two of the three"
            return f"{how_many} that decide agree ({', '.join(agree)})."
        return "They do not agree: be careful."

    def to_plain(self) -> dict[str, Any]:
        """Return all of it as plain JSON."""
        sparse = self.by_nonzeros
        return {
            "n_components": self.n_components,
            "n_nonzero": self.n_nonzero,
            "components": dict(self.components),
            "nonzeros": dict(self.nonzeros),
            "eigenvalues": self.eigenvalues.tolist(),
            "null_mean": self.null.mean.tolist(),
            "null_high": self.null.high.tolist(),
            "private": self.private,
            "noise_edge": self.edge,
            "by_components": _plain(self.by_components),
            "by_nonzeros": None if sparse is None else {**_plain(sparse), "recurrence": self.recurrence.tolist()},
            "words": self.in_words(),
        }

    def to_frame(self) -> Any:
        """Return the scores as a DataFrame, one row for each setting that was tried; needs pandas."""
        import pandas as pd

        rows = [
            {"question": "components", "setting": setting, "score": score, "standard_error": error,
             "eigenvalue": value, "null": null, "chosen": setting == self.n_components}
            for setting, score, error, value, null in zip(
                self.by_components.grid,
                self.by_components.mean,
                self.by_components.standard_error,
                [np.nan, *self.eigenvalues],
                [np.nan, *self.null.high],
                strict=True,
            )
        ]  # fmt: skip
        if self.by_nonzeros is not None:
            rows += [
                {"question": "non-zeros", "setting": setting, "score": score, "standard_error": error,
                 "recurrence": again, "chosen": setting == self.n_nonzero}
                for setting, score, error, again in zip(
                    self.by_nonzeros.grid,
                    self.by_nonzeros.mean,
                    self.by_nonzeros.standard_error,
                    self.recurrence,
                    strict=True,
                )
            ]  # fmt: skip
        return pd.DataFrame(rows)

    def plot(self) -> Any:
        """Draw the eigenvalues beside chance, and the scores by the number of non-zeros; needs the extra ``report``.

        Returns
        -------
        chart : altair.HConcatChart
            Both charts, or the first alone if no number of non-zeros was looked for.
        """
        from fedspca.plots.certainty import plot_selection

        return plot_selection(self.to_plain())


def select(
    rounds: Rounds,
    s: Array,
    sums: FoldSums,
    moments: Moments,
    *,
    n_components: int | None,
    sparsity: bool,
    orthogonal: bool,
    seed: int,
) -> Selection:
    """Choose the number of components and of non-zeros by every method; asks for the sums of parallel analysis.

    Parameters
    ----------
    rounds : Rounds
        The federation.
    s : ndarray of shape (d, d)
        The whole covariance (times n).
    sums : FoldSums
        The same by fold.
    moments : Moments
        The joint moments.
    n_components : int or None
        The number of components, if the user has fixed it.
    sparsity : bool
        Whether the number of non-zeros is looked for.
    orthogonal : bool
        Whether loadings are orthogonal.
    seed : int
        Seed of the permutations.
    """
    n, d = round(moments.n_rows), int(np.count_nonzero(~moments.constant))
    most = max(1, min(MOST, d - 1, n // 2 - 1))
    values, vectors = largest_eigenpairs(s / (n - 1.0), most)
    trace = moments.total / (n - 1.0)
    parts = splits(sums)
    with threadpool_limits(1):  # many small problems, in which threads would only wait for each other
        curve = components_curve(parts, most)
    edge = noise_edge(n - 1, d)
    noise = noise_in(rounds, moments.frame)
    if noise is None:
        null = parallel_analysis(rounds, moments.frame, n, most, seed)
        components = {
            MARCHENKO_PASTUR: above(values, trace, n, d, edge),
            GAVISH_DONOHO: above(values, trace, n, d, hard_threshold(n - 1, d)),
            PARALLEL: null.count(values, vectors, s.diagonal() / (n - 1.0), edge * trace / d),
        }
    else:
        variances, rng = s.diagonal() / (n - 1.0), np.random.default_rng(seed)
        null = simulated_analysis(variances, n, most, noise / (n - 1.0) ** 2, rng)
        components = {PARALLEL: null.count(values, vectors, variances, np.inf)}
    components[CROSS_VALIDATION] = curve.choice
    r = _recommended(components, curve) if n_components is None else n_components
    found = Selection(r, None, components, {}, values, null, edge * trace / d, curve, None, np.zeros(0))
    return _with_sparsity(found, sums, parts, orthogonal=orthogonal) if sparsity and r else found


def _recommended(components: Mapping[str, int], curve: Curve) -> int:
    """Return the median of the methods that decide; where fewer components predict better, cross-validation decides.

    Where few features are strongly correlated, what is left beside the components is not white noise. The tests of
    eigenvalues then count nearly every direction, and rows left out are predicted worse than by none.
    """
    said = sorted(_decisive(components).values())
    median = said[(len(said) - 1) // 2]
    return median if median <= curve.best else curve.choice


def _decisive(components: Mapping[str, int]) -> dict[str, int]:
    """Return the numbers by the methods that decide."""
    return {name: components[name] for name in DECIDE if name in components}


def _with_sparsity(found: Selection, sums: FoldSums, parts: list[Any], *, orthogonal: bool) -> Selection:
    """Return the selection with the results for the number of non-zeros."""
    grid = sparsity_grid(len(sums.features))
    with threadpool_limits(1):  # as above
        curve = sparsity_curve(parts, grid, found.n_components, orthogonal=orthogonal)
        recurrence = _recurrence(sums, grid, found.n_components, orthogonal=orthogonal)
    d = len(sums.features)
    enough = [k for k, again in zip(grid, recurrence, strict=True) if again >= RECUR and not _by_chance(k, d)]
    nonzeros = {CROSS_VALIDATION: curve.choice, STABILITY: max(enough, default=grid[0])}
    return replace(
        found, n_nonzero=curve.choice, nonzeros=nonzeros, by_nonzeros=curve, recurrence=recurrence, n_features=d
    )


def _by_chance(k: int, n_features: int | None) -> bool:
    """Whether so many features are selected again by any rows, since they are more than half of all."""
    return n_features is not None and 2 * k > n_features


def _recurrence(sums: FoldSums, grid: Sequence[int], r: int, *, orthogonal: bool) -> Array:
    """Return, for each k, the mean selection frequency in a few half samples of the features that all rows select."""
    whole = sums.subsample(np.ones(sums.n_folds, dtype=bool)).matrix
    dense = dense_starts(whole, r)
    all_rows = [refit(whole, (k,) * r, dense, orthogonal=orthogonal) for k in grid]
    again = []
    halves = [half for pair in half_samples(sums.n_folds, PAIRS, np.random.default_rng(0)) for half in pair]
    for half in counted("Trying numbers of non-zeros, by half sample", halves):
        s = sums.subsample(half).matrix
        dense = dense_starts(s, r)
        fits = [
            matched(refit(s, (k,) * r, [w, *dense], orthogonal=orthogonal), w)
            for k, w in zip(grid, all_rows, strict=True)
        ]
        again.append([(fit != 0.0)[w != 0.0].mean() for fit, w in zip(fits, all_rows, strict=True)])
    return np.asarray(np.mean(again, axis=0))


def _plain(curve: Curve) -> dict[str, Any]:
    return {
        "grid": list(curve.grid),
        "score": curve.mean.tolist(),
        "standard_error": curve.standard_error.tolist(),
        "best": curve.best,
        "choice": curve.choice,
    }
