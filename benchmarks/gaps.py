"""What missing values cost, by the choice of what they count as: the figures of docs/adjusting.md.

WDBC, whose features predict each other, and wine, whose features do so less. Values are taken out at random, or not at
random: the larger a value, the likelier it is missing. The choices: only rows without gaps, gaps at the joint mean, EM,
and one step of EM as three masked sites take it, who leave gaps at the mean where few rows would be told of. What is
wanted is the fit to the data without gaps.
"""

import warnings
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_breast_cancer, load_wine

from fedspca import ExactSPCA, Policy, Site
from fedspca.federation import LocalFederation

Array = NDArray[np.float64]

SEEDS = 5


def taken_out(x: Array, share: float, seed: int, *, at_random: bool) -> Array:
    """Return the rows with a share of their values missing."""
    rng = np.random.default_rng(seed)
    if at_random:
        return np.where(rng.random(x.shape) < share, np.nan, x)
    ranks = x.argsort(axis=0).argsort(axis=0) / (len(x) - 1)
    return np.where(rng.random(x.shape) < 2 * share * ranks, np.nan, x)


def fitted(x: Any, **more: Any) -> Any:
    """Two components of five features each."""
    return ExactSPCA(2, n_nonzero=5, scale=True, proof_seconds=0, max_missing=0.9, **more).fit(x)


def guarded(x: Array) -> Any:
    """One step of EM over three sites whose policy is that of a new site folder."""
    policy = Policy(min_rows=10, min_fold_rows=5)
    sites = [Site(str(at), x[at::3], policy=policy, allow_missing=True) for at in range(3)]
    method = ExactSPCA(2, n_nonzero=5, scale=True, proof_seconds=0, max_missing=0.9, missing="em-once")
    return method.fit_federation(LocalFederation(sites))


def captured(model: Any, x: Array) -> float:
    """Return the share of the variance of the whole data that a model's components capture."""
    a = (x - x.mean(axis=0)) / x.std(axis=0)
    basis = np.linalg.qr(model.components_.T)[0]
    return float(np.sum((a @ basis) ** 2) / np.sum(a**2))


def costs(x: Array, gaps: Array) -> dict[str, tuple[float, ...]]:
    """Return rows used, captured variance lost, how like the first score is, and how far off means are (deviations)."""
    whole, complete = fitted(x), ~np.isnan(gaps).any(axis=1)
    found: dict[str, tuple[float, ...]] = {}
    for name, rows, fit in (
        ("rows without gaps", gaps[complete], fitted),
        ("mean", gaps, fitted),
        ("em", gaps, partial(fitted, missing="em")),
        ("em-once, masked", gaps, guarded),
    ):
        if len(rows) < 20:
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = fit(rows)
        shown = x if name == "rows without gaps" else gaps
        alike = abs(np.corrcoef(model.transform(shown)[:, 0], whole.transform(x)[:, 0])[0, 1])
        off = np.abs(model.mean_ - whole.mean_) / x.std(axis=0)
        found[name] = (len(rows), 1 - captured(model, x) / captured(whole, x), float(alike), float(off.mean()))
    return found


def main() -> None:
    """Print the figures."""
    for what, x in (("WDBC", load_breast_cancer().data), ("wine", load_wine().data)):
        for at_random in (True, False):
            for share in (0.05, 0.2, 0.4):
                runs = [costs(x, taken_out(x, share, seed, at_random=at_random)) for seed in range(SEEDS)]
                how = "at random" if at_random else "not at random"
                for name in ("rows without gaps", "mean", "em", "em-once, masked"):
                    here = [run[name] for run in runs if name in run]
                    if not here:
                        print(f"{what}, {share:.0%} {how}, {name}: fewer than 20 rows are left")
                        continue
                    rows, loss, alike, off = np.mean(here, axis=0)
                    print(
                        f"{what}, {share:.0%} {how}, {name}: {rows:.0f} rows, variance lost {loss:.2%}, "
                        f"correlation of score 1 {alike:.3f}, means off by {off:.2f}"
                    )


if __name__ == "__main__":
    main()
