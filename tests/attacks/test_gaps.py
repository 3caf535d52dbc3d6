"""Rows that lack values, told by the difference of sums in which their gaps count as something else."""

import numpy as np
import pytest

from fedspca import Policy, Query, Site, SiteRefusal
from fedspca.door import meaning
from fedspca.linalg.symmetric import unpack
from fedspca.site import disclosure
from fedspca.site.answers import gaps as answers
from helpers.hostile import frame, masked

D, ROWS = 6, 40
GAUSSIAN = {"mean": np.zeros(D), "scale": np.ones(D), "noise": np.ones(1)}


def tables():
    """Three sites; each row of the second one lacks nothing yet."""
    return [np.random.default_rng(k).standard_normal((ROWS, D)) for k in range(3)]


def lacking(*gaps):
    """Return the tables, with rows of the second site that lack a feature."""
    found = tables()
    for row, feature in gaps:
        found[1][row, feature] = np.nan
    return found


def doors(found, missing):
    policy = Policy(min_rows=10, min_fold_rows=5)
    sites = [Site(f"s{at}", table, policy=policy, allow_missing=True) for at, table in enumerate(found)]
    return masked(sites, fit={"components": 1, "missing": missing})


def gaussian(*entries):
    """Return a Gaussian of rank one whose loadings are 1 for these features."""
    return {**GAUSSIAN, "loadings": np.isin(np.arange(D), entries).astype(float)[:, None]}


def told_by_filling(found, loadings, features=range(D)):
    """Return how the covariance changes when gaps are filled in."""
    federation = doors(found, "em-once")
    before = unpack(federation.sum(Query("gram", frame(D), {"precision": "float64"}))["gram"])
    chosen = np.isin(np.arange(D), list(features)).astype(float)
    return unpack(federation.sum(Query("filled_once", {**gaussian(*loadings), "features": chosen}))["filled"]) - before


def cosine(told, row, but):
    told, row = np.delete(told, but), np.delete(row, but)
    return abs(told @ row) / np.linalg.norm(told) / np.linalg.norm(row)


def rounds_of_em(found):
    """Return how the covariance changes between two rounds of EM."""
    federation = doors(found, "em")
    return np.subtract(
        *(unpack(federation.sum(Query("gap_moments", about))["gram"]) for about in (gaussian(*range(D)), gaussian()))
    )


def test_rounds_of_em_are_refused_under_masks():
    with pytest.raises(SiteRefusal, match="rounds of EM tell of the rows that lack values"):
        rounds_of_em(lacking((7, 2)))


def test_without_that_defence_two_rounds_tell_the_row_that_alone_lacks_a_value(monkeypatch):
    monkeypatch.setattr(meaning, "_gaps_objection", lambda *_: None)
    assert cosine(rounds_of_em(lacking((7, 2)))[2], tables()[1][7], 2) > 1 - 1e-10


def all_rows(monkeypatch):
    """Take the defence out: every gap is filled in."""
    everything = np.ones(ROWS, bool), np.ones(D, bool)
    monkeypatch.setattr(answers, "told_together", lambda *_, **__: everything)


def by_count(monkeypatch):
    """Take half of the defence out: a row may outweigh all others."""
    monkeypatch.setattr(disclosure, "ONE_ROW", 1.1)


LONE = [(7, 2)]
FEW = [(row, 2) for row in range(4)]
# twelve rows lack both features, and one lacks the first alone: the two fills cancel in all rows but that
ALIKE = [*((row, 1) for row in range(13)), *((row, 2) for row in range(12))]
# twelve rows lack 2 and 4, and a thirteenth lacks 2 alone: predicted from 4, only that row is filled in
SINGLE = [*((row, 2) for row in range(13)), *((row, 4) for row in range(12))]


def test_without_the_defence_gaps_that_are_filled_in_tell_rows(monkeypatch):
    all_rows(monkeypatch)
    rows = tables()[1]
    assert cosine(told_by_filling(lacking(*LONE), range(D))[2], rows[7], 2) > 1 - 1e-10
    by_alike = told_by_filling(lacking(*ALIKE), range(D))
    assert cosine((by_alike[1] - by_alike[2])[3:], rows[12][3:], []) > 1 - 1e-10
    by_single = told_by_filling(lacking(*SINGLE), (2, 4))
    assert cosine(by_single[2], rows[12], [2, 4]) > 1 - 1e-10


def test_counting_rows_is_no_defence(monkeypatch):
    by_count(monkeypatch)
    by_alike = told_by_filling(lacking(*ALIKE), range(D))
    assert cosine((by_alike[1] - by_alike[2])[3:], tables()[1][12][3:], []) > 1 - 1e-10


@pytest.mark.parametrize(
    ("gaps", "loadings"),
    [(LONE, range(D)), (FEW, range(D)), (SINGLE, (2, 4))],
)
def test_rows_that_would_be_told_are_not_filled_in(gaps, loadings):
    assert np.allclose(told_by_filling(lacking(*gaps), loadings), 0, atol=1e-9)


def test_a_row_that_a_combination_of_features_would_tell_is_left_as_it_is():
    found = told_by_filling(lacking(*ALIKE), range(D))
    rows = np.nan_to_num(lacking(*ALIKE)[1])[:12]
    fills = rows.sum(axis=1) / (1 + D - 2)
    others = fills**2 <= 0.5 * np.sum(fills**2)
    assert np.allclose((found[1] - found[2])[3:], 0, atol=1e-9)
    # the others are told together, except for one that would outweigh them
    assert others.sum() == 11
    assert np.allclose(found[1, 3:], fills[others] @ rows[others, 3:], atol=1e-9)


def test_gaps_are_filled_in_by_one_gaussian():
    federation = doors(lacking(*ALIKE), "em-once")
    chosen = {"features": np.ones(D)}
    federation.sum(Query("filled_once", {**gaussian(*range(D)), **chosen}))
    federation.sum(Query("filled_once", {**gaussian(*range(D)), **chosen}))
    with pytest.raises(SiteRefusal, match="filled in by another Gaussian before"):
        federation.sum(Query("filled_once", {**gaussian(0, 1), **chosen}))
    with pytest.raises(SiteRefusal, match="does not fill missing values in once"):
        doors(lacking(*ALIKE), "mean").sum(Query("gap_sites"))


def test_a_feature_that_one_site_lacks_counts_as_one_site():
    found = tables()
    found[1][:, 3] = np.nan
    found[1][0, 3] = 0.0
    for table in found:
        table[:8, 5] = np.nan
    assert doors(found, "em-once").sum(Query("gap_sites"))["sites"].tolist() == [0, 0, 0, 1, 0, 3]
