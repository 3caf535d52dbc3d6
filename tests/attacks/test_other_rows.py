"""The same study over rows that changed in between: the difference of two sums is the person who came or went."""

import numpy as np
import pytest

from fedspca import Query, Site, SiteRefusal
from fedspca.door import session
from fedspca.federation.secure import masked_federation
from helpers.hostile import masked

D = 3
PERSON = np.array([[61.0, 1.0, 180.0]])


def tables():
    rng = np.random.default_rng(0)
    return [rng.uniform(0, 100, (30, D)) for _ in range(3)]


def two_runs(again):
    """Ask in one run, exchange the rows of a site, and ask in another; return both sums."""
    federation = masked([Site(f"s{k}", part) for k, part in enumerate(tables())])
    before = federation.sum(Query("moments"))["sums"]
    inside = federation._conversation
    door = inside._channel.endpoints["s1"]
    door.site, door._session = Site("s1", again), None  # its guard was started anew, over the file as it now is
    second = masked_federation(type(inside)(inside._channel, inside._identity, inside.agreement, "1" * 32))
    return before, second.sum(Query("moments"))["sums"]


def test_without_the_defence_the_difference_is_the_person(monkeypatch):
    monkeypatch.setattr(session, "ROWS", "forgotten")  # a new run forgets what is not of the study
    before, after = two_runs(np.vstack([tables()[1], PERSON]))
    assert np.allclose(after - before, PERSON)


@pytest.mark.parametrize("rows", [np.vstack([tables()[1], PERSON]), np.vstack([tables()[1][1:], PERSON])])
def test_a_study_is_about_the_rows_with_which_it_began(rows):
    with pytest.raises(SiteRefusal, match="not those with which the study began"):
        two_runs(rows)


def test_the_same_rows_in_another_order_are_the_same_rows():
    before, after = two_runs(tables()[1][::-1])
    assert np.allclose(before, after)
