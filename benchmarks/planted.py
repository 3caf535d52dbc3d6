"""Components planted in noise: how many are found, what intervals hold, which features are falsely stable.

Spikes in white noise, d = 60 features, n = 300 rows, 6 features a component, at five sites. Two spikes are *easy*
(strength 6 and 4) or *weak* (1.2 and 1.0, about the threshold √(d/n) = .45 at which PCA sees one at all, and low enough
that noise often hides one), or there are none. *Unlike* sites differ in size by a factor of eight and in the strength
of each spike by a factor of up to four. *Shifted* sites differ in their means, by a normal shift of half a standard
deviation in every feature: a component between sites is none of those planted.

Draws are kept in build/folds by a hash of the code that they depend on.
"""

import hashlib
import json
import os
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import fedspca
from fedspca import ExactSPCA, LocalFederation, Site
from fedspca.federation.folded import FoldedFederation

Array = NDArray[np.float64]

DRAWS = int(os.environ.get("FEDSPCA_DRAWS", "100"))
SECONDS = float(os.environ.get("FEDSPCA_SECONDS", "inf"))
BEGAN = time.monotonic()
F = 10
SIZES, D, K = (120, 80, 50, 35, 15), 60, 6
UNLIKE = np.array([[1.5, 0.5], [0.5, 1.5], [1.0, 2.0], [2.0, 1.0], [0.5, 0.5]])
SITES = ("alike", "unlike", "shifted")
STRENGTHS = {"easy": (6.0, 4.0), "weak": (1.2, 1.0), "none": ()}
OF_PART = {"components": (tuple(STRENGTHS), SITES), "coverage": (tuple(STRENGTHS), ("alike", "unlike"))}


def settings_of(part: str, words: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield the strengths and kinds of sites that words choose."""
    strengths, kinds = OF_PART[part]
    for strength in [each for each in strengths if each in words] or strengths:
        for sites in [each for each in kinds if each in words] or kinds:
            yield strength, sites


def planted(strength: str, sites: str, seed: int) -> tuple[list[Site], Array, Array]:
    """Draw sites, and return with them the loadings that were planted and the variance of each."""
    rng = np.random.default_rng(seed)
    strengths = STRENGTHS[strength]
    truth = np.zeros((D, len(strengths)))
    for j in range(len(strengths)):
        weights = np.linspace(1.0, 0.6, K)
        truth[K * j : K * j + K, j] = weights / np.linalg.norm(weights)
    sizes = SIZES if sites == "unlike" else (60,) * 5
    factors = (UNLIKE if sites == "unlike" else np.ones((5, 2)))[:, : len(strengths)]
    mean = np.asarray(sizes) @ factors / sum(sizes)
    made = []
    for at, size in enumerate(sizes):
        scores = rng.standard_normal((size, len(strengths))) * np.sqrt(np.array(strengths) * factors[at] / mean)
        rows = rng.standard_normal((size, D)) + scores @ truth.T
        made.append(Site(f"site {at}", rows + (0.5 * rng.standard_normal(D) if sites == "shifted" else 0.0)))
    return made, truth, 1.0 + np.array(strengths)


def components_found(strength: str, sites: str) -> str:
    """Return how often each method, and the recommendation, find the planted number of components."""
    draws = drawn(f"components {strength} {sites}", lambda seed: _components(planted(strength, sites, seed)[0]))
    told = []
    for name in draws[0] if draws else ():
        beyond = np.array([draw[name] for draw in draws]) - len(STRENGTHS[strength])
        told.append(f"{name} {np.mean(beyond == 0):.0%} (more {np.sum(beyond > 0)}, fewer {np.sum(beyond < 0)})")
    return f"{len(draws)} draws: {'; '.join(told)}"


def _components(sites: list[Site]) -> dict[str, int]:
    from fedspca.estimators.selection import select
    from fedspca.solvers.exact import whole
    from fedspca.solvers.folds.sums import fold_sums
    from fedspca.solvers.rounds import Rounds
    from fedspca.solvers.standardise import standardise

    folded = FoldedFederation(LocalFederation(sites), F, 0)
    moments = standardise(folded, scale=True)
    s = whole.ask(folded, moments.frame, "float64")
    sums = fold_sums(folded.asked, moments, np.zeros((D, 1)), scaled=True)
    found = select(Rounds(folded), s, sums, moments, n_components=None, sparsity=False, orthogonal=True, seed=0)
    return {"recommended": found.n_components, **found.components}


def coverage(strength: str, sites: str) -> str:
    """Return how often intervals hold the truth, and stable features that were not planted stay within the bound."""
    draws = drawn(f"coverage {strength} {sites}", lambda seed: _covered(strength, sites, seed))
    if not draws:
        return "0 draws"
    false = [sum(draw["false"]) for draw in draws]
    within = [f <= bound for draw in draws for f, bound in zip(draw["false"], draw["bound"], strict=True)]
    bounds = np.mean([sum(draw["bound"]) for draw in draws])
    told = f"false stable {np.mean(false):.2f} (bound {bounds:.2f}), within it on {np.mean(within):.0%}"
    if "weights" not in draws[0]:
        return f"{len(draws)} draws: {told}"
    weights = np.mean([draw["weights"] for draw in draws])
    variances = [inside for draw in draws for inside in draw["variances"]]
    return f"{len(draws)} draws: weights {weights:.3f}  variances {np.mean(variances):.3f} of {len(variances)}  {told}"


def _covered(strength: str, sites: str, seed: int) -> dict[str, Any]:
    made, truth, expected = planted(strength, sites, seed)
    r = max(truth.shape[1], 1)
    model = ExactSPCA(r, n_nonzero=K, folds=F, proof_seconds=0.0).fit_federation(LocalFederation(made))
    stable, found = model.stable_, {}
    if truth.shape[1]:
        order = np.argmax(np.abs(truth.T @ model.components_.T), axis=1)
        signs = np.sign(np.sum(truth.T * model.components_[order], axis=1))[:, None]
        low, high = np.moveaxis(model.weight_interval_[order], 2, 0)
        inside = (low <= truth.T * signs) & (truth.T * signs <= high)
        found["weights"] = float(inside[truth.T != 0.0].mean())
        low, high = model.explained_variance_interval_[order].T
        found["variances"] = ((low <= expected) & (expected <= high)).tolist()
        found["half_widths"] = (np.log(high / low) / 2).tolist()
        found["errors"] = np.log(model.explained_variance_[order] / expected).tolist()
        stable = stable[order] & (truth.T == 0.0)
    return found | {"false": stable.sum(axis=1).tolist(), "bound": model.false_selections_.tolist()}


def drawn(name: str, draw: Callable[[int], dict[str, Any]], most: int = DRAWS) -> list[dict[str, Any]]:
    """Return so many draws: those that are kept, and new ones while there is time."""
    path = Path("build/folds") / _code() / f"{name}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    found = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    with path.open("a") as file:
        while len(found) < most and time.monotonic() - BEGAN < SECONDS:
            found.append(draw(len(found)))
            file.write(json.dumps(found[-1]) + "\n")
            file.flush()
    return found[:most]


def _code() -> str:
    """Return a hash of the code that a draw depends on."""
    home = Path(fedspca.__file__).parent
    files = (
        sorted(home.glob("solvers/**/*.py"))
        + sorted(home.glob("linalg/**/*.py"))
        + sorted(home.glob("estimators/*.py"))
    )
    digest = hashlib.sha256(Path(__file__).read_bytes())
    for file in files:
        digest.update(file.read_bytes())
    return digest.hexdigest()[:12]
