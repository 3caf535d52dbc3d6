"""Compare the methods of the literature with ours, on the same sites and with equal numbers of non-zeros."""

import warnings
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from sklearn.datasets import load_diabetes, load_digits

from fedspca.estimators import FASPCA, FSSPCA, ExactSPCA
from fedspca.experiments.alternatives import truncate
from fedspca.experiments.data import non_iid_wdbc_star, sites_in_order, standardised, wdbc_star
from fedspca.experiments.runner import Record, Task
from fedspca.experiments.synthetic import iid_synthetic, non_iid_synthetic
from fedspca.literature import (
    DSPCA,
    PAST,
    ElasticNetSPCA,
    FantopePS,
    GPower,
    MergedPCA,
    NonconvexADMM,
    SCoTLASS,
    StabilizedADMM,
    TruncatedPower,
)
from fedspca.metrics import recovery_error

Array = NDArray[np.float64]

NAME = "literature"
SITES = 5
SMALL = 20  # most features for methods that need many rounds or a decomposition of S in every step
FITS = 5  # most fits of a method with a penalty: bisection seeks the penalty that gives r·k weights
CONSENSUS = "own loadings and dual variable, d × r a round: in the end its covariance"
SUMS = "products with S, d numbers a direction"
WHOLE = "S itself, once, in one sum"


class Data(NamedTuple):
    """Rows as all methods get them, the number of loadings r, the weights of each k, and the true loadings if known."""

    rows: Array
    r: int
    k: int
    truth: Array | None = None


@cache
def data(name: str) -> Data:
    """Return one of the data sets."""
    if name == "WDBC*":
        return Data(standardised(wdbc_star(1).rows), 2, 15)
    if name == "WDBC*, non-IID":
        return Data(non_iid_wdbc_star(SITES, 1).rows, 2, 15)
    if name == "synthetic":
        found = iid_synthetic(SITES, seed=0)
        return Data(found.rows, 2, 10, found.truth)
    if name == "synthetic, non-IID":
        found = non_iid_synthetic(SITES, seed=0)
        return Data(found.rows, 2, 10, found.truth)
    if name == "digits":
        digits = load_digits().data
        return Data(digits[:, digits.std(axis=0) > 0], 3, 10)
    if name == "diabetes":
        return Data(standardised(load_diabetes().data), 2, 4)
    return expression() if name == EXPRESSION else hard_spikes()


def expression() -> Data:
    """Return log counts of 765 genes in 700 blood cells (10x PBMC 68k), from a file inside the package scanpy."""
    import h5py

    with h5py.File(cells_file() or "") as file:
        stored = file["raw.X"]
        parts = (stored["data"][:], stored["indices"][:], stored["indptr"][:])
    return Data(np.asarray(csr_array(parts, shape=(700, 765)).toarray(), dtype=np.float64), 2, 10)


def cells_file() -> Path | None:
    """Return the file with the cells, or None without scanpy, which is not imported and needs nothing else here."""
    found = find_spec("scanpy")
    places = (found.submodule_search_locations if found else None) or []
    return next((Path(place) / "datasets" / "10x_pbmc68k_reduced.h5ad" for place in places), None)


def hard_spikes(n: int = 150, d: int = 400, r: int = 3, k: int = 12, strength: float = 2.0, seed: int = 0) -> Data:
    """Weak spikes of k features each, with more features than rows: a case where the methods differ."""
    rng = np.random.default_rng(seed)
    truth = np.zeros((r, d))
    for j in range(r):
        truth[j, j * k : (j + 1) * k] = rng.choice([-1.0, 1.0], k) / np.sqrt(k)
    sizes = np.sqrt(strength * (1 + 0.2 * np.arange(r)[::-1]))
    rows = rng.standard_normal((n, r)) * sizes @ truth + rng.standard_normal((n, d))
    return Data(rows, r, k, truth)


EXPRESSION = "expression"
DATA = ("diabetes", "digits", EXPRESSION, "hard spikes", "synthetic", "synthetic, non-IID", "WDBC*", "WDBC*, non-IID")


class Method(NamedTuple):
    """How to construct a method for r loadings of k weights, what a site reveals, and whether it is for small data.

    ``make`` takes r, k and, if the method has one, a penalty. ``penalty`` gives the upper end of the search for the
    penalty. ``small`` restricts the method to data with at most ``SMALL`` features.
    """

    make: Callable[..., Any]
    reveals: str
    penalty: Callable[[Data], float] | None = None
    small: bool = False


def _entry(given: Data) -> float:
    """The largest entry of S: the largest variance, times n − 1."""
    centred = given.rows - given.rows.mean(axis=0)
    return float(np.max(np.einsum("ij,ij->j", centred, centred)))


