"""FASPCA and FSSPCA over ten sites against scikit-learn's SparsePCA on the pooled data, at like sparsity."""

import numpy as np
from sklearn.decomposition import SparsePCA

from benchmarks.measure import medians, verdict
from fedspca import FASPCA, FSSPCA
from fedspca.experiments.data import sites_in_order, wdbc_star
from fedspca.metrics import n_nonzeros


def like_sparse_peer(rows: np.ndarray, nonzeros: int) -> SparsePCA:
    """SparsePCA (coordinate descent) with the alpha whose number of non-zeros comes nearest from above."""
    low, high = 0.5, 4.0
    for _ in range(6):
        alpha = (low + high) / 2
        found = n_nonzeros(SparsePCA(2, alpha=alpha, method="cd", random_state=0).fit(rows).components_)
        low, high = (alpha, high) if found > nonzeros else (low, alpha)
    return SparsePCA(2, alpha=low, method="cd", random_state=0)


def main() -> None:
    """Print times as ratios to the peer, and whether the bars hold."""
    raw = wdbc_star().rows
    rows = (raw - raw.mean(axis=0)) / raw.std(axis=0, ddof=1)
    sites = sites_in_order(len(rows), 10)
    faspca = FASPCA(2, lam=190, scale=True)
    fsspca = FSSPCA(2, lam1=10, lam2=190, scale=True)
    peer = like_sparse_peer(rows, n_nonzeros(faspca.fit(raw, sites=sites).components_))
    times = medians(
        {
            "SparsePCA(cd), pooled": lambda: peer.fit(rows),
            "FASPCA block, 10 sites": lambda: faspca.fit(raw, sites=sites),
            "FSSPCA, 10 sites": lambda: fsspca.fit(raw, sites=sites),
        }
    )
    models = dict(zip(times, (peer, faspca, fsspca), strict=True))
    base = next(iter(times.values()))
    print("Standardised WDBC*, two loadings, to convergence")
    print(f"{'':<26}{'seconds':>9}{'ratio':>8}{'non-zeros':>11}{'rounds':>8}")
    for name, seconds in times.items():
        rounds = getattr(models[name], "n_rounds_", "-")
        print(f"{name:<26}{seconds:>9.2f}{seconds / base:>8.2f}{n_nonzeros(models[name].components_):>11}{rounds:>8}")
    ratios = [seconds / base for seconds in times.values()]
    print(f"FASPCA block takes less time than SparsePCA: {verdict(ratios[1] < 1)}")
    print(f"FSSPCA takes at most three times as long as SparsePCA: {verdict(ratios[2] <= 3)}")
