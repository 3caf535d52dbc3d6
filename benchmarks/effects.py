"""The figures and the picture of docs/adjusting.md on real site effects: digits by their writers, expression by donors.

Digits: scikit-learn has the test set of UCI's handwritten digits, row after row as they were collected: every writer
filled in the same form of 130 digits. The same ten digits of the form stand in the table fourteen times, so the forms
can be told apart, to within the two rows that some lack. Each form is a site.
Expression: RNA of airway smooth muscle cells of four donors, each with and without dexamethasone (Himes et al. 2014):
counts of 64,102 genes, inside the package inmoose (``pip install --no-deps inmoose``). Each donor is a site.
"""

from importlib.util import find_spec
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_digits

from benchmarks.adjusting import COLOURS, fitted, of_the_site
from benchmarks.combat import explained
from fedspca import ExactSPCA

Array = NDArray[np.float64]
Labels = NDArray[Any]

PICTURE = Path(__file__).parents[1] / "docs/figures/effects.svg"
MARK, BEFORE = "0955650989", 30  # ten digits of the form, and how many stand before them
DRAWN = ((8, 9), (1, 7))
CENTRES = ("joint", "site")


def forms(digits: Labels) -> Labels:
    """Return the form that each row of the table belongs to, by the order of the digits."""
    text = "".join(map(str, digits))
    starts = [at - BEFORE for at in range(len(text)) if text.startswith(MARK, at)]
    return np.asarray(np.searchsorted(starts, np.arange(len(text)), side="right"))


def pair(one: int, other: int) -> tuple[Array, Labels, Labels]:
    """Return the pixels of two digits that vary, the form of each, and which digit it is."""
    data = load_digits()
    mine = np.isin(data.target, (one, other))
    pixels = data.data[mine]
    return pixels[:, pixels.std(axis=0) > 0.5], forms(data.target)[mine], data.target[mine]


def airway() -> tuple[Array, Labels, Labels]:
    """Return the counts of genes, the donor of each sample, and whether it was treated."""
    import h5py

    found = find_spec("inmoose")
    places = found.submodule_search_locations if found else None
    if not places:
        raise ModuleNotFoundError("These data come inside a package: pip install --no-deps inmoose")
    with h5py.File(Path(places[0]) / "data/airway/airway.h5ad") as file:
        donor, treated = (file[f"obs/{name}/codes"][:] for name in ("cell", "dex"))
        return np.asarray(file["X"][:], dtype=np.float64), donor, treated


def digits_fitted(x: Array, sites: Labels, centre: str) -> Array:
    """Return the scores of two digits on two components of five pixels."""
    return np.asarray(fitted(x, sites=sites, centre=centre).transform(x, sites=sites))


def airway_fitted(x: Array, sites: Labels, centre: Any, of: float = 1e6) -> Array:
    """Return the scores of samples on two components of 20 genes, from the logarithm of counts per million."""
    rows = np.log1p(of * x / x.sum(axis=1, keepdims=True))
    rows = rows[:, rows.std(axis=0) > 0]
    model = ExactSPCA(2, n_nonzero=20, scale=False, proof_seconds=0)
    model.fit(rows, sites=sites, centre=centre, variable=2000)
    return np.asarray(model.transform(rows, sites=sites))


def by_chance(x: Array, groups: Labels, draws: int = 20) -> float:
    """Return the share of the variance that groups explain if they are dealt at random."""
    rng = np.random.default_rng(0)
    return float(np.mean([explained(x, rng.permutation(groups)) for _ in range(draws)]))


def writers() -> None:
    """Print how much of the digits is the writer."""
    data = load_digits()
    form = forms(data.target)
    print(f"digits: {len(np.unique(form))} forms of {np.bincount(form)[1:].min()} to {np.bincount(form).max()} rows")
    varying = data.data[:, data.data.std(axis=0) > 0]
    shares, chance = [explained(varying, form)], by_chance(varying, form)
    print(f"  all digits: the form explains {shares[0]:.1%}, dealt at random {chance:.1%}")
    alone = [pair(digit, digit) for digit in range(10)]
    shares = [explained(x, sites) for x, sites, _ in alone]
    chance = float(np.mean([by_chance(x, sites) for x, sites, _ in alone]))
    print(f"  one digit: {min(shares):.1%} to {max(shares):.1%}, dealt at random {chance:.1%}")
    found = []
    for x, sites, digit in (pair(*two) for two in combinations(range(10), 2)):
        found.append([of_the_site(digits_fitted(x, sites, centre), digit) for centre in CENTRES])
    before, after = np.array(found).T
    print(f"  45 pairs: component 1 is the digit to {np.median(before):.1%} (median)", end=", ")
    print(f"with centre site to {np.median(after):.1%};")
    print(f"  more than before in {np.sum(after > before)} pairs, less in {np.sum(after < before)}")


def main() -> None:
    """Print the figures, and draw the picture."""
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams["svg.hashsalt"] = "fedspca"  # the same picture has the same bytes
    from matplotlib import pyplot as plt

    writers()
    cases: list[tuple[str, Any, tuple[Array, Labels, Labels], tuple[str, str]]] = [
        (f"Digits {one} and {other} by writer", digits_fitted, pair(one, other), (str(one), str(other)))
        for one, other in DRAWN
    ]
    cases.append(("Expression by donor", airway_fitted, airway(), ("treated", "untreated")))
    counts, donor, treated = airway()
    fewer = airway_fitted(counts, donor, "joint", of=1e4)
    print(
        f"expression, counts per 10,000, joint: component 1 is the donor to {of_the_site(fewer, donor):.1%}", end=", "
    )
    print(f"the treatment to {of_the_site(fewer, treated):.1%}")
    figure, axes = plt.subplots(len(cases), 2, figsize=(8, 3.4 * len(cases)))
    for row, (title, fit, (x, sites, wanted), names) in enumerate(cases):
        for axis, centre in zip(axes[row], CENTRES, strict=True):
            scores = fit(x, sites, centre)
            site, known = of_the_site(scores, sites), of_the_site(scores, wanted)
            print(f"{title}, centre {centre}: component 1 is the site to {site:.1%}, what is wanted to {known:.1%}")
            for label, name, colour in zip(np.unique(wanted), names, COLOURS, strict=False):
                mine = wanted == label
                size = 8 if len(wanted) > 20 else 40
                axis.scatter(*scores[mine].T, s=size, c=colour, linewidths=0, label=name, rasterized=True)
            how = "joint mean" if centre == "joint" else "each site about its own mean"
            axis.set_title(f"{title}: {how}", fontsize=9)
            axis.set_xlabel(
                f"component 1 ({site:.0%} of it is the site, {known:.0%} what the colours show)", fontsize=8
            )
            axis.set_ylabel("component 2", fontsize=8)
            axis.spines[["top", "right"]].set_visible(False)
            axis.legend(frameon=False, fontsize=8)
    figure.tight_layout()
    figure.savefig(PICTURE, dpi=110, metadata={"Date": None})


if __name__ == "__main__":
    main()
