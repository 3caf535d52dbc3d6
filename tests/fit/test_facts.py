import numpy as np
import pytest

from fedspca import ExactSPCA, LocalFederation, Site
from fedspca.fit import FitSettings, fit_files
from fedspca.fit.facts import judge
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
