"""A covariate or a weight of which one row, or one site, has a value of its own: sums with it are about that alone."""

import numpy as np
import pytest

from fedspca import Policy, Query, Site, SiteRefusal
from fedspca.site.preparation import Preparation
from helpers.hostile import masked

D, ROWS = 3, 20
FIT = {"components": 1, "adjust": ["rare"]}


def tables():
    return [np.random.default_rng(k).standard_normal((ROWS, D)) for k in range(3)]


def one_row(at):
    return (np.arange(ROWS) == 4).astype(float) if at == 1 else np.zeros(ROWS)


def one_site(at):
    return np.full(ROWS, float(at == 1))


def ordinary(at):
    return np.random.default_rng(10 + at).normal(50, 9, ROWS)


def told(covariate):
    """Return CᵀX under masks."""
    sites = [
        Site(
            f"s{at}",
            table,
            policy=Policy(min_rows=10, min_fold_rows=5),
            preparation=Preparation.of(FIT),
            covariates=covariate(at)[:, None],
        )
        for at, table in enumerate(tables())
    ]
    arrays = {"mean": np.zeros(D), "covariate_mean": np.zeros(1)}
    return masked(sites, fit=FIT).sum(Query("covariate_moments", arrays))["cross"][0]


def test_without_the_defence_a_row_and_a_site_are_told(monkeypatch):
    monkeypatch.setattr(Site, "disclosed", None)
    assert np.allclose(told(one_row), tables()[1][4])
    assert np.allclose(told(one_site), tables()[1].sum(axis=0))


@pytest.mark.parametrize("covariate", [one_row, one_site])
def test_such_covariates_are_refused(covariate):
    with pytest.raises(SiteRefusal, match="the owner can read why") as caught:
        told(covariate)
    assert "rare" not in str(caught.value)


def test_others_are_summed():
    expected = sum(ordinary(at) @ table for at, table in enumerate(tables()))
    assert np.allclose(told(ordinary), expected)


def test_weights_by_which_few_rows_count_are_refused(monkeypatch):
    fit = {"components": 1, "weight": "often"}

    def sums():
        sites = [
            Site(
                f"s{at}",
                table,
                policy=Policy(min_rows=10),
                preparation=Preparation.of(fit),
                weights=one_row(at) + 1e-9,
            )
            for at, table in enumerate(tables())
        ]
        return masked(sites, fit=fit).sum(Query("weighted_moments"))["sums"]

    with pytest.raises(SiteRefusal, match="the owner can read why"):
        sums()
    monkeypatch.setattr(Site, "disclosed", None)
    assert np.allclose(sums(), tables()[1][4], atol=1e-6)
