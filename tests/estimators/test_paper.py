"""The paper's algorithms, written from the paper in numpy, against what the preset runs, round by round."""

import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from contracts.solver import owners
from fedspca import FASPCA, FSSPCA, LocalFederation, Query, Site
from fedspca.linalg.operators import Frame
from fedspca.site.answers.steps import starting_point


class Watched(LocalFederation):
    """Sites whose broadcast z, and own w and u, are written down."""

    def __init__(self, parts):
        super().__init__([Site(f"s{k}", part) for k, part in enumerate(parts)], n_threads=1)
        self.consensus, self.states = [], []

    def sum(self, query):
        answer = super().sum(query)
        if query.name.endswith("pca_step"):
            self.consensus.append((int(query.scalars["iteration"]), query.arrays["z"].copy()))
            self.states.append([site._state for site in self.sites])
        return answer


def parts_of(rows, k):
    centred = rows - rows.mean(axis=0)
    return [centred[owners(len(rows), k) == j] for j in range(k)]


def starts(parts, seed, shape, removed):
    """Random starts, drawn as sites draw them: the paper does not say from which generator."""
    frame = Frame(np.zeros(shape[0]), np.ones(shape[0]), removed)
    query = Query("faspca_step", {"z": np.zeros(shape)}, {"seed": seed})
    return [starting_point(f"s{k}", frame, query) for k in range(len(parts))]


def shrunk(v, threshold):
    return np.maximum(np.abs(v) - threshold, 0) * np.sign(v)


def faspca_of_the_paper(parts, lam, rho, rounds, seed, *, literal):
    """Algorithms 4, 6 and 7 for two loadings; yields z of every round, then the loadings."""
    d, k = parts[0].shape[1], len(parts)
    parts, generator = [part.copy() for part in parts], np.random.default_rng(seed)
    big_g, removed, loadings = np.eye(d), np.zeros((d, 0)), []
    for _stage in range(2):
        w = starts(parts, int(generator.integers(2**31)), (d, 1), removed)
        u, z = [np.zeros((d, 1)) for _ in parts], np.zeros((d, 1))
        for _ in range(rounds):
            yield z
            for i, a in enumerate(parts):
                y = a @ w[i]
                w[i] = (2 * a.T @ y - u[i] + rho * z) / (2 * (y.T @ y) + rho)
                w[i] = w[i] / np.linalg.norm(big_g @ w[i])
            z = shrunk(sum(w[i] + u[i] / rho for i in range(k)) / k, lam / (k * rho))
            u = [u[i] + rho * (w[i] - z) for i in range(k)]
        z = big_g @ z
        unit = z / np.linalg.norm(z)
        out = z if literal else unit
        parts = [a @ (np.eye(d) - out @ out.T) for a in parts]
        big_g = big_g @ (np.eye(d) - out @ out.T)
        removed = np.hstack([removed, out])
        loadings.append(unit[:, 0])
    yield np.array(loadings)


@pytest.mark.parametrize("rho", [1000.0, 400.0])
@pytest.mark.parametrize("k", [1, 3])
@pytest.mark.parametrize("deflation", ["generalized", "literal"])
def test_the_presets_faspca_is_the_printed_one_round_by_round(rows, k, deflation, rho):
    parts = parts_of(rows, k)
    federation = Watched(parts)
    other = {} if rho == FASPCA.paper(2).rho else {"rho": rho}  # the preset's own, and one that settles sooner
    model = FASPCA.paper(2, lam=60.0, **other, max_rounds=12, tol=1e-300, random_state=5, deflation=deflation)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit_federation(federation)
    *expected, loadings = faspca_of_the_paper(parts, 60.0, rho, 12, 5, literal=deflation == "literal")
    assert len(federation.consensus) == len(expected) == 24
    for (_, z), reference in zip(federation.consensus, expected, strict=True):
        assert np.abs(z - reference).max() < 1e-12
    signs = np.sign(np.sum(model.components_ * loadings, axis=1, keepdims=True))
    assert np.abs(model.components_ - signs * loadings).max() < 1e-12


def test_the_literal_deflation_differs_before_consensus_and_is_for_two_stages(rows):
    with pytest.warns(ConvergenceWarning):
        pair = [
            FASPCA.paper(2, lam=60.0, rho=400.0, max_rounds=6, deflation=d).fit(rows, sites=owners(len(rows), 3))
            for d in ("generalized", "literal")
        ]
    assert np.abs(pair[0].components_[1] - pair[1].components_[1]).max() > 1e-3
    with pytest.raises(ValueError, match="two stages at most"):
        FASPCA.paper(3, lam=1.0, deflation="literal").fit(rows)


