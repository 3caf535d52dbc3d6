"""The figures and the picture on ComBat in docs/adjusting.md: devices that differ, and patients that differ too.

WDBC over ten sites of 30 to 90 rows. Each site measures with a device of its own: every feature has a shift and a
spread of the site (planted). The sites' patients differ as well: at five sites most tumours are malignant. What is
wanted is the data without the devices.
"""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.datasets import load_breast_cancer

from benchmarks.adjusting import fitted
from fedspca import SparsePCAModel

Array = NDArray[np.float64]

PICTURE = Path(__file__).parents[1] / "docs/figures/combat.svg"
WAYS: dict[str, dict[str, Any]] = {
    "joint mean": {},
    "each site's own mean": {"centre": "site"},
    "each site's own mean and spread": {"centre": "site", "scale_by": "site"},
    "ComBat": {"centre": "combat"},
    "ComBat, diagnosis protected": {"centre": "combat", "protect": ["malignant"]},
}
DRAWN = ("joint mean", "each site's own mean", "ComBat, diagnosis protected")


def devices(seed: int) -> tuple[Array, NDArray[Any], Array, NDArray[Any]]:
    """Return WDBC as ten devices measure it, the owner of each row, the data without devices, and who is ill."""
    data, rng = load_breast_cancer(), np.random.default_rng(seed)
    clean, ill = data.data, data.target == 0
    risk = np.where(ill[:, None], np.repeat([0.5, 4.0], 5), 1.0)  # the last five sites see the ill
    sites = np.array([rng.choice(10, p=row / row.sum()) for row in risk])
    unit, shift, spread = clean.std(axis=0), rng.normal(0, 1.0, (10, 30)), np.exp(rng.normal(0, 0.35, (10, 30)))
    measured = (clean - clean.mean(axis=0)) * spread[sites] + (shift * unit)[sites] + clean.mean(axis=0)
    return measured, sites, clean, ill


def compare(seed: int) -> dict[str, tuple[Array, Array]]:
    """Fit in every way; return the scores of the rows, and the rows as they were analysed."""
    measured, sites, _, ill = devices(seed)
    lines, found = ill.astype(np.float64)[:, None], {}
    for name, how in WAYS.items():
        known = {"covariates": pd.DataFrame(lines, columns=["malignant"])} if "protect" in how else {}
        model = SparsePCAModel.from_estimator(fitted(measured, sites=sites, **how, **known))
        rows = np.empty_like(measured)
        for mine in (sites == site for site in np.unique(sites)):
            rows[mine] = model.standardised(measured[mine], covariates=lines[mine] if known else None)
        found[name] = (rows @ model.components.T, rows)
    return found


def explained(x: Array, groups: NDArray[Any]) -> float:
    """Return the share of the variance of standardised features that groups explain (R²), averaged over features."""
    levels = (groups[:, None] == np.unique(groups)).astype(np.float64)
    centred = (x - x.mean(axis=0)) / x.std(axis=0)
    means = levels @ (levels.T @ centred / levels.sum(axis=0)[:, None])
    return float(np.mean(means**2))


def alike(one: Array, other: Array) -> float:
    """Return the correlation of each feature with itself in other rows, averaged over features."""
    return float(np.mean([np.corrcoef(a, b)[0, 1] for a, b in zip(one.T, other.T, strict=True)]))


def main() -> None:
    """Print the figures, and draw the picture of the first seed."""
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams["svg.hashsalt"] = "fedspca"  # the same picture has the same bytes
    from matplotlib import pyplot as plt

    runs, truth = [compare(seed) for seed in range(10)], [devices(seed) for seed in range(10)]
    figures = {name: [(run[name][1], *known) for run, known in zip(runs, truth, strict=True)] for name in WAYS}
    figures["without devices"] = [(known[2], *known) for known in truth]
    for name, found in figures.items():
        site = np.mean([explained(rows, sites) for rows, _, sites, _, _ in found])
        illness = np.mean([explained(rows, ill) for rows, _, _, _, ill in found])
        same = np.mean([alike(rows, clean) for rows, _, _, clean, _ in found])
        print(
            f"{name}: the site explains {site:.1%}, the diagnosis {illness:.1%}; correlation with the truth {same:.3f}"
        )
    figure, axes = plt.subplots(1, 3, figsize=(10, 3.6))
    ill = truth[0][3]
    for axis, name in zip(axes, DRAWN, strict=True):
        scores, rows = runs[0][name]
        axis.scatter(*scores.T, s=8, c=np.where(ill, "#D55E00", "#0072B2"), linewidths=0, rasterized=True)
        axis.set_title(f"{name}\nthe diagnosis explains {explained(rows, ill):.0%}", fontsize=9)
        axis.set_xlabel("component 1")
        axis.spines[["top", "right"]].set_visible(False)
    axes[0].set_ylabel("component 2")
    figure.tight_layout()
    figure.savefig(PICTURE, dpi=110, metadata={"Date": None})


if __name__ == "__main__":
    main()
