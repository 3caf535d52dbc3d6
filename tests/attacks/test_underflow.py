"""Scales and directions at the edge of the numbers: rows would be rounded one by one, before they are summed."""

import numpy as np
import pytest

from contracts.federation import make_sites
from fedspca import Query, Site, SiteRefusal
from fedspca.door import session
from fedspca.door.meaning import tidied
from helpers.hostile import frame, masked

D = 4


def tables():
    """Three sites of ordinary rows, one of which has an outlier."""
    rng = np.random.default_rng(0)
    parts = [rng.uniform(0, 1, (30, D)) for _ in range(3)]
    parts[1][7] = [900.0, 700.0, 800.0, 600.0]
    return parts


def question(scale=1.0, **arrays):
    directions = np.zeros((D, 1))
    directions[0] = 1.0
    return Query(
        "gram_product", {**frame(D, scale=scale), "directions": directions, **arrays}, {"precision": "float64"}
    )


def test_without_the_defence_only_the_outlier_is_left_in_the_sum():
    """With a scale of 2⁵⁴² a row's products are whole numbers of the smallest steps, and those of other rows are none.

    A site by itself answers it, as its door did: directions of 2⁹⁰⁰ bring the sum back among ordinary numbers.
    """
    parts = tables()
    found = sum(
        Site("s", part).answer(question(scale=2.0**542, directions=np.eye(D) * 2.0**900))["product"] for part in parts
    )
    record = parts[1][7]
    assert np.allclose(found * 2.0**184, np.outer(record, record), rtol=1e-2)
    honest = sum(part.T @ part for part in parts)
    assert not np.allclose(honest - np.outer(record, record), 0.0, atol=10.0)


@pytest.mark.parametrize(
    ("hostile", "words"),
    [
        ({"scale": 1e300}, "beyond 10"),
        ({"scale": 1e-300}, "beyond 10"),
        ({"directions": np.eye(D, 1) * 2.0**900}, "beyond 10"),
        ({"directions": np.eye(D, 1) * 1e-20}, "orthonormal"),
        ({"directions": np.ones((D, 2)) / 2}, "orthonormal"),
        ({"mean": np.full(D, 1e200)}, "beyond 10"),
        ({"removed": np.full((D, 1), 1e9)}, "orthonormal"),
    ],
)
def test_such_numbers_are_refused(hostile, words):
    sites = [Site(f"s{k}", part) for k, part in enumerate(tables())]
    federation = masked(sites)
    with pytest.raises(SiteRefusal, match=words):
        federation.sum(question(**hostile))
    assert all(int(site.snapshot()["answered"]) == 0 for site in sites)


def test_a_direction_that_is_tiny_but_for_a_feature_left_out_is_zero():
    """An infinite scale leaves a feature out, so length one is no bound for what is left of a direction."""
    direction = np.zeros((D, 1))
    direction[0], direction[1] = 1.0, 1e-310
    asked = question(directions=direction, scale=1.0)
    asked.arrays["scale"][0] = np.inf
    sites = [Site(f"s{k}", part) for k, part in enumerate(tables())]
    assert not masked(sites).sum(asked)["product"].any()
    assert tidied(asked, {}).arrays["directions"][1] == 0
    assert tidied(asked, {}).arrays["scale"][0] == np.inf


def test_there_is_one_frame_in_a_study():
    sites = make_sites(sizes=(20, 11, 30), d=D)
    federation = masked(sites)
    federation.sum(question())
    federation.sum(question(directions=np.eye(D, 2)))
    federation.sum(question(mean=np.full(D, 1e-9)))  # the last digits of another machine
    for other in ({"mean": np.full(D, 0.5)}, {"scale": 2.0}):
        with pytest.raises(SiteRefusal, match="one frame"):
            federation.sum(question(**other))
    # nor in another run
    inside = federation._conversation
    again = type(federation)(type(inside)(inside._channel, inside._identity, inside.agreement, "1" * 32))
    with pytest.raises(SiteRefusal, match="one frame"):
        again.sum(question(scale=2.0))


def test_row_errors_are_told_once_in_a_run():
    federation = masked(make_sites(sizes=(20, 11, 30), d=D))
    asked = Query("row_errors", {**frame(D), "directions": np.eye(D, 2)})
    federation.sum(asked)
    with pytest.raises(SiteRefusal, match="once in a run"):
        federation.sum(Query("row_errors", {**frame(D), "directions": np.eye(D, 3)}))


def runs_of_errors(seed):
    """Row errors in two runs, the second about directions that moved in the seventh digit."""
    sites = make_sites(sizes=(20, 11, 30), d=D)
    first = masked(sites)
    moved = np.linalg.qr(np.eye(D, 2) + 1e-7 * np.random.default_rng(seed).standard_normal((D, 2)))[0]
    inside = first._conversation
    second = type(first)(type(inside)(inside._channel, inside._identity, inside.agreement, "1" * 32))
    errors = [Query("row_errors", {**frame(D), "directions": basis}) for basis in (np.eye(D, 2), -moved)]
    return [float(run.sum(asked)["squares"]) for run, asked in zip((first, second), errors, strict=True)], second


def test_row_errors_are_told_about_the_same_directions_in_every_run(monkeypatch):
    (one, other), second = runs_of_errors(0)
    assert one == other
    inside = second._conversation
    third = type(second)(type(inside)(inside._channel, inside._identity, inside.agreement, "2" * 32))
    with pytest.raises(SiteRefusal, match="one subspace in a study"):
        third.sum(Query("row_errors", {**frame(D), "directions": np.eye(D)[:, 1:3]}))
    monkeypatch.setattr(session, "tidied", lambda query, _: query)  # without the defence: fourth moments, run by run
    (one, other), _ = runs_of_errors(0)
    assert one != other


def test_the_test_sees_the_defence(monkeypatch):
    """Without it the refusals above do not come."""
    monkeypatch.setattr(session, "objection", lambda *_: None)
    masked([Site(f"s{k}", part) for k, part in enumerate(tables())]).sum(question(scale=1e100))
