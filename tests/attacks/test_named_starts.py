"""Random starts that are seeded by a site's name: whoever knows the names knows each w, and the sums say the rest."""

import numpy as np
import pytest

from fedspca import FASPCA, Query, Site, SiteRefusal
from fedspca.door import meaning
from fedspca.federation.plain import PlainFederation
from fedspca.linalg.operators import Frame
from fedspca.site.answers.steps import starting_point
from helpers.hostile import frame, masked
from helpers.letters import conversation_with

D = 3


def tables():
    return [np.random.default_rng(k).standard_normal((30, D)) for k in range(3)]


def sites():
    return [Site(f"s{k}", part) for k, part in enumerate(tables())]


def step(seed, rho, **arrays):
    scalars = {"iteration": 0, "rho": rho, "seed": seed, "deflation": "orthogonal"}
    return Query("faspca_step", {"z": np.zeros((D, 1)), **frame(D), **arrays}, scalars)


def test_without_the_defence_every_sites_own_matrix_follows(monkeypatch):
    """`variance` is Σ wᵀS_i w at known w = the polar factor of S_i w₀: with ρ huge and z known, w is z itself."""
    monkeypatch.setattr(meaning, "_consensus_objection", lambda *_: None)
    federation, equations, right = masked(sites()), [], []
    for seed in range(40):
        # w is pulled to z so strongly that it does not move; the first-order part of the sum is 2S_i w₀/ρ, off z
        z = np.linalg.qr(np.random.default_rng(seed).standard_normal((D, 1)))[0]
        query = step(seed, 1e6, z=z)
        off = np.eye(D) - z @ z.T
        answer = federation.sum(query)["consensus"]
        starts = [
            starting_point(f"s{k}", Frame(*(query.arrays[n] for n in ("mean", "scale", "removed"))), query)
            for k in range(3)
        ]
        equations.append(np.hstack([np.kron(off, start.T) for start in starts]) * 2 / 1e6)
        right.append((off @ answer).ravel())
    found = np.linalg.lstsq(np.vstack(equations), np.concatenate(right), rcond=None)[0].reshape(3, D, D)
    for part, matrix in zip(tables(), found, strict=True):
        assert np.abs(matrix - part.T @ part).max() < 0.02 * np.abs(part.T @ part).max()


@pytest.mark.parametrize("plain", [False, True])
def test_between_institutions_there_is_a_common_start_or_none(plain):
    federation = PlainFederation(conversation_with(sites())) if plain else masked(sites())
    with pytest.raises(SiteRefusal, match="begin at a common point"):
        federation.sum(step(1, 10.0))
    with pytest.raises(SiteRefusal, match="start must be orthonormal"):
        federation.sum(step(1, 10.0, start=np.ones((D, 1))))
    federation.sum(step(1, 10.0, start=np.eye(D, 1)))
    with pytest.raises(SiteRefusal, match="common point"):
        FASPCA(1, lam=1.0, init="random", rho=100.0).fit_federation(federation)


def test_in_one_process_the_papers_random_starts_stay():
    first, other = (Site(name, tables()[0]).answer(step(1, 10.0))["consensus"] for name in ("a", "b"))
    assert not np.allclose(first, other)
