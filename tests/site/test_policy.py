import numpy as np
import pytest

from fedspca import Policy, Query, Site


def test_policy_limits_the_directions_asked_at_once():
    site = Site("north", np.eye(3), policy=Policy(max_components=1))
    frame = {"mean": np.zeros(3), "scale": np.ones(3), "removed": np.zeros((3, 0))}
    with pytest.raises(Exception, match="asks about 2 directions and the policy allows at most 1"):
        site.answer(Query("gram_product", {**frame, "directions": np.zeros((3, 2))}, {"precision": "float64"}))


@pytest.mark.parametrize("limit", ["min_rows", "max_rounds", "max_components"])
def test_a_policy_that_allows_nothing_is_a_mistake(limit):
    with pytest.raises(ValueError, match=f"{limit}.*at least 1. Got 0"):
        Policy(**{limit: 0})


def test_policies_are_checked_when_they_are_made():
    with pytest.raises(ValueError, match="set of names"):
        Policy(allowed_queries="moments")
    with pytest.raises(TypeError, match="must be a Policy"):
        Site("north", np.eye(3), policy={"min_rows": 3})
