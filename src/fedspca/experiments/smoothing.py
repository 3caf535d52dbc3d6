"""The smoothing function of the ℓ1 norm: the paper's first figure."""

import numpy as np

from fedspca.experiments.runner import Record, Task
from fedspca.linalg.shrinkage import smooth_abs

NAME = "smoothing"
MU = 1e-3


def smoothing_curve(mu: float = MU, n_points: int = 81) -> list[Record]:
    """ψ and |·| on [−2μ, 2μ]."""
    x = np.linspace(-2 * mu, 2 * mu, n_points)
    smooth = smooth_abs(x, mu)
    gap = float(np.max(smooth - np.abs(x)))
    return [{"what": "curve", "mu": mu, "x": x.tolist(), "smooth": smooth.tolist(), "largest_gap": gap}]


def tasks(*, quick: bool) -> list[Task]:
    """One task, the same whether quick or not."""
    del quick
    return [Task(NAME, smoothing_curve, cost=0.1)]
