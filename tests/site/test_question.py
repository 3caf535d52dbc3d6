import numpy as np
import pytest

from fedspca import InvalidQuery, Query, Site
from fedspca.site.question import SiteData
from helpers.asking import question


@pytest.mark.parametrize(
    ("scalars", "words"),
    [
        ({"rho": -1.0}, "rho must be positive"),
        ({"rho": float("nan")}, "rho must be positive"),
        ({"iteration": 1.5}, "iteration must be of type int"),
        ({"iteration": True}, "iteration must be of type int"),
        ({"iteration": -1}, "must not be negative"),
        ({"deflation": "both"}, "one of"),
    ],
)
def test_scalars_are_checked(scalars, words):
    query = question(0)
    with pytest.raises(InvalidQuery, match=words):
        Site("north", np.eye(3)).answer(Query(query.name, query.arrays, {**query.scalars, **scalars}))


def test_rows_seen_through_a_transform_keep_the_owners_limits():
    data = SiteData("north", np.eye(3), few=(10, 5))
    seen = data.under(Query("moments", {"knots": np.zeros((3, 2)), "images": np.zeros((3, 2))}, {}))
    assert seen is not data
    assert seen.few == (10, 5)
