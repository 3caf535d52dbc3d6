"""Missing values under a Gaussian of low rank: what is expected of them, given the values that are there.

Rows a = (x − μ)/s follow a = Wz + e with z standard normal in q dimensions and e of variance σ² (probabilistic PCA,
Tipping and Bishop 1999). With o the values that are there and M = σ²I + WₒᵀWₒ, E[z] = M⁻¹Wₒᵀaₒ; the missing values are
expected at WE[z], with covariance σ²(I + WM⁻¹Wᵀ) among themselves.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedspca.linalg.operators import BLOCK_BYTES, AnyRows, Sums, dense_parts, total

Array = NDArray[np.float64]

FLOOR = 1e-8  # the least σ², as a share of the average variance


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

    def moments(self, rows: AnyRows) -> tuple[Array, Array]:
        """ΣE[a] and ΣE[aaᵀ] over the rows."""
        d = len(self.mean)

        def of(block: Any) -> Sums:
            sums, gram = np.zeros(d), np.zeros((d, d))
            for dense in dense_parts(block):
                for part in _few_rows(dense, self.loadings.size):
                    expected, m = self._expected(part)
                    sums += expected.sum(axis=0)
                    gram += expected.T @ expected + self._spread(np.isnan(part), m)
            return sums, gram

        sums, gram = total(rows, of)
        return sums, gram

    def _spread(self, gone: NDArray[np.bool_], m: Array) -> Array:
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
    q, shift = model.loadings.shape[1], sums / n
    s = gram / n - np.outer(shift, shift)
    values, vectors = np.linalg.eigh(0.5 * (s + s.T))
    floor = FLOOR * max(float(values.mean()), np.finfo(float).tiny)
    noise = max(float(values[: len(values) - q].mean()), floor)
    kept = np.sqrt(np.maximum(values[len(values) - q :] - noise, 0.0))
    loadings = vectors[:, len(values) - q :] * kept
    return GapModel(model.mean + model.scale * shift, model.scale, loadings, np.array([noise])), s
