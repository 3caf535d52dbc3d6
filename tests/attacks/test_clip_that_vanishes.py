"""A clip whose square is zero: `private_product` would cost nothing and tell XᵀX."""

import math

import numpy as np
import pytest

from fedspca import InvalidQuery, Query, Site, SiteRefusal
from fedspca.dp import noise
from fedspca.dp.accounting import Budget, Cost, epsilon_of
from fedspca.dp.ledger import BudgetSpent, Ledger
from fedspca.site import question
from fedspca.site.answers import noised
from fedspca.site.site import Site as SiteClass
from helpers.hostile import masked

D = 4
CLIP = 1e-170
SETTINGS = {"epsilon": 1.0, "delta": 1e-6, "clip": 2.0, "mechanism": "product"}


def rows(seed=0):
    return np.random.default_rng(seed).standard_normal((50, D))


def hostile(clip=CLIP, **scalars):
    arrays = {"centre": np.zeros(D), "scale": np.ones(D), "directions": np.eye(D)}
    return Query("private_product", arrays, {"sigma": 1e-4, "grid": 40, "among": 1, "clip": clip, **scalars})


def old_product(rows, centre, scale, clip, directions):
    """Rows that are too short for their squares were not shortened at all."""
    seen = (rows - centre) / scale * 1e-100  # a scale of 1e100 makes every length's square vanish
    lengths = np.sqrt(np.einsum("ij,ij->i", seen, seen) * 1e-200)
    short = seen * np.minimum(1.0, clip / np.maximum(lengths, np.finfo(float).tiny))[:, None]
    return (short.T @ (short @ directions)) * 1e200


def old_cost(entries, sensitivity, sigma, grid, among):
    unit = 2.0**-grid
    change = sensitivity * (1 + noise.MARGIN) + unit * math.sqrt(entries)
    return Cost(sigma / change, entries / (20.0 * (sigma / unit) ** 2))


def test_without_the_defence_the_matrix_is_told_and_nothing_is_charged(monkeypatch):
    monkeypatch.setattr(question, "out_of_range", lambda *_: None)
    monkeypatch.setattr(noised, "clipped_product", old_product)
    monkeypatch.setattr(noised, "cost", old_cost)
    site = Site("s", rows())
    site.ledger = Ledger(Budget(1.0, 1e-6))
    told = site.answer(hostile())["product"]
    assert np.abs(told - rows().T @ rows()).max() < 1e-3
    assert site.ledger.spent() < 1e-6


@pytest.mark.parametrize("scalars", [{"clip": CLIP}, {"clip": 1e-31}, {"clip": 1e31}, {"clip": 2.0, "sigma": 1e-200}])
def test_such_a_clip_is_refused(scalars):
    site = Site("s", rows())
    site.ledger = Ledger(Budget(1.0, 1e-6))
    with pytest.raises((InvalidQuery, SiteRefusal)):
        site.answer(hostile(**scalars))
    assert not list(site.ledger.entries())


@pytest.mark.parametrize("scale", [1e-29, 1.0, 1e29])
@pytest.mark.parametrize("clip", [1e-29, 1.0, 1e29])
def test_whatever_is_taken_no_row_is_longer_than_its_clip(scale, clip):
    for block in noise.whole_rows(rows() * 1e40, np.zeros(D), np.full(D, scale), clip):
        assert np.array_equal(block, np.rint(block))
        assert ((block**2).sum(axis=1) <= noise.STEPS**2).all()
    assert np.allclose(noise.row_lengths(np.full((1, 4), 1e-200)), 2e-200, rtol=1e-14, atol=0)


def test_no_release_is_free():
    with pytest.raises(ValueError, match="cannot be accounted for"):
        noise.cost(9, 1e-60, 1.0, 30, 1)
    ledger = Ledger(Budget(1.0, 1e-6))
    for multiplier in (math.inf, 0.0, math.nan):
        with pytest.raises(BudgetSpent, match="no release is free"):
            ledger.charge(Cost(multiplier, 0.0), "x", "q")
    assert epsilon_of([Cost(noise.MOST_NOISE, 0.0)] * 10**3, 1e-12) > 0


def sites():
    made = [Site(f"s{k}", rows(k)) for k in range(3)]
    for site in made:
        site.ledger = Ledger(Budget(1.0, 1e-6))
    return made


STATED = {"centre": np.zeros(D), "scale": np.ones(D)}
NOISE = {"sigma": 1e3, "grid": 20, "among": 1}


@pytest.mark.parametrize(
    ("query", "words"),
    [
        (Query("private_product", {**STATED, "directions": np.eye(D)}, {**NOISE, "clip": 3.0}), "clip is not"),
        (
            Query(
                "private_product", {**STATED, "scale": np.full(D, 9.0), "directions": np.eye(D)}, {**NOISE, "clip": 2.0}
            ),
            "scale is not",
        ),
        (
            Query("private_product", {**STATED, "centre": np.ones(D), "directions": np.eye(D)}, {**NOISE, "clip": 2.0}),
            "centre is not",
        ),
        (Query("private_gram", STATED, {**NOISE, "clip": 2.0, "offset": 0.4}), "mechanism"),
        (Query("private_moments", STATED, {**NOISE, "clip": 2.0, "offset": 40.0}), "offset"),
        (Query("private_lengths", {**STATED, "edges": np.arange(1.0, 5.0)}, NOISE), "mechanism"),
    ],
)
def test_a_release_is_the_one_that_the_agreement_states(query, words):
    made = sites()
    with pytest.raises(SiteRefusal, match=words):
        masked(made, privacy=SETTINGS).sum(query)
    assert not any(list(site.ledger.entries()) for site in made)


def test_lengths_are_those_of_every_private_study():
    query = Query("private_lengths", {**STATED, "edges": np.arange(1.0, 5.0)}, NOISE)
    with pytest.raises(SiteRefusal, match="lengths are not those"):
        masked(sites(), privacy={**SETTINGS, "clip": None}).sum(query)


def test_a_study_without_privacy_releases_nothing_with_noise():
    query = Query("private_product", {**STATED, "directions": np.eye(D)}, {**NOISE, "clip": 2.0})
    with pytest.raises(SiteRefusal, match="releases nothing with noise"):
        masked(sites()).sum(query)
    assert SiteClass is Site
