"""What the sums of an honest consensus run tell: each site's own covariance, masks or not."""

import numpy as np
import pytest
from scipy.optimize import least_squares

from fedspca import FASPCA, Site, SiteRefusal
from fedspca.federation.base import Around
from fedspca.linalg.stiefel import polar_factor
from helpers.hostile import masked

D, K, R = 4, 3, 2


class Watched(Around):
    """A coordinator that keeps to everything, and keeps what it asked and was told."""

    def __init__(self, federation):
        super().__init__(federation)
        self.rounds = []

    def sum(self, query):
        answer = super().__getattribute__("_federation").sum(query)
        self.rounds.append((query, answer))
        return answer


def tables(d=D):
    rng = np.random.default_rng(0)
    return [rng.standard_normal((40, d)) @ rng.standard_normal((d, d)) for _ in range(K)]


def unpacked(parameters, d=D):
    """K symmetric matrices from their upper triangles."""
    matrices = np.zeros((K, d, d))
    rows, columns = np.triu_indices(d)
    matrices[:, rows, columns] = parameters.reshape(K, -1)
    matrices[:, columns, rows] = parameters.reshape(K, -1)
    return matrices


def played(matrices, steps):
    """What the sums would have been if the sites had these matrices."""
    nothing, told = np.zeros((matrices.shape[1], 0)), []
    ws = us = None
    for query, _ in steps:
        z, rho = query.arrays["z"], float(query.scalars["rho"])
        if "start" in query.arrays:
            ws, us, last = [query.arrays["start"]] * K, [np.zeros_like(z)] * K, 0.0
        us = [u + last * (w - z) for u, w in zip(us, ws, strict=True)]
        ws = [polar_factor(2 * s @ w - u + rho * z, nothing) for s, u, w in zip(matrices, us, ws, strict=True)]
        last = rho
        told.append(sum(w + u / rho for w, u in zip(ws, us, strict=True)))
    return np.concatenate([each.ravel() for each in told])


def recovered(steps, guess):
    """Fit each site's matrix to the sums, beginning at a guess."""
    seen = np.concatenate([answer["consensus"].ravel() for _, answer in steps])
    upper = np.triu_indices(D)
    begin = np.concatenate([matrix[upper] for matrix in guess])
    size = np.abs(begin).max()
    small = {"xtol": 1e-15, "ftol": 1e-15, "gtol": 1e-15}
    fit = least_squares(lambda p: played(unpacked(p), steps) - seen, begin, jac="3-point", x_scale=size, **small)
    return unpacked(fit.x)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_where_owners_approve_it_an_honest_run_tells_every_sites_matrix():
    """It is why the owners must approve it by name: nothing but the sums of one honest run is fitted.

    The fit begins 30 % off the truth: it shows that the sums determine the matrices, not how to find the right minimum
    from nothing. Twenty random starts of a plain least-squares fit ended elsewhere.
    """
    parts = tables()
    federation = Watched(masked([Site(f"s{k}", part) for k, part in enumerate(parts)]))
    FASPCA(R, lam=1.0, scale=False, max_rounds=25, tol=1e-14).fit_federation(federation)
    steps = [each for each in federation.rounds if each[0].name == "faspca_step"]
    mean = np.vstack(parts).mean(axis=0)
    truth = [(part - mean).T @ (part - mean) for part in parts]
    rng = np.random.default_rng(1)
    guess = [matrix * (1 + 0.3 * rng.uniform(-1, 1, (D, D))) for matrix in truth]
    off = [np.linalg.norm(matrix - each) / np.linalg.norm(each) for matrix, each in zip(guess, truth, strict=True)]
    found = recovered(steps, guess)
    left = [np.linalg.norm(matrix - each) / np.linalg.norm(each) for matrix, each in zip(found, truth, strict=True)]
    assert max(left) < 1e-5 < 0.05 < min(off), left


def test_by_default_consensus_steps_are_refused_under_masks():
    federation = masked([Site(f"s{k}", part) for k, part in enumerate(tables())], consensus_under_masks=False)
    with pytest.raises(SiteRefusal, match="owner has not approved that by name"):
        FASPCA(R, lam=1.0, scale=False, max_rounds=5).fit_federation(federation)