METHODS: Mapping[str, Method] = {
    "ExactSPCA": Method(lambda r, k: ExactSPCA(r, n_nonzero=k), WHOLE),
    "ExactSPCA, products": Method(lambda r, k: ExactSPCA(r, n_nonzero=k, search="products"), SUMS),
    "FASPCA": Method(lambda r, _k, p: FASPCA(r, lam=p), CONSENSUS, _entry, small=True),
    "FSSPCA": Method(lambda r, _k, p: FSSPCA(r, lam1=p / 50, lam2=p), CONSENSUS, _entry, small=True),
    "Tan et al., CG": Method(lambda r, _k, p: StabilizedADMM(r, lam=p), CONSENSUS, _entry, small=True),
    "truncated power": Method(lambda r, k: TruncatedPower(r, n_nonzero=k), SUMS),
    "GPower ℓ1": Method(lambda r, k: GPower(r, penalty="l1", n_nonzero=k), SUMS),
    "GPower ℓ0": Method(lambda r, k: GPower(r, penalty="l0", n_nonzero=k), SUMS),
    "GPower ℓ1, block": Method(lambda r, k: GPower(r, penalty="l1", block=True, n_nonzero=k), SUMS),
    "GPower ℓ0, block": Method(lambda r, k: GPower(r, penalty="l0", block=True, n_nonzero=k), SUMS),
    "elastic net, λ → ∞": Method(lambda r, k: ElasticNetSPCA(r, n_nonzero=k), SUMS),
    "elastic net": Method(lambda r, _k, p: ElasticNetSPCA(r, lam=1.0, lam1=p, tol=1e-6), WHOLE, _entry, small=True),
    "SCoTLASS": Method(lambda r, k: SCoTLASS(r, t=max(1.0, 0.85 * np.sqrt(k))), SUMS),
    "Fantope": Method(lambda r, _k, p: FantopePS(r, lam=p, tol=1e-5), WHOLE, _entry, small=True),
    "DSPCA": Method(lambda r, _k, p: DSPCA(r, lam=p, tol=1e-5), WHOLE, _entry, small=True),
    "ADMM, MCP": Method(lambda r, _k, p: NonconvexADMM(r, lam=p, tol=1e-5, max_rounds=2000), WHOLE, _entry, small=True),
    "PAST, truncated": Method(lambda r, _k: PAST(r), SUMS),
    "merging, truncated": Method(lambda r, _k: MergedPCA(r), "its own ten leading singular vectors, outside any sum"),
}


def run(method: str, name: str) -> list[Record]:
    """Fit a method to a data set, truncate each loading to k weights, and evaluate the loadings."""
    given, about = data(name), METHODS[method]
    if about.small and given.rows.shape[1] > SMALL:
        return [{"what": "left out", "method": method, "data": name}]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the record says whether the fit converged
        fits = list(_fits(about, given))
    model = min(fits, key=lambda fit: abs(np.count_nonzero(fit.components_) - given.r * given.k))
    cut = truncate(model.components_, given.k)
    centred = given.rows - given.rows.mean(axis=0)
    span = np.linalg.qr(cut.T)[0]
    return [
        {
            "what": "fit",
            "method": method,
            "data": name,
            "explained": float(np.sum((centred @ span) ** 2) / np.sum(centred**2)),
            "recovery": None if given.truth is None else recovery_error(span.T, given.truth),
            "nonzeros": int(np.count_nonzero(model.components_)),
            "rounds": int(model.n_rounds_),
            "bytes_up": sum(record.bytes_up for record in model.history_),
            "converged": bool(model.converged_),
            "reveals": about.reveals,
            "seconds": float(sum(record.seconds for record in model.history_)),
        }
    ]


def _fits(about: Method, given: Data) -> Iterator[Any]:
    """Fit once or, if the method has a penalty, several times: bisection seeks the penalty that gives r·k weights."""
    sites = sites_in_order(len(given.rows), SITES)
    low, high = 0.0, None if about.penalty is None else about.penalty(given)
    trial = None if high is None else high / 4
    for _ in range(1 if trial is None else FITS):
        made = about.make(given.r, given.k) if trial is None else about.make(given.r, given.k, trial)
        try:
            made.fit(given.rows, sites=sites)
        except ValueError:  # the penalty left a loading without weights
            count = 0
        else:
            count = int(np.count_nonzero(made.components_))
            yield made
        if trial is None or count == given.r * given.k:
            return
        low, high = (trial, high) if count > given.r * given.k else (low, trial)
        trial = ((low or 0.0) + (high or 2 * trial)) / 2


def tasks(*, quick: bool) -> list[Task]:
    """Every method on every data set; a quick run takes the smallest data set, and the methods without a penalty."""
    names = ("diabetes",) if quick else [name for name in DATA if name != EXPRESSION or cells_file() is not None]
    chosen = [method for method, about in METHODS.items() if not (quick and about.small)]
    return [
        Task(NAME, run, {"method": method, "name": name}, 0.2 if quick else 3.0) for name in names for method in chosen
    ]
