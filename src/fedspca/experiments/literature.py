"""Compare the methods of the literature with ours, on the same sites and with equal numbers of non-zeros."""

import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from sklearn.datasets import load_diabetes, load_digits

from fedspca.estimators import FASPCA, FSSPCA, ExactSPCA
from fedspca.experiments.alternatives import truncate
from fedspca.experiments.data import non_iid_wdbc_star, sites_in_order, standardised, wdbc_star
from fedspca.experiments.runner import Record, Task
from fedspca.experiments.synthetic import HARD, hard_spikes, iid_synthetic, non_iid_synthetic
from fedspca.literature import (
    DSPCA,
    PAST,
    ElasticNetSPCA,
    FantopePS,
    GPower,
    MergedPCA,
    NonconvexADMM,
    PrivateTruncatedPower,
    SCoTLASS,
    StabilizedADMM,
    TruncatedPower,
)
from fedspca.literature.mackey import Deflation
from fedspca.metrics import recovery_error

Array = NDArray[np.float64]

NAME = "literature"
SITES = 5
FITS = 5  # most fits of a method with a penalty: bisection seeks the penalty that gives r·k weights
LARGE = 100  # above this many features, methods are fitted fewer times, and those that work hard on S roughly
FEW_FITS = 3
STEPS = 100  # of ADMM, each with a decomposition of a large S
NETS = 20  # steps of the elastic net's alternation, each with two nets, for a large S
HUGE = 1000  # above this many features, a coordinator that works on S itself would take very long
REPEATS = 5  # fits of a private method, whose noise cannot be repeated
CONSENSUS = "own loadings and dual variable, d × r a round: in the end its covariance"
SUMS = "products with S, d numbers a direction"
WHOLE = "S itself, once, in one sum"
NOISED = "products with S of shortened rows, with noise that hides any one row"
OUTSIDE = "its own ten leading singular vectors, outside any sum"
OUTSIDE_NOISED = f"{OUTSIDE}, with noise that hides any one row"


class Data(NamedTuple):
    """Rows as all methods get them, the number of loadings r, the weights of each k, and the true loadings if known.

    ``centre`` and ``unit`` are a typical value and deviation of a feature, as one might know them without these rows:
    private methods need them.
    """

    rows: Array
    r: int
    k: int
    truth: Array | None = None
    centre: float = 0.0
    unit: float = 1.0


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
        return Data(digits[:, digits.std(axis=0) > 0], 3, 10, centre=8.0, unit=5.0)
    if name == "diabetes":
        return Data(standardised(load_diabetes().data), 2, 4)
    if name == EXPRESSION:
        return expression()
    rows, truth = hard_spikes(name.removesuffix(SPIKES))
    return Data(rows, 3, 12, truth)


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


EXPRESSION, SPIKES = "expression", " spikes"
DATA = (
    "diabetes",
    "digits",
    EXPRESSION,
    *(kind + SPIKES for kind in HARD),
    "synthetic",
    "synthetic, non-IID",
    "WDBC*",
    "WDBC*, non-IID",
)


class Method(NamedTuple):
    """How to construct a method for r loadings of k weights, and what a site reveals.

    ``make`` takes the data and, if the method has one, a penalty. ``penalties`` gives the range in which the penalty is
    sought. ``on_s`` says that the coordinator works on S itself, and ``costly`` that each of its steps takes as
    long as a decomposition of S. ``private`` says that noise from the operating system makes each fit another.
    """

    make: Callable[..., Any]
    reveals: str
    penalties: Callable[[Data], tuple[float, float]] | None = None
    on_s: bool = False
    costly: bool = False
    private: bool = False


def _centred(given: Data) -> Array:
    return np.asarray(given.rows - given.rows.mean(axis=0))


def _entries(given: Data) -> tuple[float, float]:
    """The range of penalties on entries of S: up to the largest one."""
    largest = float(np.max(np.einsum("ij,ij->j", _centred(given), _centred(given))))
    return largest / 30, largest


