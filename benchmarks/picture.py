"""The picture of docs/exact.md: objective against rounds for all solvers, on WDBC* over ten sites."""

from pathlib import Path

import numpy as np

from fedspca import FASPCA, FSSPCA, ExactSPCA
from fedspca.experiments.data import sites_in_order, wdbc_star

PICTURE = Path(__file__).parents[1] / "docs/figures/objective-by-round.svg"
LAM = 190.0


def main() -> None:
    """Draw the picture, and print what it shows."""
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams["svg.hashsalt"] = "fedspca"  # the same picture has the same bytes
    from matplotlib import pyplot as plt

    raw, sites = wdbc_star().rows, sites_in_order(569, 10)
    exact = ExactSPCA(2, lam=LAM, scale=True, tol=1e-9).fit(raw, sites=sites)
    models = {
        "ExactSPCA": (exact, "#0072B2", "o"),
        "FASPCA, block": (FASPCA(2, lam=LAM, scale=True).fit(raw, sites=sites), "#E69F00", ""),
        "FSSPCA": (FSSPCA(2, lam2=LAM, scale=True).fit(raw, sites=sites), "#009E73", ""),
    }
    figure, axes = plt.subplots(figsize=(7, 4))
    for label, (model, colour, marker) in models.items():
        # a consensus round's objective is that of loadings that do not agree yet, so it may lie below the optimum
        points = [(record.number, record.objective) for record in model.history_ if record.objective is not None]
        gaps = [max(abs(value - exact.objective_) / abs(exact.objective_), 1e-13) for _, value in points]
        axes.loglog([number for number, _ in points], gaps, color=colour, marker=marker, label=label)
        print(f"{label}: {len(model.history_)} rounds, objective {model.objective_:.4f}")
    axes.axhline(1e-6, color="#999999", linewidth=0.8, linestyle="--")
    axes.set_xlabel("round")
    axes.set_ylabel("relative distance from the pooled optimum")
    axes.set_ylim(1e-12, 1)
    axes.set_xlim(1, 1200)
    axes.set_yticks(10.0 ** np.arange(-12, 1, 2))
    axes.legend(frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()
    PICTURE.parent.mkdir(exist_ok=True)
    figure.savefig(PICTURE, metadata={"Date": None})
