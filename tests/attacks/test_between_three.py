"""What lies between three sites: with its own part taken away, each knows sum and sum of squares of the other two."""

import numpy as np
import pytest

from fedspca import Query, Site, SiteRefusal
from fedspca.door import session
from fedspca.study.settings import StudySettings
from helpers.hostile import frame, masked

D, ROWS = 3, 20
ASKED = Query("between_sites", frame(D))


def tables(count=3):
    return [np.random.default_rng(k).standard_normal((ROWS, D)) + k for k in range(count)]


def told(count=3):
    return masked([Site(f"s{k}", table) for k, table in enumerate(tables(count))]).sum(ASKED)


def test_without_the_defence_a_site_knows_the_means_of_the_others(monkeypatch):
    """The two are a ± √(2b − a²) for their sum 2a and the half sum of their squares b: but for which is whose."""
    monkeypatch.setattr(session, "objection", lambda *_: None)
    own, one, other = (table.sum(axis=0) for table in tables())
    sums = told()
    half = (sums["sums"] - own) / 2
    apart = np.sqrt((sums["between"] * ROWS - own**2) / 2 - half**2)
    assert np.allclose(np.sort([half - apart, half + apart], axis=0), np.sort([one, other], axis=0))


def test_between_three_sites_it_is_refused():
    with pytest.raises(SiteRefusal, match="four sites or more"):
        told()
    with pytest.raises(ValueError, match="four sites or more"):
        StudySettings(sites=("a", "b", "c"), between_sites=True).check()


def test_between_four_it_is_told():
    assert np.allclose(told(4)["sums"], sum(table.sum(axis=0) for table in tables(4)))
