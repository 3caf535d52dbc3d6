import numpy as np
import pytest

from fedspca import InvalidQuery, Query, Site
from fedspca.dp import noise
from fedspca.masking.messages import PROTOCOL_ARRAYS
from fedspca.site import QUERIES
from fedspca.site.queries import MAPS, PRIVATE
from fedspca.site.question import SiteData
from helpers.asking import question
from helpers.private import query as private_query


def test_round_zero_must_bring_the_frame():
    broken = Query("faspca_step", {"z": np.zeros((3, 1))}, question(0).scalars)
    with pytest.raises(InvalidQuery, match="must bring mean, removed, scale"):
        Site("north", np.eye(3)).answer(broken)


def test_every_question_says_what_it_releases():
    assert all(question.releases for question in QUERIES.values())


@pytest.mark.parametrize("among", [1, 4, 9])
@pytest.mark.parametrize("name", sorted(PRIVATE))
def test_each_site_adds_its_part_of_the_variance(name, among, monkeypatch):
    """The noise of ``among`` sites together has the stated standard deviation, so each has it divided by the root."""
    drawn = []
    monkeypatch.setattr(noise, "discrete_gaussian", lambda scale, size: drawn.append(scale) or np.zeros(size))
    asked = private_query(name, sigma=12.0, grid=24, among=among)
    QUERIES[name].answer(SiteData("s", np.ones((3, 3))), None, asked)
    assert drawn == [pytest.approx(12.0 / among**0.5 * 2**24)]


def test_values_at_an_edge_count_as_not_above_it_and_missing_ones_not_at_all():
    rows = np.array([[1.0, 0.0], [1.0, np.nan], [2.0, 3.0]])
    edges = np.array([[0.5, 0.0], [1.0, 2.0], [2.0, 9.0]])
    site = Site("a", rows, allow_missing=True)
    below = site.answer(Query("counts_below", {"edges": edges}))["below"]
    assert np.array_equal(below, [[0, 1], [2, 1], [3, 2]])


def test_no_array_of_a_question_is_called_as_one_of_the_masks_own():
    asked = {name for known in QUERIES.values() for name in known.arrays}
    assert not (asked | set(MAPS)) & PROTOCOL_ARRAYS  # it would be lost on its way to a masked site
