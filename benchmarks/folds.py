"""What folds promise, measured: agreement with refits, planted components, coverage, false selections, time.

- *agreement*: selection frequencies from sums by fold beside those of refits of the same half samples' rows.
- *planted*: spikes in white noise, d = 60 features, n = 300 rows, 6 features a component, at five sites. Two spikes are
  *easy* (strength 6 and 4) or *weak* (1.2 and 1.0, about the threshold √(d/n) = .45 at which PCA sees one at all, and
  low enough that noise often hides one), or there are none. *Unlike* sites differ in size by a factor of eight and in
  the strength of each spike by a factor of up to four.
- *coverage*: intervals of 90 % for the weights of the planted features and for the variance of the components, and
  stable features that were not planted, beside the bound on them.
- *the same*: loadings and rounds with folds and without, at 1, 3 and 10 sites; time of a half sample's fit and of
  ``fedspca choose`` at d = 830, n = 569.

``python -m benchmarks folds`` runs all of it; FEDSPCA_DRAWS=20 in the environment shortens the planted parts.
"""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_breast_cancer, load_digits

from fedspca import ExactSPCA, LocalFederation, Site
from fedspca.federation.folded import FoldedFederation
from fedspca.site.folds import deal
from fedspca.solvers.folds.refits import half_samples, matched, refit
from fedspca.solvers.folds.sums import fold_sums

Array = NDArray[np.float64]

DRAWS = int(os.environ.get("FEDSPCA_DRAWS", "100"))
F, HALVES = 10, 10  # pairs of half samples that are refitted
SIZES, D, K = (120, 80, 50, 35, 15), 60, 6
FACTORS = {"alike": np.ones((5, 2)), "unlike": np.array([[1.5, 0.5], [0.5, 1.5], [1.0, 2.0], [2.0, 1.0], [0.5, 0.5]])}
STRENGTHS = {"easy": (6.0, 4.0), "weak": (1.2, 1.0), "none": ()}


def main() -> None:
    """Print every part, with what must hold."""
    print(
        "\nSelection frequencies from sums by fold and from refits of the same half samples (must: at most .05 apart)"
    )
    print(f"{'data':14} {'asked':9} {'variance':>9} {'apart':>7} {'all features':>13} {'ms a fit':>9}")
    for name, (rows, r, k, scale) in workloads().items():
        for search in ("thorough", "products"):
            print(f"{name:14} {search:9} {agreement(rows, r, k, scale=scale, search=search)}")
    print(f"\nComponents found on {DRAWS} draws (must: easy and none right on 95 %)")
    for strength in STRENGTHS:
        for sites in FACTORS:
            print(f"{strength:6} {sites:7} {components_found(strength, sites)}")
    print(f"\nIntervals of 90 % and stable features on {DRAWS} draws (must: coverage .85 to .96; within it on 95 %)")
    for strength in ("easy", "none"):
        for sites in FACTORS:
            print(f"{strength:6} {sites:7} {coverage(strength, sites)}")
    print("\nThe same loadings (must: 1e-10) and rounds, with folds and without")
    the_same()
    choose_in_time()


def workloads() -> dict[str, tuple[Array, int, int, bool]]:
    """Return rows, components, non-zeros and scaling of the three kinds of data of the design."""
    wdbc = np.hstack([load_breast_cancer().data, np.random.default_rng(1).random((569, 800))])
    rng = np.random.default_rng(5)
    weak = rng.standard_normal((150, 400))
    for j, strength in enumerate((4.0, 3.0, 2.5)):
        weak[:, 12 * j : 12 * j + 12] += np.sqrt(strength / 12) * rng.standard_normal((150, 1))
    return {"WDBC*": (wdbc, 2, 12, True), "digits": (load_digits().data, 3, 10, False), "weak": (weak, 3, 12, False)}


def agreement(rows: Array, r: int, k: int, *, scale: bool, search: str) -> str:
    """Compare frequencies over some pairs of half samples: by sums, and by fits to the halves' own rows."""
    parts = np.array_split(rows, 3)
    names = ("a", "b", "c")
    folded = FoldedFederation(LocalFederation([Site(n, part) for n, part in zip(names, parts, strict=True)]), F, 0)
    settings: dict[str, Any] = {"n_nonzero": k, "scale": scale, "proof_seconds": 0.0}
    model = ExactSPCA(r, **settings).set_params(search=search).fit_federation(folded)
    w = model.components_.T
    sums = fold_sums(folded.asked, model.state_.moments, w, scaled=scale)
    labels = np.concatenate([deal(n, len(part), F, 0) for n, part in zip(names, parts, strict=True)])
    pairs = half_samples(F, HALVES, np.random.default_rng(0))
    by_sums, by_refits, gained, seconds = np.zeros(w.shape), np.zeros(w.shape), [], 0.0
    for half in [half for pair in pairs for half in pair]:
        began = time.process_time()
        found = np.zeros(w.shape)
        near = w[sums.features]
        found[sums.features] = matched(refit(sums.subsample(half).matrix, (k,) * r, [near], orthogonal=True), near)
        seconds += time.process_time() - began
        own = rows[np.isin(labels, np.flatnonzero(half))]
        again = ExactSPCA(r, **settings).fit(own)
        a = (own - again.mean_) / again.scale_
        gained.append(float(np.sum((a @ found) ** 2) / np.sum((a @ again.components_.T) ** 2)))
        by_sums += found != 0.0
        by_refits += matched(again.components_.T, w) != 0.0
    n = 2 * len(pairs)
    apart = np.abs(by_sums - by_refits) / n
    ever = (by_sums + by_refits) > 0
    return f"{np.mean(gained):9.3f} {apart[ever].mean():7.3f} {apart.mean():13.4f} {1e3 * seconds / n:9.1f}"


