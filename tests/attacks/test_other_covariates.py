"""A coordinator that brings coefficients of its own choice: a study has one set, of the agreed covariates."""

from dataclasses import replace

import numpy as np
import pytest

from fedspca import Query
from fedspca.door.agreement import Agreement
from fedspca.door.meaning import objection, remembered
from helpers.letters import COORDINATOR, KEYS

D = 4
FIT = {"adjust": ["age", "sex"], "levels": {"sex": ["F", "M"]}}


def frame(**more):
    return {"mean": np.zeros(D), "scale": np.ones(D), "removed": np.zeros((D, 0)), **more}


def adjustment(value=1.0, p=2):
    return {"covariate_mean": np.full(p, 3.0), "coefficients": np.full((p, D), value)}


@pytest.fixture
def agreement():
    keys = dict(zip("abc", (key.public for key in KEYS), strict=False))
    return Agreement("trial", COORDINATOR.public, keys, tuple(f"f{j}" for j in range(D)), FIT)


def asked(name, **arrays):
    scalars = {"precision": "float64"} if name.startswith("gram") else {}
    return Query(name, arrays, scalars)


def test_coefficients_are_chosen_once(agreement):
    first = asked("residuals", mean=np.zeros(D), **adjustment())
    assert objection(agreement, first, {}) is None
    kept = remembered(first, {})
    same = asked("gram", **frame(**adjustment(1.0 + 1e-9)))
    assert objection(agreement, same, kept) is None
    kept |= remembered(same, kept)
    other = asked("gram", **frame(**adjustment(1.001)))
    assert "other coefficients" in objection(agreement, other, kept)
    assert "takes no covariates out" in objection(agreement, asked("gram", **frame()), kept)


def test_covariates_are_those_of_the_agreement(agreement):
    assert "brings 3 columns of" in objection(agreement, asked("covariate_sums", covariates=np.zeros(3)), {})
    assert "has 2" in objection(agreement, asked("gram", **frame(**adjustment(p=1))), {})
    assert objection(agreement, asked("covariate_sums", covariates=np.zeros(2)), {}) is None


def test_covariances_with_covariates_are_told_about_few_means(agreement):
    kept = {}
    for number in range(3):
        query = asked("covariate_moments", mean=np.full(D, float(number)), covariate_mean=np.zeros(2))
        assert objection(agreement, query, kept) is None
        kept |= remembered(query, kept)
    query = asked("covariate_moments", mean=np.full(D, 9.0), covariate_mean=np.zeros(2))
    assert "other means" in objection(agreement, query, kept)


def test_covariates_of_three_masked_sites_are_not_told_by_site(agreement):
    query = asked("covariates_between", covariate_mean=np.zeros(2))
    assert "four sites or more" in objection(agreement, query, {})
    assert objection(replace(agreement, masked=False), query, {}) is None
