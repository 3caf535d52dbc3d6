import numpy as np
import pytest

from fedspca import ExactSPCA, LocalFederation, Site
from fedspca.fit import FitSettings, fit_files
from fedspca.fit.facts import judge
from fedspca.report.record import data_notes
from fedspca.report.sections import sites
from fedspca.solvers.rounds import Rounds
from helpers.study_files import make_rows, write


def test_what_is_told_about_a_fit_is_true(tmp_path):
    rows = make_rows()
    write(tmp_path / "a.csv", rows[:50])
    write(tmp_path / "b.csv", rows[50:])
    model = fit_files(FitSettings(files=(f"{tmp_path}/a.csv", f"{tmp_path}/b.csv"), nonzero=3, show_sites=True))
    standardised = (rows - rows.mean(axis=0)) / rows.std(axis=0, ddof=1)
    total = np.sum(standardised**2)
    errors = model.reconstruction_errors(rows)
    singular = np.linalg.svd(standardised, compute_uv=False) ** 2
    scores = standardised @ model.components.T
    np.testing.assert_allclose(model.facts["dense_variance_ratio"][:2], singular[:2] / total, rtol=1e-6)
    np.testing.assert_allclose(model.covariance, scores.T @ scores / 89, rtol=1e-9)
    assert model.captured_ratio == pytest.approx(1 - errors.sum() / total)
    assert model.facts["row_errors"]["mean"] == pytest.approx(errors.mean())
    assert model.facts["row_errors"]["variance"] == pytest.approx(errors.var())
    for site, mine in zip(model.facts["sites"], (slice(0, 50), slice(50, 90)), strict=True):
        share = 1 - errors[mine].sum() / np.sum(standardised[mine] ** 2)
        assert site["explained"] == pytest.approx(share)
    assert [point["chosen"] for point in model.facts["path"]["points"]].count(True) == 1


@pytest.mark.parametrize("folds", [None, 4])
def test_what_follows_from_the_covariance_is_not_asked_for(folds):
    rows = make_rows()
    federation = LocalFederation([Site("a", rows[:50]), Site("b", rows[50:])])
    fitted = ExactSPCA(2, n_nonzero=3, scale=True, folds=folds)
    gram = fitted._fit(federation)
    known, asked = Rounds(federation), Rounds(federation)
    derived, summed = judge(known, (), fitted, gram=gram), judge(asked, (), fitted)
    assert [one.query for one in known.history] == ["row_errors"]
    assert len(asked.history) > 2
    np.testing.assert_allclose(derived.covariance, summed.covariance, rtol=1e-9)
    for name in ("dense_variance_ratio", "feature_correlations"):
        np.testing.assert_allclose(derived.facts[name], summed.facts[name], rtol=1e-6, atol=1e-3)
    assert derived.facts["row_errors"] == summed.facts["row_errors"]


@pytest.mark.parametrize("missing", ["mean", "em"])
def test_shares_of_missing_values_are_told_by_feature_and_by_site(tmp_path, missing):
    a, b = make_rows(40, 1), make_rows(40, 2)
    b[:8, 3] = np.nan
    write(tmp_path / "a.csv", a)
    write(tmp_path / "b.csv", b)
    files = (f"{tmp_path}/a.csv", f"{tmp_path}/b.csv")
    settings = FitSettings(files=files, nonzero=3, path=False, show_sites=True, missing=missing)
    model = fit_files(settings)
    assert np.isclose(model.missing_share[3], 0.1)
    assert [site["missing"] for site in model.facts["sites"]] == [0.0, round(8 / b.size, 4)]
    told = str(data_notes(model))
    assert "10.0%" in told
    assert ("EM for a Gaussian" in told) == (missing == "em")
    assert "2.5%" in str(sites(model))
    scores = model.transform(b)
    assert np.isfinite(scores).all()


def test_a_sites_own_figures_are_of_transformed_rows(tmp_path):
    write(tmp_path / "a.csv", np.exp(make_rows(40, 1)))
    write(tmp_path / "b.csv", np.exp(make_rows(40, 2)))
    files = (f"{tmp_path}/a.csv", f"{tmp_path}/b.csv")
    model = fit_files(FitSettings(files=files, nonzero=3, path=False, show_sites=True, transform=("normal",)))
    shares = [site["explained"] for site in model.facts["sites"]]
    assert abs(np.mean(shares) - model.captured_ratio) < 0.05
