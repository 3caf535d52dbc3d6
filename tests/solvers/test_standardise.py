"""Missing values: counted in sums, standing at the joint mean, refused above a share."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.preprocessing import StandardScaler

from fedspca import FASPCA, InvalidData, LocalFederation, Site
from fedspca.solvers.standardise import standardise


@pytest.fixture
def holed(rows):
    holes = np.random.default_rng(3).random(rows.shape) < 0.1
    return np.where(holes, np.nan, rows * 1e3 + 1e6)


def thirds(rows, **settings):
    parts = np.array_split(np.arange(rows.shape[0]), 3)
    return LocalFederation([Site(name, rows[part], **settings) for name, part in zip("abc", parts, strict=True)])


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_federated_standardisation_is_pooled_standardscaler(holed, form):
    moments = standardise(thirds(form(holed), allow_missing=True), scale=True, max_missing=0.5)
    pooled = StandardScaler().fit(holed)
    counts = (~np.isnan(holed)).sum(axis=0)
    np.testing.assert_allclose(moments.mean, pooled.mean_, rtol=1e-10)
    np.testing.assert_allclose(moments.scale * np.sqrt((counts - 1) / counts), pooled.scale_, rtol=1e-10)
    np.testing.assert_allclose(moments.missing, np.isnan(holed).mean(axis=0), atol=1e-15)


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_a_fit_with_holes_is_the_fit_of_rows_filled_with_the_joint_mean(holed, form):
    owners = np.arange(len(holed)) % 3
    filled = np.where(np.isnan(holed), np.nanmean(holed, axis=0), holed)
    with_holes = FASPCA(2, lam=1e8, max_missing=0.5).fit(form(holed), sites=owners)
    without = FASPCA(2, lam=1e8).fit(filled, sites=owners)
    np.testing.assert_allclose(with_holes.components_, without.components_, atol=1e-9)
    np.testing.assert_allclose(with_holes.transform(form(holed)), without.transform(filled), rtol=1e-6, atol=1e-3)
    assert with_holes.score(holed) == pytest.approx(without.score(filled), abs=1e-9)


def test_missing_values_are_refused_unless_asked_for(holed):
    with pytest.raises(InvalidData, match=r"NaN.*max_missing"):
        FASPCA(2).fit(holed)
    with pytest.raises(InvalidData, match=r"more missing values than the share of 0.01"):
        FASPCA(2, max_missing=0.01).fit(holed)


def test_a_feature_that_is_missing_everywhere_is_refused_by_name(holed):
    holed[:, 4] = np.nan
    with pytest.raises(InvalidData, match=r"1 feature has no value in any row: 'x4' \(100%\)\. Leave it out"):
        standardise(thirds(holed, allow_missing=True), scale=False, max_missing=1.0)


def test_infinity_is_refused_even_where_values_may_be_missing(holed):
    holed[7, 2] = -np.inf
    with pytest.raises(InvalidData, match=r"'x2'.*infinity.*row 8 "):
        Site("a", holed, allow_missing=True)


def test_values_whose_squares_vanish_are_not_called_constant(rows):
    with pytest.raises(InvalidData, match=r"so small that their squares are zero.*'x0' is .*Change the units"):
        standardise(thirds((rows + 1.0) * 1e-300), scale=True, max_missing=0.0)
    with pytest.raises(InvalidData, match="constant over all sites"):
        standardise(thirds(np.full_like(rows, 7.0)), scale=True, max_missing=0.0)
