"""Explained variance against sparsity: solutions over a grid, and ways to choose among them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Rule = Literal["knee", "bic", "share"]


@dataclass(frozen=True)
class PathModel:
    """One solution of a path.

    Attributes
    ----------
    setting : float or tuple of int
        The λ, or the numbers of non-zeros, of this solution.
    components : ndarray of shape (n_components, n_features)
        Its loadings.
    n_nonzeros : int
        Weights that are not zero.
    explained_variance_ratio : float
        Share of the variance that the span of the components captures, all together.
    certificate : float
        First-order residual of the pooled problem (λ only; else NaN).
    rounds : int
        Rounds that this point cost.
    """

    setting: float | tuple[int, ...]
    components: Array
    n_nonzeros: int
    explained_variance_ratio: float
    certificate: float
    rounds: int


@dataclass(frozen=True)
class SparsityPath(Sequence[PathModel]):
    """Solutions over a grid, in its order.

    Attributes
    ----------
    models : tuple of PathModel
        The solutions.
    dense_ratio : float
        Share of the variance that dense PCA with as many components captures.
    n_samples, n_features : int
        Size of the data, for the information criterion.
    n_rounds : int
        Rounds in total, including those of the first fit.
    """

    models: tuple[PathModel, ...]
    dense_ratio: float
    n_samples: int
    n_features: int
    n_rounds: int

    def __getitem__(self, index: Any) -> Any:
        return self.models[index]

    def __len__(self) -> int:
        return len(self.models)

    def to_dict(self) -> dict[str, list[Any]]:
        """Return the path as columns, ready for a DataFrame."""
        return {
            "setting": [model.setting for model in self.models],
            "n_nonzeros": [model.n_nonzeros for model in self.models],
            "explained_variance_ratio": [model.explained_variance_ratio for model in self.models],
            "share_of_dense": [model.explained_variance_ratio / self.dense_ratio for model in self.models],
            "certificate": [model.certificate for model in self.models],
            "rounds": [model.rounds for model in self.models],
        }

    def choose(self, rule: Rule = "knee", *, share: float = 0.95) -> PathModel:
        """Choose one solution.

        Parameters
        ----------
        rule : {"knee", "bic", "share"}, default="knee"
            ``"knee"`` takes the point farthest above the chord from the sparsest to the densest solution: beyond it,
            more weights explain little more. ``"bic"`` minimises nd log(1 − explained) + log(nd) · non-zeros, which
            treats the residuals as independent and normal. ``"share"`` takes the sparsest
            that keeps ``share`` of what dense PCA explains.
        share : float, default=0.95
            For ``"share"``.

        Returns
        -------
        model : PathModel
            The chosen solution.
        """
        counts = np.array([model.n_nonzeros for model in self.models], dtype=np.float64)
        ratios = np.array([model.explained_variance_ratio for model in self.models])
        if rule == "knee":
            span = max(float(np.ptp(counts)), 1.0), max(float(np.ptp(ratios)), np.finfo(float).tiny)
            above = (ratios - ratios.min()) / span[1] - (counts - counts.min()) / span[0]
            return self.models[int(np.argmax(above))]
        if rule == "bic":
            size = self.n_samples * self.n_features
            criterion = size * np.log(np.maximum(1.0 - ratios, 1e-300)) + np.log(size) * counts
            return self.models[int(np.argmin(criterion))]
        if rule == "share":
            enough = np.flatnonzero(ratios >= share * self.dense_ratio)
            if not len(enough):
                raise ValueError(
                    f"No solution of the path keeps {share:.0%} of dense PCA's variance; the best keeps "
                    f"{ratios.max() / self.dense_ratio:.1%}. Extend the grid towards more non-zeros."
                )
            return self.models[int(enough[np.argmin(counts[enough])])]
        raise ValueError(f"The rule must be 'knee', 'bic' or 'share'. Got {rule!r} instead.")

    def plot(self, ax: Any = None, *, chosen: PathModel | None = None) -> Any:
        """Draw explained variance against non-zeros; needs matplotlib (the extra ``reproduce``).

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; by default a new figure.
        chosen : PathModel, optional
            A solution to mark.

        Returns
        -------
        ax : matplotlib Axes
            What was drawn on.
        """
        if ax is None:
            try:
                from matplotlib import pyplot as plt
            except ModuleNotFoundError:
                raise ModuleNotFoundError(
                    "The chart of a path needs matplotlib. Install it with: pip install 'fedspca[reproduce]'. Without "
                    "it, to_dict() has the figures."
                ) from None
            _, ax = plt.subplots()
        order = sorted(self.models, key=lambda model: model.n_nonzeros)
        counts, ratios = [m.n_nonzeros for m in order], [m.explained_variance_ratio for m in order]
        ax.plot(counts, ratios, marker="o", color="#0072B2", label="sparse")
        ax.axhline(self.dense_ratio, linestyle="--", color="#555555", label="dense PCA")
        if chosen is not None:
            ax.plot([chosen.n_nonzeros], [chosen.explained_variance_ratio], marker="D", color="#D55E00", label="chosen")
        ax.set_xlabel("non-zero weights")
        ax.set_ylabel("share of variance explained")
        ax.legend()
        return ax
