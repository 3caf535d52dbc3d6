"""What a fit to a covariance knows, what it does not, and what it therefore refuses and says."""

import json
import re

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_wine

from fedspca import ExactSPCA, SparsePCAModel
from fedspca.federation.covariance import CovarianceFederation
from fedspca.report.page import report_html
from fedspca.site.errors import InvalidData
from helpers.commands import fedspca

WINE = load_wine(as_frame=True).data
S = WINE.cov()
KNOWN = ("the features' means are unknown", "cannot be centred")


def fitted(n_samples=None, **settings):
    return ExactSPCA(2, scale=True, **({"n_nonzero": 4} | settings)).fit_covariance(S, n_samples=n_samples)


@pytest.mark.parametrize("made", ["estimator", "model", "a model's estimator", "a loaded model"])
def test_without_means_no_row_is_centred_in_silence(made, tmp_path):
    pca = fitted(len(WINE))
    if made != "estimator":
        pca = SparsePCAModel.from_estimator(pca, row_errors={"mean": 1.0, "variance": 1.0})
        pca.save(tmp_path / "m")
        pca = SparsePCAModel.load(tmp_path / "m") if made == "a loaded model" else pca
        pca = pca.to_estimator() if "estimator" in made else pca
    asked = {"transform": WINE.values, "inverse_transform": np.zeros((3, 2))}
    asked |= {"score": WINE.values} if "estimator" in made else {"score_samples": WINE.values, "residuals": WINE.values}
    for name, rows in asked.items():
        with pytest.raises(ValueError, match="means are unknown, and new rows cannot be centred"):
            getattr(pca, name)(rows)


def test_a_later_fit_to_rows_knows_the_means_again():
    pca = fitted()
    assert (pca.rows_seen_, pca.rows_counted_) == (False, False)
    assert pca.fit(WINE).transform(WINE).shape == (178, 2)
    assert (pca.rows_seen_, pca.rows_counted_) == (True, True)
    assert "rows_seen" not in SparsePCAModel.from_estimator(pca).facts
    assert ExactSPCA(2, missing="em", max_missing=0.1).fit(WINE).transform(WINE).shape == (178, 2)  # EM's covariance


@pytest.mark.parametrize(("n_samples", "said"), [(None, "an unknown number of rows"), (178, "178 rows")])
def test_a_report_speaks_of_the_covariance_and_of_nothing_that_was_not_seen(n_samples, said):
    model = SparsePCAModel.from_estimator(fitted(n_samples), site_names=["covariance"])
    page = report_html(model)
    text = re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", re.sub(r"(?s)<(svg|style|script).*?</\1>", "", page)))
    assert f"A covariance of {said} was analysed" in text
    assert f"We analysed a covariance of {said} over 13 features, which were divided by" in text
    for wrong in (
        *(f" {word}" for word in ("2 rows ", "Mean ", "Missing ", "site", "sites")),
        "is missing",
        "fedspca transform",
        "Rows stayed",
        "would have been",
        "show-sites",
        "pooled",
        "centred",
    ):
        assert wrong not in text.replace("no row of any site", ""), wrong
    assert f"from a covariance of {said}." in _shown(model)
    assert f"of the variance of a covariance of {said}" in repr(model)


def _shown(model):
    from contextlib import redirect_stdout
    from io import StringIO

    from fedspca.cli.show import print_loadings

    with redirect_stdout(StringIO()) as out:
        print_loadings(model)
    return out.getvalue()


def test_the_command_line_says_what_is_unknown_and_takes_as_many_components_as_features(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    S.to_csv("S.csv")
    WINE.to_csv("wine.csv", index=False)
    fit = ("fit", "--covariance", "S.csv", "-o", "m", "--force", "--json", "--nonzero")
    assert json.loads(fedspca(*fit, "4", "-r", "5").out)["rows"] is None
    assert json.loads(fedspca("show", "m", "--json").out)["rows"] is None
    assert json.loads(fedspca(*fit, "4", "--covariance-rows", "178").out)["rows"] == 178
    for command in (("transform", "-o", "x.csv"), ("score",), ("score", "--anomaly")):
        ran = fedspca(command[0], "m", "wine.csv", *command[1:])
        assert (ran.code, *(known in ran.err for known in KNOWN)) == (2, True, True)
    assert not (tmp_path / "x.csv").exists()
    for given, told in (
        (("4", "-r", "14"), "--components must be at most n_features = 13. Got 14"),
        (("4", "-r", "4", "--covariance-rows", "3"), "min(n_samples, n_features) = min(3, 13)"),
        (("4", "-r", "auto"), "--components must be a number: 'auto' needs rows"),
        (("auto",), "--nonzero must be a number: 'auto' needs rows"),
        (("4", "--missing", "em"), "--missing needs rows, and there is only a covariance. Leave it out."),
        (("4", "--folds", "10"), "--folds needs rows"),
        (("4", "--sample", "10"), "--sample needs rows"),
    ):
        ran = fedspca(*fit, *given)
        assert (ran.code, told in ran.err) == (2, True), ran.err
    S.to_csv("semi.csv", sep=";")
    assert "semi.csv: read with semicolons" in fedspca("fit", "--covariance", "semi.csv", "-o", "n").err


def test_a_penalty_without_the_number_of_rows_is_told_of():
    told = [" ".join(SparsePCAModel.from_estimator(fitted(n, lam=1.0, n_nonzero=None)).cautions()) for n in (None, 178)]
    assert ["n − 1 = 1" in each for each in told] == [True, False]
    assert not any("n − 1" in caution for caution in SparsePCAModel.from_estimator(fitted()).cautions())


def test_rows_that_are_named_unlike_the_columns_are_refused():
    with pytest.raises(InvalidData, match=r"\(its index\) are not those of its columns.* Put both in one order"):
        ExactSPCA().fit_covariance(S.iloc[::-1])
    with pytest.raises(InvalidData, match="its index"):
        ExactSPCA().fit_covariance(S.rename(index={"ash": "Asche"}), feature_names=list(S))
    whole = ExactSPCA(1, n_nonzero=3).fit_covariance(S)
    numbered = ExactSPCA(1, n_nonzero=3).fit_covariance(S.reset_index(drop=True))  # as read from a CSV without names
    assert np.array_equal(whole.components_, numbered.components_)
    assert list(numbered.feature_names_in_) == list(S)


def test_a_value_that_cannot_be_is_named_by_its_features():
    wrong = S.copy()
    wrong.loc["ash", "hue"] = np.nan
    with pytest.raises(InvalidData, match=r"NaN or infinity, first in row 3 \('ash'\), column 11 \('hue'\)"):
        ExactSPCA().fit_covariance(wrong)
    with pytest.raises(InvalidData, match="complex"):
        ExactSPCA().fit_covariance(pd.DataFrame(S.values + 1j, S.index, S.columns))


def test_more_directions_than_so_many_rows_have_are_told_of():
    with pytest.warns(UserWarning, match="3 rows vary in 2 directions at most, and 75% of the variance"):
        CovarianceFederation(np.eye(8), 3)
    rows = np.random.default_rng(0).standard_normal((5, 8))
    CovarianceFederation(np.round(np.cov(rows.T), 7), 5)  # what rounding adds is no such sign
    CovarianceFederation(np.eye(8), 9)
    CovarianceFederation(np.eye(8))
