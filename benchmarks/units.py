"""How often a site is said to have a wrong unit: with the right one, and with one that is wrong by a factor.

Public tables that come with scikit-learn, dealt out to sites that are alike and to sites that are not. Every feature of
every site is one case. A feature that takes fewer than ten values, such as a code, has no unit and is left out.

In a study between institutions nobody sees a site's flag, but the number of sites that flag a feature: the second table
counts the features of a study for which that number is not zero.
"""

from collections.abc import Callable, Iterator

import numpy as np
from sklearn import datasets

from fedspca.experiments import partitions
from fedspca.linalg.profile import Profile
from fedspca.linalg.units import unit_factors

SEEDS, SITES, STUDIES = range(5), (2, 5, 10), (3, 5, 10)
FACTORS = (2.54, 7.5, 10.0, 18.0, 30.0, 1000.0)
TABLES = ("breast_cancer", "wine", "diabetes", "iris")
DEALS = ("at random", "by a label (Dirichlet 0.5)", "by the principal score", "features shifted by 1 SD")


def dealt(name: str, deal: str, n_sites: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return a table and the owner of each row."""
    table = getattr(datasets, f"load_{name}")()
    rows, target = np.asarray(table.data, dtype=float), np.asarray(table.target, dtype=float)
    labels = target if target.ndim == 1 and len(np.unique(target)) < 10 else rows[:, 0] > np.median(rows[:, 0])
    order = np.random.default_rng(seed).permutation(len(rows))
    rows, labels = rows[order], labels[order]
    rows = rows[:, [len(np.unique(column)) >= 10 for column in rows.T]]
    if deal == DEALS[1]:
        return rows, partitions.dirichlet(labels, n_sites, alpha=0.5, seed=seed)
    if deal == DEALS[2]:
        return rows, partitions.by_principal_score(rows, n_sites, seed=seed)
    owners = np.array([str(row % n_sites) for row in range(len(rows))])
    return (partitions.shift_features(rows, owners, size=1.0, seed=seed) if deal == DEALS[3] else rows), owners


def cases(deal: str) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Return the rows of a site and those of all others, for every site of every table with at least five rows."""
    for name in TABLES:
        for n_sites in SITES:
            for seed in SEEDS:
                rows, owners = dealt(name, deal, n_sites, seed)
                for owner in np.unique(owners):
                    if np.sum(owners == owner) >= 5 and np.sum(owners != owner) >= 5:
                        yield rows[owners == owner], rows[owners != owner]


def flagged(mine: np.ndarray, others: np.ndarray, factor: float) -> np.ndarray:
    """Return which features of a site are asked about, once they are multiplied by a factor."""
    return np.asarray(unit_factors(Profile.of(mine * factor), Profile.of(others)) != 1)


def studies(deal: str) -> Iterator[list[np.ndarray]]:
    """Return the rows of every site of a study, for every table; sites have at least five rows."""
    for name in TABLES:
        for n_sites in STUDIES:
            for seed in SEEDS:
                rows, owners = dealt(name, deal, n_sites, seed)
                yield [part for owner in np.unique(owners) if len(part := rows[owners == owner]) >= 5]


def counted(parts: list[np.ndarray], factor: float) -> np.ndarray:
    """Return which features some site finds odd, once they are multiplied by a factor at the first site."""
    profiles = [Profile.of(part * (factor if k == 0 else 1.0)) for k, part in enumerate(parts)]
    joint = Profile.joint(profiles)
    return np.asarray(np.any([unit_factors(own, joint.without(own)) != 1 for own in profiles], axis=0))


def main() -> None:
    """Print, for each way to deal, the share of features asked about: with the right unit, and with wrong ones."""
    print("A site and all others:")
    _table(lambda deal: [[flagged(*case, f) for f in (1.0, *FACTORS)] for case in cases(deal)])
    print("A study between institutions, one site with the factor:")
    _table(lambda deal: [[counted(parts, f) for f in (1.0, *FACTORS)] for parts in studies(deal)])


def _table(flags: Callable[[str], list[list[np.ndarray]]]) -> None:
    print(f"{'sites are dealt':<28}{'cases':>8}{'false alarms':>14}" + "".join(f"{f'×{f:g}':>9}" for f in FACTORS))
    for deal in DEALS:
        found = flags(deal)
        shares = [np.concatenate(column).mean() for column in zip(*found, strict=True)]
        n = sum(len(case[0]) for case in found)
        print(f"{deal:<28}{n:>8,}{shares[0]:>14.2%}" + "".join(f"{share:>9.1%}" for share in shares[1:]))


if __name__ == "__main__":
    main()