def _products(given: Data) -> tuple[float, float]:
    """The range of penalties on entries of 2Sw: up to twice the largest eigenvalue of S."""
    largest = 2.0 * float(np.linalg.norm(_centred(given), 2)) ** 2
    return largest / 1000, largest


def _rough(given: Data, tol: float, steps: int) -> dict[str, Any]:
    """How long a coordinator works on S: to a tolerance, or roughly and for so many steps if S is large."""
    return {"tol": tol} if given.rows.shape[1] <= LARGE else {"tol": 1e-4, "max_rounds": steps}


def _private(epsilon: float) -> Method:
    """Ge et al., with rows shortened to the length of a standardised row."""

    def make(given: Data) -> PrivateTruncatedPower:
        clip = float(np.sqrt(given.rows.shape[1]))
        return PrivateTruncatedPower(given.r, n_nonzero=given.k, epsilon=epsilon, clip=clip)

    return Method(make, NOISED, private=True)


def _private_merging(epsilon: float) -> Method:
    def make(given: Data) -> MergedPCA:
        return MergedPCA(given.r, epsilon=epsilon, clip=float(np.sqrt(given.rows.shape[1])))

    return Method(make, OUTSIDE_NOISED, private=True, on_s=True)


def _deflated(kind: Deflation) -> Method:
    return Method(lambda g: TruncatedPower(g.r, n_nonzero=g.k, deflation=kind), SUMS)


def _gpower(penalty: Literal["l1", "l0"], block: bool) -> Method:
    return Method(lambda g: GPower(g.r, penalty=penalty, block=block, n_nonzero=g.k), SUMS)


def _nonconvex(penalty: Literal["scad", "mcp", "log"]) -> Method:
    def make(given: Data, lam: float) -> NonconvexADMM:
        return NonconvexADMM(given.r, penalty=penalty, lam=lam, tol=1e-5, max_rounds=2000)

    return Method(make, WHOLE, _products, on_s=True)


METHODS: Mapping[str, Method] = {
    "ExactSPCA": Method(lambda g: ExactSPCA(g.r, n_nonzero=g.k), WHOLE),
    "ExactSPCA, products": Method(lambda g: ExactSPCA(g.r, n_nonzero=g.k, search="products"), SUMS),
    "FASPCA": Method(lambda g, p: FASPCA(g.r, lam=p), CONSENSUS, _products),
    "FSSPCA": Method(lambda g, p: FSSPCA(g.r, lam1=p / 50, lam2=p), CONSENSUS, _products),
    "Tan et al., CG": Method(lambda g, p: StabilizedADMM(g.r, lam=p), CONSENSUS, _products),
    "truncated power": Method(lambda g: TruncatedPower(g.r, n_nonzero=g.k), SUMS),
    "truncated power, Hotelling": _deflated("hotelling"),
    "truncated power, projection": _deflated("projection"),
    "truncated power, Schur": _deflated("schur"),
    "truncated power, generalised": _deflated("generalised"),
    "GPower ℓ1": _gpower("l1", block=False),
    "GPower ℓ0": _gpower("l0", block=False),
    "GPower ℓ1, block": _gpower("l1", block=True),
    "GPower ℓ0, block": _gpower("l0", block=True),
    "elastic net, λ → ∞": Method(lambda g: ElasticNetSPCA(g.r, n_nonzero=g.k), SUMS),
    "elastic net": Method(
        lambda g, p: ElasticNetSPCA(g.r, lam=1.0, lam1=p, **_rough(g, 1e-6, NETS)),
        WHOLE,
        _products,
        on_s=True,
        costly=True,
    ),
    "SCoTLASS": Method(lambda g: SCoTLASS(g.r, t=max(1.0, 0.85 * np.sqrt(g.k))), SUMS),
    "Fantope": Method(
        lambda g, p: FantopePS(g.r, lam=p, **_rough(g, 1e-5, STEPS)), WHOLE, _entries, on_s=True, costly=True
    ),
    "DSPCA": Method(lambda g, p: DSPCA(g.r, lam=p, **_rough(g, 1e-5, STEPS)), WHOLE, _entries, on_s=True, costly=True),
    "ADMM, MCP": _nonconvex("mcp"),
    "ADMM, SCAD": _nonconvex("scad"),
    "ADMM, log": _nonconvex("log"),
    "PAST, truncated": Method(lambda g: PAST(g.r), SUMS),
    "merging, truncated": Method(lambda g: MergedPCA(g.r), OUTSIDE),
    "merging, ε = 10, truncated": _private_merging(10.0),
    "private truncated power, ε = 10": _private(10.0),
}


