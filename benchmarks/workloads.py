"""The workloads W1 to W7: data, how many components, how many non-zeros, and the truth where there is one."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from fedspca.experiments.data import wdbc_star
from fedspca.experiments.synthetic import equal_blocks, hard_spikes

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Workload:
    """Rows to fit ``r`` loadings of ``k`` non-zeros to.

    ``alpha`` is the penalty at which scikit-learn's SparsePCA, told no number of non-zeros, has about as many; it was
    found by bisection. ``true`` makes the planted loadings, r × d. The bar on time is for ``timed`` ones.
    """

    name: str
    make: Callable[[], Any]
    r: int
    k: int
    alpha: float
    true: Callable[[], Array] | None = None
    timed: bool = True


def spiked(n: int, d: int, sizes: tuple[float, ...], k: int, seed: int = 0) -> Array:
    """Rows with one k-sparse spike for each size, the noise having variance one."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n, d))
    for j, size in enumerate(sizes):
        x[:, j * k : (j + 1) * k] += np.sqrt(size / k) * rng.standard_normal((n, 1))
    return x


def wdbc(*, standardised: bool) -> Array:
    """WDBC*: 30 real features and 800 uniform ones; raw, or every column centred and divided by its deviation."""
    raw = wdbc_star().rows
    return np.asarray((raw - raw.mean(axis=0)) / raw.std(axis=0, ddof=1) if standardised else raw)


def sparse_rows(n: int, d: int, density: float, seed: int = 0) -> sp.csr_array:
    """CSR rows: uniform noise, and in a fifth of the rows some of fifty features that occur together."""
    rng = np.random.default_rng(seed)
    count = int(n * d * density)
    rows, columns = rng.integers(0, n, count), rng.integers(0, d, count)
    heavy = np.repeat(rng.choice(n, n // 5, replace=False), 5)
    rows, columns = np.concatenate([rows, heavy]), np.concatenate([columns, rng.integers(0, 50, len(heavy))])
    values = np.concatenate([rng.random(count), 3.0 + rng.random(len(heavy))])
    return sp.csr_array((values, (rows, columns)), shape=(n, d))


HARD = (("weak", 3.8), ("overlapping", 4.3), ("correlated", 4.4), ("wide", 7.4))  # kind and alpha


def hard(kind: str, seed: int) -> Array:
    """Rows with spikes near the limit of detection, as ``fedspca reproduce literature`` takes them."""
    return hard_spikes(kind, seed)[0]


def hard_loadings(kind: str) -> Array:
    """The planted loadings of :func:`hard`."""
    return hard_spikes(kind)[1]


def expression() -> Array:
    """W7: 700 cells × 765 genes, log counts of the 10x PBMC 68k set that scanpy's wheel has inside, in float64."""
    import h5py

    with h5py.File(_pbmc()) as file:
        stored = file["raw.X"]
        parts = (stored["data"][:], stored["indices"][:], stored["indptr"][:])
    return np.asarray(sp.csr_array(parts, shape=(700, 765)).toarray(), dtype=np.float64)


def cell_types() -> NDArray[np.int8]:
    """Who owns each cell of W7: each of ten cell types is a site."""
    import h5py

    with h5py.File(_pbmc()) as file:
        return np.asarray(file["obs"]["bulk_labels"])


def _pbmc() -> Path:
    """The file inside scanpy, which need not be imported for it, nor have its own dependencies installed."""
    found = find_spec("scanpy")
    places = found.submodule_search_locations if found else None
    if not places:
        raise ModuleNotFoundError("W7 reads a data set that comes inside scanpy: pip install --no-deps scanpy")
    return Path(places[0]) / "datasets" / "10x_pbmc68k_reduced.h5ad"


def workloads() -> Iterator[Workload]:
    """All workloads; draws after the first are about quality alone."""
    raw, std = partial(wdbc, standardised=False), partial(wdbc, standardised=True)
    for draw in range(3):
        make, true = partial(spiked, 1000, 500, (400.0, 300.0), 10, draw), partial(equal_blocks, 2, 500, 10)
        yield Workload(_draw("W1 1000 × 500", draw), make, 2, 10, 170.0, true, timed=draw == 0)
    yield Workload("W2 WDBC* raw, 60", raw, 2, 30, 0.68)
    yield Workload("W2 WDBC* raw, 550", raw, 2, 275, 0.28)
    yield Workload("W2 WDBC* std, 60", std, 2, 30, 2.7)
    yield Workload("W2 WDBC* std, 550", std, 2, 275, 1.0)
    make, true = partial(spiked, 200_000, 500, (40.0, 35.0, 30.0, 25.0, 20.0), 10), partial(equal_blocks, 5, 500, 10)
    yield Workload("W3 200,000 × 500", make, 5, 10, 1.0, true)
    for draw in range(2):
        make = partial(spiked, 500, 20_000, (400.0, 350.0, 300.0, 250.0, 200.0), 50, draw)
        yield Workload(
            _draw("W4 500 × 20,000", draw), make, 5, 50, 34.0, partial(equal_blocks, 5, 20_000, 50), draw == 0
        )
    for draw in range(2):
        yield Workload(_draw("W5 CSR 20,000²", draw), partial(sparse_rows, 20_000, 20_000, 1e-3, draw), 5, 50, 1.0)
    for kind, alpha in HARD:
        for draw in range(5):
            make, true = partial(hard, kind, draw), partial(hard_loadings, kind)
            yield Workload(f"W6 {kind}, draw {draw}", make, 3, 12, alpha, true, timed=False)
    if find_spec("scanpy") and find_spec("h5py"):
        yield Workload("W7 PBMC, 60", expression, 3, 20, 15.0, timed=False)
        yield Workload("W7 PBMC, 300", expression, 3, 100, 4.8, timed=False)


def _draw(name: str, draw: int) -> str:
    return f"{name}, draw {draw}" if draw else name
