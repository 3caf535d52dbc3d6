"""Missing values under a Gaussian of low rank: what is expected of them, given the values that are there.

Rows a = (x − μ)/s follow a = Wz + e with z standard normal in q dimensions and e of variance σ² (probabilistic PCA,
Tipping and Bishop 1999). With o the values that are there and M = σ²I + WₒᵀWₒ, E[z] = M⁻¹Wₒᵀaₒ; the missing values are
expected at WE[z], with covariance σ²(I + WM⁻¹Wᵀ) among themselves.

The Gaussian can be refitted round by round (EM), or made once from the covariance in which missing values count as the
mean: that covariance is too small by the shares of values that are there, and :func:`corrected` divides by them.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from fedspca.linalg.row_blocks import BLOCK_BYTES, AnyRows, Sums, dense_parts, total

Array = NDArray[np.float64]

Flags = NDArray[np.bool_]

FLOOR = 1e-8  # the least σ², as a share of the average variance
CORRECTED_FLOOR = 1e-2  # the same where the covariance was corrected: its small eigenvalues may be negative
ALIKE = 0.999  # the largest correlation that a corrected covariance may have


@dataclass(frozen=True, eq=False)
class GapModel:
    """A Gaussian of low rank.

    Attributes
    ----------
    mean, scale : ndarray of shape (d,)
        μ, and the unit s of each feature.
    loadings : ndarray of shape (d, q)
        W.
    noise : ndarray of shape (1,)
        σ².
    """

    mean: Array
    scale: Array
    loadings: Array
    noise: Array

    @property
    def arrays(self) -> dict[str, Array]:
        """The parameters by name."""
        return {"mean": self.mean, "scale": self.scale, "loadings": self.loadings, "noise": self.noise}

    def filled(self, rows: Array) -> Array:
        """Return rows with each missing value at its expectation, in the units of the rows."""
        if not np.isnan(rows).any():
            return rows
        return np.asarray(np.where(np.isnan(rows), self._expected(rows)[0] * self.scale + self.mean, rows))

    def _expected(self, rows: Array) -> tuple[Array, Array]:
        """E[a | aₒ] of each row, and M (n × q × q)."""
        d, q = self.loadings.shape
        there = ~np.isnan(rows)
        a = np.where(there, (rows - self.mean) / self.scale, 0.0)
        products = (self.loadings[:, :, None] * self.loadings[:, None, :]).reshape(d, q * q)
        m = (there.astype(np.float64) @ products).reshape(-1, q, q) + self.noise * np.eye(q)
        z = np.linalg.solve(m, (a @ self.loadings)[:, :, None])[:, :, 0]
        return np.where(there, a, z @ self.loadings.T), m

    def moments(self, rows: AnyRows, chosen: tuple[Flags, Flags] | None = None) -> tuple[Array, Array]:
        """ΣE[a] and ΣE[aaᵀ] over the rows.

        If some rows (n) and features (d) are chosen, only their missing values are expected; others count as the mean.
        Rows must then come in order.
        """
        d, at = len(self.mean), 0

        def of(block: Any) -> Sums:
            nonlocal at
            sums, gram = np.zeros(d), np.zeros((d, d))
            for dense in dense_parts(block):
                for part in _few_rows(dense, self.loadings.size):
                    gone, (expected, m) = np.isnan(part), self._expected(part)
                    if chosen is not None:
                        here = gone & chosen[0][at : at + len(part), None] & chosen[1]
                        expected, gone = np.where(gone & ~here, 0.0, expected), here
                    at += len(part)
                    sums += expected.sum(axis=0)
                    gram += expected.T @ expected + self._spread(gone, m)
            return sums, gram

        sums, gram = total(rows, of)
        return sums, gram

    def fills(self, rows: AnyRows, features: Flags) -> sp.csr_array:
        """Return what missing values of some features are expected at, in units s: n × d, entries at the gaps only."""
        parts: list[sp.csr_array] = []

        def of(block: Any) -> Sums:
            for dense in dense_parts(block):
                few = _few_rows(dense, self.loadings.size)
                gaps = (np.where(np.isnan(part) & features, self._expected(part)[0], 0.0) for part in few)
                parts.extend(map(sp.csr_array, gaps))
            return (np.zeros(0),)

        total(rows, of)
        return sp.csr_array(sp.vstack(parts))

    def _spread(self, gone: Flags, m: Array) -> Array:
        """Σ of the covariances of the missing values, given the others."""
        some = gone.any(axis=1)
        if not some.any():
            return np.zeros((len(self.mean), len(self.mean)))
        gone, roots = gone[some].astype(np.float64), np.linalg.inv(np.linalg.cholesky(m[some]))
        tall = (gone[:, :, None] * (self.loadings @ roots.transpose(0, 2, 1))).transpose(1, 0, 2)
        tall = tall.reshape(len(self.mean), -1)
        return np.asarray(self.noise * (tall @ tall.T + np.diag(gone.sum(axis=0))))


def _few_rows(dense: Array, per_row: int) -> list[Array]:
    """Split rows so that d × q numbers for each of them fit the cache."""
    step = max(1, BLOCK_BYTES // (8 * max(per_row, 1)))
    return [dense[at : at + step] for at in range(0, max(len(dense), 1), step)]


def refitted(model: GapModel, sums: Array, gram: Array, n: float) -> tuple[GapModel, Array]:
    """Maximise the expected likelihood: return the next model, and the covariance (over n, in units s) behind it."""
    shift = sums / n
    s = gram / n - np.outer(shift, shift)
    loadings, noise = _low_rank(s, model.loadings.shape[1], FLOOR)
    return GapModel(model.mean + model.scale * shift, model.scale, loadings, noise), s


def corrected(s: Array, shares: Array, rank: int) -> tuple[Array, Array]:
    """Return W and σ² from a covariance (in units s) in which missing values count as the mean.

    A product of two features is there in about the product of their ``shares`` of the rows, if gaps in one say nothing
    of gaps in the other; a square in the share of its feature.
    """
    whole = s / np.outer(shares, shares)
    np.fill_diagonal(whole, np.diag(s) / shares)
    spread = np.sqrt(np.maximum(np.diag(whole), 0.0))
    bound = ALIKE * np.outer(spread, spread)
    np.fill_diagonal(bound, spread**2)
    return _low_rank(np.clip(whole, -bound, bound), rank, CORRECTED_FLOOR)


def _low_rank(s: Array, q: int, least: float) -> tuple[Array, Array]:
    """Return W (d × q) and σ² of probabilistic PCA for a covariance."""
    values, vectors = np.linalg.eigh(0.5 * (s + s.T))
    floor = least * max(float(values.mean()), np.finfo(float).tiny)
    noise = max(float(values[: len(values) - q].mean()), floor)
    kept, leading = np.sqrt(np.maximum(values[len(values) - q :] - noise, 0.0)), vectors[:, len(values) - q :]
    largest = np.take_along_axis(leading, np.abs(leading).argmax(axis=0)[None], axis=0)
    return leading * (np.where(largest < 0, -1.0, 1.0) * kept), np.array([noise])  # signs are the same on every machine
