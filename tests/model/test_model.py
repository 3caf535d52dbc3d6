import csv
import json
import shutil
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from fedspca import ExactSPCA
from fedspca.linalg.beside import NOTHING
from fedspca.model import SparsePCAModel
from fedspca.model.model import replace_preparation
from fedspca.site.preparation import Own, Preparation, own_view


def test_rows_must_fit(saved):
    model = SparsePCAModel.load(saved)
    with pytest.raises(ValueError, match="8 features"):
        model.transform(np.zeros((2, 7)))
    with pytest.raises(ValueError, match=r"missing values.*'f2'"):
        model.transform(np.where(np.arange(8) == 2, np.nan, 1.0)[None])
    with pytest.raises(ValueError, match=r"infinity, first in column 'f2', row 2 \(counted from 1\)"):
        model.transform(np.where(np.arange(16) == 10, np.inf, 1.0).reshape(2, 8))


def test_the_loadings_as_csv(fitted, saved, tmp_path):
    SparsePCAModel.load(saved).to_csv(tmp_path / "loadings.csv")
    table = pd.read_csv(tmp_path / "loadings.csv", index_col="feature")
    np.testing.assert_array_equal(table.to_numpy().T, fitted.components_)
    shutil.rmtree(saved)


def test_scores_of_oblique_components_give_the_rows_of_their_span_back(oblique):
    """With Wᵀ in the place of the pseudo-inverse, rows would come back stretched and mixed."""
    rng = np.random.default_rng(2)
    weights = rng.standard_normal((7, 3))
    rows = (weights @ oblique.components) * oblique.scale + oblique.mean
    scores = oblique.transform(rows)
    assert np.allclose(scores, weights @ oblique.components @ oblique.components.T)
    assert np.allclose(oblique.inverse_transform(scores), rows)
    assert np.allclose(oblique.inverse_transform(scores.tolist()), rows)
    assert oblique.reconstruction_errors(rows).max() < 1e-20


def test_of_other_rows_the_nearest_of_the_span_come_back_and_the_rest_is_the_error(oblique):
    rows = np.random.default_rng(3).standard_normal((7, 6))
    back = oblique.inverse_transform(oblique.transform(rows))
    left = (rows - back) / oblique.scale
    assert np.allclose(left @ oblique.components.T, 0.0)
    assert np.allclose(oblique.reconstruction_errors(rows), (left**2).sum(axis=1))
    assert np.allclose(oblique.standardised(rows), (rows - oblique.mean) / oblique.scale)


def test_what_the_span_captures_does_not_depend_on_its_basis(oblique):
    rng = np.random.default_rng(4)
    rows = rng.standard_normal((200, 6))
    scores = rows @ oblique.components.T
    basis = np.linalg.qr(oblique.components.T)[0]
    found = replace(oblique, covariance=scores.T @ scores, total_variance=np.sum(rows**2)).captured_ratio
    assert found == pytest.approx(np.sum((rows @ basis) ** 2) / np.sum(rows**2))


def test_counts_and_correlations(oblique):
    assert oblique.n_components == 3
    assert oblique.nonzeros == [3, 6, 6]
    spread = np.sqrt(np.diag(oblique.covariance))
    expected = oblique.covariance / np.outer(spread, spread)
    assert np.allclose(oblique.correlation, expected)
    assert np.allclose(np.diag(oblique.correlation), 1.0)
    silent = replace(oblique, covariance=np.diag([4.0, 0.0, 1.0]))
    assert np.array_equal(silent.correlation, np.eye(3))


def test_missing_values_stand_at_the_mean_where_they_were_allowed(oblique):
    allowed = replace(oblique, facts={"max_missing": 0.2})
    rows = np.random.default_rng(5).standard_normal((4, 6))
    rows[1, 2] = np.nan
    assert allowed.standardised(rows)[1, 2] == 0.0
    assert np.allclose(
        np.delete(allowed.standardised(rows), 1, axis=0),
        np.delete(oblique.standardised(np.nan_to_num(rows)), 1, axis=0),
    )
    for facts in ({}, {"max_missing": 0.0}):
        with pytest.raises(ValueError, match="for example in 'c', and the model was fitted without"):
            replace(oblique, facts=facts).standardised(rows)


@pytest.mark.parametrize("rows", [np.zeros(6), np.zeros((2, 5)), np.zeros((2, 7)), np.zeros((1, 2, 6))])
def test_rows_of_another_shape_are_refused(oblique, rows):
    with pytest.raises(ValueError, match=r"model's 6 features. Got shape \("):
        oblique.standardised(rows)


