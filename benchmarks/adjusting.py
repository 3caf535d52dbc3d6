"""The figures and the picture of docs/adjusting.md: what component 1 is, before and after the site is taken out.

Wine: three cultivars, each taken as a site, whose chemistry really differs. WDBC: ten sites, five of which measure half
of the features with another device (a shift of three standard deviations is planted). Diabetes: age and sex, two of its
own columns, taken out of the other eight.
"""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_breast_cancer, load_diabetes, load_wine
from sklearn.linear_model import LinearRegression

from fedspca import ExactSPCA
from fedspca.fit.facts import shares_between

Array = NDArray[np.float64]

PICTURE = Path(__file__).parents[1] / "docs/figures/adjusting.svg"
COLOURS = np.array(["#0072B2", "#E69F00", "#009E73"])


def planted(seed: int = 0) -> tuple[Array, NDArray[Any], Array]:
    """Return WDBC with a shift of three deviations in half of the features at half of the sites, and without it."""
    clean = load_breast_cancer().data
    rng = np.random.default_rng(seed)
    sites = rng.permutation(np.arange(len(clean)) % 10)
    shift = np.where(np.arange(30) % 2, 3.0, 0.0) * clean.std(axis=0)
    return clean + np.outer(sites < 5, shift), sites, clean


def fitted(x: Any, **about: Any) -> Any:
    """Two components of five features each."""
    return ExactSPCA(2, n_nonzero=5, scale=True, proof_seconds=0).fit(x, **about)


def of_the_site(scores: Array, sites: NDArray[Any]) -> float:
    """Return the share of the first score's variance that the site explains (R²)."""
    levels = (sites[:, None] == np.unique(sites)).astype(np.float64)
    return float(LinearRegression().fit(levels, scores[:, 0]).score(levels, scores[:, 0]))


def between(model: Any, x: Any, about: dict[str, Any]) -> dict[str, float]:
    """Return what lies between the sites' means, before and after."""
    from fedspca.estimators.rows import RowsBeside
    from fedspca.federation import LocalFederation

    federation = LocalFederation(RowsBeside(**about).make_sites(np.asarray(x)))
    return shares_between(federation, model._fitted_moments(), scaled=True)


def cosines(one: Any, other: Any) -> Array:
    """Return the cosines between the spans of two sets of components, the best first."""
    found: Array = np.linalg.svd(np.linalg.qr(one.components_.T)[0].T @ np.linalg.qr(other.components_.T)[0])[1]
    return found


def main() -> None:
    """Print the figures, and draw the picture."""
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams["svg.hashsalt"] = "fedspca"  # the same picture has the same bytes
    from matplotlib import pyplot as plt

    wine = load_wine()
    shifted, sites, clean = planted()
    cases = {
        "Wine, a site for each cultivar": (wine.data, wine.target),
        "WDBC, another device at five of ten sites": (shifted, sites),
    }
    figure, axes = plt.subplots(2, 2, figsize=(8, 7))
    for row, (title, (x, owners)) in enumerate(cases.items()):
        for column, centre in enumerate(("joint", "site")):
            about = {"sites": owners, "centre": centre}
            model = fitted(x, **about)
            scores = model.transform(x, sites=owners)
            share, r2 = between(model, x, about), of_the_site(scores, owners)
            print(f"{title}, centre {centre}: {share['after']:.1%} between sites, component 1 is the site to {r2:.1%}")
            group = owners if row == 0 else np.where(owners < 5, 1, 0)
            axes[row, column].scatter(*scores.T, s=8, c=COLOURS[group], linewidths=0, rasterized=True)
            axes[row, column].set_title(
                f"{title}\n{'joint mean' if centre == 'joint' else 'each site about its own mean'}", fontsize=9
            )
            axes[row, column].set_xlabel(f"component 1 ({r2:.0%} of it is the site)")
            axes[row, column].set_ylabel("component 2")
            axes[row, column].spines[["top", "right"]].set_visible(False)
            if row == 1:
                alike = np.round(cosines(model, fitted(clean)), 3)
                print(f"  span against that of the data without the shift: cosines {alike}")
    figure.tight_layout()
    figure.savefig(PICTURE, dpi=110, metadata={"Date": None})
    data = load_diabetes(as_frame=True, scaled=False).data
    known, x = data[["age", "sex"]], data.drop(columns=["age", "sex"])
    model = ExactSPCA(1, n_nonzero=4, scale=True, proof_seconds=0).fit(x, covariates=known, sites=np.arange(len(x)) % 3)
    print("Diabetes, taken out:", {name: f"{share:.1%}" for name, share in model.covariate_variance_.items()})


if __name__ == "__main__":
    main()
