"""The workloads W1 to W6: data, how many components and how many non-zeros each is asked for."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from fedspca.experiments.data import wdbc_star

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Workload:
    """Data to fit. W7, real expression data, is not here: no package embeds such a set without the network."""

    name: str
    make: Callable[[], Any]
    r: int
    k: int
    bar: bool = True  # whether the bar on time holds for it: W6 is about quality alone


def spiked(n: int, d: int, sizes: tuple[float, ...], support: int, seed: int = 0) -> Array:
    """Rows with one sparse spike for each size, the noise having variance one."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n, d))
    for j, size in enumerate(sizes):
        features = slice(j * support, (j + 1) * support)
        x[:, features] += np.sqrt(size / support) * rng.standard_normal((n, 1))
    return x


def standardised_wdbc() -> Array:
    """WDBC*, every column centred and divided by its standard deviation."""
    raw = wdbc_star().rows
    return np.asarray((raw - raw.mean(axis=0)) / raw.std(axis=0, ddof=1))


def sparse_rows(n: int, d: int, density: float, seed: int = 0) -> sp.csr_array:
    """CSR rows: uniform noise, and in a fifth of the rows fifty features that occur together."""
    rng = np.random.default_rng(seed)
    noise: Any = sp.random(n, d, density=density, format="csr", random_state=rng)
    rows = np.repeat(rng.choice(n, n // 5, replace=False), 5)
    columns = rng.integers(0, 50, len(rows))
    return sp.csr_array(noise + sp.csr_array((3.0 + rng.random(len(rows)), (rows, columns)), shape=(n, d)))


def hard(kind: str, seed: int, n: int = 150, d: int = 400, r: int = 3, k: int = 12) -> Array:
    """Spikes near the limit of detection: weak, overlapping, or in correlated noise."""
    rng = np.random.default_rng([seed, len(kind)])
    loadings = np.zeros((r, d))
    for j in range(r):
        start = j * (k // 2 if kind == "overlapping" else k)
        loadings[j, start : start + k] = rng.choice([-1, 1], k) / np.sqrt(k)
    sizes = np.array([6.0, 5.0, 4.0]) if kind == "weak" else np.array([12.0, 9.0, 7.0])
    noise = rng.standard_normal((n, d))
    if kind == "correlated":
        noise = noise + 0.7 * np.roll(noise, 1, axis=1)
    return np.asarray((rng.standard_normal((n, r)) * np.sqrt(sizes)) @ loadings + noise)


WORKLOADS = (
    Workload("W1 1000 × 500", lambda: spiked(1000, 500, (400, 300), 10), 2, 10),
    Workload("W2 WDBC* raw, 60", lambda: wdbc_star().rows, 2, 30),
    Workload("W2 WDBC* std, 60", standardised_wdbc, 2, 30),
    Workload("W2 WDBC* std, 550", standardised_wdbc, 2, 275),
    Workload("W3 200,000 × 500", lambda: spiked(200_000, 500, (40, 35, 30, 25, 20), 10), 5, 10),
    Workload("W4 500 × 20,000", lambda: spiked(500, 20_000, (400, 350, 300, 250, 200), 50), 5, 50),
    Workload("W5 CSR 20,000 × 20,000", lambda: sparse_rows(20_000, 20_000, 1e-3), 5, 50),
    *(
        Workload(f"W6 {kind} {seed}", lambda kind=kind, seed=seed: hard(kind, seed), 3, 12, bar=False)  # type: ignore[misc]
        for kind in ("weak", "overlapping", "correlated")
        for seed in range(2)
    ),
)