@pytest.mark.parametrize("name", ["=x", "+x", "-x", "@x", "\tx", "\rx", "x=", "'x"])
def test_names_that_a_spreadsheet_would_compute_get_an_apostrophe(oblique, tmp_path, name):
    made = replace(oblique, feature_names=(name, *"bcdef"))
    made.to_csv(tmp_path / "loadings.csv")
    with (tmp_path / "loadings.csv").open(newline="", encoding="utf-8") as file:
        header, first, *_ = csv.reader(file)
    assert header == ["feature", "component 1", "component 2", "component 3"]
    assert first[0] == (f"'{name}" if name[0] in "=+-@\t\r" else name)
    assert [float(weight) for weight in first[1:]] == oblique.components[:, 0].tolist()


def test_an_adjusted_model_is_kept_and_used_with_its_covariates(tmp_path):
    rng = np.random.default_rng(0)
    x, known = rng.standard_normal((60, 5)), {"age": rng.normal(50, 9, 60)}
    x[:, 0] += known["age"]
    about = pd.DataFrame(known)
    for centre in ("joint", "site"):
        fitted = ExactSPCA(2, n_nonzero=2, scale=True).fit(x, covariates=about, centre=centre)
        folder = tmp_path / centre
        SparsePCAModel.from_estimator(fitted).save(folder)
        assert json.loads((folder / "manifest.json").read_text())["format_version"] == 2
        model = SparsePCAModel.load(folder)
        lines = model.preparation.design.encode("new", about)
        assert np.allclose(model.transform(x, covariates=lines), fitted.transform(x, covariates=about), atol=1e-12)
        back = model.to_estimator()
        assert np.allclose(back.transform(x, covariates=about), fitted.transform(x, covariates=about), atol=1e-12)
        with pytest.raises(ValueError, match="adjusted for age: new rows need"):
            model.transform(x)
        with pytest.raises(ValueError, match="must have the shape"):
            model.transform(x, covariates=lines[:3])
    plain = SparsePCAModel.from_estimator(ExactSPCA(2, n_nonzero=2).fit(x))
    assert plain.adjusted() == []
    with pytest.raises(ValueError, match="the model knows none"):
        plain.transform(x, covariates=lines)


@pytest.mark.parametrize(
    ("facts", "told"),
    [
        ({}, None),
        ({"optimality_gap": 1e-6}, "It is proved that no loadings with as few non-zeros are better."),
        ({"optimality_gap": 1.5e-6}, "as few non-zeros are better by more than 0.001 %."),
        ({"optimality_gap": 0.00099}, "better by more than 0.099 %."),
        ({"optimality_gap": 0.001}, "better by more than 0.1 %."),
        ({"optimality_gap": 0.00151}, "better by more than 0.2 %."),
        (
            {"optimality_gap": 0.0234, "bound_is_dense": True},
            "more than dense PCA, which captures at most 2.4 % more than these.",
        ),
    ],
)
def test_a_model_says_what_is_proved_and_rounds_a_gap_up(oblique, facts, told):
    said = replace(oblique, facts=facts).optimality()
    assert said is None if told is None else said.endswith(told)


def test_rows_are_seen_about_their_sites_own_mean_and_spread(oblique):
    rows = np.random.default_rng(5).standard_normal((9, 6)) * 3 + 7
    own = Own(np.full(6, 7.0), np.full(6, 4.0))
    expected = ((rows - 7.0) / 4.0 - oblique.mean) / oblique.scale
    assert np.allclose(oblique.standardised(rows, own=own), expected)
    facts = {"max_missing": 0.2, "preparation": {"centre": "site", "scale_by": "site"}}
    made = replace(oblique, facts=facts)
    assert np.allclose(made.standardised(rows, own=own), expected)
    rows[1, 2] = np.nan  # of these rows themselves where nothing else is given, and of the values that are there
    own = own_view(rows, NOTHING, Preparation(centre="site", scale="site"), missing=True)
    assert np.allclose(own.scale, np.nanstd(rows, axis=0, ddof=1))
    expected = ((rows - np.nanmean(rows, axis=0)) / own.scale - oblique.mean) / oblique.scale
    assert np.allclose(made.standardised(rows), np.where(np.isnan(rows), 0.0, expected))


def test_all_covariates_that_were_taken_out_are_named(oblique):
    adjustment = {"covariate_mean": np.zeros(2), "coefficients": np.zeros((2, 6))}
    made = replace(oblique, facts={"preparation": {"adjust": ["age", "bmi"]}}, **adjustment)
    with pytest.raises(ValueError, match="adjusted for age, bmi: new rows need"):
        made.transform(np.zeros((2, 6)))


def test_a_preparation_is_replaced_in_part(oblique):
    made = replace(oblique, facts={"note": 1, "preparation": {"adjust": ["age"], "centre": "site"}})
    changed = replace_preparation(made, centre="joint")
    assert changed.facts == {"note": 1, "preparation": {"adjust": ["age"], "centre": "joint"}}
    assert made.facts["preparation"]["centre"] == "site"
    assert replace_preparation(oblique, centre="site").facts == {"preparation": {"centre": "site"}}
