import numpy as np
import pytest

from fedspca.dp import noise
from fedspca.site import QUERIES
from fedspca.site.queries import PRIVATE
from fedspca.site.question import SiteData
from helpers.private import query as private_query


@pytest.mark.parametrize("among", [1, 4, 9])
@pytest.mark.parametrize("name", sorted(PRIVATE))
def test_each_site_adds_its_part_of_the_variance(name, among, monkeypatch):
    """The noise of ``among`` sites together has the stated standard deviation, so each has it divided by the root."""
    drawn = []
    monkeypatch.setattr(noise, "discrete_gaussian", lambda scale, size: drawn.append(scale) or np.zeros(size))
    asked = private_query(name, sigma=12.0, grid=24, among=among)
    QUERIES[name].answer(SiteData("s", np.ones((3, 3))), None, asked)
    assert drawn == [pytest.approx(12.0 / among**0.5 * 2**24)]