def planted(strength: str, sites: str, seed: int) -> tuple[list[Site], Array, Array]:
    """Draw sites, and return with them the loadings that were planted and the variance of each."""
    rng = np.random.default_rng(seed)
    strengths = STRENGTHS[strength]
    truth = np.zeros((D, len(strengths)))
    for j in range(len(strengths)):
        weights = np.linspace(1.0, 0.6, K)
        truth[K * j : K * j + K, j] = weights / np.linalg.norm(weights)
    sizes = SIZES if sites == "unlike" else (60,) * 5
    factors = FACTORS[sites][:, : len(strengths)]
    mean = np.asarray(sizes) @ factors / sum(sizes)
    made = []
    for at, size in enumerate(sizes):
        scores = rng.standard_normal((size, len(strengths))) * np.sqrt(np.array(strengths) * factors[at] / mean)
        made.append(Site(f"site {at}", rng.standard_normal((size, D)) + scores @ truth.T))
    return made, truth, 1.0 + np.array(strengths)


def components_found(strength: str, sites: str) -> str:
    """Return how often each method, and the recommendation, find the planted number of components."""
    right: dict[str, int] = {}
    for seed in range(DRAWS):
        rows = LocalFederation(planted(strength, sites, seed)[0])
        found = _components(rows)
        for name, count in found.items():
            right[name] = right.get(name, 0) + (count == len(STRENGTHS[strength]))
    return "  ".join(f"{name} {count / DRAWS:.0%}" for name, count in right.items())


def _components(federation: LocalFederation) -> dict[str, int]:
    from fedspca.estimators.selection import select
    from fedspca.solvers.exact import whole
    from fedspca.solvers.rounds import Rounds
    from fedspca.solvers.standardise import standardise

    folded = FoldedFederation(federation, F, 0)
    moments = standardise(folded, scale=True)
    s = whole.ask(folded, moments.frame, "float64")
    sums = fold_sums(folded.asked, moments, np.zeros((D, 1)), scaled=True)
    found = select(Rounds(folded), s, sums, moments, n_components=None, sparsity=False, orthogonal=True, seed=0)
    return {"recommended": found.n_components, **found.components}


def coverage(strength: str, sites: str) -> str:
    """Return how often intervals hold the truth, and stable features that were not planted stay within the bound."""
    weights, variances, within, false, bounds = [], [], [], [], []
    for seed in range(DRAWS):
        made, truth, expected = planted(strength, sites, seed)
        r = max(truth.shape[1], 1)
        model = ExactSPCA(r, n_nonzero=K, folds=F, proof_seconds=0.0).fit_federation(LocalFederation(made))
        stable = model.stable_
        if truth.shape[1]:
            order = np.argmax(np.abs(truth.T @ model.components_.T), axis=1)
            signs = np.sign(np.sum(truth.T * model.components_[order], axis=1))[:, None]
            low, high = np.moveaxis(model.weight_interval_[order], 2, 0)
            inside = (low <= truth.T * signs) & (truth.T * signs <= high)
            weights.append(inside[truth.T != 0.0].mean())
            low, high = model.explained_variance_interval_[order].T
            variances.append(((low <= expected) & (expected <= high)).mean())
            stable = stable[order] & (truth.T == 0.0)
        false.append(stable.sum())
        bounds.append(model.false_selections_.sum())
        within.append(stable.sum(axis=1) <= model.false_selections_)
    told = f"false stable {np.mean(false):.2f} (bound {np.mean(bounds):.2f}), within it on {np.mean(within):.0%}"
    if not weights:
        return told
    return f"weights {np.mean(weights):.3f}  variances {np.mean(variances):.3f}  {told}"


def the_same() -> None:
    """Print how far loadings are apart with folds and without, and the rounds."""
    rows, r, k, scale = workloads()["WDBC*"]
    for search in ("thorough", "products"):
        settings: dict[str, Any] = {"n_nonzero": k, "scale": scale, "search": search, "proof_seconds": 0.0}
        without = ExactSPCA(r, **settings).fit(rows)
        for sites in (1, 3, 10):
            parts = np.array_split(rows, sites)
            federation = LocalFederation([Site(f"s{at}", part) for at, part in enumerate(parts)])
            found = ExactSPCA(r, **settings).fit_federation(FoldedFederation(federation, F, 0))
            apart = np.abs(found.components_ - without.components_).max()
            print(f"{search:9} K = {sites:2}: apart {apart:.1e}, rounds {found.n_rounds_} and {without.n_rounds_}")


def choose_in_time() -> None:
    """Print how long ``fedspca choose`` takes on three CSV files with d = 830 and n = 569."""
    rows = workloads()["WDBC*"][0]
    with tempfile.TemporaryDirectory() as folder:
        files = [str(Path(folder) / f"site{at}.csv") for at in range(3)]
        for file, part in zip(files, np.array_split(rows, 3), strict=True):
            header = ",".join(f"m{j}" for j in range(rows.shape[1]))
            np.savetxt(file, part, delimiter=",", header=header, comments="", fmt="%.8g")
        command = [sys.executable, "-m", "fedspca", "choose", *files]
        wall, cpu = _timed(lambda: subprocess.run(command, check=True, capture_output=True))
    print(
        f"\nfedspca choose on three CSV files, d = 830, n = 569: {wall:.1f} s, of them {cpu:.1f} s of CPU (must: 10 s)"
    )


def _timed(work: Callable[[], object]) -> tuple[float, float]:
    before, began = os.times(), time.perf_counter()
    work()
    after = os.times()
    cpu = after.children_user - before.children_user + after.children_system - before.children_system
    return time.perf_counter() - began, cpu
