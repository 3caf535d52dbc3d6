"""A coordinator that chooses what site effects are measured against: a study has one set of means and spreads."""

import numpy as np
import pytest

from fedspca import Query
from fedspca.door.agreement import Agreement
from fedspca.door.meaning import objection, remembered
from helpers.letters import COORDINATOR, KEYS

D = 4


def agreement(**fit):
    keys = dict(zip("abc", (key.public for key in KEYS), strict=False))
    return Agreement("trial", COORDINATOR.public, keys, tuple(f"f{j}" for j in range(D)), fit)


def reference(spread=1.0):
    return {"reference_mean": np.full(D, 3.0), "reference_spread": np.full(D, spread)}


def frame(**more):
    arrays = {"mean": np.zeros(D), "scale": np.ones(D), "removed": np.zeros((D, 0)), **more}
    return Query("gram", arrays, {"precision": "float64"})


@pytest.fixture
def combat():
    return agreement(centre="combat")


def test_references_are_chosen_once(combat):
    first = Query("harmonised", {"mean": np.zeros(D), **reference()})
    assert objection(combat, first, {}) is None
    kept = remembered(first, {})
    assert objection(combat, frame(**reference(1 + 1e-9)), kept) is None
    assert "a study has one set" in objection(combat, frame(**reference(1.001)), kept)
    assert "must not be negative" in objection(combat, frame(**reference(-1.0)), {})


def test_site_effects_are_taken_out_if_and_only_if_the_owner_approved_it(combat):
    assert "leaves the site's own shift" in objection(combat, frame(), {})
    assert objection(combat, Query("deviations", {"mean": np.zeros(D)}), {}) is None
    assert objection(combat, Query("within_squares"), {}) is None
    assert "does not" in objection(agreement(), frame(**reference()), {})
