"""Sums by fold over sites with few rows: if each kept its rows together in a fold, that fold would be its own."""

import numpy as np
import pytest

from fedspca import Policy, Query, Site, SiteRefusal
from fedspca.door.agreement import objections
from helpers.hostile import masked

FOLDS, SEED = 10, 0


def sites(rows=30):
    tables = [np.random.default_rng(k).standard_normal((rows, 3)) for k in range(3)]
    return [Site(f"s{k}", table, policy=Policy(min_fold_rows=5)) for k, table in enumerate(tables)], tables


def by_fold(rows=30):
    here, tables = sites(rows)
    federation = masked(here, fit={"components": 1, "folds": FOLDS, "seed": SEED})
    return federation, tables


ASKED = Query("moments").by_fold(FOLDS, SEED)


def test_without_the_defence_folds_are_single_sites(monkeypatch):
    monkeypatch.setattr(Site, "n_rows", 10**6)  # the door looks away
    federation, tables = by_fold()
    told = federation.sum(ASKED)["sums"]
    for table in tables:
        assert np.isclose(told, table.sum(axis=0)).all(axis=1).any()


def test_such_sums_are_refused_before_and_after_the_approval():
    federation, _ = by_fold()
    with pytest.raises(SiteRefusal, match="too few rows for so many folds"):
        federation.sum(ASKED)
    agreement = federation.agreement
    found = objections(agreement, Policy(min_fold_rows=5, masking=True), rows=30, features=agreement.features)
    assert any("too few rows for 10 folds" in words for words in found)


def test_with_rows_enough_every_fold_is_over_all_sites():
    federation, tables = by_fold(rows=50)
    told = federation.sum(ASKED)
    assert np.allclose(told["rows"], 15)
    assert np.allclose(told["sums"].sum(axis=0), np.vstack(tables).sum(axis=0))
