"""How well a private study finds sparse components: mean cos² to the truth at ε = 1, δ = 1e-6, two components.

The data are standardised features, most of them independent, with two blocks of correlated ones: within a block any two
features have correlation 0.8, up to sign. The truth is one loading a block. The variance of a component is then that of
so many features as 0.8 times its block has; no feature's variance is more than 1, as after any standardisation.

Everything is found from one release of the Gram matrix over five masked sites, of which one may be lost, with rows
shortened to a length that costs 5 % of the budget to find. Beside it stand, on the same rows: the eigenvectors of the
same release (dense private PCA); each site's own loadings with noise on them, once, aligned with the truth beforehand
(what must not be done, and charitably); and sparse loadings without privacy.
"""

import time
import warnings
from itertools import permutations
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fedspca import ExactSPCA, LocalFederation, Site
from fedspca.dp.accounting import Budget
from fedspca.dp.ledger import Ledger
from fedspca.federation.private import under_agreement
from fedspca.federation.release_plan import multiplier_of
from fedspca.federation.secure import secure_federation

Array = NDArray[np.float64]

PICTURE = Path(__file__).parents[1] / "docs/figures/privacy.svg"
SITES = 5
CORRELATION = 0.8
SETTINGS = {"epsilon": 1.0, "delta": 1e-6}
CASES = (  # features, rows, sizes of the two blocks, least cos², repetitions
    (50, 2_000, (15, 10), 0.99, 5),
    (500, 5_000, (75, 50), 0.98, 3),
    (2_000, 20_000, (150, 100), 0.95, 1),
)
METHODS = ("sparse, private", "dense, private", "noise on loadings", "sparse, no privacy")


def rows_and_truth(d: int, n: int, blocks: tuple[int, int], rng: np.random.Generator) -> tuple[Array, Array]:
    """Draw rows, and return with them the loadings to be found."""
    rows, truth, start = rng.standard_normal((n, d)), np.zeros((d, 2)), 0
    for component, size in enumerate(blocks):
        block = slice(start, start + size)
        signs = rng.choice([-1.0, 1.0], size)
        shared = rng.standard_normal((n, 1)) * signs
        rows[:, block] = np.sqrt(1 - CORRELATION) * rows[:, block] + np.sqrt(CORRELATION) * shared
        truth[block, component] = signs / np.sqrt(size)
        start += size
    return rows, truth


def mean_cos2(loadings: Array, truth: Array) -> float:
    """Mean cos² between loadings and truth, matched as they fit best."""
    squares = (loadings.T @ truth) ** 2
    return float(max(np.mean(squares[list(order), range(len(order))]) for order in permutations(range(len(squares)))))


def compare(d: int, n: int, blocks: tuple[int, int], seed: int) -> dict[str, float]:
    """Fit once in each way."""
    rng = np.random.default_rng([seed, d])
    rows, truth = rows_and_truth(d, n, blocks, rng)
    parts = np.array_split(rows, SITES)
    sites = [Site(f"site {k}", part) for k, part in enumerate(parts)]
    for site in sites:
        site.ledger = Ledger(Budget(**SETTINGS))
    masked = secure_federation(sites, privacy={**SETTINGS, "expected_rows": n})
    federation = under_agreement(masked, masked.agreement, print)
    found = {}
    sparse = ExactSPCA(2, n_nonzero=max(blocks))
    found["sparse, private"] = mean_cos2(sparse.fit_federation(federation).components_.T, truth)
    release = federation.released()
    found["dense, private"] = mean_cos2(release.vectors[:, np.argsort(release.values)[-2:]], truth)
    found["noise on loadings"] = mean_cos2(_noise_on_loadings(parts, truth, rng), truth)
    plain = LocalFederation([Site(f"site {k}", part) for k, part in enumerate(parts)])
    found["sparse, no privacy"] = mean_cos2(sparse.fit_federation(plain).components_.T, truth)
    return found


def _noise_on_loadings(parts: list[Array], truth: Array, rng: np.random.Generator) -> Array:
    """Average the sites' own leading loadings, once, with the noise that orthonormal d × r matrices need."""
    total = np.zeros(truth.shape)
    for part in parts:
        own = np.linalg.svd(part - part.mean(axis=0), full_matrices=False)[2][:2].T
        left, _, right = np.linalg.svd(own.T @ truth)
        total += own @ left @ right
    change = np.sqrt(2 * truth.shape[1])  # the distance of two orthonormal bases, turned to fit each other best
    total += multiplier_of(Budget(**SETTINGS)) * change * rng.standard_normal(truth.shape)
    return np.asarray(np.linalg.qr(total)[0])


def main() -> None:
    """Print the table and draw the picture."""
    table = {}
    for d, n, blocks, least, repetitions in CASES:
        began = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            runs = [compare(d, n, blocks, seed) for seed in range(repetitions)]
        means = {method: float(np.mean([run[method] for run in runs])) for method in METHODS}
        table[f"d = {d}\nn = {n:,}"] = means
        verdict = "met" if means["sparse, private"] >= least else "NOT MET"
        told = ", ".join(f"{method} {value:.4f}" for method, value in means.items())
        print(
            f"d = {d}, n = {n}, blocks of {blocks}, {repetitions} run(s), {time.perf_counter() - began:.0f} s: {told}"
        )
        print(f"  at least {least}: {verdict}")
    _draw(table)


def _draw(table: dict[str, dict[str, float]]) -> None:
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams["svg.hashsalt"] = "fedspca"  # the same picture has the same bytes
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(7, 3.6))
    colours = ("#0072B2", "#56B4E9", "#D55E00", "#999999")
    for number, (method, colour) in enumerate(zip(METHODS, colours, strict=True)):
        places = np.arange(len(table)) + 0.2 * (number - 1.5)
        values = [case[method] for case in table.values()]
        bars = axes.bar(places, values, 0.18, color=colour, label=method)
        axes.bar_label(bars, [f"{value:.3f}".lstrip("0") for value in values], fontsize=7)
    axes.set_xticks(range(len(table)), list(table))
    axes.set_ylabel("mean cos² to the truth")
    axes.set_ylim(0, 1.3)
    axes.set_yticks([0, 0.25, 0.5, 0.75, 1.0])
    axes.legend(ncols=2, fontsize=8, loc="upper center", frameon=False)
    axes.set_title("ε = 1, δ = 1e-6 for each row, two components", fontsize=10)
    figure.tight_layout()
    figure.savefig(PICTURE, metadata={"Date": None})