def psi_gradient(w, mu):
    return np.where(np.abs(w) < mu / 2, 2 * w / mu, np.sign(w))


def psi(w, mu):
    return np.where(np.abs(w) < mu / 2, w**2 / mu + mu / 4, np.abs(w))


def tangents(w):
    """Orthonormal basis of the tangent space {x : x'w + w'x = 0} at w, each x as a long vector."""
    units = np.eye(w.shape[1])
    normals = [w @ (np.outer(e, f) + np.outer(f, e)) for e in units for f in units]
    left, sizes, _ = np.linalg.svd(np.array([n.ravel() for n in normals]).T)
    return left[:, np.count_nonzero(sizes > 1e-9) :]


def solved(a, w, u, z, lam1, rho, mu):
    """The worker's argmin (Algorithm 1, step 4) from w: Newton's method with the whole Hessian, on the manifold.

    Eigenvalues of the Hessian are made positive, so that each step descends. It shares nothing with the library.
    """
    gram = a.T @ a

    def value(w):
        fit = np.linalg.norm(a - a @ w @ w.T) ** 2
        return fit + lam1 * psi(w, mu).sum() + np.sum(u * w) + rho / 2 * np.linalg.norm(w - z) ** 2

    for _ in range(500):
        gradient = -2 * gram @ w + lam1 * psi_gradient(w, mu) + u + rho * (w - z)
        basis = tangents(w)
        slope = basis.T @ gradient.ravel()
        if np.linalg.norm(slope) < 1e-10 * max(1.0, np.linalg.norm(gradient)):
            return w
        multiplier = (w.T @ gradient + gradient.T @ w) / 2
        hessian = np.kron(-2 * gram, np.eye(2)) - np.kron(np.eye(len(w)), multiplier)
        hessian += np.diag(rho + lam1 * np.where(np.abs(w) < mu / 2, 2 / mu, 0.0).ravel())
        curvatures, axes = np.linalg.eigh(basis.T @ hessian @ basis)
        zeta = -(basis @ axes @ (axes.T @ slope / np.maximum(np.abs(curvatures), 1e-3))).reshape(w.shape)
        fall, now, theta = np.sum(gradient * zeta), value(w), 1.0
        while True:
            q, upper = np.linalg.qr(w + theta * zeta)
            moved = q * np.sign(np.diag(upper))
            if value(moved) <= now + 1e-4 * theta * fall + 1e-12 * abs(now):
                break
            theta /= 2
        w = moved
    raise AssertionError("the reference has not reached a minimum")


def updates(federation, lam2, rho):
    """Each update of each worker: which site, its w before, its u and z of the round, its w after."""
    for (_, z), before, after in zip(federation.consensus[1:], federation.states, federation.states[1:], strict=False):
        k = len(before)
        assert np.abs(z - shrunk(sum(s.w + s.u / rho for s in before) / k, lam2 / (k * rho))).max() < 1e-12
        for site, (old, new) in enumerate(zip(before, after, strict=True)):
            u = old.u + rho * (old.w - z)
            assert np.abs(new.u - u).max() < 1e-9
            yield site, old.w, u, z, new.w


@pytest.mark.parametrize("k", [1, 3])
@pytest.mark.parametrize("lam1", [0.0, 10.0, 50.0])
def test_each_update_of_the_presets_fsspca_is_the_printed_one(rows, k, lam1):
    """With the paper's ρ = 1000 and μ = 1e-3. Both begin at the worker's last w; its problem has one minimum here."""
    parts, lam2 = parts_of(rows, k), 100.0
    model, federation = FSSPCA.paper(2, lam1=lam1, lam2=lam2, max_rounds=6, tol=1e-300), Watched(parts)
    assert (model.rho, model.mu) == (1000.0, 1e-3)
    with pytest.warns(ConvergenceWarning):
        model.fit_federation(federation)
    found = list(updates(federation, lam2, 1000.0))
    assert len(found) == 5 * k
    for site, w, u, z, new in found:
        assert np.abs(new - solved(parts[site], w, u, z, lam1, 1000.0, 1e-3)).max() < 1e-7


@pytest.mark.parametrize(("rho", "alike"), [(1000.0, True), (1.0, False)])
def test_a_random_start_in_each_round_matters_only_where_a_site_has_several_minima(rows, rho, alike):
    settings = {"lam1": 5.0, "lam2": 20.0, "max_rounds": 2, "rho": rho}
    with pytest.warns(ConvergenceWarning):
        last, drawn = (
            FSSPCA.paper(2, local_start=start, **settings).fit(rows, sites=owners(len(rows), 3))
            for start in ("last", "random")
        )
    assert (np.abs(last.components_ - drawn.components_).max() < 1e-6) == alike
