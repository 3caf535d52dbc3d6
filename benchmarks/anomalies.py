"""How well anomalies are told from ordinary rows: AnomalyDetector beside what one would take otherwise.

Every method is fitted to training rows and scores other rows. Higher is better: the area under the ROC curve.
"""

import warnings
from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.decomposition import PCA
from sklearn.ensemble import IsolationForest
from sklearn.metrics import roc_auc_score
from sklearn.neighbors import LocalOutlierFactor

from benchmarks.measure import verdict
from fedspca import AnomalyDetector
from fedspca.literature import OversamplingPCA

Array = NDArray[np.float64]
Places = NDArray[np.intp]
Case = tuple[str, Array, Array, Array]

SITES, SEEDS, COMPONENTS, NEAR = 5, range(3), 5, 0.02
STRANGE = 0.1  # of the training rows, where they are contaminated


def split(rows: Array, ordinary: Places, strange: Places, rng: np.random.Generator, share: float) -> tuple[Array, ...]:
    """Two thirds of the ordinary rows, with a share of strange ones, to train on; the rest to score, with labels."""
    own, others = rng.permutation(ordinary), rng.permutation(strange)
    cut = 2 * len(own) // 3
    mixed = round(share * cut)
    train = rows[np.concatenate([own[:cut], others[:mixed]])]
    test = rows[np.concatenate([own[cut:], others[mixed:]])]
    return train, test, np.r_[np.zeros(len(own) - cut), np.ones(len(others) - mixed)]


def cases(seed: int) -> Iterator[Case]:
    """Yield a name, training rows, rows to score, and which of those are strange."""
    cancer, digits = load_breast_cancer(), load_digits()
    malignant, three, zero = cancer.target == 0, digits.target != 3, digits.target == 0
    for name, rows, strange in (
        ("breast cancer", cancer.data, malignant),
        ("digits, one class", digits.data, three),
        ("digits, unseen class", digits.data, zero),
    ):
        for share, more in ((0.0, ""), (STRANGE, ", 10 % contaminated")):
            if share and "unseen" in name:
                continue  # a class that was seen is not unseen
            rng = np.random.default_rng(seed)
            ordinary, odd = np.flatnonzero(~strange), np.flatnonzero(strange)
            train, test, label = split(rows, ordinary, odd, rng, share)
            kept = train.std(axis=0) > 0
            yield name + more, train[:, kept], test[:, kept], label


def scaled(train: Array, test: Array) -> tuple[Array, Array]:
    """Both in units of the training rows' spread."""
    mean, spread = train.mean(axis=0), train.std(axis=0, ddof=1)
    return (train - mean) / spread, (test - mean) / spread


def pca_error(train: Array, test: Array) -> Array:
    """PCA's reconstruction error, with as many components as AnomalyDetector has."""
    dense = PCA(min(COMPONENTS, train.shape[1] // 2)).fit(train)
    return np.asarray(np.sum((test - dense.inverse_transform(dense.transform(test))) ** 2, axis=1))


def ours(train: Array, test: Array, passes: int = 1) -> Array:
    """AnomalyDetector over five sites."""
    sites = np.arange(len(train)) % SITES
    return -AnomalyDetector(passes=passes).fit(train, sites=sites).score_samples(test)


METHODS: dict[str, Callable[[Array, Array], Array]] = {
    "PCA": pca_error,
    "IsolationForest": lambda a, b: -IsolationForest(random_state=0).fit(a).score_samples(b),
    "LOF": lambda a, b: -LocalOutlierFactor(novelty=True).fit(a).score_samples(b),
    "‖x‖²": lambda _, b: np.sum(b**2, axis=1),
    "osPCA": lambda a, b: -OversamplingPCA().fit(a, sites=np.arange(len(a)) % SITES).score_samples(b),
    "ours": ours,
    "ours, trimmed": lambda a, b: ours(a, b, passes=2),
}
FOUR = ("PCA", "IsolationForest", "LOF", "‖x‖²")


def measured(seeds: range = SEEDS) -> dict[str, dict[str, float]]:
    """Return the mean area under the curve over seeds, for each case and method."""
    found: dict[str, dict[str, list[float]]] = {}
    for seed in seeds:
        for name, train, test, label in cases(seed):
            a, b = scaled(train, test)
            for method, score in METHODS.items():
                area = float(roc_auc_score(label, score(a, b)))
                found.setdefault(name, {}).setdefault(method, []).append(area)
    return {name: {m: float(np.mean(areas)) for m, areas in row.items()} for name, row in found.items()}


def main() -> None:
    """Print the table, and whether the bars hold."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        table = measured()
    print(f"| area under the ROC curve, mean of {len(SEEDS)} splits | {' | '.join(METHODS)} |")
    print("| --- " * (1 + len(METHODS)) + "|")
    for name, row in table.items():
        print(f"| {name} | {' | '.join(f'{row[method]:.3f}' for method in METHODS)} |")
    least = [name for name, row in table.items() if row["ours"] < row["PCA"]]
    near = [name for name, row in table.items() if row["ours"] >= max(row[m] for m in FOUR) - NEAR]
    print(
        f"at least PCA's error in every row: {verdict(not least)}" + (f" (not in {', '.join(least)})" if least else "")
    )
    print(f"within .02 of the best of the four in half of them: {len(near)} of {len(table)}, ", end="")
    print(verdict(2 * len(near) >= len(table)))


if __name__ == "__main__":
    main()