def run(method: str, name: str) -> list[Record]:
    """Fit a method to a data set, truncate each loading to k weights, and evaluate the loadings."""
    given, about = data(name), METHODS[method]
    common = {"method": method, "data": name, "reveals": about.reveals}
    if given.rows.shape[1] > (LARGE if about.private else HUGE if about.on_s else np.inf):
        return [{"what": "left out", **common}]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the record says whether the fit converged
        fits = [_fitted(about, given) for _ in range(REPEATS)] if about.private else list(_sought(about, given))
    model, seconds = min(fits, key=lambda fit: _misses(fit[0], given))
    same = {
        "rounds": int(model.n_rounds_),
        "bytes_up": sum(record.bytes_up for record in model.history_) + getattr(model, "sketch_bytes_", 0),
        "seconds": seconds,
    }
    if about.private:
        same["bytes_up"] = 1000 * round(same["bytes_up"] / 1000)  # noise decides how many directions a site keeps
        return [{"what": "private", **common, **same, "varying": [_judged(fit, given) for fit, _ in fits]}]
    nonzeros = int(np.count_nonzero(model.components_))
    judged = _judged(model, given)
    return [{"what": "fit", **common, **judged, **same, "nonzeros": nonzeros, "converged": bool(model.converged_)}]


def _judged(model: Any, given: Data) -> Record:
    """The explained variance and the recovery error of loadings that are cut to k weights each."""
    span = np.linalg.qr(truncate(model.components_, given.k).T)[0]
    centred = _centred(given)
    return {
        "explained": float(np.sum((centred @ span) ** 2) / np.sum(centred**2)),
        "recovery": None if given.truth is None else recovery_error(span.T, given.truth),
    }


def _misses(model: Any, given: Data) -> tuple[bool, int]:
    """How far a fit is from r·k weights. One with more is better than one with fewer, since it can be cut."""
    over = int(np.count_nonzero(model.components_)) - given.r * given.k
    return over < 0, abs(over)


def _fitted(about: Method, given: Data, *penalty: float) -> tuple[Any, float]:
    """Fit to the sites, and return the model and the processor time that it took."""
    rows = (given.rows - given.centre) / given.unit if about.private else given.rows
    began = time.process_time()
    model = about.make(given, *penalty).fit(rows, sites=sites_in_order(len(rows), SITES))
    return model, time.process_time() - began


def _sought(about: Method, given: Data) -> Iterator[tuple[Any, float]]:
    """Fit once or, if the method has a penalty, several times: bisection seeks the penalty that gives r·k weights."""
    if about.penalties is None:
        yield _fitted(about, given)
        return
    low, high = about.penalties(given)
    for _ in range(FITS if given.rows.shape[1] <= LARGE else FEW_FITS):
        trial = float(np.sqrt(low * high))
        try:
            found = _fitted(about, given, trial)
        except ValueError:  # the penalty left a loading without weights
            high = trial
            continue
        yield found
        few, over = _misses(found[0], given)
        if not over:
            return
        low, high = (low, trial) if few else (trial, high)


def tasks(*, quick: bool) -> list[Task]:
    """Every method on every data set; a quick run takes the smallest data set, and the methods without a penalty."""
    names = ("diabetes",) if quick else [name for name in DATA if name != EXPRESSION or cells_file() is not None]
    chosen = [method for method, about in METHODS.items() if not (quick and about.penalties)]
    return [
        Task(NAME, run, {"method": method, "name": name}, 0.2 if quick else 30.0 if METHODS[method].costly else 3.0)
        for name in names
        for method in chosen
    ]
