"""A coordinator that brings a transform of its own: a step would turn every sum into one over a few rows."""

import numpy as np
import pytest

from fedspca import Policy, Query, Site
from fedspca.door.agreement import Agreement
from fedspca.door.meaning import objection, remembered
from fedspca.site.preparation import Preparation
from helpers.hostile import fails, frame, masked
from helpers.letters import COORDINATOR, KEYS

D, ROWS = 3, 20


def agreement(*transform):
    keys = dict(zip("abc", (key.public for key in KEYS), strict=False))
    return Agreement("trial", COORDINATOR.public, keys, ("a", "b", "c"), {"transform": list(transform)})


def curves(low, high, images=None):
    knots = np.array([[low] * D, [high] * D], dtype=float)
    return {"knots": knots, "images": knots if images is None else np.array([[i] * D for i in images], dtype=float)}


def gram(**arrays):
    return Query("gram", {**frame(D), **arrays}, {"precision": "float64"})


def test_a_study_has_the_transform_that_was_approved_and_one_set_of_its_parameters():
    plain, cut = agreement(), agreement("winsorise")
    assert "other than the one" in objection(plain, gram(**curves(-1, 1)), {})
    assert "leaves the rows as they are" in objection(cut, gram(), {})
    assert "other than the one" in objection(cut, gram(count_shares=np.ones(D), clip=np.ones(1)), {})
    assert "does more than to cut off" in objection(cut, gram(**curves(-1, 1, (0, 5))), {})
    assert "does not rise" in objection(agreement("normal"), gram(**curves(-1, 1, (5, 0))), {})
    first = gram(**curves(-1, 1))
    assert objection(cut, first, {}) is None
    kept = remembered(first, {})
    assert objection(cut, first, kept) is None
    assert "a study has one" in objection(cut, gram(**curves(-1, 1.1)), kept)
    assert objection(agreement("pearson"), gram(count_shares=np.ones(D), clip=np.ones(1)), {}) is None


def test_values_are_counted_at_few_edges():
    study, kept = agreement("normal"), {}
    for number in range(3):
        query = Query("counts_below", {"edges": np.full((4, D), float(number))})
        assert objection(study, query, kept) is None
        kept |= remembered(query, kept)
    assert "other edges before" in objection(study, Query("counts_below", {"edges": np.full((4, D), 9.0)}), kept)
    with pytest.raises(Exception, match="128 at most"):
        Site("a", np.ones((9, D))).answer(Query("counts_below", {"edges": np.zeros((129, D))}))


def sites(name):
    policy, how = Policy(min_rows=10, min_fold_rows=5), Preparation.of({"transform": [name]})
    tables = [np.random.default_rng(k).standard_normal((ROWS, D)) for k in range(3)]
    return [Site(f"s{k}", table, policy=policy, preparation=how) for k, table in enumerate(tables)], tables


def test_a_step_that_singles_a_row_out_is_not_answered():
    """Everything is cut off below the largest value of one site: the sum would be about that row alone."""
    found, tables = sites("winsorise")
    largest = tables[1].max()
    fit = {"components": 1, "transform": ["winsorise"]}
    assert fails(masked(found, fit=fit), gram(**curves(largest - 1e-3, 50.0)))
    honest = np.quantile(np.concatenate(tables), [0.01, 0.99])
    assert not fails(masked(found, fit=fit), gram(**curves(*honest)))
    assert found[1].singled_out(gram(**curves(largest - 1e-3, 50.0))) is not None
    assert found[1].singled_out(gram(**curves(*honest))) is None


def test_a_feature_that_is_about_few_rows_already_may_stay_so():
    table = np.random.default_rng(0).standard_normal((ROWS, D))
    table[:, 1] = np.arange(ROWS) == 3
    site = Site("a", table, policy=Policy(min_fold_rows=5), preparation=Preparation(transform=("winsorise",)))
    assert site.singled_out(gram(**curves(-3, 3))) is None
    assert site.singled_out(gram()) is None


def test_a_step_that_leaves_three_rows_is_not_answered():
    table = np.random.default_rng(0).standard_normal((ROWS, D))
    table[:3] = 5.0
    step = gram(**curves(4.9, 5.1))
    few, enough = (Site("a", table, policy=Policy(min_fold_rows=least)) for least in (4, 3))
    assert few.singled_out(step) == "x0"
    assert enough.singled_out(step) is None
