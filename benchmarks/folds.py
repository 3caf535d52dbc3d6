"""What folds promise, measured: agreement with refits, planted components, coverage, false selections, time.

- *agreement*: selection frequencies from sums by fold beside those of refits of the same half samples' rows, for all
  complementary pairs. A refit of its own may miss the best loadings of its rows. So frequencies are also compared with
  those of the refits after each of them began once more with the best of what the *other refits* found.
- *components* and *coverage*: see ``benchmarks/planted.py``.
- *same*: loadings and rounds with folds and without, at 1, 3 and 10 sites.
- *choose*: time of ``fedspca choose`` at d = 830, n = 569.

``python -m benchmarks folds`` runs all of it. Words choose parts: ``folds agreement digits``, ``folds coverage easy
unlike``. FEDSPCA_DRAWS=20 in the environment shortens the planted parts. With FEDSPCA_SECONDS=240 they end after that
time, keep their draws in build/folds, and go on from there when they are started again.
"""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_breast_cancer, load_digits

from benchmarks.planted import components_found, coverage, drawn, settings_of
from fedspca import ExactSPCA, LocalFederation, Site
from fedspca.federation.folded import FoldedFederation
from fedspca.linalg.cardinality.joint import loadings_near
from fedspca.linalg.cardinality.tuning import Tuning
from fedspca.site.folds import deal
from fedspca.solvers.folds.refits import Pool, half_samples, matched, refits
from fedspca.solvers.folds.stability import PAIRS
from fedspca.solvers.folds.sums import fold_sums

Array = NDArray[np.float64]

F = 10
SITES = ("a", "b", "c")
PARTS = ("agreement", "components", "coverage", "same", "choose")
BEGINNINGS = 6  # loadings of other refits that a refit begins with again


def main(*words: str) -> None:
    """Print the parts named, or every part, with what must hold."""
    parts = [part for part in PARTS if part in words] or PARTS
    if "agreement" in parts:
        print_agreement([name for name in workloads() if name in words] or list(workloads()))
    for part, title, measure in (
        ("components", "Components found (must: easy and none right on 95 %)", components_found),
        ("coverage", "Intervals of 90 % and stable features (must: coverage .85 to .96; within it on 95 %)", coverage),
    ):
        if part in parts:
            print(f"\n{title}")
            for strength, sites in settings_of(part, words):
                print(f"{strength:6} {sites:7} {measure(strength, sites)}", flush=True)
    if "same" in parts:
        print("\nThe same loadings (must: 1e-10) and rounds, with folds and without")
        the_same()
    if "choose" in parts:
        choose_in_time()


def workloads() -> dict[str, tuple[Array, int, int, bool]]:
    """Return rows, components, non-zeros and scaling of the three kinds of data of the design."""
    wdbc = np.hstack([load_breast_cancer().data, np.random.default_rng(1).random((569, 800))])
    rng = np.random.default_rng(5)
    weak = rng.standard_normal((150, 400))
    for j, strength in enumerate((4.0, 3.0, 2.5)):
        weak[:, 12 * j : 12 * j + 12] += np.sqrt(strength / 12) * rng.standard_normal((150, 1))
    return {"WDBC*": (wdbc, 2, 12, True), "digits": (load_digits().data, 3, 10, False), "weak": (weak, 3, 12, False)}


def print_agreement(names: Sequence[str]) -> None:
    """Print how far selection frequencies are from those of refits."""
    print(
        "\nSelection frequencies from sums by fold and from refits of the same half samples (must: at most .05 apart)"
    )
    print("apart: mean absolute difference over the features that either selects, and over all features")
    columns = f"{'best refits':>12} {'all':>7} {'refits as they are':>19} {'all':>7} {'variance':>9} {'ms a fit':>9}"
    print(f"{'data':7} {'asked':9} {columns}")
    for name in names:
        rows, r, k, scale = workloads()[name]
        labels, halves = _labels(rows), [half for pair in _pairs() for half in pair]
        settings: dict[str, Any] = {"n_nonzero": k, "scale": scale, "proof_seconds": 0.0}
        parts = [_of(labels, half) for half in halves]
        kept = drawn(f"refits {name.strip('*')}", partial(_refitted, rows, parts, r, settings), len(halves))
        if len(kept) < len(halves):
            print(f"{name:7} {len(kept)} of {len(halves)} refits so far: run it again")
            continue
        refitted = [np.array(each["w"]) for each in kept]
        own = [_moments(rows[part], scale) for part in parts]
        best = begun_again(own, refitted, k)
        for search in ("thorough", "products"):
            print(f"{name:7} {search:9} {_apart(rows, settings, r, search, own, refitted, best)}", flush=True)
        captured = [[_captured(s, w) for s, w in zip(own, fits, strict=True)] for fits in (refitted, best)]
        missed = np.mean(np.array(captured[1]) > np.array(captured[0]) * (1 + 1e-9))
        print(f"        {missed:.0%} of the refits gain when they begin with what other refits found")


