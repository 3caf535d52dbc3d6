import numpy as np
import pytest

from fedspca.federation import LocalFederation
from fedspca.site import InvalidData, Site
from fedspca.site.preparation import Design, Preparation
from fedspca.solvers.adjust import CovariateWarning
from fedspca.solvers.standardise import ConstantFeatureWarning, standardise


def federation(x, values, design, k=3, **about):
    n = len(x)
    lines = design.encode("here", values)
    parts = np.array_split(np.arange(n), k)
    return LocalFederation(
        [
            Site(f"s{i}", x[part], preparation=Preparation(design, **about), covariates=lines[part])
            for i, part in enumerate(parts)
        ]
    )


@pytest.fixture
def table():
    rng = np.random.default_rng(0)
    age, dose = rng.normal(50, 10, 90), rng.random(90)
    return rng.standard_normal((90, 5)) + np.outer(age, rng.standard_normal(5)) + 1000, {"age": age, "dose": dose}


def test_coefficients_are_those_of_least_squares_and_each_term_has_its_extra_squares(table):
    x, values = table
    moments = standardise(federation(x, values, Design(("age", "dose"))), scale=False)
    ones = np.ones(90)
    both = np.column_stack([ones, values["age"], values["dose"]])
    assert np.allclose(moments.adjustment.coefficients, np.linalg.lstsq(both, x, rcond=None)[0][1:], atol=1e-10)

    def left(lines):
        return np.sum((x - lines @ np.linalg.lstsq(lines, x, rcond=None)[0]) ** 2)

    whole = np.sum((x - x.mean(axis=0)) ** 2)
    assert np.isclose(moments.taken["all"], 1 - left(both) / whole, rtol=1e-10)
    assert np.isclose(moments.taken["age"], (left(both[:, [0, 2]]) - left(both)) / whole, rtol=1e-10)
    assert np.isclose(moments.taken["dose"], (left(both[:, :2]) - left(both)) / whole, rtol=1e-8)
    assert np.isclose(moments.total, left(both), rtol=1e-10)


def test_collinear_and_constant_covariates_are_named(table):
    x, values = table
    values = values | {"months": 12 * values["age"] + 3, "same": np.full(90, 0.1)}
    with pytest.raises(InvalidData, match="'months' is determined by 'age': they are collinear"):
        standardise(federation(x, values, Design(("age", "dose", "months"))), scale=True)
    with pytest.raises(InvalidData, match="'same' has one value in every row of every site"):
        standardise(federation(x, values, Design(("same",))), scale=True)
    values["site"] = np.repeat([1.0, 2.0, 3.0], 30)
    with pytest.raises(InvalidData, match="'site' has one value at each site"):
        standardise(federation(x, values, Design(("site",)), centre="site"), scale=True)


def test_a_level_that_varies_at_one_site_only_is_told(table):
    x, values = table
    values = values | {"ward": ["a"] * 60 + ["a", "b"] * 15}
    with pytest.warns(CovariateWarning, match="Only one site has more than one value of 'ward=b'"):
        standardise(federation(x, values, Design(("ward",), {"ward": ("a", "b")})), scale=True)


def test_a_feature_that_covariates_explain_wholly_gets_no_weight(table):
    x, values = table
    x = np.column_stack([x, 2 * values["age"] + 7])
    with pytest.warns(ConstantFeatureWarning, match="wholly explained by the covariates.*x5"):
        moments = standardise(federation(x, values, Design(("age",))), scale=True)
    assert moments.constant.tolist() == [False] * 5 + [True]


def test_covariates_that_leave_nothing_are_told(table):
    x, _ = table
    each = {"visit": np.array([f"day {row}" for row in range(len(x))], dtype=object)}
    told = pytest.raises(InvalidData, match="explain all of the variance: they take 89 column")
    with pytest.warns(ConstantFeatureWarning, match="wholly explained"), told:
        standardise(federation(x, each, Design(("visit",), {"visit": tuple(each["visit"])}), k=1), scale=True)
