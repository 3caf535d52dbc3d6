"""Questions that are answered with noise, and how to silence the noise."""

import numpy as np

from fedspca import Query
from fedspca.dp import noise

D = 3


def silent(monkeypatch):
    monkeypatch.setattr(noise, "discrete_gaussian", lambda scale, size: np.zeros(size))


def query(name, d=D, clip=2.0, sigma=10.0, grid=24, among=1):
    arrays = {"centre": np.full(d, 0.5), "scale": np.full(d, 2.0)}
    scalars = {"sigma": sigma, "grid": grid, "among": among}
    if name == "private_product":
        arrays["directions"] = np.linalg.qr(np.random.default_rng(0).standard_normal((d, 2)))[0]
    if name in ("private_lengths", "private_counts"):
        arrays["edges"] = np.array([0.5, 1.0, 2.0, 4.0])
    else:
        scalars["clip"] = clip
    if name in ("private_gram", "private_moments"):
        scalars["offset"] = 0.3
    return Query(name, arrays, scalars)