def _apart(
    rows: Array,
    settings: dict[str, Any],
    r: int,
    search: str,
    own: list[Array],
    refitted: list[Array],
    best: list[Array],
) -> str:
    """Compare the frequencies of sums by fold with those of two sets of refits."""
    parts = np.array_split(rows, 3)
    federation = LocalFederation([Site(name, part) for name, part in zip(SITES, parts, strict=True)])
    folded = FoldedFederation(federation, F, 0)
    model = ExactSPCA(r, **settings).set_params(search=search).fit_federation(folded)
    w = model.components_.T
    sums = fold_sums(folded.asked, model.state_.moments, w, scaled=settings["scale"])
    halves = [half for pair in _pairs() for half in pair]
    began = time.process_time()
    fits = [found for _, found in refits(sums, halves, w[sums.features], orthogonal=True)]
    spent = 1e3 * (time.process_time() - began) / len(halves)
    found = []
    for fit in fits:
        found.append(np.zeros(w.shape))
        found[-1][sums.features] = fit
    mine = np.mean([fit != 0.0 for fit in found], axis=0)
    told = []
    for others in (best, refitted):
        theirs = np.mean([matched(other, w) != 0.0 for other in others], axis=0)
        apart = np.abs(mine - theirs)
        told += [apart[(mine + theirs) > 0].mean(), apart.mean()]
    gained = np.mean([_captured(s, fit) / _captured(s, other) for s, fit, other in zip(own, found, best, strict=True)])
    return f"{told[0]:12.3f} {told[1]:7.4f} {told[2]:19.3f} {told[3]:7.4f} {gained:9.4f} {spent:9.1f}"


def begun_again(own: list[Array], refitted: list[Array], k: int) -> list[Array]:
    """Return the refits after each began once more with the best of what the others found."""
    r = refitted[0].shape[1]
    tuning = Tuning.for_size(len(own[0]), k, r).lighter()
    pool = Pool()
    for w in refitted:
        pool.add(w)
    best = []
    for s, w in zip(own, refitted, strict=True):
        varying = np.flatnonzero(s.diagonal() > 0)
        starts = [start for start in pool.best(s, BEGINNINGS).values() if (start[varying] != 0).sum() == r * k]
        again = loadings_near(s, (k,) * r, starts, orthogonal=True, tuning=tuning) if starts else None
        best.append(w if again is None or again.variance <= _captured(s, w) * (1 + 1e-9) else again.w)
    return best


def _refitted(
    rows: Array, parts: Sequence[NDArray[np.bool_]], r: int, settings: dict[str, Any], at: int
) -> dict[str, Any]:
    """Return the loadings of a part of the rows alone, as plain lists."""
    return {"w": ExactSPCA(r, **settings).fit(rows[parts[at]]).components_.T.tolist()}


def _of(labels: NDArray[np.int16], half: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return which rows are in the folds of a half sample."""
    return np.isin(labels, np.flatnonzero(half))


def _captured(s: Array, w: Array) -> float:
    return float(np.vdot(w, s @ w))


def _moments(rows: Array, scale: bool) -> Array:
    """Return the second moments of rows about their mean, in their own units."""
    centred = rows - rows.mean(axis=0)
    if scale:
        centred = centred / centred.std(axis=0, ddof=1)
    return np.asarray(centred.T @ centred)


def _labels(rows: Array) -> NDArray[np.int16]:
    parts = np.array_split(rows, 3)
    return np.concatenate([deal(name, len(part), F, 0) for name, part in zip(SITES, parts, strict=True)])


def _pairs() -> list[Any]:
    return half_samples(F, PAIRS, np.random.default_rng(0))


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
